//! Reads a request as the host would, and notes what only a lenient reader lets pass: keys named twice, lone
//! surrogates, bytes that are not UTF-8.

use crate::wire::surrogates;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::borrow::Cow;
use std::fmt;

/// A request's JSON with the reader's remarks.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) value: Value,
    pub(super) remarks: Vec<String>,
}

/// `None` when a JavaScript reader could not parse it either.
pub(super) fn read(raw: &[u8]) -> Option<Document> {
    let mut remarks = Vec::new();
    let text = String::from_utf8_lossy(raw);
    if matches!(text, Cow::Owned(_)) {
        remarks.push("the request is not UTF-8".to_owned());
    }
    let repaired = surrogates::repair(&text);
    if matches!(repaired, Cow::Owned(_)) {
        remarks.push("the request holds a lone surrogate".to_owned());
    }
    let mut reader = serde_json::Deserializer::from_str(&repaired);
    let mut twice = Vec::new();
    let value = Strict(&mut twice).deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    remarks.extend(twice.into_iter().map(|key| format!("the key \"{key}\" is named twice")));
    Some(Document { value, remarks })
}

/// Builds a [`Value`] and collects the keys that an object names more than once.
struct Strict<'a>(&'a mut Vec<String>);

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Strict(self.0))? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Strict(self.0))?;
            if object.insert(key.clone(), value).is_some() {
                self.0.push(key);
            }
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn remarks() {
        let remarks = |raw: &[u8]| read(raw).unwrap().remarks;
        assert!(remarks(br#"{"a":[1,-2,3.5,null,true,"x",{"b":{}}]}"#).is_empty());
        assert_eq!(remarks(br#"{"a":{"b":1,"b":2}}"#), [r#"the key "b" is named twice"#]);
        assert_eq!(remarks(br#"{"a":"\ud83d"}"#), ["the request holds a lone surrogate"]);
        assert_eq!(remarks(b"{\"a\":\"\xff\"}"), ["the request is not UTF-8"]);
        for broken in [&b""[..], b"{", b"{} {}", b"{\"a\":}"] {
            assert!(read(broken).is_none());
        }
    }
}
