//! Texts as JavaScript judges them, where the host does (PROTOCOL, Conventions).

use url::Url;

/// The URL, if `new URL` takes it. A host name outside ASCII needs tables of Unicode, which are not here: every character
/// outside ASCII behind the scheme stands for a letter in what is returned, or for one that no host name has. Only the host
/// decides which of them a name may have.
pub fn url(text: &str) -> Option<Url> {
    let (scheme, rest) = text.split_once(':')?;
    let stand_in = |c: char| match c {
        c if c.is_ascii() => c,
        c if c.is_whitespace() || c.is_control() || c == '\u{fffd}' => '^',
        _ => 'a',
    };
    Url::parse(&format!("{scheme}:{}", rest.chars().map(stand_in).collect::<String>())).ok()
}

/// The text without the blanks at its ends.
pub fn trim(text: &str) -> &str {
    text.trim_matches(is_blank)
}

/// The text without the blanks it begins with.
pub fn trim_start(text: &str) -> &str {
    text.trim_start_matches(is_blank)
}

/// What `trim` strips: Unicode's white space without NEXT LINE, and the byte order mark.
fn is_blank(c: char) -> bool {
    (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_new_url_takes() {
        for text in [
            "https://b\u{fc}cher.de/mcp",
            "https://\u{4f8b}\u{3048}.jp:8443",
            "https://\u{1f4a9}.la/",
            "HTTPS://a.b/\u{e9}",
            "https://[::1]/",
            "https://B\u{fc}cher.DE/\u{3000}\u{fffd}",
        ] {
            assert_eq!(url(text).map(|url| url.scheme().to_owned()).as_deref(), Some("https"), "{text}");
        }
        assert_eq!(url("https://b\u{fc}cher.de/x/sse").unwrap().path(), "/x/sse");
        for text in [
            "",
            "b\u{fc}cher.de",
            "https://",
            "https://\u{fffd}.de",
            "https://a\u{3000}b.de",
            "https://A\u{fffd}\u{3000}.de",
            "https://b\u{fc}.de:x/",
            "https://\u{e9} b/",
            "https://\u{e9}%zz/",
            "\u{e9}://a.b/",
            "//\u{e9}.b/",
        ] {
            assert!(url(text).is_none(), "{text}");
        }
    }

    #[test]
    fn blank_is_what_javascript_says() {
        let blank: String = ('\0'..=char::MAX).filter(|c| is_blank(*c)).collect();
        let wanted = "\t\n\u{b}\u{c}\r \u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\u{2007}\
                      \u{2008}\u{2009}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}";
        assert_eq!(blank, wanted);
        assert_eq!(trim("\u{feff}\u{a0}\u{2028} \ta\u{85}\n"), "a\u{85}");
    }
}
