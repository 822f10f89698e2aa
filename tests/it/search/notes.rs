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

#[test]
fn a_path_too_long_to_be_given_is_shortened_and_not_advised() {
    let place = Place::new(&[]);
    let name = "x".repeat(204);
    let open = |at: &std::os::fd::OwnedFd, name: &str| {
        nix::fcntl::openat(at, name, nix::fcntl::OFlag::O_DIRECTORY, nix::sys::stat::Mode::empty()).unwrap()
    };
    let flags = nix::fcntl::OFlag::O_DIRECTORY;
    let top = nix::fcntl::open(&place.root(), flags, nix::sys::stat::Mode::empty()).unwrap();
    let mut dir = top;
    for level in 0..270 {
        nix::sys::stat::mkdirat(&dir, name.as_str(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        dir = open(&dir, &name);
        if level == 20 {
            for (name, target) in [("link-a", "."), ("link-b", "."), ("link-c", ".")] {
                nix::unistd::symlinkat(target, &dir, name).unwrap();
            }
        }
    }
    for found in [place.glob(json!({"pattern": "*.zz"})), place.grep(json!({"pattern": "zz"}))] {
        let note = note(&found);
        assert!(note.len() < 3000 && note.contains('…'), "{note}");
        assert!(note.contains("cannot be given to a tool, so use bash there"), "{note}");
        assert!(note.ends_with("use bash there.") && note.contains("3 symbolic links were not followed (x"), "{note}");
    }
    // Deep, but short enough: it is named whole and can be searched.
    let short = Place::new(&[]);
    let deep = vec!["d"; 300].join("/");
    short.write(format!("{deep}/f"), b"needle\n");
    let found = short.grep(json!({"pattern": "needle"}));
    let path = note(&found).split(['(', ')']).nth(1).unwrap().to_owned();
    assert!(note(&found).ends_with("): name one as path to search it."), "{found}");
    assert_eq!(short.grep(json!({"pattern": "needle", "path": path}))["count"], 1, "{path}");
    remove_levels(&place.root(), &name);
}

/// Removes the same name below itself, level by level.
fn remove_levels(root: &Path, name: &str) {
    while root.join(name).exists() {
        let top = root.join(name);
        if top.join(name).exists() {
            std::fs::rename(top.join(name), root.join("next")).unwrap();
        }
        std::fs::remove_dir_all(&top).unwrap();
        if root.join("next").exists() {
            std::fs::rename(root.join("next"), top).unwrap();
        }
    }
}

#[test]
fn a_pattern_that_selects_nothing_is_explained() {
    let place = Place::new(&[("src/a.rs", "x\n"), ("src/sub/b.py", "x\n")]);
    let root = place.root().display().to_string();
    for (glob, path, wanted) in [
        ("!*.java", ".", Some("no negation here")),
        ("!src/**", ".", Some("no negation here")),
        ("src", ".", Some("src is a directory; use src/** for")),
        ("sub", "src", Some("sub is a directory; use sub/** for")),
        (&root, ".", Some(". is a directory; use ./** for")),
        ("*.java,*.kt", ".", Some("write several in braces")),
        ("*.java *.kt", ".", Some("write several in braces")),
        ("*.java|*.kt", ".", Some("write several in braces")),
        ("*.{java,kt}", ".", None),
        ("*.java", ".", None),
    ] {
        let calls = [
            place.glob(json!({"pattern": glob, "path": path})),
            place.grep(json!({"pattern": "x", "glob": glob, "path": path})),
        ];
        // A leading ! has its meaning only where grep filters by it.
        for found in calls.iter().take(if glob.starts_with('!') { 1 } else { 2 }) {
            assert_eq!(found["count"], 0, "{glob}: {found}");
            match wanted {
                Some(wanted) => assert!(note(found).contains(wanted), "{glob}: {found}"),
                None => assert!(found["note"].is_null(), "{glob}: {found}"),
            }
        }
    }
    for glob in ["src/**", "./**", "sub/**", &format!("{root}/**"), "{src,tests}/**", "!*.java", "!.git/**"] {
        let found = place.grep(json!({"pattern": "x", "glob": glob, "path": "src"}));
        assert!(found["count"] != 0 && found["note"].is_null(), "{glob}: {found}");
    }
}

#[test]
fn more_than_the_most_results_is_not_advised() {
    let place = Place::new(&[("lines", &"\n".repeat(10_001))]);
    for at in 0..10_001 {
        place.write(format!("f/{at}"), b"");
    }
    for most in [9_999, 10_000] {
        let raise = "raise max_results (at most 10000)";
        let found =
            place.grep(json!({"pattern": "^", "path": "lines", "include_line_numbers": false, "max_results": most}));
        let listed = place.glob(json!({"pattern": "*", "path": "f", "max_results": most}));
        for found in [found, listed] {
            assert_eq!((&found["count"], &found["truncated"]), (&json!(most), &json!(true)));
            assert_eq!(note(&found).contains(raise), most < 10_000, "{}", note(&found));
            assert!(note(&found).contains("narrow the pattern"), "{}", note(&found));
        }
    }
    let wide = "w".repeat(200);
    for at in 0..600 {
        place.write(format!("w/{wide}{at}"), b"");
    }
    let listed = place.glob(json!({"pattern": "*", "path": "w", "max_results": 10_000}));
    assert!(note(&listed).contains("of 600 files, cut at the size limit") && !note(&listed).contains("raise"));
}
