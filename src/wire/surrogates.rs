//! Lone surrogates in JSON escapes. JavaScript writes them and reads them; they are not Unicode text, and a strict
//! parser refuses the whole document for one.

use std::borrow::Cow;

/// The document with each `\uD800`–`\uDFFF` escape that has no partner replaced by `\ufffd`. Works on text only: whether
/// it is JSON is for the parser to say.
pub(crate) fn repair(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let mut fixed: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(step) = bytes[at..].iter().position(|&byte| byte == b'\\') {
        at += step;
        match escape(bytes, at) {
            Some(0xD800..=0xDBFF) if matches!(escape(bytes, at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            Some(0xD800..=0xDFFF) => {
                fixed.get_or_insert_with(|| bytes.to_vec())[at + 2..at + 6].copy_from_slice(b"fffd");
                at += 6;
            }
            Some(_) => at += 6,
            // Any other escape is two bytes; the second may be a backslash of its own.
            None => at += 2,
        }
        if at >= bytes.len() {
            break;
        }
    }
    match fixed.map(String::from_utf8) {
        Some(Ok(text)) => Cow::Owned(text),
        _ => Cow::Borrowed(json),
    }
}

fn escape(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::repair;

    #[test]
    fn replaces_only_what_has_no_partner() {
        for (given, wanted) in [
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\\\ud83d""#, r#""\\\ufffd""#),
            (r#""a\"#, r#""a\"#),
            (r#""\ud8"#, r#""\ud8"#),
            ("", ""),
        ] {
            assert_eq!(repair(given), wanted);
        }
    }
}
