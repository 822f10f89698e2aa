//! What is wrong with a call's arguments, in plain words: the field, what is allowed and what was received. The one place in
//! which the words of the JSON reader and the names of our types become the model's.

use super::arguments::preview;
use crate::text;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

/// The reader's fault at `path` of `given`.
pub(super) fn fault(path: &Path, said: &str, given: &Value) -> String {
    let field = name(path.iter());
    if said.starts_with("unknown field `") {
        return unknown(path, said);
    }
    if let Some(missing) = said.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        let place = if field.is_empty() { String::new() } else { format!("{field}.") };
        return format!("field `{place}{missing}` is missing");
    }
    let wanted = match said.rsplit_once(", expected ") {
        Some((before, expected)) if before.starts_with("invalid ") => wanted(expected),
        Some((before, expected)) if before.starts_with("unknown variant ") => format!("one of {}", listed(expected)),
        _ => match said.strip_prefix("must be ") {
            Some(wanted) => wanted.to_owned(),
            None if field.is_empty() => return said.to_owned(),
            None => return format!("field `{field}`: {said}"),
        },
    };
    format!("field `{field}` must be {wanted}; received {}", find(path, given).map_or_else(String::new, received))
}

/// The message for a key that is none of a tool's.
pub(super) fn unknown_field(key: &str, place: &str, allowed: &[&str]) -> String {
    let place = if place.is_empty() { String::new() } else { format!(" in `{place}`") };
    let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
    format!("unknown field {}{place}; allowed: {allowed}", preview(&Value::String(key.to_owned())))
}

/// A value as a message shows it: its beginning, or its size where that says more.
pub(super) fn received(value: &Value) -> String {
    match value {
        Value::String(text) if text.contains('\0') => "text with a NUL character".to_owned(),
        Value::String(text) if text.len() > 200 => format!("{} characters", text::units(text)),
        Value::Array(items) if items.len() > 20 => format!("{} items", items.len()),
        other => preview(other),
    }
}

fn unknown(path: &Path, said: &str) -> String {
    let mut place: Vec<&Segment> = path.iter().collect();
    let key = match place.pop() {
        Some(Segment::Map { key }) => key.as_str(),
        _ => "",
    };
    // The key is the model's and may hold these words too; what is allowed comes last.
    let allowed = said.rsplit_once(", expected ").map_or("", |(_, allowed)| allowed);
    unknown_field(key, &name(place), &ticked(allowed))
}

/// `outer.list[2].inner`
fn name<'a>(path: impl IntoIterator<Item = &'a Segment>) -> String {
    let mut name = String::new();
    for segment in path {
        match segment {
            Segment::Map { key } if name.is_empty() => name.push_str(key),
            Segment::Map { key } => name.extend([".", key]),
            Segment::Seq { index } => name.push_str(&format!("[{index}]")),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    name
}

fn find<'a>(path: &Path, given: &'a Value) -> Option<&'a Value> {
    path.iter().try_fold(given, |value, segment| match segment {
        Segment::Map { key } => value.get(key),
        Segment::Seq { index } => value.get(index),
        Segment::Enum { .. } | Segment::Unknown => Some(value),
    })
}

/// What the reader expected, without the names of our types.
fn wanted(expected: &str) -> String {
    let words = match expected {
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        "string or map" | "a string or map" => "a string",
        _ if expected.starts_with("a nonzero ") => "a whole number of at least 1",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of at least 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        _ if expected.starts_with("struct ") => "an object",
        other => other,
    };
    words.to_owned()
}

/// The words between backticks.
fn ticked(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn listed(text: &str) -> String {
    ticked(text).iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use crate::tools::arguments::{read, typed};
    use serde::Deserialize;
    use serde_json::json;
    use std::num::NonZeroU64;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        One,
        Two,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[allow(dead_code, reason = "only read")]
        id: i32,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only read")]
    struct Args {
        text: String,
        flag: Option<bool>,
        count: Option<u64>,
        first: Option<NonZeroU64>,
        list: Option<Vec<Inner>>,
        word: Option<Word>,
        share: Option<f64>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}

    #[test]
    fn no_word_of_the_reader_is_left() {
        let long = "x".repeat(100_000);
        for (given, wanted) in [
            (json!({}), "t: field `text` is missing"),
            (json!({"text": null}), "t: field `text` must be a string; received null"),
            (json!({"text": [1]}), "t: field `text` must be a string; received [1]"),
            (json!({"text": {"a": 1}}), "t: field `text` must be a string; received {\"a\":1}"),
            (json!({"text": 1.5}), "t: field `text` must be a string; received 1.5"),
            (json!({"text": true}), "t: field `text` must be a string; received true"),
            (json!({"text": "", "flag": "yes"}), "t: field `flag` must be true or false; received \"yes\""),
            (json!({"text": "", "flag": long}), "t: field `flag` must be true or false; received 100000 characters"),
            (json!({"text": "", "count": -1}), "t: field `count` must be a whole number of at least 0; received -1"),
            (
                json!({"text": "", "count": "2"}),
                "t: field `count` must be a whole number of at least 0; received \"2\"",
            ),
            (json!({"text": "", "count": 1e300}), "received 1e+300"),
            (json!({"text": "", "first": 0}), "t: field `first` must be a whole number of at least 1; received 0"),
            (json!({"text": "", "first": []}), "t: field `first` must be a whole number of at least 1; received []"),
            (json!({"text": "", "list": "a"}), "t: field `list` must be a list; received \"a\""),
            (json!({"text": "", "list": [{"id": 1}, 7]}), "t: field `list[1]` must be an object; received 7"),
            (
                json!({"text": "", "list": [{"id": "a"}]}),
                "t: field `list[0].id` must be a whole number; received \"a\"",
            ),
            (json!({"text": "", "list": [{}]}), "t: field `list[0].id` is missing"),
            (json!({"text": "", "list": [{"id": 1, "x": 1}]}), "t: unknown field \"x\" in `list[0]`; allowed: id"),
            (
                json!({"text": "", "word": "three"}),
                "t: field `word` must be one of \"one\", \"two\"; received \"three\"",
            ),
            (
                json!({"text": "", "word": long}),
                "t: field `word` must be one of \"one\", \"two\"; received 100000 char",
            ),
            (json!({"text": "", "word": 7}), "t: field `word` must be a string; received 7"),
            (json!({"text": "", "share": "a"}), "t: field `share` must be a number; received \"a\""),
            (
                json!({"text": "", "Text": ""}),
                "t: unknown field \"Text\"; allowed: text, flag, count, first, list, word",
            ),
            (json!({"a`, expected `b": 1}), "t: unknown field \"a`, expected `b\"; allowed: text, flag"),
            (json!({"line\nbreak": 1}), "t: unknown field \"line\\nbreak\"; allowed: text"),
            (json!({long.as_str(): 1}), "xxx...; allowed: text"),
        ] {
            let message = typed::<Args>("t", given.as_object().cloned().unwrap()).unwrap_err().to_string();
            assert!(message.contains(wanted) && message.len() < 400, "{given}: {message}");
            for word in ["invalid", "sequence", "integer `", "variant", "u64", "struct", "expected a", "unit"] {
                assert!(!message.contains(word), "{message}");
            }
        }
        let message = read::<Nothing>("t", Some(r#"{"a":1}"#)).unwrap_err().to_string();
        assert_eq!(message, "t: unknown field \"a\"; allowed: none");
    }
}
