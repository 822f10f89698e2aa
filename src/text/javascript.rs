//! Texts as JavaScript judges them, where the host does (PROTOCOL, Conventions).

use url::{ParseError, Url};

/// The URL, if `new URL` takes it. A host name outside ASCII needs tables of Unicode, which are not here: every character
/// outside ASCII stands for a letter in what is returned, and only the host decides which of them a name may have.
pub fn url(text: &str) -> Option<Url> {
    let a_letter = |c: char| !c.is_ascii() && !c.is_whitespace() && !c.is_control() && c != '\u{fffd}';
    match Url::parse(text) {
        Err(ParseError::IdnaError) => Url::parse(&text.replace(a_letter, "a")).ok(),
        parsed => parsed.ok(),
    }
}

/// Without white space at its ends: `trim` takes a byte order mark for some, and U+0085 for none.
pub fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}'))
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
    fn trims_what_javascript_trims() {
        assert_eq!(trim("\u{feff}\u{a0}\u{2028} \ta\u{85}\n"), "a\u{85}");
    }
}
