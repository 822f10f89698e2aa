//! One line of a file as a result shows it: bounded, with the match in sight, and without control characters.

use crate::limits;
use crate::text;
use std::ops::Range;

/// Shows a line, its end stripped. Of one that is too long, the part around `hit`.
pub(super) fn line(bytes: &[u8], hit: Option<Range<usize>>) -> String {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if bytes.len() <= limits::GREP_LINE_MAX_BYTES {
        return visible(bytes);
    }
    let hit = hit.map_or(0, |hit| hit.start.min(bytes.len()));
    // A third before the match, so that what it belongs to can be seen.
    let start = hit.saturating_sub(limits::GREP_LINE_MAX_BYTES / 3).min(bytes.len() - limits::GREP_LINE_MAX_BYTES);
    let skipped = bytes[start..].iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
    let window = &bytes[start + skipped..][..limits::GREP_LINE_MAX_BYTES - skipped];
    let end = start + skipped + window.len();
    let window = if end < bytes.len() { &window[..text::whole_end(window)] } else { window };
    let before = if start > 0 { "…" } else { "" };
    let after = if end < bytes.len() { "…" } else { "" };
    format!("{before}{}{after} [line of {} bytes cut]", visible(window), bytes.len())
}

/// Bytes as text: what is not UTF-8 becomes U+FFFD, ASCII's control characters but tabs their pictures. Those beyond ASCII are
/// left as the other tools show them: U+FFFD would say that they are not UTF-8.
fn visible(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let unseen = |c: char| c.is_ascii_control() && c != '\t';
    match text.contains(unseen) {
        true => text.chars().map(|c| if unseen(c) { picture(c) } else { c }).collect(),
        false => text.into_owned(),
    }
}

fn picture(c: char) -> char {
    match c {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_lines_are_whole_and_clean() {
        assert_eq!(line(b"a\tb\n", None), "a\tb");
        assert_eq!(line(b"a\0\x1b[31m\xff\x7f\r", None), "a\u{2400}\u{241b}[31m\u{fffd}\u{2421}\u{240d}");
        assert_eq!(line("é\u{85}\u{9b}m".as_bytes(), None), "é\u{85}\u{9b}m");
    }

    proptest! {
        #[test]
        fn the_match_is_in_sight(before in 0usize..3000, after in 0usize..3000, glyph in prop_oneof![Just("x"), Just("é"), Just("😀"), Just("€")]) {
            let text = format!("{}NEEDLE{}", glyph.repeat(before), glyph.repeat(after));
            let hit = before * glyph.len()..before * glyph.len() + 6;
            let shown = line(text.as_bytes(), Some(hit));
            prop_assert!(shown.contains("NEEDLE"));
            prop_assert!(shown.len() < limits::GREP_LINE_MAX_BYTES + 60);
            prop_assert!(!shown.contains(char::REPLACEMENT_CHARACTER));
            prop_assert_eq!(shown.contains("bytes cut]"), text.len() > limits::GREP_LINE_MAX_BYTES);
        }
    }
}
