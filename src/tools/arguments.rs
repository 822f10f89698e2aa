//! A model's arguments, read strictly and once (DESIGN §4.10, CASES I14, L01).
//!
//! Duplicate keys are errors at every level: two readers must not be able to take different values from one text.

use super::plain;
use serde::de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};
use std::fmt;
use std::ops::RangeInclusive;

/// Why arguments were refused; the text is the model's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// Not JSON, or JSON that two readers could read differently.
    #[error("{tool}: the arguments are not valid JSON ({fault}); send one JSON object")]
    Syntax {
        /// The tool.
        tool: String,
        /// What the parser said.
        fault: String,
    },
    /// JSON, but not an object.
    #[error("{tool}: the arguments must be a JSON object; received {received}")]
    NotAnObject {
        /// The tool.
        tool: String,
        /// The value's beginning.
        received: String,
    },
    /// A field is missing, unknown or has a wrong value.
    #[error("{tool}: {fault}")]
    Field {
        /// The tool.
        tool: String,
        /// Which field, what was received and what is allowed.
        fault: String,
    },
}

/// The arguments as one object. Nothing at all, or an empty string, counts as an object without fields; a string that
/// holds exactly one JSON object is read as that object, since some providers pass arguments on as text.
pub fn object(tool: &str, raw: Option<&str>) -> Result<Map<String, Value>, ArgumentError> {
    let raw = raw.map_or("", str::trim);
    if raw.is_empty() || raw == "\"\"" {
        return Ok(Map::new());
    }
    let fault = |error: serde_json::Error| ArgumentError::Syntax { tool: tool.to_owned(), fault: error.to_string() };
    match serde_json::from_str::<Strict>(raw).map_err(fault)?.0 {
        Value::Object(fields) => Ok(fields),
        Value::String(text) if text.trim_start().starts_with('{') => {
            match serde_json::from_str::<Strict>(&text).map_err(fault)?.0 {
                Value::Object(fields) => Ok(fields),
                other => Err(ArgumentError::NotAnObject { tool: tool.to_owned(), received: preview(&other) }),
            }
        }
        other => Err(ArgumentError::NotAnObject { tool: tool.to_owned(), received: preview(&other) }),
    }
}

/// The arguments as a type. `T` denies unknown fields itself; the error names the path of the field that is wrong.
pub fn read<T: DeserializeOwned>(tool: &str, raw: Option<&str>) -> Result<T, ArgumentError> {
    typed(tool, object(tool, raw)?)
}

/// Fields already read, as a type.
pub fn typed<T: DeserializeOwned>(tool: &str, fields: Map<String, Value>) -> Result<T, ArgumentError> {
    let given = Value::Object(fields);
    serde_path_to_error::deserialize(&given).map_err(|error| {
        let fault = plain::fault(error.path(), &error.inner().to_string(), &given);
        ArgumentError::Field { tool: tool.to_owned(), fault }
    })
}

/// For a field that is a whole number in a range, or absent.
pub(super) fn whole<'de, D: Deserializer<'de>>(
    source: D,
    range: RangeInclusive<usize>,
) -> Result<Option<usize>, D::Error> {
    let Some(given) = Option::<Value>::deserialize(source)? else { return Ok(None) };
    let number = given.as_u64().and_then(|number| usize::try_from(number).ok()).filter(|number| range.contains(number));
    number
        .map(Some)
        .ok_or_else(|| D::Error::custom(format!("must be a whole number from {} to {}", range.start(), range.end())))
}

/// A value as error messages show it: JSON of at most 120 characters.
pub fn preview(value: &Value) -> String {
    const MAX: usize = 120;
    let json = value.to_string();
    match crate::text::units(&json) {
        0..=MAX => json,
        _ => format!("{}...", crate::text::cut_units(&json, MAX - 3)),
    }
}

/// A JSON value whose objects name no key twice.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        // 3.0 is the integer 3 to the host, which reads JSON as JavaScript does.
        if value.fract() == 0.0 && value.abs() < 9e15 {
            return Ok((value as i64).into());
        }
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, Strict(value))) = entries.next_entry::<String, Strict>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("key {} appears twice", preview(&Value::String(key)))));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Args {
        path: String,
        limit: Option<u32>,
    }

    fn refused(raw: &str) -> String {
        read::<Args>("t", Some(raw)).unwrap_err().to_string()
    }

    #[test]
    fn only_one_canonical_object_is_accepted() {
        assert_eq!(read("t", Some(r#" {"path":"a","limit":null} "#)), Ok(Args { path: "a".into(), limit: None }));
        assert_eq!(read("t", Some(r#""{\"path\":\"a\"}""#)), Ok(Args { path: "a".into(), limit: None }));
        assert_eq!(read("t", Some(r#"{"path":"a","limit":2.0}"#)), Ok(Args { path: "a".into(), limit: Some(2) }));
        for (raw, wanted) in [
            (r#"{"path":"a","path":"b"}"#, "key \"path\" appears twice"),
            (r#"{"path":"a","\u0070ath":"b"}"#, "key \"path\" appears twice"),
            (r#"{"path":"#, "not valid JSON"),
            (r#"{"path":"a"} {}"#, "trailing characters"),
            ("\u{feff}{}", "not valid JSON"),
            (r#"{"path":"\ud83d"}"#, "not valid JSON"),
            ("null", "must be a JSON object; received null"),
            ("[]", "received []"),
            ("\"str\"", "received \"str\""),
            (r#""{\"path\":""#, "not valid JSON"),
            (r#""{\"path\":\"a\"}{\"path\":\"b\"}""#, "trailing characters"),
            (r#""{\"path\":\"a\",\"path\":\"b\"}""#, "appears twice"),
            (r#""\ufeff{\"path\":\"a\"}""#, "must be a JSON object"),
            ("1e309", "number out of range"),
            ("", "field `path` is missing"),
            ("\"\"", "field `path` is missing"),
            ("{}", "field `path` is missing"),
            (r#"{"path":"a","Path":"b"}"#, "unknown field \"Path\"; allowed: path, limit"),
            (r#"{"path":7}"#, "field `path` must be a string; received 7"),
            (r#"{"path":"a","limit":"2"}"#, "field `limit` must be a whole number of at least 0; received \"2\""),
            (r#"{"path":"a","limit":-1}"#, "field `limit`"),
        ] {
            let message = refused(raw);
            assert!(message.starts_with("t: ") && message.contains(wanted), "{raw}: {message}");
        }
        assert!(refused(&"[".repeat(500)).contains("recursion limit"));
        assert_eq!(object("t", None).unwrap(), Map::new());
        assert_eq!(Value::Object(object("t", Some(r#"{"a":[1,{"b":2.5}]}"#)).unwrap()), json!({"a":[1,{"b":2.5}]}));
    }

    #[test]
    fn previews_are_short() {
        assert_eq!(preview(&json!("é".repeat(500))).chars().count(), 120);
        assert!(preview(&json!("x".repeat(119))).ends_with("..."));
    }
}
