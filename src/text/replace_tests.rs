//! Tables, and a comparison with the rule written the slow way.

use super::*;
use proptest::prelude::*;

const MAX: usize = 1 << 20;

fn one(file: &[u8], old: &str, new: &str) -> Result<Vec<u8>, NoEdit> {
    replace(file, old, new, false, MAX).map(|done| done.content)
}

#[test]
fn inserted_line_ends_follow_the_text_they_replace() {
    for (file, old, new, wanted) in [
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
        ("a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n"),
        ("a\nb\n", "b", "x\ny", "a\nx\ny\n"),
        // Each line keeps its own ending.
        ("a\r\nb\nc\r\n", "a\nb\nc\n", "a\nB\nc\n", "a\r\nB\nc\r\n"),
        ("a\r\nb\nc\r\n", "a\nb\nc\n", "a\nc\n", "a\r\nc\r\n"),
        ("a\r\nb\nc", "a\nb", "a\nx\ny", "a\r\nx\r\ny\nc"),
        // A pattern that begins with a line end takes the whole of it.
        ("a\r\nb\r\n", "\nb", "\nc", "a\r\nc\r\n"),
        ("a\r\nb\r\n", "\nb", "", "a\r\n"),
        ("a\r\n\r\nb", "\n\n", "\n", "a\r\nb"),
        // A lone CR is an ordinary byte.
        ("a\rb\nc\n", "a\rb\nc", "a\rB\nc", "a\rB\nc\n"),
        ("a\r\r\nb", "\n", "-", "a\r-b"),
        ("a\rb\r\n", "b", "c\nd", "a\rc\r\nd\r\n"),
        // A pattern that spells out its line ends is matched byte for byte; what is inserted has them too.
        ("a\r\nb\r\n", "a\r\nb", "x\ny", "x\r\ny\r\n"),
        ("a\r\nb\r\n", "a\r\nb\r\n", "x\ny\nz\n", "x\r\ny\r\nz\r\n"),
        ("a\r\nb\nc", "a\r\nb\nc", "x\ny\nz", "x\r\ny\nz"),
        ("a\r\nb\r\n", "\r\nb", "\nx", "a\r\nx\r\n"),
        // Unless they are what the edit is about.
        ("a\r\nb\r\n", "a\r\nb", "a\nb", "a\nb\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "x\r\ny\nz", "x\r\ny\nz\r\n"),
        ("a\r\nb", "\r", "", "a\nb"),
        ("a\r\nb", "\r", "\n", "a\n\nb"),
        // So does a replacement.
        ("a\nb\n", "a", "x\r\ny", "x\r\ny\nb\n"),
        ("a\r\nb", "a\nb", "a\r\nB", "a\r\nB"),
        ("a\nb", "a\nb", "a\r\nb", "a\r\nb"),
        ("a\rb", "a\rb", "a\r\nb", "a\r\nb"),
        ("a\rb\r\n", "a\rb", "a\r\nb", "a\r\nb\r\n"),
        // No line end anywhere, and a last line without one.
        ("ab", "b", "x\ny", "ax\ny"),
        ("a\r\nb", "b", "x\ny", "a\r\nx\r\ny"),
    ] {
        assert_eq!(one(file.as_bytes(), old, new).as_deref(), Ok(wanted.as_bytes()), "{file:?} {old:?} {new:?}");
    }
}

#[test]
fn nothing_is_expanded_and_nothing_is_a_pattern() {
    let new = "$& $$ $1 ${1} ${name} $` $' \\1 \\0 \\n %s {} {{x}} &";
    assert_eq!(one(b"x a.*(b)[c]\\d+^$ y", "a.*(b)[c]\\d+^$", new), Ok(format!("x {new} y").into_bytes()));
}

#[test]
fn refusals_say_how_many_and_where() {
    let text = |result: Result<Vec<u8>, NoEdit>| result.unwrap_err().to_string();
    assert_eq!(one(b"abc", "", "x"), Err(NoEdit::EmptyPattern));
    assert_eq!(one(b"abc", "a", "a"), Err(NoEdit::Same));
    assert_eq!(one(b"a\r\nb", "a\nb", "a\r\nb"), Err(NoEdit::Unchanged));
    assert_eq!(one(b"\xff\xfea\0", "a", "b"), Err(NoEdit::Wide("UTF-16")));
    assert_eq!(one(b"\0\0\xfe\xff\0\0\0a", "a", "bb"), Err(NoEdit::Wide("UTF-32")));
    assert_eq!(one(b"\xff\xfe\0\0a\0\0\0", "a", "bb"), Err(NoEdit::Wide("UTF-32")));
    assert_eq!(one(b"a\xff \xef\xbf\xbd", "\u{fffd}", "b"), Err(NoEdit::Unreadable));
    assert_eq!(one(b"a \xef\xbf\xbd", "\u{fffd}", "b"), Ok(b"a b".to_vec()));
    assert_eq!(one(b"", "a", "b"), Err(NoEdit::NotFound(vec![])));
    assert_eq!(one(b"x\nx\r\n\nx", "x", "y"), Err(NoEdit::Several { count: 3, lines: vec![1, 2, 4] }));
    assert!(text(one(&b"x\n".repeat(20), "x", "y")).contains("20 times (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …)"));
    assert!(text(one(b"alpha   beta\nalpha\tbeta\n", "alpha beta", "x")).contains("at lines 1, 2"));
    assert!(text(one(b"q\n  if x {\n    y\n", "if x {\ny", "z")).contains("at line 2"));
    assert_eq!(replace(b"aaaa", "a", "xyz", true, 11), Err(NoEdit::TooLarge { max: 11 }));
}

#[test]
fn a_byte_order_mark_stays_unless_it_is_all_that_goes() {
    for (file, old, new, wanted) in [
        ("\u{feff}using A;\n", "\u{feff}using A;", "using B;", "\u{feff}using B;\n"),
        ("\u{feff}a\r\nb", "\u{feff}a\r\nb", "x\ny", "\u{feff}x\r\ny"),
        ("\u{feff}a", "\u{feff}a", "\u{feff}b", "\u{feff}b"),
        ("\u{feff}a", "\u{feff}a", "a", "a"),
        ("\u{feff}a", "\u{feff}", "", "a"),
        ("\u{feff}a", "a", "\u{feff}b", "\u{feff}b"),
        // Elsewhere it is a character like any other.
        ("class A{}\n\u{feff}using X;", "\u{feff}using X;", "using Y;", "class A{}\nusing Y;"),
    ] {
        assert_eq!(one(file.as_bytes(), old, new).as_deref(), Ok(wanted.as_bytes()), "{file:?} {old:?} {new:?}");
    }
}

#[test]
fn overlapping_matches_are_several() {
    assert_eq!(one(b"aaa", "aa", "b"), Err(NoEdit::Several { count: 2, lines: vec![1, 1] }));
    let braces = b"  }\n  }\n  }\n";
    assert_eq!(one(braces, "  }\n  }\n", "x"), Err(NoEdit::Several { count: 2, lines: vec![1, 2] }));
    assert_eq!(replace(b"aaaa", "aa", "b", true, MAX), Ok(Replaced { content: b"bb".to_vec(), count: 2 }));
}

#[test]
fn a_long_repetitive_file_takes_no_time() {
    let file = b"\r\n".repeat(1 << 20);
    let pattern = "\n".repeat(200_000) + "x";
    assert_eq!(one(&file, &pattern, "y"), Err(NoEdit::NotFound(vec![])));
    // A replacement with a line end in a file without one must not look for it again and again.
    let done = replace(&b"ab".repeat(1 << 19), "a", "\n", true, 1 << 22).unwrap();
    assert_eq!(done.count, 1 << 19);
}

/// The same rule, written the slow and obvious way.
fn matches(file: &[u8], old: &[u8]) -> Vec<Range<usize>> {
    let literal = old.windows(2).any(|pair| pair == b"\r\n") || old.ends_with(b"\r");
    let end_of = |mut at: usize| {
        for &byte in old {
            let in_crlf = at > 0 && file[at - 1] == b'\r' && file.get(at) == Some(&b'\n');
            if !literal && byte == b'\n' && file[at..].starts_with(b"\r\n") {
                at += 2;
            } else if file.get(at) == Some(&byte) && (literal || byte != b'\n' || !in_crlf) {
                at += 1;
            } else {
                return None;
            }
        }
        // A lone CR of the pattern never is the first half of a line end, nor is one cut in two.
        Some(at)
    };
    let (mut found, mut at) = (Vec::new(), 0);
    while at < file.len() {
        match end_of(at) {
            Some(end) => {
                found.push(at..end);
                at = end;
            }
            None => at += 1,
        }
    }
    found
}

fn file_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(&b"a"[..]), 4 => Just(&b"b"[..]), 3 => Just(&b"\r\n"[..]), 2 => Just(&b"\n"[..]), 1 => Just(&b"\r"[..]),
        1 => Just(&b"\xff"[..]), 1 => Just(&b"\xe9"[..]), 1 => Just(&b"\0"[..]), 1 => Just(&b"\xed\xa0\xbd"[..]),
        1 => Just(&b"\xef\xbf\xbd"[..]), 1 => Just(&b"\xef\xbb\xbf"[..]),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn only_the_matches_change(file in file_bytes(), old in "[ab\n]{1,4}|[ab\r\n]{1,4}", new in "[abc\n]{0,4}", all: bool) {
        let spans = matches(&file, old.as_bytes());
        let result = replace(&file, &old, &new, all, MAX);
        if old == new || wide(&file).is_some() {
            prop_assert!(result.is_err());
            return Ok(());
        }
        match result {
            Err(NoEdit::NotFound(_)) => prop_assert!(spans.is_empty(), "{:?}", spans),
            Err(NoEdit::Several { count, .. }) if spans.len() > 1 => prop_assert!(!all && count == spans.len()),
            Err(NoEdit::Several { .. }) => {
                let within = spans[0].start + 1;
                prop_assert!(!all && !matches(&file[within..], old.as_bytes()).is_empty(), "{:?}", spans);
            }
            Err(NoEdit::Unchanged) => prop_assert!(!spans.is_empty()),
            Err(other) => prop_assert!(false, "{:?}", other),
            Ok(done) => {
                prop_assert_eq!(done.count, spans.len());
                prop_assert!(all || done.count == 1);
                // Everything between the matches is there, in order; each gap holds the new text up to line ends.
                let mut rest = done.content.as_slice();
                let mut at = 0;
                for span in &spans {
                    let kept = &file[at..span.start];
                    prop_assert!(rest.starts_with(kept));
                    rest = &rest[kept.len()..];
                    for byte in new.bytes() {
                        if byte == b'\n' && rest.starts_with(b"\r\n") {
                            rest = &rest[1..];
                        }
                        prop_assert_eq!(rest.first(), Some(&byte));
                        rest = &rest[1..];
                    }
                    at = span.end;
                }
                prop_assert_eq!(rest, &file[at..]);
            }
        }
    }
}
