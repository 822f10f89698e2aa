//! JSON whose members keep the order they were sent in, and whose numbers keep their digits. `serde_json` sorts members: a
//! host's reply would be cut before what stands first in it (PROTOCOL §6.7).

use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::{Error as _, Serialize, Serializer};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fmt;

/// Levels that are read; more would be a danger to the stack.
const DEPTH_MAX: usize = 128;

/// A JSON value as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ordered {
    /// A number in its own digits, `true`, `false` or `null`.
    Bare(Box<str>),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Ordered>),
    /// An object.
    Object(Members),
}

/// An object's members in their order. No key twice: the last one counts, in the place of the first, as JavaScript reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members(Vec<(String, Ordered)>);

impl Ordered {
    /// The string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The array's items.
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// The object's members.
    pub fn as_object(&self) -> Option<&Members> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// Is it `true`, or `false`?
    pub fn is(&self, flag: bool) -> bool {
        matches!(self, Self::Bare(word) if &**word == if flag { "true" } else { "false" })
    }

    /// Is it `null`?
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Bare(word) if &**word == "null")
    }

    fn read(raw: &RawValue, depth: usize) -> serde_json::Result<Self> {
        if depth > DEPTH_MAX {
            return Err(serde::de::Error::custom("nested too deep"));
        }
        let text = raw.get();
        Ok(match text.as_bytes().first() {
            Some(b'{') => Self::Object(Members::collect(serde_json::from_str::<Pairs<'_>>(text)?.0, depth + 1)?),
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text)?;
                Self::List(items.into_iter().map(|item| Self::read(item, depth + 1)).collect::<Result<_, _>>()?)
            }
            Some(b'"') => Self::Text(serde_json::from_str(text)?),
            _ => Self::Bare(text.into()),
        })
    }
}

impl Members {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Ordered> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Takes a member out.
    pub fn remove(&mut self, key: &str) -> Option<Ordered> {
        let at = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(at).1)
    }

    /// Puts a value in the place of the key's, or at the end.
    pub fn insert(&mut self, key: &str, value: Ordered) {
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// The members.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Ordered)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The values.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Ordered> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn collect(pairs: Vec<(String, &RawValue)>, depth: usize) -> serde_json::Result<Self> {
        let mut places = HashMap::new();
        let mut members: Vec<(String, &RawValue)> = Vec::with_capacity(pairs.len());
        for (key, raw) in pairs {
            match places.entry(key.clone()).or_insert(members.len()) {
                place if *place < members.len() => members[*place].1 = raw,
                _ => members.push((key, raw)),
            }
        }
        let read = |(key, raw): (String, &RawValue)| Ok((key, Ordered::read(raw, depth)?));
        members.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }
}

impl IntoIterator for Members {
    type Item = (String, Ordered);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl From<&str> for Ordered {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Sorted, as a `Value` is.
impl From<&Value> for Ordered {
    fn from(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Object(fields) => {
                Self::Object(Members(fields.iter().map(|(key, value)| (key.clone(), value.into())).collect()))
            }
            bare => Self::Bare(bare.to_string().into()),
        }
    }
}

/// Compact JSON.
impl fmt::Display for Ordered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Ordered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bare(word) => {
                serde_json::from_str::<&RawValue>(word).map_err(S::Error::custom)?.serialize(serializer)
            }
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Object(members) => members.serialize(serializer),
        }
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        Self::read(<&RawValue>::deserialize(source)?, 0).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        Self::collect(Pairs::deserialize(source)?.0, 1).map_err(D::Error::custom)
    }
}

/// An object's members as they stand there.
struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = entries.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        source.deserialize_map(PairsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_digits_stay_and_no_key_is_there_twice() {
        for (given, wanted) in [
            (r#"{"z":1,"a":{"y":[],"b":{}}}"#, r#"{"z":1,"a":{"y":[],"b":{}}}"#),
            (
                r#" { "b" : [ 1.50 , -0, 1e999, 12345678901234567890123 ] } "#,
                r#"{"b":[1.50,-0,1e999,12345678901234567890123]}"#,
            ),
            (r#"{"a":1,"b":2,"\u0061":3}"#, r#"{"a":3,"b":2}"#),
            (r#"[{"x":{"k":1,"k":{"q":2}}},null,true]"#, r#"[{"x":{"k":{"q":2}}},null,true]"#),
            (r#""\u00e9\n\/""#, "\"é\\n/\""),
        ] {
            let read: Ordered = serde_json::from_str(given).unwrap();
            assert_eq!(read.to_string(), wanted);
            assert_eq!(serde_json::from_str::<Ordered>(wanted).unwrap(), read);
        }
        assert!(serde_json::from_str::<Members>("[]").is_err());
        assert!(serde_json::from_str::<Ordered>(r#"{"a":"\ud83d"}"#).is_err());
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(serde_json::from_str::<Ordered>(&nested(DEPTH_MAX)).is_ok());
        assert!(serde_json::from_str::<Ordered>(&nested(100_000)).is_err());
    }
}
