//! Log lines that cannot be mistaken for a diagnosis.
//!
//! The host decides whether to run a failed turn again by looking for words and numbers anywhere on stderr (PROTOCOL
//! §1.6, T30): a process id of 4012 reads as "401, permanent". So a line is written such that it means the same to a
//! JSON reader and contains none of them: inside strings one character of a word is spelled as an escape, and a number is
//! spelled with an exponent.

/// What the host's rules and its choice of a user-facing diagnosis look for.
const WORDS: [&str; 32] = [
    "401",
    "403",
    "400",
    "429",
    "500",
    "502",
    "503",
    "unauthorized",
    "forbidden",
    "api key",
    "no api credentials",
    "bad request",
    "validation failed",
    "timed out",
    "timeout",
    "sigkill",
    "eperm",
    "econnreset",
    "econnrefused",
    "epipe",
    "socket hang",
    "spawn",
    "enomem",
    "cannot allocate",
    "rate limit",
    "certificate",
    "ssl",
    "tls",
    "etimedout",
    "enotfound",
    "getaddrinfo",
    "broken pipe",
];

/// Rewrites one line of JSON; the result decodes to the same value, but for digits of a number that holds two of the
/// patterns: there the lower digits become zero.
pub fn neutral(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(quote) = rest.find('"') {
        numbers(&rest[..quote], &mut out);
        let end = string_end(&rest[quote..]) + quote;
        string(&rest[quote..end], &mut out);
        rest = &rest[end..];
    }
    numbers(rest, &mut out);
    out
}

/// The same for text that stands in a line for people: control characters and one character of each pattern become
/// escapes.
pub fn escaped(text: &str) -> String {
    let mut rest: &str =
        &text.chars().flat_map(|c| if c.is_control() { escapes(c) } else { vec![c] }).collect::<String>();
    let mut out = String::with_capacity(rest.len());
    while let Some((start, _)) = first(rest) {
        let middle = start + 1;
        out.push_str(&rest[..middle]);
        out.push_str(&format!("\\x{:02x}", rest.as_bytes()[middle]));
        rest = &rest[middle + 1..];
    }
    out.push_str(rest);
    out
}

fn escapes(c: char) -> Vec<char> {
    c.escape_default().collect()
}

/// Index after the closing quote of the string that starts `text`.
fn string_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// The first pattern in `text`, as start and length in bytes.
fn first(text: &str) -> Option<(usize, usize)> {
    let lower = text.to_ascii_lowercase();
    WORDS.iter().filter_map(|word| Some((lower.find(word)?, word.len()))).min()
}

fn string(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some((start, _)) = first(rest) {
        // The second character breaks the pattern; spelled as an escape it does not make another one.
        let middle = start + 1;
        out.push_str(&rest[..middle]);
        out.push_str(&format!("\\u{:04x}", rest.as_bytes()[middle]));
        rest = &rest[middle + 1..];
    }
    out.push_str(rest);
}

fn numbers(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let length = rest[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - start);
        out.push_str(&rest[..start]);
        out.push_str(&number(&rest[start..start + length]));
        rest = &rest[start + length..];
    }
    out.push_str(rest);
}

/// `1764014123` → `1764.014123e6`: the point stands inside the pattern.
fn number(digits: &str) -> String {
    let Some((start, _)) = first(digits) else { return digits.to_owned() };
    let (whole, fraction) = digits.split_at(start + 1);
    let exponent = fraction.len();
    let kept = match first(fraction) {
        Some((second, _)) => &fraction[..=second],
        None => fraction,
    };
    let kept = kept.trim_end_matches('0');
    match kept.is_empty() {
        true => format!("{whole}e{exponent}"),
        false => format!("{whole}.{kept}e{exponent}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn calm(line: &str) -> bool {
        first(line).is_none()
    }

    #[test]
    fn the_meaning_stays_and_the_patterns_go() {
        let value = json!({"time": 1_764_014_123_456_u64, "pid": 4403, "host": "a4010", "msg": "Timeout: EPERM, HTTP 403 (4003)"});
        let line = neutral(&value.to_string());
        assert!(calm(&line), "{line}");
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["msg"], value["msg"]);
        assert_eq!(read["host"], value["host"]);
        assert_eq!(read["pid"].as_f64(), Some(4403.0));
        assert_eq!(read["time"].as_f64(), Some(1_764_014_123_456.0));
    }

    #[test]
    fn clean_lines_are_untouched() {
        let line = "{\"level\":30,\"msg\":\"turn \\\"a\\\\\",\"n\":12}\n";
        assert_eq!(neutral(line), line);
    }

    #[test]
    fn text_for_people_is_one_calm_line() {
        assert_eq!(escaped("/tmp/ax-401/a\nb"), "/tmp/ax-4\\x301/a\\nb");
        assert_eq!(escaped("/run/ax/proxy.sock"), "/run/ax/proxy.sock");
        assert!(calm(&escaped("Timeout 400400 EPERM sigkill")));
    }

    proptest! {
        #[test]
        fn any_number_and_any_text(number in any::<u64>(), text in "[a-z0-9 \"\\\\]{0,24}", digits in "[0-5]{1,16}") {
            let value = json!({"n": number, "text": format!("timeout{text}401"), "digits": digits.parse::<u64>().unwrap()});
            let line = neutral(&value.to_string());
            prop_assert!(calm(&line), "{}", line);
            let read: Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(&read["text"], &value["text"]);
        }
    }
}
