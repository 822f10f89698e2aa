//! The host counts lengths as JavaScript does: in UTF-16 code units (PROTOCOL, Conventions).

/// Length of `text` in UTF-16 code units.
pub fn units(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(char::len_utf16).sum() }
}

/// The longest prefix of `text` of at most `max` UTF-16 units; a pair that would be split is left out whole.
pub fn cut_units(text: &str, max: usize) -> &str {
    // A UTF-8 text has at least as many bytes as units, so a short one needs no count.
    if text.len() <= max {
        return text;
    }
    let mut left = max;
    for (at, c) in text.char_indices() {
        match left.checked_sub(c.len_utf16()) {
            Some(rest) => left = rest,
            None => return &text[..at],
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_as_javascript_does() {
        assert_eq!(units(""), 0);
        assert_eq!(units("abc"), 3);
        assert_eq!(units("€"), 1);
        assert_eq!(units("😀"), 2);
    }

    #[test]
    fn cuts_before_a_pair_it_would_split() {
        assert_eq!(cut_units("a😀b", 2), "a");
        assert_eq!(cut_units("a😀b", 3), "a😀");
        assert_eq!(cut_units("a😀b", 4), "a😀b");
        assert_eq!(cut_units("", 0), "");
    }
}
