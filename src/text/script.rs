//! What JavaScript takes for blank (`trim`, `\s`): the host trims so. Not quite what Rust does.

/// The text without the blanks it begins with.
pub fn trim_script_start(text: &str) -> &str {
    text.trim_start_matches(is_blank)
}

/// Unicode's blanks without NEXT LINE, and the byte order mark.
fn is_blank(c: char) -> bool {
    (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_is_what_javascript_says() {
        let blank: String = ('\0'..=char::MAX).filter(|c| is_blank(*c)).collect();
        let wanted = "\t\n\u{b}\u{c}\r \u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\u{2007}\
                      \u{2008}\u{2009}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}";
        assert_eq!(blank, wanted);
    }
}
