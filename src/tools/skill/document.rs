//! The text of a SKILL.md: frontmatter between two `---` lines, then the body (PROTOCOL §9.2).

use super::{SkillError, rules, yaml};
use crate::limits;
use serde_json::{Map, Value};

/// A SKILL.md that follows the rules.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Its frontmatter in normal form: defaults filled in, domains in lower case, transports told from the URL. Two that
    /// mean the same are equal.
    pub frontmatter: Map<String, Value>,
    /// What follows.
    pub body: String,
}

/// Reads a SKILL.md.
pub fn parse(text: &str) -> Result<Document, SkillError> {
    let (yaml, body) = split(text).ok_or(SkillError::NoFrontmatter)?;
    if yaml.len() > limits::FRONTMATTER_MAX_BYTES {
        return Err(SkillError::TooLarge { bytes: yaml.len(), max: limits::FRONTMATTER_MAX_BYTES });
    }
    let value = yaml::read(yaml).map_err(|error| SkillError::Yaml(super::super::one_line(&error.to_string())))?;
    let frontmatter = rules::check(value).map_err(|faults| SkillError::Rules(faults.join("; ")))?;
    Ok(Document { frontmatter, body: body.to_owned() })
}

/// The frontmatter's YAML and the body. As the host matches it: `---`, a line end, the shortest text that is followed by a
/// line with `---` at its start, at most one more line end.
pub(super) fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---")?;
    let rest = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'))?;
    let end = rest.find("\n---")?;
    let yaml = rest[..end].strip_suffix('\r').unwrap_or(&rest[..end]);
    let body = &rest[end + "\n---".len()..];
    Some((yaml, body.strip_prefix("\r\n").or_else(|| body.strip_prefix('\n')).unwrap_or(body)))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn finds_the_first_closing_line() {
        for (text, wanted) in [
            ("---\na: 1\n---\nbody", Some(("a: 1", "body"))),
            ("---\na: 1\n---\n\nbody", Some(("a: 1", "\nbody"))),
            ("---\r\na: 1\r\n---\r\nbody\r\n", Some(("a: 1", "body\r\n"))),
            ("---\na: 1\n---", Some(("a: 1", ""))),
            ("---\na: 1\n---x", Some(("a: 1", "x"))),
            ("---\n\n---\n", Some(("", ""))),
            ("---\na\n---\nb\n---\n", Some(("a", "b\n---\n"))),
            ("---\n---\n", None),
            ("\n---\na: 1\n---\n", None),
            ("\u{feff}---\na: 1\n---\n", None),
            ("--- \na: 1\n---\n", None),
            ("---\na: 1", None),
            ("---", None),
            ("", None),
        ] {
            assert_eq!(split(text), wanted, "{text:?}");
        }
    }
}
