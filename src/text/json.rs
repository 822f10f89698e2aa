//! Lengths and cuts of a text as it will stand in a JSON string. A tool's result is JSON, and the host counts that: a file
//! of control characters grows sixfold on the way (PROTOCOL T26).

use std::borrow::Cow;

/// UTF-16 units `c` takes inside a JSON string as `serde_json` writes it.
fn cost(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf16(),
    }
}

/// Bytes `c` takes inside a JSON string.
pub fn json_bytes(c: char) -> usize {
    cost(c) - c.len_utf16() + c.len_utf8()
}

/// Length of `text` in UTF-16 units once it is escaped, without the quotes.
pub fn json_units(text: &str) -> usize {
    text.chars().map(cost).sum()
}

/// The longest prefix of `text` that takes at most `max` units once escaped.
pub fn cut_json(text: &str, max: usize) -> &str {
    let mut left = max;
    for (at, c) in text.char_indices() {
        match left.checked_sub(cost(c)) {
            Some(rest) => left = rest,
            None => return &text[..at],
        }
    }
    text
}

/// The text itself when it takes at most `max` units once escaped; otherwise its beginning and its end, with a line between
/// them that says how many characters are missing.
pub fn elide_json(text: &str, max: usize) -> Cow<'_, str> {
    if json_units(text) <= max {
        return Cow::Borrowed(text);
    }
    let half = max.saturating_sub(MARKER_UNITS) / 2;
    let head = cut_json(text, half);
    let mut left = half;
    let tail = text.char_indices().rev().map_while(|(at, c)| {
        left = left.checked_sub(cost(c))?;
        Some(at)
    });
    // The head is at most half of what is too much, so the two cannot meet.
    let tail = &text[tail.last().unwrap_or(text.len())..];
    let missing = text[head.len()..text.len() - tail.len()].chars().count();
    Cow::Owned(format!("{head}\n[{missing} characters left out here]\n{tail}"))
}

/// More than the marker line of [`elide_json`] can take.
const MARKER_UNITS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::units;
    use proptest::prelude::*;

    #[test]
    fn every_character_costs_what_serde_writes() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let written = serde_json::to_string(&c).unwrap();
            assert_eq!((cost(c), json_bytes(c)), (units(&written) - 2, written.len() - 2), "{c:?}");
        }
    }

    proptest! {
        #[test]
        fn cuts_fit_and_keep_both_ends(text in "[a\"\\\\\0\u{1}\u{1b}é😀\n]{0,400}", max in 64_usize..600) {
            let cut = cut_json(&text, max);
            prop_assert!(text.starts_with(cut) && json_units(cut) <= max);
            let elided = elide_json(&text, max);
            prop_assert!(json_units(&elided) <= max);
            if json_units(&text) <= max {
                prop_assert_eq!(&elided, &text);
            } else {
                prop_assert!(elided.contains(" characters left out here]"));
            }
        }
    }
}
