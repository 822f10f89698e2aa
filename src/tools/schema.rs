//! Fields as JSON Schema, written straight into the request's text: as trees the schemas of one turn are a tenth of the
//! time a runner needs to start.

use super::fields::{Field, Kind};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// An object with these fields and no others.
pub(super) struct Schema<'a>(pub(super) &'a [Field]);

impl Serialize for Schema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.entries(&mut map)?;
        map.end()
    }
}

impl Schema<'_> {
    fn entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let required: Vec<&str> = self.0.iter().filter(|field| field.required).map(|field| field.name).collect();
        object(map, &Properties(self.0), &required)
    }
}

/// An object's entries.
pub(super) fn object<M: SerializeMap>(
    map: &mut M,
    properties: &impl Serialize,
    required: &[&str],
) -> Result<(), M::Error> {
    map.serialize_entry("type", "object")?;
    map.serialize_entry("properties", properties)?;
    if !required.is_empty() {
        map.serialize_entry("required", required)?;
    }
    map.serialize_entry("additionalProperties", &false)
}

struct Properties<'a>(&'a [Field]);

impl Serialize for Properties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_map(self.0.iter().map(|field| (field.name, Property { kind: field.kind, about: field.about })))
    }
}

/// What one field may hold, and what the model should know about it.
pub(super) struct Property<'a> {
    pub(super) kind: Kind,
    pub(super) about: &'a str,
}

impl Serialize for Property<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.kind.entries(&mut map)?;
        if !self.about.is_empty() {
            map.serialize_entry("description", self.about)?;
        }
        map.end()
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Property { kind: *self, about: "" }.serialize(serializer)
    }
}

impl Kind {
    fn entries<M: SerializeMap>(self, map: &mut M) -> Result<(), M::Error> {
        let kind = match self {
            Self::Text(_) | Self::NonEmpty(_) | Self::Url(_) | Self::SkillName(_) => "string",
            Self::EnvName | Self::Scope | Self::Uuid | Self::Choice(_) => "string",
            Self::Int(..) => "integer",
            Self::Flag => "boolean",
            Self::Texts(..) | Self::Records(..) => "array",
            Self::Map(..) | Self::Object => "object",
            Self::Record(fields) => return Schema(fields).entries(map),
        };
        map.serialize_entry("type", kind)?;
        match self {
            Self::Flag | Self::Object | Self::Record(_) => Ok(()),
            Self::Text(max) | Self::Url(max) => map.serialize_entry("maxLength", &max),
            Self::SkillName(max) | Self::NonEmpty(max) => {
                map.serialize_entry("minLength", &1)?;
                map.serialize_entry("maxLength", &max)
            }
            Self::EnvName => map.serialize_entry("pattern", "^[A-Z][A-Z0-9_]{1,63}$"),
            Self::Scope => map.serialize_entry("pattern", r"^[a-zA-Z0-9][a-zA-Z0-9_\-/]{0,199}$"),
            Self::Uuid => {
                map.serialize_entry("pattern", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
            }
            Self::Int(min, max) => {
                map.serialize_entry("minimum", &min)?;
                if max < i64::MAX { map.serialize_entry("maximum", &max) } else { Ok(()) }
            }
            Self::Choice(words) => map.serialize_entry("enum", words),
            Self::Texts(min, max, length) => {
                map.serialize_entry("items", &Self::Text(length))?;
                if min > 0 {
                    map.serialize_entry("minItems", &min)?;
                }
                if max < usize::MAX { map.serialize_entry("maxItems", &max) } else { Ok(()) }
            }
            Self::Map(_, length) => map.serialize_entry("additionalProperties", &Self::Text(length)),
            Self::Records(max, fields) => {
                map.serialize_entry("maxItems", &max)?;
                map.serialize_entry("items", &Schema(fields))
            }
        }
    }
}
