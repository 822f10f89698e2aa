//! A host tool's reply as the model reads it (PROTOCOL §7.1, §7.2, T29): without the envelope, with lists as lists, and
//! failures as failures.

use crate::limits;
use crate::link::CallError;
use crate::text;
use crate::wire::Reply;
use serde_json::{Map, Value, json};

/// A result's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presented {
    /// Never empty.
    pub text: String,
    /// Counts against the tool (PROTOCOL §6.7).
    pub failed: bool,
}

/// What a reply amounts to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Text for the conversation.
    Text(Presented),
    /// Too large for it: belongs into a file.
    Spill(Spill),
}

/// A result to be stored (PROTOCOL §7.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spill {
    /// The whole value: the text itself if it is one, else indented JSON.
    pub content: String,
    /// `txt` or `json`.
    pub extension: &'static str,
    /// Its beginning.
    pub preview: String,
}

const PREVIEW_UNITS: usize = 500;

/// After a call that may have changed something.
const IN_DOUBT: &str = "; whether the call was carried out is unknown; check before you repeat it";

/// Makes a reply readable; `reads` if the call changes nothing. Results of `call_tool` that the host truncated, or whose
/// JSON has more than `spill_threshold` bytes, become a [`Spill`].
pub fn present(action: &str, reply: &Reply, reads: bool, spill_threshold: u64) -> Outcome {
    let Some(mut fields) = reply.fields() else {
        return failure(&format!("the host's answer could not be understood{}", if reads { "" } else { IN_DOUBT }));
    };
    fields.remove("_msgId");
    if fields.remove("ok") != Some(Value::Bool(true)) {
        return failure(&reason(&fields));
    }
    if action == "call_tool" {
        return catalog_result(fields, spill_threshold);
    }
    let mut value = Value::Object(fields);
    remove_taint(&mut value);
    let value = match (action, value) {
        ("web_search", Value::Object(fields)) if fields.is_empty() || fields.contains_key("0") => {
            json!({"results": numbered(fields)})
        }
        (_, value) => value,
    };
    success(match &value {
        Value::Object(fields) if fields.is_empty() => json!({"done": true}),
        _ => value,
    })
}

/// A call that got no answer; `reads` if it changes nothing.
pub fn present_error(error: &CallError, reads: bool) -> Presented {
    let advice = match error {
        CallError::OutcomeUnknown | CallError::InDoubt(_) => "; check before you repeat it",
        // The host may be at it still.
        CallError::TimedOut(_) | CallError::NoReply(_) if !reads => IN_DOUBT,
        _ => "",
    };
    Presented { text: format!("Error: {error}{advice}"), failed: true }
}

fn success(value: Value) -> Outcome {
    Outcome::Text(Presented { text: value.to_string(), failed: false })
}

fn failure(message: &str) -> Outcome {
    Outcome::Text(Presented { text: format!("Error: {message}"), failed: true })
}

fn reason(fields: &Map<String, Value>) -> String {
    let words = ["error", "reason"].into_iter().find_map(|key| match fields.get(key) {
        Some(Value::String(text)) if !text.trim().is_empty() => Some(text.clone()),
        Some(Value::Null) | Some(Value::String(_)) | None => None,
        Some(other) => Some(other.to_string()),
    });
    let words = words.unwrap_or_else(|| "the host refused without a reason".to_owned());
    match fields.get("taintBlocked") {
        Some(Value::Bool(true)) => format!(
            "blocked because this session holds too much external content: {words}. Ask the user; do not try another way"
        ),
        _ => words,
    }
}

/// The host's marks of where content came from are its own bookkeeping.
fn remove_taint(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("taint");
            fields.values_mut().for_each(remove_taint);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_taint),
        _ => {}
    }
}

/// `{"0": a, "1": b}` as `[a, b]`: the host spreads arrays into its reply (PROTOCOL §3.3).
fn numbered(fields: Map<String, Value>) -> Vec<Value> {
    let mut items: Vec<(u64, Value)> =
        fields.into_iter().filter_map(|(key, value)| Some((key.parse().ok()?, value))).collect();
    items.sort_by_key(|(at, _)| *at);
    items.into_iter().map(|(_, value)| value).collect()
}

/// What a catalog tool returned is the tool's own data: nothing is taken out of it.
fn catalog_result(mut fields: Map<String, Value>, spill_threshold: u64) -> Outcome {
    if let Some(error) = fields.get("error").filter(|error| !error.is_null()) {
        let error = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or("failed");
        let advice = match kind {
            "unknown_tool" => ". Call describe_tools with an empty list to see what exists",
            "select_failed" => ". Correct the jq program in _select, or leave it out",
            "unsupported_dispatch" => ". This tool cannot be called here; tell the user",
            _ => "",
        };
        return failure(&format!("{kind}: {error}{advice}"));
    }
    let truncated = fields.get("truncated") == Some(&Value::Bool(true));
    if let Some(full) = fields.remove("full").filter(|_| truncated) {
        return Outcome::Spill(Spill::new(&full));
    }
    let result = fields.get("result").cloned().unwrap_or_else(|| Value::Object(fields.clone()));
    if result.to_string().len() as u64 > spill_threshold {
        return Outcome::Spill(Spill::new(&result));
    }
    success(json!({"result": result}))
}

impl Spill {
    fn new(value: &Value) -> Self {
        let (content, extension) = match value {
            Value::String(text) => (text.clone(), "txt"),
            other => (serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()), "json"),
        };
        let preview = match text::cut_units(&content, PREVIEW_UNITS) {
            whole if whole.len() == content.len() => whole.to_owned(),
            cut => format!("{cut}…"),
        };
        Self { content, extension, preview }
    }

    /// The result's text once it is stored under `path`, relative to the workspace.
    pub fn stored_at(&self, path: &str) -> Presented {
        let text = json!({
            "_truncated": true,
            "_path": path,
            "bytes": self.content.len(),
            "preview": self.preview,
            "note": "The whole result is in the file _path. Search it with grep (path set to it) or read parts with read_file (offset and limit).",
        });
        Presented { text: text.to_string(), failed: false }
    }

    /// The result's text when it could not be stored: as much of it as a conversation takes.
    pub fn not_stored(self, why: &str) -> Presented {
        let kept = text::cut_json(&self.content, limits::TOOL_RESULT_MAX_UNITS / 2);
        Presented { text: json!({"_spill_failed": why, "result": kept}).to_string(), failed: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(body: &str) -> Reply {
        Reply::new(body.as_bytes().to_vec())
    }

    fn text(action: &str, body: &str) -> Presented {
        match present(action, &reply(body), action.ends_with("_read"), 100) {
            Outcome::Text(presented) => presented,
            Outcome::Spill(spill) => panic!("spilled {spill:?}"),
        }
    }

    #[test]
    fn the_envelope_stays_outside() {
        for (action, body, wanted) in [
            ("memory_write", r#"{"ok":true,"id":"7","_msgId":"3"}"#, r#"{"id":"7"}"#),
            ("memory_delete", r#"{"ok":true,"_msgId":"3"}"#, r#"{"done":true}"#),
            ("memory_read", r#"{"ok":true,"entry":null}"#, r#"{"entry":null}"#),
            (
                "web_fetch",
                r#"{"ok":true,"status":200,"body":"b","taint":{"x":1},"headers":{"taint":"y","a":"b"}}"#,
                r#"{"body":"b","headers":{"a":"b"},"status":200}"#,
            ),
            (
                "web_search",
                r#"{"ok":true,"1":{"title":"b","taint":1},"0":{"title":"a"},"10":{"title":"c"},"2":{"title":"d"},"_msgId":"1"}"#,
                r#"{"results":[{"title":"a"},{"title":"b"},{"title":"d"},{"title":"c"}]}"#,
            ),
            ("web_search", r#"{"ok":true}"#, r#"{"results":[]}"#),
            ("web_search", r#"{"ok":true,"results":[{"title":"a"}]}"#, r#"{"results":[{"title":"a"}]}"#),
            ("web_extract", r#"{"ok":true,"content":"a\ud83d"}"#, "{\"content\":\"a\u{fffd}\"}"),
            ("call_tool", r#"{"ok":true,"result":{"ok":false,"taint":1}}"#, r#"{"result":{"ok":false,"taint":1}}"#),
        ] {
            assert_eq!(text(action, body), Presented { text: wanted.into(), failed: false }, "{action}");
        }
    }

    #[test]
    fn failures_say_so() {
        for (action, body, wanted) in [
            ("memory_read", r#"{"ok":false,"error":"no such entry"}"#, "Error: no such entry"),
            ("agent_delegate", r#"{"ok":false}"#, "Error: the host refused without a reason"),
            ("memory_read", r#"{"entry":{}}"#, "Error: the host refused without a reason"),
            ("memory_read", "<html>", "Error: the host's answer could not be understood"),
            (
                "memory_write",
                "<html>",
                "Error: the host's answer could not be understood; whether the call was carried out is unknown; check",
            ),
            ("memory_read", r#"{"ok":false,"ok":true}"#, "Error: the host's answer could not be understood"),
            (
                "call_tool",
                r#"{"ok":true,"error":"no x","kind":"unknown_tool"}"#,
                "Error: unknown_tool: no x. Call describe_tools",
            ),
            ("scheduler_add_cron", r#"{"ok":false,"taintBlocked":true,"error":"0.4"}"#, "Error: blocked because"),
        ] {
            let presented = text(action, body);
            assert!(presented.failed && presented.text.starts_with(wanted), "{body}: {}", presented.text);
        }
        for (error, reads, doubt) in [
            (CallError::OutcomeUnknown, false, true),
            (CallError::TimedOut(1), false, true),
            (CallError::NoReply(1), false, true),
            (CallError::NoReply(1), true, false),
            (CallError::NotSent("gone".to_owned()), false, false),
        ] {
            assert_eq!(present_error(&error, reads).text.contains("check before you repeat"), doubt, "{error}");
        }
    }

    #[test]
    fn large_catalog_results_are_for_a_file() {
        let long = "x".repeat(101);
        let lines = "line 1\\nline 2 ".repeat(100);
        for (body, extension, content) in [
            (
                r#"{"ok":true,"truncated":true,"full":{"a":[1]},"preview":"see /tmp/x"}"#.to_owned(),
                "json",
                "{\n  \"a\": [\n    1\n  ]\n}",
            ),
            (format!(r#"{{"ok":true,"result":"{long}"}}"#), "txt", long.as_str()),
            (format!(r#"{{"ok":true,"result":"{lines}"}}"#), "txt", "line 1\nline 2 line 1"),
        ] {
            let Outcome::Spill(spill) = present("call_tool", &reply(&body), false, 100) else { panic!("{body}") };
            assert_eq!(spill.extension, extension);
            assert!(spill.content.starts_with(content) && text::units(&spill.preview) <= PREVIEW_UNITS + 1);
            assert!(spill.stored_at("d/f").text.contains(r#""_path":"d/f""#));
            assert!(spill.not_stored("full").text.starts_with(r#"{"_spill_failed":"full","result":"#));
        }
        let small = present("call_tool", &reply(r#"{"ok":true,"truncated":true,"preview":"p"}"#), false, 100);
        assert!(matches!(small, Outcome::Text(_)));
    }
}
