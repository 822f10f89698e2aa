//! Arguments, decoded once and strictly: what is shown for approval is what runs (DESIGN §4.10).

use crate::text;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Characters of the received arguments that an error repeats.
const RECEIVED_MAX_UNITS: usize = 2_000;

/// Decodes a call's arguments as `T`, or says to the model what is wrong with them.
///
/// The arguments are a JSON object; a string that holds exactly one JSON object is read as that object, and an empty
/// string as no arguments. Duplicate and unknown keys are errors: two readers must not see two calls.
pub fn decode<T: DeserializeOwned>(tool: &str, args: &str) -> Result<T, String> {
    let args = args.trim_matches([' ', '\t', '\r', '\n']);
    let inner: String;
    let object = if args.starts_with('"') {
        inner =
            serde_json::from_str::<String>(args).map_err(|error| failure(tool, "arguments", &reason(&error), args))?;
        match inner.trim() {
            "" => "{}",
            text => text,
        }
    } else {
        args
    };
    if !object.starts_with('{') {
        return Err(failure(tool, "arguments", &format!("expected a JSON object, got {}", kind(object)), args));
    }
    let mut reader = serde_json::Deserializer::from_str(object);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { "arguments" } else { &path };
        failure(tool, field, &reason(error.inner()), args)
    })?;
    reader.end().map_err(|_| failure(tool, "arguments", "there is text after the JSON object", args))?;
    Ok(value)
}

/// One problem of a call's arguments, in the shape of PROTOCOL §6.7.
pub fn failure(tool: &str, field: &str, problem: &str, received: &str) -> String {
    let pretty = serde_json::from_str::<Value>(received)
        .ok()
        .and_then(|value| serde_json::to_string_pretty(&value).ok())
        .unwrap_or_else(|| received.to_owned());
    let shown = text::cut_units(&pretty, RECEIVED_MAX_UNITS);
    let more = if shown.len() < pretty.len() { "…" } else { "" };
    format!("Validation failed for tool \"{tool}\":\n  - {field}: {problem}\n\nReceived arguments:\n{shown}{more}")
}

/// Serde's words without the position, which means nothing to the model.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

fn kind(json: &str) -> &'static str {
    match json.bytes().next() {
        None => "nothing",
        Some(b'[') => "an array",
        Some(b'n') => "null",
        Some(b't' | b'f') => "a boolean",
        Some(b'0'..=b'9' | b'-') => "a number",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Args {
        command: String,
        timeout_ms: Option<u64>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}

    #[test]
    fn takes_one_object() {
        let wanted = Args { command: "ls".into(), timeout_ms: Some(2) };
        for args in [
            r#"{"command":"ls","timeout_ms":2}"#,
            r#" {"\u0063ommand":"ls","timeout_ms":2} "#,
            r#""{\"command\":\"ls\",\"timeout_ms\":2}""#,
        ] {
            assert_eq!(decode::<Args>("bash", args).as_ref(), Ok(&wanted), "{args}");
        }
        assert_eq!(decode::<Nothing>("x", r#""""#), Ok(Nothing {}));
        assert_eq!(decode::<Nothing>("x", "{}"), Ok(Nothing {}));
    }

    #[test]
    fn refuses_everything_else_and_names_the_field() {
        for (args, wanted) in [
            (r#"{"command":"a","command":"b"}"#, "duplicate field `command`"),
            (r#"{"command":"a","cmd":"b"}"#, "unknown field `cmd`"),
            (r#"{"Command":"a"}"#, "unknown field `Command`"),
            (r#"{"command":5}"#, "command: invalid type: integer `5`, expected a string"),
            (r#"{"command":"a","timeout_ms":"2"}"#, "timeout_ms: invalid type: string"),
            (r#"{"command":"a","timeout_ms":-1}"#, "timeout_ms: invalid value"),
            (r#"{"command":"a","timeout_ms":1e309}"#, "timeout_ms: number out of range"),
            (r#"{}"#, "missing field `command`"),
            (r#"{"command":"a"} x"#, "text after"),
            (r#""{\"command\":\"a\"}{\"command\":\"b\"}""#, "text after"),
            (r#""\ufeff{\"command\":\"a\"}""#, "expected a JSON object"),
            (r#"{"command":"\ud83d"}"#, "command: "),
            (r#""{\"path\":""#, "unknown field `path`"),
            (r#""""#, "missing field `command`"),
            (r#""str""#, "expected a JSON object"),
            ("[]", "expected a JSON object, got an array"),
            (r#"["ls",2]"#, "expected a JSON object, got an array"),
            ("null", "expected a JSON object, got null"),
            ("", "expected a JSON object, got nothing"),
            ("{\"command\":", "EOF while parsing"),
        ] {
            let error = decode::<Args>("bash", args).unwrap_err();
            assert!(error.starts_with("Validation failed for tool \"bash\":\n  - "), "{error}");
            assert!(error.contains(wanted), "{args}: {error}");
        }
        let deep = "[".repeat(100_000);
        assert!(decode::<Args>("bash", &format!("{{\"command\":{deep}")).is_err());
        assert!(decode::<Args>("bash", &format!("{{\"x\":\"{}\"}}", "y".repeat(1 << 20))).unwrap_err().len() < 5_000);
    }
}
