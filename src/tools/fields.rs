//! Fields of host tools as data: from one table come the schema the model sees and the check of what it sends, so that
//! the two cannot disagree and no request goes out that the host refuses for its shape (PROTOCOL §14).

use super::plain;
use crate::text::{self, javascript};
use serde_json::{Map, Value};

/// What a field may hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// A string of at most so many UTF-16 units, without NUL.
    Text(usize),
    /// The same, and not empty; the tool itself says so.
    NonEmpty(usize),
    /// The name of a variable; what is wrong with one the tool itself says.
    EnvName,
    /// A URL of at most so many units.
    Url(usize),
    /// A skill's name of at most so many units, which is also its place below a directory.
    SkillName(usize),
    /// A memory scope.
    Scope,
    /// A lower-case UUID.
    Uuid,
    /// An integer of a range.
    Int(i64, i64),
    /// A boolean.
    Flag,
    /// One of some words.
    Choice(&'static [&'static str]),
    /// Strings: how many (from, to) and how long each.
    Texts(usize, usize, usize),
    /// A map of short strings: units of keys and of values.
    Map(usize, usize),
    /// Any JSON object.
    Object,
    /// An object of known fields.
    Record(&'static [Field]),
    /// At most so many of them.
    Records(usize, &'static [Field]),
}

/// One field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) required: bool,
    /// What the model should know about it; may be empty.
    pub(super) about: &'static str,
}

/// A required field.
pub(super) const fn required(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, required: true, about }
}

/// An optional field.
pub(super) const fn optional(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, required: false, about }
}

/// Checks an object against its fields and returns it without the absent ones: an optional field that is `null` counts as
/// absent. Each fault names the field, what is allowed and what was received.
pub(super) fn check(fields: &[Field], given: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let mut faults = Vec::new();
    let checked = check_at("", fields, given, &mut faults);
    if faults.is_empty() { Ok(checked) } else { Err(listed(faults)) }
}

fn listed(mut faults: Vec<String>) -> String {
    const SHOWN: usize = 5;
    if faults.len() > SHOWN {
        let more = faults.len() - SHOWN;
        faults.truncate(SHOWN);
        faults.push(format!("and {more} more"));
    }
    faults.join("; ")
}

fn check_at(
    path: &str,
    fields: &[Field],
    mut given: Map<String, Value>,
    faults: &mut Vec<String>,
) -> Map<String, Value> {
    let mut checked = Map::new();
    for field in fields {
        let at = if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
        match given.remove(field.name) {
            None | Some(Value::Null) if !field.required => {}
            None => faults.push(format!("field `{at}` is missing ({})", field.kind.wanted())),
            Some(value) => {
                if let Some(value) = check_value(&at, field.kind, value, faults) {
                    checked.insert(field.name.to_owned(), value);
                }
            }
        }
    }
    for unknown in given.keys() {
        let allowed: Vec<&str> = fields.iter().map(|field| field.name).collect();
        faults.push(plain::unknown_field(unknown, path, &allowed));
    }
    checked
}

fn check_value(at: &str, kind: Kind, value: Value, faults: &mut Vec<String>) -> Option<Value> {
    match (kind, value) {
        (Kind::Record(fields), Value::Object(object)) => Some(check_at(at, fields, object, faults).into()),
        (Kind::Records(max, fields), Value::Array(items)) if items.len() <= max => {
            let mut list = Vec::new();
            for (index, item) in items.into_iter().enumerate() {
                list.extend(check_value(&format!("{at}[{index}]"), Kind::Record(fields), item, faults));
            }
            Some(Value::Array(list))
        }
        // 3.0 is the integer 3 to the host, which reads JSON as JavaScript does.
        (Kind::Int(min, max), Value::Number(number)) if number.as_f64().is_some_and(|n| n.fract() == 0.0) => {
            let integer = number.as_i64().or_else(|| number.as_f64().filter(|n| n.abs() < 9e15).map(|n| n as i64));
            match integer.filter(|n| (min..=max).contains(n)) {
                Some(integer) => Some(integer.into()),
                None => reject(at, kind, &Value::Number(number), faults),
            }
        }
        (kind, value) if kind.fits(&value) => Some(value),
        (kind, value) => reject(at, kind, &value, faults),
    }
}

fn reject(at: &str, kind: Kind, value: &Value, faults: &mut Vec<String>) -> Option<Value> {
    faults.push(format!("field `{at}` must be {}; received {}", kind.wanted(), plain::received(value)));
    None
}

impl Kind {
    fn fits(self, value: &Value) -> bool {
        let short = |value: &Value, max: usize| value.as_str().is_some_and(|text| fits_host(text, max));
        match self {
            Self::Text(max) | Self::NonEmpty(max) => short(value, max),
            Self::EnvName => short(value, 64),
            Self::Url(max) => short(value, max) && value.as_str().is_some_and(|given| javascript::url(given).is_some()),
            Self::SkillName(max) => short(value, max) && value.as_str().is_some_and(is_skill_name),
            Self::Scope => value.as_str().is_some_and(is_scope),
            Self::Uuid => value.as_str().is_some_and(is_uuid),
            Self::Flag => value.is_boolean(),
            Self::Choice(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            Self::Texts(min, max, length) => value.as_array().is_some_and(|items| {
                (min..=max).contains(&items.len()) && items.iter().all(|item| short(item, length))
            }),
            Self::Map(key, length) => value
                .as_object()
                .is_some_and(|map| map.iter().all(|(name, value)| fits_host(name, key) && short(value, length))),
            Self::Object => value.is_object(),
            Self::Int(..) | Self::Record(_) | Self::Records(..) => false,
        }
    }

    /// What is allowed, for a message.
    fn wanted(self) -> String {
        match self {
            Self::Text(max) | Self::NonEmpty(max) => format!("a string of at most {max} characters"),
            Self::EnvName => Self::Text(64).wanted(),
            Self::Url(max) => format!("a URL with its scheme, of at most {max} characters"),
            Self::SkillName(max) => format!(
                "a name of 1 to {max} characters that is also a directory (`/` nests): in each part a letter or digit, \
                 no space at an end, no control or invisible characters, not SKILL.md"
            ),
            Self::Scope => {
                "a scope of at most 200 letters, digits, `_`, `-` or `/`, beginning with a letter or digit".to_owned()
            }
            Self::Uuid => "an id (lower-case UUID) as the host gave it".to_owned(),
            Self::Int(min, i64::MAX) => format!("an integer of at least {min}"),
            Self::Int(min, max) => format!("an integer from {min} to {max}"),
            Self::Flag => "true or false".to_owned(),
            Self::Choice(words) => {
                format!("one of {}", words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", "))
            }
            Self::Texts(0, usize::MAX, length) => format!("a list of strings of at most {length} characters each"),
            Self::Texts(min, max, length) => {
                format!("a list of {min} to {max} strings of at most {length} characters each")
            }
            Self::Map(key, value) => {
                format!("an object of strings (keys of at most {key}, values of at most {value} characters)")
            }
            Self::Object | Self::Record(_) => "an object".to_owned(),
            Self::Records(max, _) => format!("a list of at most {max} objects"),
        }
    }
}

fn fits_host(text: &str, max: usize) -> bool {
    !text.contains('\0') && (text.len() <= max || text::units(text) <= max)
}

/// Each part becomes a directory as it is: what a path would drop or turn into something else (`a//b`, `..`) would put the
/// skill where its name does not say, and what nobody can see cannot be told apart.
fn is_skill_name(text: &str) -> bool {
    let unseen = |c: char| {
        c.is_control()
            || (c.is_whitespace() && c != ' ')
            || matches!(c, '\u{ad}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.split('/').all(|part| {
        part.contains(char::is_alphanumeric)
            && part.trim() == part
            && !part.contains(unseen)
            && !part.eq_ignore_ascii_case("SKILL.md")
    })
}

fn is_scope(text: &str) -> bool {
    text.len() <= 200
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/'))
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const INNER: &[Field] = &[required("id", Kind::Text(3), ""), optional("tags", Kind::Texts(0, 2, 2), "")];
    const ALL: &[Field] = &[
        required("text", Kind::Text(4), "says something"),
        optional("url", Kind::Url(30), ""),
        optional("skill", Kind::SkillName(9), ""),
        optional("scope", Kind::Scope, ""),
        optional("uuid", Kind::Uuid, ""),
        optional("int", Kind::Int(1, 5), ""),
        optional("flag", Kind::Flag, ""),
        optional("word", Kind::Choice(&["a", "b"]), ""),
        optional("map", Kind::Map(2, 2), ""),
        optional("object", Kind::Object, ""),
        optional("record", Kind::Record(INNER), ""),
        optional("records", Kind::Records(1, INNER), ""),
    ];

    fn checked(given: Value) -> Result<Value, String> {
        check(ALL, given.as_object().cloned().unwrap()).map(Value::Object)
    }

    #[test]
    fn accepts_what_the_host_accepts() {
        let given = json!({"text": "😀😀", "url": "https://a.b/c", "scope": "a-/_9", "int": 3, "flag": false, "word": "b",
            "uuid": "00000000-0000-4000-8000-00000000000f", "map": {"k": "v"}, "object": {"x": [1]},
            "record": {"id": "1", "tags": ["", "ab"]}, "records": [{"id": ""}]});
        assert_eq!(checked(given.clone()), Ok(given));
        assert_eq!(checked(json!({"text": "", "int": 2.0, "url": null})), Ok(json!({"text": "", "int": 2})));
    }

    #[test]
    fn names_the_field_what_is_allowed_and_what_came() {
        for (given, wanted) in [
            (json!({}), "field `text` is missing (a string of at most 4 characters)"),
            (json!({"text": null}), "field `text` must be a string of at most 4 characters; received null"),
            (json!({"text": "😀😀😀"}), "received \"😀😀😀\""),
            (json!({"text": "a\0"}), "received text with a NUL character"),
            (json!({"text": "x".repeat(1000)}), "received 1000 characters"),
            (json!({"text": "", "url": "a.b/c"}), "field `url` must be a URL with its scheme"),
            (json!({"text": "", "scope": "/a"}), "field `scope`"),
            (json!({"text": "", "uuid": "00000000-0000-4000-8000-00000000000F"}), "field `uuid`"),
            (json!({"text": "", "int": 6}), "field `int` must be an integer from 1 to 5; received 6"),
            (json!({"text": "", "int": 1.5}), "received 1.5"),
            (json!({"text": "", "int": 1e300}), "received 1e+300"),
            (json!({"text": "", "int": "3"}), "received \"3\""),
            (json!({"text": "", "flag": "true"}), "must be true or false"),
            (json!({"text": "", "word": "c"}), "must be one of \"a\", \"b\"; received \"c\""),
            (json!({"text": "", "map": {"k": 1}}), "field `map`"),
            (json!({"text": "", "map": {"key": ""}}), "field `map`"),
            (json!({"text": "", "object": []}), "field `object` must be an object; received []"),
            (
                json!({"text": "", "record": {"id": "1", "tags": ["a", "b", "c"]}}),
                "field `record.tags` must be a list of 0 to 2",
            ),
            (json!({"text": "", "record": {"id": "1", "x": 1}}), "unknown field \"x\" in `record`; allowed: id, tags"),
            (json!({"text": "", "records": [{"id": "1234"}]}), "field `records[0].id`"),
            (json!({"text": "", "records": [{"id": ""}, {"id": ""}]}), "at most 1 objects"),
            (json!({"text": "", "Text": ""}), "unknown field \"Text\"; allowed: text, url"),
        ] {
            let message = checked(given.clone()).unwrap_err();
            assert!(message.contains(wanted), "{given}: {message}");
        }
    }

    #[test]
    fn a_skill_is_where_its_name_says() {
        for name in ["a", "weather", "a/b", "a b", "été", "1.2", "-x", "a_b", ".hidden", "foo..bar", "日本", "a:b"]
        {
            assert!(is_skill_name(name), "{name:?}");
        }
        for name in [
            "",
            " ",
            "/",
            "a/",
            "/a",
            "a//b",
            "a/./b",
            "a/../b",
            "..",
            ".",
            "...",
            "a/ /b",
            " a",
            "a ",
            "a/ b",
            "a\nb",
            "a\tb",
            "a\rb",
            "\u{1b}[2Ja",
            "a\u{202e}b",
            "\u{200b}",
            "a\u{200b}",
            "a\u{2028}b",
            "\u{feff}a",
            "a\u{85}b",
            "SKILL.md",
            "a/skill.MD",
            "—",
            "a\0",
        ] {
            assert!(!Kind::SkillName(100).fits(&json!(name)), "{name:?}");
        }
        assert!(!Kind::SkillName(3).fits(&json!("abcd")));
    }

    #[test]
    fn schemas_are_flat_objects_that_close() {
        let schema = serde_json::to_value(crate::tools::schema::Schema(ALL)).unwrap();
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["required"], json!(["text"]));
        assert_eq!(schema["additionalProperties"], json!(false));
        assert_eq!(
            schema["properties"]["text"],
            json!({"type": "string", "maxLength": 4, "description": "says something"})
        );
        assert_eq!(schema["properties"]["records"]["items"]["required"], json!(["id"]));
    }
}
