//! Pages, notes and bounds of `read_file`.

use super::*;
use std::io::Write;

fn note(outcome: &Outcome) -> &str {
    outcome.succeeds().get("note").and_then(Value::as_str).unwrap_or("")
}

fn content(outcome: &Outcome) -> &str {
    outcome.succeeds()["content"].as_str().unwrap()
}

#[test]
fn a_short_file_is_given_whole_and_without_a_word() {
    let place = Place::new();
    for text in ["a\n", "a\r\nb", "\u{feff}x", "\0\u{1b}\u{7f}\"\\ é😀", "\n"] {
        place.put("f", text);
        assert_eq!(place.read(json!({"path": "f"})).result, json!({ "content": text }));
    }
    place.put("f", "");
    assert_eq!(place.read(json!({"path": "f"})).result, json!({"content": "", "note": "the file is empty"}));
}

#[test]
fn pages_join_to_the_whole() {
    let place = Place::new();
    let text: String =
        (1..=5000).map(|n| format!("line {n}: é😀 \"quoted\" \t\\ and some more text to fill it\r\n")).collect();
    place.put("f", &text);
    let (mut whole, mut offset, mut pages) = (String::new(), 1, 0);
    loop {
        let outcome = place.read(json!({"path": "f", "offset": offset}));
        whole.push_str(content(&outcome));
        pages += 1;
        let note = note(&outcome).to_owned();
        match note.split_once("continue with offset ") {
            Some((_, next)) => {
                assert!(note.contains("of 5000 are shown"));
                offset = next.parse::<u64>().unwrap();
            }
            None => {
                assert!(note.ends_with("-5000 of 5000 are shown: the end of the file"), "{note}");
                break;
            }
        }
    }
    assert!(pages > 1);
    assert_eq!(whole, text);
}

#[test]
fn lines_are_counted_from_one() {
    let place = Place::new();
    place.put("f", "a\nb\nc\nd");
    let some = |offset: u64, limit: u64| place.read(json!({"path": "f", "offset": offset, "limit": limit}));
    assert_eq!(
        (content(&some(2, 2)), note(&some(2, 2))),
        ("b\nc\n", "lines 2-3 of 4 are shown; continue with offset 4")
    );
    assert_eq!((content(&some(4, 9)), note(&some(4, 9))), ("d", "lines 4-4 of 4 are shown: the end of the file"));
    assert_eq!((content(&some(1, u64::MAX)), note(&some(1, u64::MAX))), ("a\nb\nc\nd", ""));
    some(5, 1).fails_with("offset 5 is past the end: f has 4 lines");
    some(u64::MAX, u64::MAX).fails_with("past the end");
    for (offset, limit) in [
        (json!(0), json!(1)),
        (json!(-1), json!(1)),
        (json!(1.5), json!(1)),
        (json!("1"), json!(1)),
        (json!(1), json!(0)),
    ] {
        assert!(place.read(json!({"path": "f", "offset": offset, "limit": limit})).unasked);
    }
    assert!(place.read(json!({"path": 1})).unasked);
    assert!(place.read(json!({"path": "f", "encoding": "x"})).unasked);
    assert_eq!(content(&place.read(json!({"path": "f", "offset": null, "limit": null}))), "a\nb\nc\nd");
}

#[test]
fn whatever_the_bytes_the_result_is_bounded_and_says_so() {
    let place = Place::new();
    // No text at all; one line of many-byte characters; lines of nothing but quotes.
    place.put("nul", vec![0; 300_000]);
    let outcome = place.read(json!({"path": "nul"}));
    assert!(content(&outcome).len() == 2000 && note(&outcome).contains("is not text"), "{}", note(&outcome));
    place.put("few", vec![0; 2000]);
    assert_eq!(content(&place.read(json!({"path": "few"}))).len(), 2000);
    // Text in another encoding is no text to us either, but a person can read it.
    place.put("latin", b"caf\xe9 na\xefve\n".repeat(3000));
    assert!(note(&place.read(json!({"path": "latin"}))).contains("not UTF-8"));
    place.put("wide", "😀".repeat(100_000));
    let outcome = place.read(json!({"path": "wide"}));
    assert!(!content(&outcome).contains('\u{fffd}') && content(&outcome).len() == 100_000);
    place.put("cut", format!("a{}", "é".repeat(100_000)));
    let outcome = place.read(json!({"path": "cut"}));
    assert!(!content(&outcome).contains('\u{fffd}') && content(&outcome).len() == 99_999);
    place.put("quotes", "\"\\\n".repeat(50_000));
    let outcome = place.read(json!({"path": "quotes"}));
    assert!(content(&outcome).ends_with('\n') && note(&outcome).contains("of 50000 are shown; continue with offset"));
    place.put("second", format!("short\n{}\nlast\n", "x".repeat(200_000)));
    assert_eq!(content(&place.read(json!({"path": "second"}))), "short\n");
    let outcome = place.read(json!({"path": "second", "offset": 2}));
    assert!(note(&outcome).contains("line 2 is very long") && note(&outcome).contains("continue with offset 3"));
    assert_eq!(content(&place.read(json!({"path": "second", "offset": 3}))), "last\n");
    // The advice for the rest of a line is to be had as it stands there: from the first byte that was not shown.
    for (text, bytes) in [("é".repeat(150_000).into_bytes(), 100_000), (b"ab\xff".repeat(70_000), 100_000)] {
        place.put("advice", [b"x\n".as_slice(), &text, b"\n"].concat());
        let outcome = place.read(json!({"path": "advice", "offset": 2}));
        let (shown, said) = (content(&outcome), note(&outcome));
        let rest = format!("sed -n 2p FILE | cut -b {}-{}", bytes + 1, bytes + 25_000);
        assert!(said.contains(&format!("only its first {bytes} bytes are shown")) && said.contains(&rest), "{said}");
        assert_eq!(shown, String::from_utf8_lossy(&text[..bytes]), "{said}");
    }
}

#[test]
fn a_huge_file_is_paged_and_not_loaded() {
    let place = Place::new();
    let mut file = std::fs::File::create(place.at("huge")).unwrap();
    file.write_all(b"first\nsecond\n").unwrap();
    file.set_len(4 << 30).unwrap();
    let outcome = place.read(json!({"path": "huge", "limit": 2}));
    assert_eq!(content(&outcome), "first\nsecond\n");
    assert!(note(&outcome).contains("of more than 3 are shown"), "{}", note(&outcome));
    place.read(json!({"path": "huge", "offset": 9})).fails_with("use bash");
}

#[test]
fn other_encodings_are_named() {
    let place = Place::new();
    place.put("u16", b"\xff\xfeh\0i\0\n\0");
    assert!(note(&place.read(json!({"path": "u16"}))).contains("UTF-16"));
    place.put("u32", b"\xff\xfe\0\0h\0\0\0");
    assert!(note(&place.read(json!({"path": "u32"}))).contains("iconv -f UTF-32"));
    place.put("latin", b"caf\xe9\n");
    let outcome = place.read(json!({"path": "latin"}));
    assert_eq!(content(&outcome), "caf\u{fffd}\n");
    assert!(note(&outcome).contains("not UTF-8"));
    place.put("real", "caf\u{fffd}\n");
    assert_eq!(note(&place.read(json!({"path": "real"}))), "");
}

#[test]
fn failures_name_the_path_as_it_was_written() {
    let place = Place::new();
    place.put("dir/f", "x");
    place
        .read(json!({"path": "./missing//x"}))
        .fails_with("Error reading file: ./missing//x: no such file or directory");
    place.read(json!({"path": "dir/f/x"})).fails_with("not a directory");
    place.read(json!({"path": "dir"})).fails_with("dir: is a directory");
    place.read(json!({"path": "dir/f/"})).fails_with("ends with a slash");
    place.read(json!({"path": "dir/f/."})).fails_with("(or /.)");
    place.read(json!({"path": "."})).fails_with("is a directory");
    place.read(json!({"path": ""})).fails_with("empty");
    place.read(json!({"path": "a\u{0}b"})).fails_with("NUL");
    place.read(json!({"path": "x".repeat(256)})).fails_with("255");
}
