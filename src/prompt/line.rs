//! Words of others inside a line of ours: they stay in it, and it stays short.

use crate::{limits, text};

/// A name: of the agent, a skill, a parameter.
pub(super) fn name(text: &str) -> String {
    bounded(text, limits::PROMPT_NAME_MAX_UNITS)
}

/// A description.
pub(super) fn summary(text: &str) -> String {
    bounded(text, limits::PROMPT_SUMMARY_MAX_UNITS)
}

/// A path.
pub(super) fn path(text: &str) -> String {
    bounded(text, limits::PATH_MAX_UNITS)
}

fn bounded(text: &str, max: usize) -> String {
    let line = crate::tools::one_line(text);
    // What cannot be seen cannot be meant; and a host may send megabytes where a word is expected.
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    match text::units(&line) <= max {
        true => line,
        false => format!("{}…", text::cut_units(&line, max)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_in_its_line() {
        assert_eq!(name(" a\r\n## b\u{2028}c\u{85}\u{1b}[2J\0 "), "a ## b c [2J");
        assert_eq!(name(&"é".repeat(1000)), format!("{}…", "é".repeat(limits::PROMPT_NAME_MAX_UNITS)));
        assert_eq!(text::units(&summary(&"x ".repeat(100_000))), limits::PROMPT_SUMMARY_MAX_UNITS + 1);
    }
}
