//! Is it text? For what is shown to a reader, not for what may be done with it.

/// Does decoded text hold so many control characters that nobody can have meant it to be read? Text in an encoding that is
/// not UTF-8 does not count: it has replacement characters, but hardly any of these.
pub fn is_binary(text: &str) -> bool {
    let strange = |c: &char| {
        let used = matches!(c, '\t' | '\n' | '\r' | '\u{8}' | '\u{c}' | '\u{1b}');
        c.is_ascii_control() && !used
    };
    let (all, odd) = (text.chars().count(), text.chars().filter(strange).count());
    odd * ODD_SHARE > all
}

/// One in so many. Random and compressed bytes have one in ten, programs and pictures more.
const ODD_SHARE: usize = 33;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_data_from_foreign_text() {
        for text in [
            "",
            "plain\r\n\ttext",
            "\u{1b}[31mred\u{1b}[0m",
            "é日本😀",
            "\u{fffd}\u{fffd}\u{fffd}",
            &"x".repeat(99),
            "a\0 long line with only one of them in it, as a dump may have",
        ] {
            assert!(!is_binary(text), "{text:?}");
        }
        let mut state = 7_u64;
        let random: Vec<u8> = (0..4000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        for bytes in [&random[..], b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"\x7fELF\x02\x01\x01\0\0\0\0\0", &[0; 9]] {
            assert!(is_binary(&String::from_utf8_lossy(bytes)), "{bytes:?}");
        }
    }
}
