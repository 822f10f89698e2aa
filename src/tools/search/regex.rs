//! The pattern of a content search: compiled, or refused with the place and the remedy; and what it has to do with text
//! that is not ASCII.

use crate::limits;
use crate::tools::one_line;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look};

/// A compiled pattern.
#[derive(Debug)]
pub(in crate::tools) struct Regex {
    pub(in crate::tools) matcher: RegexMatcher,
    pub(in crate::tools) beyond: Beyond,
}

/// What a pattern wants of the characters beyond ASCII, which a file that is not UTF-8 has in another encoding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::tools) struct Beyond {
    /// It can match such characters, `.` for one.
    pub(in crate::tools) any: bool,
    /// It can match some but not others, `ü` or `\w`: whether one in another encoding is among them nobody can tell.
    pub(in crate::tools) some: bool,
    /// It asks for bytes that are no ASCII.
    bytes: bool,
}

impl Regex {
    /// Compiles the pattern; the error says where it is wrong.
    pub(in crate::tools) fn new(tool: &str, pattern: &str, ignore_case: bool, literal: bool) -> Result<Self, String> {
        let parsed = parse(tool, pattern, literal)?;
        let build = |pattern: &str| {
            RegexMatcherBuilder::new()
                .case_insensitive(ignore_case)
                .fixed_strings(literal)
                .multi_line(true)
                .line_terminator(Some(b'\n'))
                .size_limit(limits::GREP_REGEX_MAX_BYTES)
                .dfa_size_limit(limits::GREP_REGEX_MAX_BYTES)
                .build(pattern)
        };
        // The matcher puts the pattern in brackets; with (?x) a comment at its end would swallow the closing one.
        let built = build(pattern).or_else(|error| build(&format!("{pattern}\n")).map_err(|_| error));
        let matcher = built.map_err(|error| {
            // The matcher's kind for it is its own.
            let too_large = error.to_string().contains("size limit");
            let advice =
                if too_large { "; use fewer or smaller repetitions ({n,m}, \\w{n}), or several searches" } else { "" };
            format!("{tool}: bad pattern: {}{advice}", one_line(&error.to_string()))
        })?;
        Ok(Self { matcher, beyond: Beyond::of(&parsed) })
    }
}

/// Asked before the matcher, which wraps the pattern before it reads it and would point into the wrapping.
fn parse(tool: &str, pattern: &str, literal: bool) -> Result<Hir, String> {
    let escaped = literal.then(|| regex_syntax::escape(pattern));
    let source = escaped.as_deref().unwrap_or(pattern);
    let parsed = regex_syntax::ParserBuilder::new().multi_line(true).utf8(false).build().parse(source);
    let parsed = parsed.map_err(|error| {
        let (at, fault) = position(&error);
        let advice = "escape special characters with a backslash, or set literal to search for plain text";
        format!("{tool}: bad pattern at character {at}: {fault}; {advice}")
    })?;
    if breaks_lines(&parsed) {
        return Err(format!(
            "{tool}: bad pattern: a pattern matches within one line, so it cannot contain a line break (\\n or \\r); `$` \
             matches before LF and CRLF alike, so leave \\r? out, and use bash to find carriage returns"
        ));
    }
    // The searcher hands over lines with or without their end, whole files or parts of them: these would match by chance.
    let anchors = parsed.properties().look_set();
    if anchors.contains(Look::Start) || anchors.contains(Look::End) {
        return Err(format!(
            "{tool}: bad pattern: lines are searched one by one, so use ^ and $ instead of \\A, \\z and (?-m)"
        ));
    }
    Ok(parsed)
}

/// Can a part of it match nothing but line breaks, which no line has?
fn breaks_lines(pattern: &Hir) -> bool {
    match pattern.kind() {
        HirKind::Literal(literal) => literal.0.contains(&b'\n') || literal.0.contains(&b'\r'),
        // One of a single character is a literal.
        HirKind::Class(class) => {
            let both = ['\n', '\r'].map(|c| ClassUnicodeRange::new(c, c));
            *class == Class::Unicode(ClassUnicode::new(both))
        }
        HirKind::Repetition(part) => breaks_lines(&part.sub),
        HirKind::Capture(part) => breaks_lines(&part.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(breaks_lines),
        HirKind::Empty | HirKind::Look(_) => false,
    }
}

/// Where a pattern is wrong, counted from 1, and why.
fn position(error: &regex_syntax::Error) -> (usize, String) {
    match error {
        regex_syntax::Error::Parse(error) => (error.span().start.column, error.kind().to_string()),
        regex_syntax::Error::Translate(error) => (error.span().start.column, error.kind().to_string()),
        other => (1, one_line(&other.to_string())),
    }
}

impl Beyond {
    fn of(pattern: &Hir) -> Self {
        let mut beyond = Self::default();
        beyond.add(pattern, &letters());
        // Bytes are to be searched as they are.
        if beyond.bytes { Self { bytes: true, ..Self::default() } } else { beyond }
    }

    /// `letters` are the characters beyond ASCII that matter.
    fn add(&mut self, pattern: &Hir, letters: &ClassUnicode) {
        match pattern.kind() {
            HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
                Ok(text) => {
                    self.any |= !text.is_ascii();
                    // The replacement character is found where it is shown.
                    self.some |= text.chars().any(|c| !c.is_ascii() && c != char::REPLACEMENT_CHARACTER);
                }
                Err(_) => self.bytes = true,
            },
            HirKind::Class(Class::Bytes(class)) => self.bytes |= !class.is_ascii(),
            HirKind::Class(Class::Unicode(class)) => {
                let mut reached = class.clone();
                reached.intersect(letters);
                self.any |= !reached.ranges().is_empty();
                self.some |= !reached.ranges().is_empty() && reached != *letters;
            }
            HirKind::Repetition(part) => self.add(&part.sub, letters),
            HirKind::Capture(part) => self.add(&part.sub, letters),
            HirKind::Concat(parts) | HirKind::Alternation(parts) => {
                parts.iter().for_each(|part| self.add(part, letters));
            }
            HirKind::Empty | HirKind::Look(_) => {}
        }
    }
}

/// The characters beyond ASCII but for those that are hardly meant: the blanks of `\s`, the digits of `\d`, and the two that
/// are `s` and `k` in another case.
fn letters() -> ClassUnicode {
    let mut letters = ClassUnicode::new([ClassUnicodeRange::new('\u{80}', char::MAX)]);
    if let Ok(HirKind::Class(Class::Unicode(rare))) = regex_syntax::parse(r"[\s\d\x{17f}\x{212a}]").map(Hir::into_kind)
    {
        letters.difference(&rare);
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pattern_wants_beyond_ascii() {
        for (patterns, any, some) in [
            (&["abc", r"a\s+\d*[a-z]?\bx", "(?i)sick", r"a\x{20}", r"(?-u)\w\xfc", "(?-u:.)ü", ""][..], false, false),
            (&[".", r"\S", r#"[^"]*"#, r"\D", "[[:^alpha:]]", "a\u{fffd}b", r"[^\s,]"], true, false),
            (&["ü", r"\w", r"\W", r"\p{L}", r"\x{fc}", "(a|[é-ü]){2}", ".ü", "(?i)é"], true, true),
        ] {
            for pattern in patterns {
                let Beyond { any: got, some: picky, .. } = Regex::new("grep", pattern, false, false).unwrap().beyond;
                assert_eq!((got, picky), (any, some), "{pattern}");
            }
        }
        assert_eq!(Regex::new("grep", "a.*", true, true).unwrap().beyond, Beyond::default());
        assert!(Regex::new("grep", "a.ü", true, true).unwrap().beyond.some);
    }
}
