//! Where a piece of bytes may be cut without splitting a character.

/// Length of `bytes` without a character that is not complete at the end. Bytes that are no UTF-8 anyway stay.
pub fn whole_end(bytes: &[u8]) -> usize {
    let last = &bytes[bytes.len().saturating_sub(3)..];
    // A character has at most three bytes before its last one, so the last three decide; the lead is the last byte that
    // is not a continuation.
    let Some(lead) = last.iter().rposition(|byte| byte & 0xC0 != 0x80) else { return bytes.len() };
    match std::str::from_utf8(&last[lead..]) {
        Err(error) if error.error_len().is_none() => bytes.len() - (last.len() - lead),
        _ => bytes.len(),
    }
}

/// Number of bytes at the start that may be the end of a character begun before.
pub(super) fn whole_start(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|&&byte| byte & 0xC0 == 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unfinished_character_is_left_out() {
        for (bytes, wanted) in [
            (&b""[..], 0),
            (b"abc", 3),
            (b"a\xe2\x80", 1),
            (b"a\xe2\x80\x94", 4),
            (b"\xf0\x9f\x98", 0),
            (b"a\xff", 2),
            (b"\x80\x80\x80\x80", 4),
            (b"\xe2\x28", 2),
            (b"\xed\xa0", 2),
        ] {
            assert_eq!(whole_end(bytes), wanted, "{bytes:?}");
        }
        assert_eq!(whole_start(b"\x80\x94a"), 2);
        assert_eq!(whole_start(b"\x80\x80\x80\x80"), 3);
        assert_eq!(whole_start(b"a\x80"), 0);
    }
}
