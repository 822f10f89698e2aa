//! The string patterns of PROTOCOL §14.

/// `^[a-zA-Z0-9][a-zA-Z0-9_\-/]{0,199}$`
pub(super) fn is_scope(text: &str) -> bool {
    text.len() <= 200
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/'))
}

/// Lower-case hyphenated hex.
pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

/// What a browser's URL parser accepts.
pub(super) fn is_url(text: &str) -> bool {
    crate::text::javascript::url(text).is_some()
}

/// `YYYY-MM-DDTHH:MM[:SS[.fff]]Z`: the form without an offset is the only one the host takes.
pub(super) fn is_iso_datetime(text: &str) -> bool {
    let Some((date, time)) = text.strip_suffix('Z').and_then(|text| text.split_once('T')) else { return false };
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let clock: Vec<&str> = clock.split(':').collect();
    let date: Vec<&str> = date.split('-').collect();
    let digits = |part: &str, length: usize| part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
    date.len() == 3
        && digits(date[0], 4)
        && date[1..].iter().all(|part| digits(part, 2))
        && matches!(clock.len(), 2 | 3)
        && clock.iter().all(|part| digits(part, 2))
        && !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

/// What model providers accept as a tool's name.
pub(super) fn is_tool_name(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(is_scope("a/b-c_d9") && !is_scope("/a") && !is_scope("") && !is_scope("a b"));
        assert!(is_uuid("6f1c2f04-4d0e-4a53-9a53-0d6f2f7b9c11") && !is_uuid("6F1C2F04-4d0e-4a53-9a53-0d6f2f7b9c11"));
        assert!(is_url("https://a.example/x?y") && !is_url("a.example/x"));
        assert!(is_iso_datetime("2026-01-02T03:04:05.678Z") && !is_iso_datetime("2026-01-02") && !is_iso_datetime("Z"));
        assert!(is_tool_name("mcp_a-b") && !is_tool_name("a.b") && !is_tool_name(""));
    }
}
