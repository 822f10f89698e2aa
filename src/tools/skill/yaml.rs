//! YAML as JSON values: one document of the core schema of YAML 1.2, which is what the host reads. Anchors are followed
//! as far as the document stays small and flat; there are no merge keys, as 1.2 has none.

use crate::limits;
use granit_parser::{Event, Parser, ScalarStyle, ScanError, Tag};
use serde_json::{Map, Number, Value};
use std::borrow::Cow;
use std::collections::HashMap;

/// Why a text is not a value.
#[derive(Debug, thiserror::Error)]
pub(super) enum YamlError {
    #[error("{} at line {}, column {}", .0.info(), .0.marker().line(), .0.marker().col() + 1)]
    Syntax(#[from] ScanError),
    #[error("the key {0:?} is given twice")]
    Twice(String),
    #[error("a key must be a plain text")]
    Key,
    #[error("{0} is not a finite number")]
    NotFinite(String),
    #[error("an anchor that contains itself")]
    Circle,
    #[error("there must be one document only")]
    Documents,
    #[error("the tag {0:?} is one that readers understand differently")]
    Tag(String),
    #[error("its anchors make it larger than {max} values", max = limits::FRONTMATTER_VALUES_MAX)]
    Large,
    #[error("it is nested deeper than {max} levels", max = limits::FRONTMATTER_DEPTH_MAX)]
    Deep,
}

/// Faults that stop every reader. Of the others some are a matter of how strict a reader is: the host's takes `[a, b:[c]]`,
/// half a surrogate pair, and a `:` that stands a little further in.
const STOP_ALL: [&str; 4] = [
    "mapping values are not allowed in this context",
    "unclosed bracket",
    "unexpected character",
    "while parsing node, found unknown anchor",
];

impl YamlError {
    /// Is this text YAML for nobody?
    pub(super) fn stops_every_reader(&self) -> bool {
        matches!(self, Self::Syntax(error) if STOP_ALL.iter().any(|fault| error.info().starts_with(fault)))
    }
}

/// Reads the one document of a text; nothing at all is null.
pub(super) fn read(text: &str) -> Result<Value, YamlError> {
    let mut reader = Reader::default();
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        match event?.0 {
            Event::DocumentStart(..) if documents == 1 => return Err(YamlError::Documents),
            Event::DocumentStart(..) => documents += 1,
            Event::Scalar(text, style, anchor, tag) => reader.scalar(text, style, anchor, tag.as_deref())?,
            Event::Alias(anchor) => reader.alias(anchor)?,
            Event::SequenceStart(_, _, Some(tag)) | Event::MappingStart(_, _, Some(tag)) => return Err(unknown(&tag)),
            Event::SequenceStart(_, anchor, None) => reader.open(Inside::List(Vec::new()), anchor)?,
            Event::MappingStart(_, anchor, None) => reader.open(Inside::Object(Map::new(), None), anchor)?,
            Event::SequenceEnd | Event::MappingEnd => reader.close()?,
            _ => {}
        }
    }
    Ok(reader.root)
}

/// Of all tags only `!!str` makes the same of every text for every reader.
fn unknown(tag: &Tag) -> YamlError {
    YamlError::Tag(tag.to_string())
}

/// The first character that YAML forbids or that some readers take for a line's end and others do not. What stands around
/// it may be one thing here and another for the host.
pub(super) fn contested(text: &str) -> Option<char> {
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let contested = match c {
            '\t' | '\n' => false,
            '\r' => rest.peek() != Some(&'\n'),
            // An escaped end of line with empty lines after it.
            '\\' => matches!(rest.peek(), Some('\n' | '\r')),
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => true,
            _ => c.is_control(),
        };
        if contested {
            return Some(c);
        }
    }
    None
}

/// A collection whose end has not come.
enum Inside {
    List(Vec<Value>),
    /// With the key whose value comes next.
    Object(Map<String, Value>, Option<String>),
}

#[derive(Default)]
struct Reader {
    /// Those around the current place, outermost first, with their anchors.
    open: Vec<(Inside, usize)>,
    anchors: HashMap<usize, Value>,
    values: usize,
    root: Value,
}

impl Reader {
    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
    ) -> Result<(), YamlError> {
        self.count(1)?;
        let value = match tag {
            Some(tag) if tag.core_suffix() != Some("str") => return Err(unknown(tag)),
            None if style == ScalarStyle::Plain && !self.wants_key() => plain(text)?,
            _ => Value::String(text.into_owned()),
        };
        self.put(value, anchor)
    }

    fn alias(&mut self, anchor: usize) -> Result<(), YamlError> {
        let value = self.anchors.get(&anchor).ok_or(YamlError::Circle)?;
        let (values, depth) = measure(value);
        if self.open.len() + depth > limits::FRONTMATTER_DEPTH_MAX {
            return Err(YamlError::Deep);
        }
        let value = value.clone();
        self.count(values)?;
        self.put(value, 0)
    }

    fn open(&mut self, inside: Inside, anchor: usize) -> Result<(), YamlError> {
        self.count(1)?;
        if self.wants_key() {
            return Err(YamlError::Key);
        }
        self.open.push((inside, anchor));
        if self.open.len() > limits::FRONTMATTER_DEPTH_MAX { Err(YamlError::Deep) } else { Ok(()) }
    }

    fn close(&mut self) -> Result<(), YamlError> {
        match self.open.pop() {
            Some((Inside::List(list), anchor)) => self.put(Value::Array(list), anchor),
            Some((Inside::Object(map, _), anchor)) => self.put(Value::Object(map), anchor),
            None => Ok(()),
        }
    }

    fn wants_key(&self) -> bool {
        matches!(self.open.last(), Some((Inside::Object(_, None), _)))
    }

    /// A whole value, in its place.
    fn put(&mut self, value: Value, anchor: usize) -> Result<(), YamlError> {
        if anchor != 0 {
            // Remembering costs as much as writing it out.
            self.count(measure(&value).0)?;
            self.anchors.insert(anchor, value.clone());
        }
        match self.open.last_mut() {
            None => self.root = value,
            Some((Inside::List(list), _)) => list.push(value),
            Some((Inside::Object(map, key), _)) => match (key.take(), value) {
                (None, Value::String(name)) if map.contains_key(&name) => return Err(YamlError::Twice(name)),
                (None, Value::String(name)) => *key = Some(name),
                (None, _) => return Err(YamlError::Key),
                (Some(name), value) => drop(map.insert(name, value)),
            },
        }
        Ok(())
    }

    fn count(&mut self, more: usize) -> Result<(), YamlError> {
        self.values += more;
        if self.values > limits::FRONTMATTER_VALUES_MAX { Err(YamlError::Large) } else { Ok(()) }
    }
}

/// How many values there are in this one, and on how many levels.
fn measure(value: &Value) -> (usize, usize) {
    let inner: Vec<_> = match value {
        Value::Array(list) => list.iter().map(measure).collect(),
        Value::Object(map) => map.values().map(measure).collect(),
        _ => return (1, 0),
    };
    let deepest = inner.iter().map(|(_, depth)| *depth).max().unwrap_or_default();
    (1 + inner.iter().map(|(values, _)| values).sum::<usize>(), 1 + deepest)
}

/// What a text without quotes means (YAML 1.2 §10.3.2).
fn plain(text: Cow<'_, str>) -> Result<Value, YamlError> {
    Ok(match &*text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => match number(&text) {
            None => Value::String(text.into_owned()),
            Some(number) => Value::Number(number.ok_or_else(|| YamlError::NotFinite(text.into_owned()))?),
        },
    })
}

/// `None` for what is no number, `Some(None)` for one that JSON does not have.
fn number(text: &str) -> Option<Option<Number>> {
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let digits = digits.chars().map(|digit| digit.to_digit(radix)).collect::<Option<Vec<_>>>()?;
            let value = digits.iter().fold(0.0, |value, digit| value * f64::from(radix) + f64::from(*digit));
            return (!digits.is_empty()).then(|| Number::from_f64(value));
        }
    }
    let bare = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(bare, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(None);
    }
    if !bare.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    if let Ok(value) = text.parse::<i64>() {
        return Some(Some(value.into()));
    }
    text.parse::<f64>().ok().map(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_texts_are_what_the_core_schema_says() {
        for (text, wanted) in [
            ("", json!(null)),
            ("~", json!(null)),
            ("nULL", json!("nULL")),
            ("TRUE", json!(true)),
            ("yes", json!("yes")),
            ("on", json!("on")),
            ("007", json!(7)),
            ("-12", json!(-12)),
            ("+12", json!(12)),
            ("0x1F", json!(31.0)),
            ("0o17", json!(15.0)),
            ("0b1", json!("0b1")),
            ("0x", json!("0x")),
            ("1_000", json!("1_000")),
            ("1.5e3", json!(1500.0)),
            (".5", json!(0.5)),
            ("1.", json!(1.0)),
            ("18446744073709551616", json!(18446744073709551616.0)),
            (".", json!(".")),
            ("1.2.3", json!("1.2.3")),
            ("2001-12-14", json!("2001-12-14")),
            ("inf", json!("inf")),
            ("nan", json!("nan")),
            ("12:30", json!("12:30")),
            ("!!str 12", json!("12")),
            ("'12'", json!("12")),
            ("\"a\\u0041\\n\"", json!("aA\n")),
            ("# nothing", json!(null)),
            ("|\n a\n b", json!("a\nb\n")),
            (">-\n a\n b", json!("a b")),
        ] {
            assert_eq!(read(text).unwrap(), wanted, "{text:?}");
        }
        for text in [".inf", "-.INF", ".nan", "1e999"] {
            assert!(matches!(read(text), Err(YamlError::NotFinite(_))), "{text:?}");
        }
    }

    #[test]
    fn collections_and_anchors() {
        let value = read("a: &x [1, {b: c}]\n1: *x\n? d\n: - e\n  -\n<<: {}\n&k key: 1\nz: *k\n").unwrap();
        assert_eq!(
            value,
            json!({"a": [1, {"b": "c"}], "1": [1, {"b": "c"}], "d": ["e", null], "<<": {}, "key": 1, "z": "key"})
        );
        for (text, wanted) in [
            ("a: 1\na: 2", "the key \"a\" is given twice"),
            ("{a: 1, 'a': 2}", "the key \"a\" is given twice"),
            ("[a]: 1", "a key must be a plain text"),
            ("a: &a [x]\n*a : 1", "a key must be a plain text"),
            ("a: &a [*a]", "an anchor that contains itself"),
            ("a\n---\nb", "there must be one document only"),
            ("a\n...\n---\nb", "there must be one document only"),
            ("[a", "line 1, column"),
            ("a: *b", "line 1, column"),
            ("! 12", "the tag"),
            ("!!int '12'", "the tag"),
            ("a: !b c", "the tag"),
            ("!!set {a}", "the tag"),
            ("!!map {a: 1}", "the tag"),
            ("[!<x> a]", "the tag"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{text:?}: {error}");
        }
    }

    #[test]
    fn characters_that_readers_take_differently() {
        for text in ["a\rb", "a\r", "a\u{7f}", "\u{81}", "a\u{85}b", "\u{2028}", "\u{feff}a", "\u{1}", "\"a\\\n\n b\""]
        {
            assert!(contested(text).is_some(), "{text:?}");
        }
        assert_eq!(contested("a: \"\u{e9} \u{1f600}\"\r\nb:\tc\n"), None);
    }

    #[test]
    fn neither_large_nor_deep() {
        let deep = "[".repeat(limits::FRONTMATTER_DEPTH_MAX + 1) + &"]".repeat(limits::FRONTMATTER_DEPTH_MAX + 1);
        read(&deep).unwrap_err();
        read(&deep[1..deep.len() - 1]).unwrap();
        let mut chain = "a0: &a0 [x]\n".to_owned();
        let mut bomb = chain.clone();
        for level in 1..2 * limits::FRONTMATTER_DEPTH_MAX {
            chain += &format!("a{level}: &a{level} [*a{}]\n", level - 1);
            bomb += &format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1);
        }
        assert!(matches!(read(&chain), Err(YamlError::Deep)));
        assert!(matches!(read(&bomb), Err(YamlError::Large)));
        // What is written out is never too large.
        let most = "[".to_owned() + &"a,".repeat(limits::FRONTMATTER_MAX_BYTES / 2 - 1) + "]";
        read(&most).unwrap();
    }
}
