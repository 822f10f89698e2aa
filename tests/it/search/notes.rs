//! What a search says besides its results: true, bounded, and advice that can be followed.

use super::*;

fn note(found: &Value) -> &str {
    found["note"].as_str().unwrap_or_default()
}

#[test]
fn characters_in_another_encoding_are_matched_or_it_is_said() {
    let place = Place::new(&[("ok.java", "// Author: Jürgen Müller <jm@x>\n"), ("plain", "Author\n")]);
    place.write("old.java", b"// Author: J\xfcrgen M\xfcller <jm@x>\r\npublic String s = \"Gr\xf6\xdfe\";\n");
    place.write("one.po", b"msgid \"Gr\xf6\xdfe\"\n");
    // Long enough for several reads, and shown as it is matched.
    place.write("sjis", &b"\x93\xfa\x96{\x8c\xea \"text\" \x95\\,".repeat(20_000));
    let told = "not UTF-8";
    for (pattern, hits, said) in [
        ("Author: .*<jm", "ok.java old.java", false),
        (r#"msgid "[^"]*"$"#, "one.po", false),
        ("J.rgen", "ok.java old.java", false),
        (r"\bJ\S+ M\S+r\b", "ok.java old.java", false),
        ("Gr..e", "old.java one.po", false),
        (r"[^\s\d]ller", "ok.java old.java", false),
        ("J\u{fffd}rgen", "old.java", false),
        (r#"^(..{1,3}\{.+"text" [^,]+,)+$"#, "sjis", false),
        ("Author:", "ok.java old.java", false),
        (r"Author\s*$|\d{9}", "plain", false),
        (r"(?-u)M\xfcller", "old.java", false),
        (r"J\w+gen", "ok.java", true),
        ("M(ü|ue)ller", "ok.java", true),
        (r"M\x{fc}ller", "ok.java", true),
        (r"\p{L}ller", "ok.java", true),
        ("(?i)JÜRGEN", "ok.java", true),
    ] {
        let found = place.grep(json!({"pattern": pattern, "output_mode": "files"}));
        let files = found["matches"].as_str().unwrap().lines().collect::<Vec<_>>().join(" ");
        assert_eq!((files.as_str(), note(&found).contains(told)), (hits, said), "{pattern}: {found}");
    }
    let found = place.grep(json!({"pattern": "J.*"}));
    assert!(
        found["matches"].as_str().unwrap().contains("old.java:1:// Author: J\u{fffd}rgen M\u{fffd}ller"),
        "{found}"
    );
    let found = place.grep(json!({"pattern": "Müller", "literal": true}));
    assert!(note(&found).starts_with("3 files are not UTF-8 and were searched for ASCII text only"), "{found}");
    // Control characters beyond ASCII are UTF-8, and shown as the other tools show them.
    place.write("c1", "next\u{85}line\u{9b}m\n".as_bytes());
    assert_eq!(place.matches("next"), "c1:1:next\u{85}line\u{9b}m\n");
}
