//! A text of which the middle may be left out. How much is missing is always counted from the text as it was, however often
//! it was cut.

use crate::text::units;
use serde::Serialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;

/// Room for the line that says what is missing.
pub(super) const MARKER_MAX: usize = 200;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shortened {
    /// What is left, both parts.
    kept: String,
    gap: Option<Gap>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Gap {
    /// Where it is in what is left.
    at: usize,
    /// The line that stands there.
    marker: String,
    /// Characters of the text as it was.
    of: usize,
}

impl From<String> for Shortened {
    fn from(text: String) -> Self {
        Self { kept: text, gap: None }
    }
}

impl Shortened {
    /// As it is shown.
    pub(super) fn show(&self) -> Cow<'_, str> {
        match &self.gap {
            None => Cow::Borrowed(&self.kept),
            Some(gap) => Cow::Owned(format!("{}{}{}", &self.kept[..gap.at], gap.marker, &self.kept[gap.at..])),
        }
    }

    /// UTF-16 units of the text that are left.
    pub(super) fn units(&self) -> usize {
        units(&self.kept)
    }

    /// Leaves at most `max` of the text, half of it from the beginning and half from the end; `advice` says how to get the
    /// rest. What would not become shorter stays as it is. Returns the bytes of JSON saved.
    pub(super) fn cut(&mut self, max: usize, cost: impl Fn(char) -> usize, advice: &str) -> usize {
        let (first, last) = match &self.gap {
            Some(gap) => self.kept.split_at(gap.at),
            None => (self.kept.as_str(), self.kept.as_str()),
        };
        let within = |left: &mut usize, c: char| {
            *left = left.checked_sub(cost(c))?;
            Some(c.len_utf8())
        };
        let head: usize = first.chars().scan(max / 2, within).sum();
        let tail: usize = last.chars().rev().scan(max / 2, within).sum();
        let head = escape_at(&self.kept, head).map_or(head, |escape| escape.start);
        let tail = escape_at(&self.kept, self.kept.len() - tail).map_or(self.kept.len() - tail, |escape| escape.end);
        if head >= tail {
            return 0;
        }
        let kept = [&self.kept[..head], &self.kept[tail..]].concat();
        let of = self.gap.as_ref().map_or_else(|| self.kept.chars().count(), |gap| gap.of);
        let missing = of - kept.chars().count();
        let advice = if advice.is_empty() { String::new() } else { format!("; {advice}") };
        let note = format!("[shortened to make room: {missing} of {of} characters left out here{advice}]");
        let shorter = |line_break: &str| {
            let marker = format!("{line_break}{note}{line_break}");
            Self { kept: kept.clone(), gap: Some(Gap { at: head, marker, of }) }
        };
        // Where the gap is in a string of JSON, or goes from one to the next, the text can stay JSON.
        let json = Some(shorter("\\n")).filter(|it| is_json(&it.show()) && is_json(&self.show()));
        let shorter = json.unwrap_or_else(|| shorter("\n"));
        let saved = size(&self.show()).saturating_sub(size(&shorter.show()));
        if saved > 0 {
            *self = shorter;
        }
        saved
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The escape of a JSON string that a cut at `at` would divide.
fn escape_at(text: &str, at: usize) -> Option<std::ops::Range<usize>> {
    // As long as `\u0000`.
    const LONGEST: usize = 6;
    let bytes = text.as_bytes();
    (at.saturating_sub(LONGEST - 1)..at).rev().find_map(|start| {
        let before = bytes[..=start].iter().rev().take_while(|&&byte| byte == b'\\').count();
        let length = if bytes.get(start + 1) == Some(&b'u') { LONGEST } else { 2 };
        let end = start + length;
        (!before.is_multiple_of(2) && at < end && text.is_char_boundary(end)).then_some(start..end)
    })
}

/// The most that each may have so that all have at most `total` together: what needs less than its share leaves the rest of
/// it to the others.
pub(super) fn level(mut sizes: Vec<usize>, total: usize) -> usize {
    sizes.sort_unstable();
    let mut left = total;
    for (at, size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - at);
        if *size > share {
            return share;
        }
        left -= size;
    }
    usize::MAX
}

/// Bytes of a value's JSON.
pub(super) fn size(value: &(impl Serialize + ?Sized)) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0 + 1,
        Err(_) => usize::MAX / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn cut(text: &str, max: &[usize]) -> String {
        let mut text = Shortened::from(text.to_owned());
        for max in max {
            text.cut(*max, char::len_utf16, "ask again");
        }
        text.show().into_owned()
    }

    #[test]
    fn both_ends_stay_and_the_total_is_the_first_one() {
        let text = format!("first {} last", "x".repeat(100_000));
        for max in [&[1000][..], &[5000, 1000], &[5000, 1000, 1000], &[1000, 5000]] {
            let shown = cut(&text, max);
            assert!(shown.starts_with("first x") && shown.ends_with("x last"), "{shown}");
            assert!(
                shown.contains("x\n[shortened to make room: 99011 of 100011 characters left out here; ask again]\nx"),
                "{max:?} {shown}"
            );
        }
        for short in ["", "short", &"x".repeat(1050)] {
            assert_eq!(cut(short, &[1000]), short);
        }
        // By chance what is left is JSON.
        let quoted = format!("\"{}\"", "x\n".repeat(500));
        assert!(cut(&quoted, &[300, 3]).starts_with("\"\n[shortened to make room: 1000 of 1002 characters"));
    }

    #[test]
    fn what_is_json_stays_json_where_that_is_possible() {
        let files: Vec<String> = (0..500).map(|at| format!("src/file{at}.rs")).collect();
        for (value, wanted) in [
            (json!({"content": "a\"\\\n\u{1}é".repeat(5000), "note": "lines 1-10 of 30 are shown"}), Some(true)),
            (json!({ "files": files, "truncated": true }), None),
            (json!({"result": (0..5000).collect::<Vec<_>>()}), Some(false)),
        ] {
            for max in 900..1000 {
                let shown = cut(&value.to_string(), &[20_000, max]);
                let read = serde_json::from_str::<Value>(&shown);
                assert!(wanted.is_none_or(|wanted| read.is_ok() == wanted), "{max} {shown}");
                assert!(read.is_err() || !shown.contains('\n'), "{max} {shown}");
                if let (Some(content), Ok(read)) = (value["content"].as_str(), read) {
                    let shown = read["content"].as_str().unwrap();
                    let (head, rest) = shown.split_once("\n[shortened").unwrap();
                    let (_, tail) = rest.split_once("]\n").unwrap();
                    assert!(content.starts_with(head) && content.ends_with(tail), "{max} {shown}");
                    assert_eq!(read["note"], value["note"]);
                }
            }
        }
        assert_eq!(escape_at(r"a\u00e9b", 4), Some(1..7));
        assert_eq!(escape_at(r"a\nb", 2), Some(1..3));
        assert_eq!(escape_at(r"a\\nb", 3), None);
        assert_eq!(escape_at(r"\ué", 2), None);
    }

    #[test]
    fn what_fits_leaves_its_room_to_the_others() {
        assert_eq!(level(vec![100, 10, 100, 10], 120), 50);
        assert_eq!(level(vec![100, 10], 110), usize::MAX);
        assert_eq!(level(vec![5, 5], 9), 4);
        assert_eq!(level(vec![], 0), usize::MAX);
    }

    proptest! {
        #[test]
        fn the_figures_are_true(text in "[a\\\\\"nué😀\n]{0,2000}", cuts in prop::collection::vec(0_usize..1500, 1..4)) {
            let shown = cut(&text, &cuts);
            prop_assert!(size(&shown) <= size(&text));
            let line = if is_json(&text) { "\\n" } else { "\n" };
            let Some((head, rest)) = shown.split_once(&format!("{line}[shortened to make room: ")) else {
                prop_assert_eq!(&shown, &text);
                return Ok(());
            };
            let (figures, tail) =
                rest.split_once(&format!(" characters left out here; ask again]{line}")).unwrap();
            let (missing, of) = figures.split_once(" of ").unwrap();
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            prop_assert_eq!(of.parse(), Ok(text.chars().count()));
            prop_assert_eq!(missing.parse(), Ok(text.chars().count() - head.chars().count() - tail.chars().count()));
        }
    }
}
