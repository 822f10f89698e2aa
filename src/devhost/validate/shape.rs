//! Shapes of JSON values and the check of a value against one. The shapes are data, so that the table of actions reads
//! like the protocol's.

use crate::text;
use serde_json::{Map, Value};

/// What a value must look like.
#[derive(Debug)]
pub(super) enum Shape {
    /// A string of at most so many UTF-16 units, without NUL.
    Text(usize),
    /// A string of at most so many units that passes a test.
    Matching(usize, fn(&str) -> bool, &'static str),
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// An integer within bounds.
    Int(i64, i64),
    /// A number within bounds.
    Number(f64, f64),
    /// `true` or `false`.
    Bool,
    /// Anything, but present.
    Any,
    /// An object of any content.
    AnyObject,
    /// An object whose JSON text has at most so many UTF-16 units.
    ObjectOfUnits(usize),
    /// An array with a length between bounds.
    List(&'static Shape, usize, usize),
    /// A strict object.
    Object(&'static [Field]),
    /// A strict object whose fields depend on its `type`.
    Tagged(&'static [(&'static str, &'static [Field])]),
    /// An object from strings to strings, with the limits of both.
    Map(usize, usize),
    /// The first shape if the value is a string, otherwise the second.
    StringOr(&'static Shape, &'static Shape),
}

/// One key of a strict object.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) required: bool,
    pub(super) shape: Shape,
}

/// A key that must be there.
pub(super) const fn must(name: &'static str, shape: Shape) -> Field {
    Field { name, required: true, shape }
}

/// A key that may be absent.
pub(super) const fn may(name: &'static str, shape: Shape) -> Field {
    Field { name, required: false, shape }
}

/// Collects what is wrong, each as `<path>: <message>`.
#[derive(Debug, Default)]
pub(super) struct Issues(pub(super) Vec<String>);

impl Issues {
    fn add(&mut self, path: &str, message: impl std::fmt::Display) {
        self.0.push(format!("{path}: {message}"));
    }

    /// Checks a strict object; `tag` is a key that was checked already.
    pub(super) fn object(&mut self, path: &str, object: &Map<String, Value>, fields: &[Field], tag: Option<&str>) {
        for field in fields {
            match object.get(field.name) {
                Some(value) => self.value(&join(path, field.name), value, &field.shape),
                None if field.required => self.add(&join(path, field.name), "required"),
                None => {}
            }
        }
        for key in object.keys() {
            if Some(key.as_str()) != tag && !fields.iter().any(|field| field.name == key) {
                self.add(&join(path, key), "unrecognized key");
            }
        }
    }

    fn value(&mut self, path: &str, value: &Value, shape: &Shape) {
        match shape {
            Shape::Any => {}
            Shape::Text(max) => self.text(path, value, *max),
            Shape::Matching(max, test, what) => {
                self.text(path, value, *max);
                if value.as_str().is_some_and(|text| !test(text)) {
                    self.add(path, format_args!("expected {what}"));
                }
            }
            Shape::OneOf(allowed) => {
                if !value.as_str().is_some_and(|text| allowed.contains(&text)) {
                    self.add(path, format_args!("expected one of {}", allowed.join(", ")));
                }
            }
            Shape::Int(min, max) => self.integer(path, value, *min, *max),
            Shape::Number(min, max) => match value.as_f64() {
                Some(number) if (*min..=*max).contains(&number) => {}
                Some(number) => self.add(path, format_args!("{number} is outside {min}..{max}")),
                None => self.add(path, format_args!("expected a number, received {}", kind(value))),
            },
            Shape::Bool if value.is_boolean() => {}
            Shape::Bool => self.add(path, format_args!("expected a boolean, received {}", kind(value))),
            Shape::StringOr(text, other) => self.value(path, value, if value.is_string() { text } else { other }),
            Shape::List(of, min, max) => self.list(path, value, of, *min, *max),
            Shape::AnyObject | Shape::ObjectOfUnits(_) | Shape::Object(_) | Shape::Tagged(_) | Shape::Map(..) => {
                match value.as_object() {
                    Some(object) => self.object_of(path, object, shape),
                    None => self.add(path, format_args!("expected an object, received {}", kind(value))),
                }
            }
        }
    }

    fn object_of(&mut self, path: &str, object: &Map<String, Value>, shape: &Shape) {
        match shape {
            Shape::Object(fields) => self.object(path, object, fields, None),
            Shape::Tagged(variants) => {
                let tag = object.get("type").and_then(Value::as_str);
                match variants.iter().find(|(name, _)| Some(*name) == tag) {
                    Some((_, fields)) => self.object(path, object, fields, Some("type")),
                    None => self.add(&join(path, "type"), "not a known kind of block"),
                }
            }
            Shape::Map(key_max, value_max) => {
                for (key, value) in object {
                    self.string(&join(path, key), key, *key_max);
                    self.text(&join(path, key), value, *value_max);
                }
            }
            Shape::ObjectOfUnits(max) => {
                let length = serde_json::to_string(object).map_or(0, |json| text::units(&json));
                if length > *max {
                    self.add(path, format_args!("its JSON has {length} characters; the limit is {max}"));
                }
            }
            _ => {}
        }
    }

    fn list(&mut self, path: &str, value: &Value, of: &Shape, min: usize, max: usize) {
        let Some(items) = value.as_array() else {
            return self.add(path, format_args!("expected an array, received {}", kind(value)));
        };
        if !(min..=max).contains(&items.len()) {
            self.add(path, format_args!("has {} items; allowed are {min} to {max}", items.len()));
        }
        for (index, item) in items.iter().enumerate() {
            self.value(&join(path, &index.to_string()), item, of);
        }
    }

    fn text(&mut self, path: &str, value: &Value, max: usize) {
        match value.as_str() {
            Some(text) => self.string(path, text, max),
            None => self.add(path, format_args!("expected a string, received {}", kind(value))),
        }
    }

    fn string(&mut self, path: &str, text: &str, max: usize) {
        if text.contains('\0') {
            self.add(path, "contains a NUL character");
        }
        let length = text::units(text);
        if length > max {
            self.add(path, format_args!("has {length} characters; the limit is {max}"));
        }
    }

    fn integer(&mut self, path: &str, value: &Value, min: i64, max: i64) {
        // JavaScript has one kind of number: 3.0 is an integer there.
        let number = value.as_i64().or_else(|| value.as_f64().filter(|n| n.fract() == 0.0).map(|n| n as i64));
        match number {
            Some(number) if (min..=max).contains(&number) => {}
            Some(number) => self.add(path, format_args!("{number} is outside {min}..{max}")),
            None => self.add(path, format_args!("expected an integer, received {}", kind(value))),
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
