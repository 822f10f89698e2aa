//! `grep` and `glob`, attacked through the library.

mod ignored;
mod notes;

use crate::files::approved;
use ax_runner::tools::{Finished, arguments, glob, grep};
use ax_runner::workspace::Workspace;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A workspace beside a directory nothing may come from.
struct Place {
    base: TempDir,
    ws: Workspace,
    cancel: CancellationToken,
}

const CANARY: &str = "CANARY-51c0";

impl Place {
    fn new(files: &[(&str, &str)]) -> Self {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(base.path().join("ws")).unwrap();
        std::fs::create_dir_all(base.path().join("out/sub")).unwrap();
        std::fs::write(base.path().join("out/secret"), CANARY).unwrap();
        std::fs::write(base.path().join("out/sub/secret"), CANARY).unwrap();
        let ws = Workspace::open(&base.path().join("ws")).unwrap();
        let place = Self { base, ws, cancel: CancellationToken::new() };
        files.iter().for_each(|(path, text)| place.write(path, text.as_bytes()));
        place
    }

    fn root(&self) -> std::path::PathBuf {
        self.base.path().join("ws")
    }

    fn write(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn grep(&self, args: Value) -> Value {
        let args = arguments::read("grep", Some(&args.to_string())).map_err(|error| error.to_string());
        let call = args.and_then(|args| grep::Call::prepare(args, &self.ws));
        result(call.map(|call| grep::run(approved(call), &self.ws, &self.cancel)))
    }

    fn glob(&self, args: Value) -> Value {
        let args = arguments::read("glob", Some(&args.to_string())).map_err(|error| error.to_string());
        let call = args.and_then(|args| glob::Call::prepare(args, &self.ws));
        result(call.map(|call| glob::run(approved(call), &self.ws, &self.cancel)))
    }

    fn files(&self, pattern: &str) -> Vec<String> {
        serde_json::from_value(self.glob(json!({"pattern": pattern}))["files"].clone()).unwrap_or_default()
    }

    fn matches(&self, pattern: &str) -> String {
        self.grep(json!({"pattern": pattern}))["matches"].as_str().unwrap_or_default().to_owned()
    }
}

fn result(finished: Result<Finished, String>) -> Value {
    match finished {
        Err(error) => json!({"refused": error}),
        Ok(finished) => {
            assert!(finished.report.is_some());
            assert!(finished.text.encode_utf16().count() <= 200_000);
            serde_json::from_str(&finished.text).unwrap()
        }
    }
}

#[test]
fn a_pattern_is_never_an_option() {
    let place = Place::new(&[]);
    let marker = place.root().join("PWNED");
    let script = format!("#!/bin/sh\ntouch {}\n", marker.display());
    place.write("p.sh", script.as_bytes());
    std::fs::set_permissions(place.root().join("p.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let pre = format!("--pre={}", place.root().join("p.sh").display());
    let texts = [&pre, "-f/etc/passwd", "--help", "-e", "--", "-w", "--hostname-bin=x", "-rf"];
    place.write("-rf", texts.join("\n").as_bytes());
    for text in texts {
        for args in [json!({"pattern": text}), json!({"pattern": text, "literal": true, "path": "-rf"})] {
            let found = place.grep(args);
            assert!(found["matches"].as_str().unwrap().contains(text), "{text}: {found}");
        }
        let found = place.grep(json!({"pattern": "x", "glob": text}));
        assert!(found["matches"].is_string(), "{found}");
    }
    assert_eq!(place.files("-rf"), ["-rf"]);
    assert_eq!(place.files("--pre=*"), Vec::<String>::new());
    assert!(!marker.exists());
}

#[test]
fn truncated_is_exact_and_the_order_never_changes() {
    let place = Place::new(&[]);
    for at in 0..200 {
        place.write(format!("d{}/f{at}.txt", at % 7), b"hit\nmiss\n");
    }
    place.write("many.md", "hit\n".repeat(500).as_bytes());
    for (glob, most, count, truncated) in [
        ("*.txt", 200, 200, false),
        ("*.txt", 199, 199, true),
        ("*.txt", 201, 200, false),
        ("*.md", 100, 100, true),
        ("*.md", 500, 500, false),
        ("*.md", 499, 499, true),
        ("*.md", 1, 1, true),
    ] {
        let found = place.grep(json!({"pattern": "hit", "glob": glob, "max_results": most}));
        assert_eq!((&found["count"], &found["truncated"]), (&json!(count), &json!(truncated)), "{glob} {most}");
        assert_eq!(found["matches"].as_str().unwrap().lines().count(), count);
    }
    for (most, truncated) in [(200, false), (199, true), (201, false)] {
        let found = place.glob(json!({"pattern": "*.txt", "max_results": most}));
        assert_eq!(found["truncated"], truncated);
        assert_eq!(found["files"].as_array().unwrap().len(), most.min(200));
        assert_eq!(found["count"], most.min(200));
        for mode in ["files", "count"] {
            let found =
                place.grep(json!({"pattern": "hit", "glob": "*.txt", "max_results": most, "output_mode": mode}));
            assert_eq!((&found["count"], &found["truncated"]), (&json!(most.min(200)), &json!(truncated)), "{mode}");
        }
    }
    let first = place.grep(json!({"pattern": "hit", "max_results": 50}));
    let lines: Vec<&str> = first["matches"].as_str().unwrap().lines().collect();
    assert!(lines.is_sorted(), "{lines:?}");
    for _ in 0..20 {
        assert_eq!(place.grep(json!({"pattern": "hit", "max_results": 50})), first);
    }
    assert!(place.files("**").is_sorted());
    assert!(
        place.glob(json!({"pattern": "*.txt", "max_results": 3}))["note"].as_str().unwrap().contains("first 3 of 200")
    );
    let count = place.grep(json!({"pattern": "hit", "glob": "many.md", "output_mode": "count"}));
    assert_eq!(count["matches"], "many.md:500\n");
}

#[test]
fn a_match_in_a_huge_line_is_shown_and_the_rest_is_not() {
    let place = Place::new(&[("min.js", &format!("{}NEEDLE{}", "é".repeat(1_250_000), "x".repeat(2_500_000)))]);
    let found = place.grep(json!({"pattern": "NEEDLE"}));
    let shown = found["matches"].as_str().unwrap();
    assert!(shown.contains("NEEDLE") && shown.contains("[line of 5000006 bytes cut]"), "{shown}");
    assert!(shown.len() < 600 && !shown.contains('\u{fffd}'));
    // Longer than can be held: what comes before is searched, and it is said.
    place.write("huge", format!("NEEDLE\n{}NEEDLE", "x".repeat(40_000_000)).as_bytes());
    let found = place.grep(json!({"pattern": "NEEDLE", "path": "huge"}));
    assert_eq!(found["matches"], "huge:1:NEEDLE\n");
    assert!(found["note"].as_str().unwrap().contains("line too long"), "{found}");
    // Many of them together stay bounded too.
    place.write("wide.txt", format!("{}\n", "\u{1}".repeat(390)).repeat(5000).as_bytes());
    let found = place.grep(json!({"pattern": "\u{1}", "max_results": 10_000}));
    assert_eq!(found["truncated"], true);
    assert!(found["note"].as_str().unwrap().contains("size limit"));
}

#[test]
fn nothing_outside_is_found_or_told_apart() {
    let place = Place::new(&[("foo..bar/a.txt", "x"), ("in/file", "x"), ("file", "y")]);
    let out = place.base.path().join("out");
    symlink(&out, place.root().join("l")).unwrap();
    symlink("../out", place.root().join("rel")).unwrap();
    symlink(out.join("secret"), place.root().join("leaf")).unwrap();
    symlink(out.join("missing"), place.root().join("dangling")).unwrap();
    let absolute = format!("{}/*", out.display());
    for pattern in [
        "../out/*",
        "../out/secret",
        "../nothing/*",
        &absolute,
        "/etc/*",
        "*/../../out/*",
        "{..,..}/out/*",
        "{.,..}/out/*",
        "[.][.]/out/*",
        "l/**",
        "l/*",
        "rel/**",
        "**/secret",
        "leaf",
        "../**",
        "in/../../out/*",
    ] {
        let found = place.glob(json!({"pattern": pattern}));
        assert_eq!(found["files"], json!([]), "{pattern}: {found}");
        let text = found.to_string();
        assert!(!text.contains("secret") || pattern.contains("secret"), "{text}");
        let found = place.grep(json!({"pattern": ".", "glob": pattern}));
        assert!(!found.to_string().contains(CANARY), "{pattern}: {found}");
    }
    for (existing, missing) in [("l/secret", "l/nothing"), ("leaf", "dangling"), ("../out/secret", "../out/nothing")] {
        let answers = [existing, missing].map(|path| {
            let told = place.grep(json!({"pattern": ".", "path": path})).to_string();
            assert!(!told.contains(CANARY) && told.contains("refused"), "{told}");
            told.replace(path, "P").replace("leaf", "L").replace("dangling", "L")
        });
        assert_eq!(answers[0], answers[1]);
    }
    for path in ["l", "rel", "..", "/etc", "l/sub"] {
        let (found, listed) =
            (place.grep(json!({"pattern": ".", "path": path})), place.glob(json!({"pattern": "*", "path": path})));
        assert!(found["refused"].is_string() && listed["refused"].is_string(), "{path}: {found} {listed}");
    }
    assert_eq!(place.matches(CANARY), "");
    assert_eq!(place.files("foo..bar/*.txt"), ["foo..bar/a.txt"]);
    assert_eq!(place.files(&format!("{}/in/*", place.root().display())), ["in/file"]);
}

#[test]
fn links_swapped_during_a_search_lead_nowhere() {
    let place = Place::new(&[("a/f", "x"), ("z", "x")]);
    for at in 0..300 {
        place.write(format!("a/d{at}/f"), b"x");
    }
    let (root, out) = (place.root(), place.base.path().join("out"));
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                std::fs::rename(root.join("a"), root.join("b")).unwrap();
                symlink(&out, root.join("a")).unwrap();
                std::fs::remove_file(root.join("a")).unwrap();
                std::fs::rename(root.join("b"), root.join("a")).unwrap();
            }
        });
        for _ in 0..150 {
            assert!(!place.grep(json!({"pattern": "."})).to_string().contains(CANARY));
            assert!(!place.glob(json!({"pattern": "**/secret"}))["files"].to_string().contains("secret"));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn text_that_is_not_quite_text_is_searched_or_named() {
    let place = Place::new(&[("crlf", "foo\r\nbar\r\n")]);
    let mut late = "text line\n".repeat(900).into_bytes();
    late.extend(b"\0\nfoo here\n");
    place.write("late-nul", &late);
    place.write("latin1", b"caf\xe9 foo\n");
    let utf16: Vec<u8> = "\u{feff}x\nfoo 16\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    place.write("utf16", &utf16);
    let utf16be: Vec<u8> = "\u{feff}foo be\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    place.write("utf16be", &utf16be);
    place.write("bom", b"\xef\xbb\xbffoo bom\n");
    place.write("early-nul", b"foo\0\n");
    let utf32: Vec<u8> = "\u{feff}foo\n".chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    place.write("utf32", &utf32);
    place.write("a.gz", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x4b, 0xcb, 0xcf, 7, 0]);
    let found = place.grep(json!({"pattern": "foo"}));
    let wanted = "bom:1:foo bom\ncrlf:1:foo\nlate-nul:902:foo here\nlatin1:1:caf\u{fffd} foo\nutf16:2:foo 16\nutf16be:1:foo be\n";
    assert_eq!(found["matches"], wanted);
    assert!(
        found["note"].as_str().unwrap().contains("3 binary files were not searched (a.gz, early-nul, utf32)"),
        "{found}"
    );
    let found = place.grep(json!({"pattern": "é foo"}));
    let note = "1 file is not UTF-8 and was searched for ASCII text only (latin1)";
    assert!(found["matches"] == "" && found["note"].as_str().unwrap().contains(note), "{found}");
    assert_eq!(place.matches("foo$"), "crlf:1:foo\nlatin1:1:caf\u{fffd} foo\n");
    assert_eq!(place.matches("^bar$"), "crlf:2:bar\n");
    assert_eq!(place.matches("^foo bom"), "bom:1:foo bom\n");
}

#[test]
fn a_lone_cr_ends_no_line() {
    let place = Place::new(&[("f", "foo\rbar\r\nfoo\r\n\rfoo\nfoo\r\r\nfoo")]);
    let utf16: Vec<u8> = "\u{feff}foo\rbar\r\nfoo\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    place.write("g", &utf16);
    for (pattern, wanted) in [
        ("^foo$", "f:2:foo\nf:5:foo\ng:2:foo\n"),
        ("foo$", "f:2:foo\nf:3:\u{240d}foo\nf:5:foo\ng:2:foo\n"),
        ("^bar|^$|^.foo|.foo$", "f:3:\u{240d}foo\n"),
        ("foo.bar", "f:1:foo\u{240d}bar\ng:1:foo\u{240d}bar\n"),
        ("foo\\s+$", "f:4:foo\u{240d}\n"),
        ("^[^b]*$", "f:2:foo\nf:3:\u{240d}foo\nf:4:foo\u{240d}\nf:5:foo\ng:2:foo\n"),
    ] {
        assert_eq!(place.matches(pattern), wanted, "{pattern}");
    }
}

#[test]
fn hidden_files_are_found_ignored_ones_only_when_named() {
    for repository in [false, true] {
        let place = Place::new(&[
            (".github/workflows/ci.yml", "hit"),
            (".env", "hit"),
            (".git/config", "hit"),
            ("sub/.git", "hit"),
            (".gitignore", "target/\n*.log\n!keep.log\n/only-root\nbuild/**\n"),
            ("target/out.txt", "hit"),
            ("a.log", "hit"),
            ("keep.log", "hit"),
            ("only-root", "hit"),
            ("sub/only-root", "hit"),
            ("sub/.gitignore", "*.tmp\n!a.log\n"),
            ("sub/a.log", "hit"),
            ("sub/b.tmp", "hit"),
            ("b.tmp", "hit"),
            ("build/x/y.txt", "hit"),
        ]);
        if !repository {
            std::fs::remove_dir_all(place.root().join(".git")).unwrap();
        }
        let wanted = [".env", ".github/workflows/ci.yml", "b.tmp", "keep.log", "sub/a.log", "sub/only-root"];
        let found = place.grep(json!({"pattern": "hit", "output_mode": "files"}));
        assert_eq!(found["matches"].as_str().unwrap().lines().collect::<Vec<_>>(), wanted);
        let note = found["note"].as_str().unwrap();
        assert!(
            note.starts_with("5 entries hidden by .gitignore were not searched (a.log, build/x/, only-root, …)"),
            "{note}"
        );
        let listed: Vec<String> = place.files("**").into_iter().filter(|file| !file.contains(".gitignore")).collect();
        assert_eq!(listed, wanted);
        for (pattern, wanted) in [
            ("target/*.txt", "target/out.txt"),
            ("target/out.txt", "target/out.txt"),
            ("out.txt", ""),
            ("a.log", "a.log sub/a.log"),
            ("sub/b.tmp", "sub/b.tmp"),
            ("build/x/*", "build/x/y.txt"),
            ("build/**", ""),
            (".github/**", ".github/workflows/ci.yml"),
            (".git/*", ""),
            ("*.log", "keep.log sub/a.log"),
        ] {
            assert_eq!(place.files(pattern).join(" "), wanted, "{pattern}");
        }
        for (path, wanted) in [
            ("target", "target/out.txt:1:hit\n"),
            ("a.log", "a.log:1:hit\n"),
            ("build/x", "build/x/y.txt:1:hit\n"),
            ("sub", "sub/a.log:1:hit\nsub/only-root:1:hit\n"),
        ] {
            assert_eq!(place.grep(json!({"pattern": "hit", "path": path}))["matches"], wanted, "{path}");
        }
    }
}

#[test]
fn pipes_sockets_and_devices_hold_nothing_up() {
    let place = Place::new(&[("f", "hit"), ("d/f", "hit")]);
    for path in [".gitignore", "pipe", "d/.gitignore"] {
        nix::unistd::mkfifo(&place.root().join(path), nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    let _socket = std::os::unix::net::UnixListener::bind(place.root().join("sock")).unwrap();
    symlink("/dev/zero", place.root().join("zero")).unwrap();
    let found = place.grep(json!({"pattern": "hit"}));
    assert_eq!(found["matches"], "d/f:1:hit\nf:1:hit\n");
    let note = found["note"].as_str().unwrap();
    assert!(note.contains("1 symbolic link was not followed (zero)") && note.contains("4 pipes, sockets"), "{note}");
    for path in ["pipe", "sock"] {
        let told = place.grep(json!({"pattern": "x", "path": path}));
        assert!(told["error"].as_str().unwrap().contains(if path == "pipe" { "pipe" } else { "socket" }), "{told}");
    }
}

#[test]
fn context_belongs_to_the_matches_that_are_shown() {
    let place = Place::new(&[("a", "1\nhit 2\n3\n4\n5\n6\n7\nhit 8\n9\n"), ("b", "hit\n")]);
    let show = |args: Value| place.grep(args)["matches"].as_str().unwrap().to_owned();
    let all = "a-1-1\na:2:hit 2\na-3-3\n--\na-7-7\na:8:hit 8\na-9-9\n--\nb:1:hit\n";
    assert_eq!(show(json!({"pattern": "hit", "context_lines": 1})), all);
    for (most, wanted) in [(1, "a-1-1\na:2:hit 2\na-3-3\n"), (2, &all[..all.len() - 11]), (3, all)] {
        let found = place.grep(json!({"pattern": "hit", "context_lines": 1, "max_results": most}));
        assert_eq!(found["matches"], wanted);
        assert_eq!((&found["count"], &found["truncated"]), (&json!(most), &json!(most < 3)));
    }
    assert_eq!(
        show(json!({"pattern": "HIT", "ignore_case": true, "include_line_numbers": false})),
        "a:hit 2\na:hit 8\nb:hit\n"
    );
    assert_eq!(show(json!({"pattern": "hit", "path": "./a"})), "a:2:hit 2\na:8:hit 8\n");
}

#[test]
fn what_is_wrong_with_a_call_is_said_before_anyone_is_asked() {
    let place = Place::new(&[("d/f", "a.b\n"), ("g", "axb\n")]);
    for (args, wanted) in [
        (json!({"pattern": "foo("}), "bad pattern at character 4: unclosed group; escape"),
        (json!({"pattern": "(a{1000}){1000}"}), "bad pattern"),
        (json!({"pattern": "a\n)"}), "at character 1: unopened group"),
        (json!({"pattern": "é[z-a]"}), "at character 3: invalid character class range"),
        (json!({"pattern": "\\pX"}), "at character 1: Unicode property not found"),
        (json!({"pattern": "a\nb"}), "within one line"),
        (json!({"pattern": "a\\nb"}), "within one line"),
        (json!({"pattern": "foo\\r?$"}), "`$` matches before LF and CRLF alike"),
        (json!({"pattern": "foo\\x0d"}), "`$` matches before LF and CRLF alike"),
        (json!({"pattern": "foo\r", "literal": true}), "`$` matches before LF and CRLF alike"),
        (json!({"pattern": "[\\r\\n]+"}), "within one line"),
        (json!({"pattern": "foo\\z"}), "use ^ and $ instead of"),
        (json!({"pattern": "\\Afoo"}), "use ^ and $ instead of"),
        (json!({"pattern": "a|(?-m)foo$"}), "use ^ and $ instead of"),
        (json!({"pattern": "a\0"}), "NUL"),
        (json!({"pattern": "a".repeat(10_001)}), "10001 characters; the limit is 10000"),
        (json!({"pattern": "a", "glob": "["}), "field `glob`: bad glob pattern"),
        (json!({"pattern": "a", "path": "a\0"}), "NUL"),
        (json!({"pattern": "a", "max_results": 0}), "field `max_results` must be a whole number from 1 to 10000"),
        (json!({"pattern": "a", "max_results": 10_001}), "from 1 to 10000; received 10001"),
        (json!({"pattern": "a", "max_results": "3"}), "from 1 to 10000; received \"3\""),
        (json!({"pattern": "a", "max_results": 1e300}), "from 1 to 10000; received 1e+300"),
        (json!({"pattern": "a", "context_lines": 21}), "from 0 to 20; received 21"),
        (json!({"pattern": "a", "context_lines": -1}), "from 0 to 20; received -1"),
        (
            json!({"pattern": "a", "output_mode": "x"}),
            "field `output_mode` must be one of \"content\", \"files\", \"count\"; received \"x\"",
        ),
        (json!({"pattern": "a", "pre": "x"}), "unknown field \"pre\"; allowed: pattern, path"),
        (json!({}), "field `pattern` is missing"),
    ] {
        let told = place.grep(args.clone());
        assert!(told["refused"].as_str().is_some_and(|text| text.contains(wanted)), "{args}: {told}");
    }
    assert!(place.glob(json!({"pattern": ""}))["refused"].as_str().unwrap().contains("empty"));
    assert!(place.grep(json!({"pattern": "x", "path": "none"}))["error"].as_str().unwrap().contains("none"));
    assert_eq!(place.grep(json!({"pattern": "a.b", "literal": true}))["matches"], "d/f:1:a.b\n");
    assert_eq!(place.grep(json!({"pattern": "(?x) a \\. b # a comment"}))["matches"], "d/f:1:a.b\n");
    for (pattern, path) in [("../g", "d"), ("d/../g", "."), ("*/../g", ".")] {
        let found = place.glob(json!({"pattern": pattern, "path": path}));
        assert!(found["note"].as_str().unwrap().contains("give a directory of the workspace as path"), "{found}");
    }
    assert_eq!(place.files("d//f"), ["d/f"]);
    place.write(".git/config", b"x");
    assert!(place.glob(json!({"pattern": ".git/*"}))["note"].as_str().unwrap().contains("given as path"));
    assert_eq!(place.glob(json!({"pattern": "*", "path": ".git"}))["files"], json!([".git/config"]));
    assert!(place.glob(json!({"pattern": "d"}))["note"].as_str().unwrap().contains("d is a directory; use d/**"));
    assert!(place.glob(json!({"pattern": "*", "path": "g"}))["note"].as_str().unwrap().contains("is a file"));
}

#[test]
fn odd_names_are_found_under_their_own_name() {
    let place = Place::new(&[]);
    let names =
        [" lead", "trail ", "new\nline", "q\"uote", "$HOME", "[...slug].ts", "...x", "a:b:c.txt", "é😀", "--help"];
    for name in names {
        place.write(name, b"hit");
    }
    place.write(std::ffi::OsStr::from_bytes(b"bad\xff"), b"hit");
    let files = place.files("*");
    assert_eq!(files.len(), names.len() + 1);
    assert!(names.iter().all(|name| files.iter().any(|file| file == name)), "{files:?}");
    assert!(files.contains(&"bad\u{fffd}".to_owned()));
    for found in [place.glob(json!({"pattern": "bad*"})), place.grep(json!({"pattern": "hit"}))] {
        assert!(found["note"].as_str().is_some_and(|note| note.contains("a byte that is not UTF-8")), "{found}");
    }
    let found = place.matches("hit");
    assert_eq!(found.lines().count(), names.len() + 1);
    assert!(found.contains("new\\nline:1:hit\n"));
    for name in names {
        assert_eq!(place.grep(json!({"pattern": "hit", "path": name}))["count"], 1, "{name:?}");
    }
    assert_eq!(place.files("\\[...slug].ts"), ["[...slug].ts"]);
}

#[test]
fn deep_and_cancelled_walks_end() {
    let place = Place::new(&[]);
    // Made step by step: no system call takes a path this long.
    let mut dir =
        nix::fcntl::open(&place.root(), nix::fcntl::OFlag::O_DIRECTORY, nix::sys::stat::Mode::empty()).unwrap();
    for _ in 0..2000 {
        nix::sys::stat::mkdirat(&dir, "d", nix::sys::stat::Mode::S_IRWXU).unwrap();
        dir = nix::fcntl::openat(&dir, "d", nix::fcntl::OFlag::O_DIRECTORY, nix::sys::stat::Mode::empty()).unwrap();
    }
    let found = place.glob(json!({"pattern": "**"}));
    assert!(found["note"].as_str().unwrap().contains("too deep"), "{found}");
    place.write("f", &vec![b'x'; 64 << 20]);
    place.cancel.cancel();
    for path in [".", "f"] {
        let found = place.grep(json!({"pattern": "y", "path": path}));
        assert_eq!(found["truncated"], true);
        let advice = if path == "f" { "a simpler pattern" } else { "a smaller path" };
        let note = found["note"].as_str().unwrap();
        assert!(note.contains("Cancelled") && note.contains(advice), "{found}");
    }
    remove_deep(&place.root());
}

/// Removes `d/d/d/…` by lifting levels up: recursive removal would hold a descriptor for each.
fn remove_deep(root: &Path) {
    loop {
        let (top, next) = (root.join("d"), root.join("d/d"));
        if !next.exists() {
            std::fs::remove_dir(top).unwrap();
            return;
        }
        std::fs::rename(next, root.join("e")).unwrap();
        std::fs::remove_dir(&top).unwrap();
        std::fs::rename(root.join("e"), top).unwrap();
    }
}

/// Names and rules that meet often.
fn rule() -> impl Strategy<Value = String> {
    let name = prop_oneof![Just("a"), Just("b"), Just("c"), Just("*"), Just("a*"), Just("**")];
    (prop::collection::vec(name, 1..3), any::<[bool; 3]>()).prop_map(|(parts, [negated, rooted, directory])| {
        let mark = |yes: bool, mark: &'static str| if yes { mark } else { "" };
        format!("{}{}{}{}", mark(negated, "!"), mark(rooted, "/"), parts.join("/"), mark(directory, "/"))
    })
}

fn file() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof![Just("a"), Just("b"), Just("c"), Just("ab")], 1..4)
        .prop_map(|parts| parts.join("/"))
}

fn git(root: &Path, args: &[&str]) -> Option<String> {
    let mut command = std::process::Command::new("git");
    let output = command.arg("-C").arg(root).args(args).env("GIT_CONFIG_GLOBAL", "/dev/null").output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn ignores_what_git_ignores(
        files in prop::collection::btree_set(file(), 1..12),
        rules in prop::collection::btree_map(prop_oneof![Just(""), Just("a/"), Just("b/"), Just("a/b/")], prop::collection::vec(rule(), 1..4), 0..3),
    ) {
        let place = Place::new(&[]);
        for file in &files {
            let path = place.root().join(file);
            // A name that is a directory already stays one.
            if std::fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.exists() {
                let _ = std::fs::write(path, "x");
            }
        }
        for (dir, lines) in &rules {
            if place.root().join(dir).is_dir() {
                place.write(format!("{dir}.gitignore"), lines.join("\n").as_bytes());
            }
        }
        if git(&place.root(), &["init", "-q"]).is_none() {
            crate::support::skip("ignores_what_git_ignores", "there is no git");
            return Ok(());
        }
        let listed = git(&place.root(), &["ls-files", "--others", "--exclude-standard"]).unwrap();
        let mut wanted: Vec<&str> = listed.lines().collect();
        wanted.sort_unstable();
        prop_assert_eq!(place.files("**"), wanted, "{:?}", rules);
    }
}

/// With `AX_LONG`: three hundred thousand files, searched within the deadline, and a cancel that ends it at once.
#[test]
fn a_great_many_files_are_searched_in_time() {
    let (directories, each) = if std::env::var_os("AX_LONG").is_some() { (3000, 100) } else { (30, 100) };
    let place = Place::new(&[]);
    for directory in 0..directories {
        let path = place.root().join(format!("d{}/m{directory}", directory / 100));
        std::fs::create_dir_all(&path).unwrap();
        for file in 0..each {
            std::fs::write(path.join(format!("f{file}.txt")), format!("line {file}\nneedle {directory}\n")).unwrap();
        }
    }
    // All of them, or by the deadline and said so: a debug build on a busy machine does not get through.
    let whole = |found: &Value, begun: Instant| {
        let stopped = found["note"].as_str().is_some_and(|note| note.contains("stopped after 20 s"));
        assert_eq!(found["truncated"], stopped, "{found}");
        assert!(begun.elapsed() < Duration::from_secs(200), "{:?}", begun.elapsed());
        !stopped
    };
    let begun = Instant::now();
    let found = place.grep(json!({"pattern": "needle 29$"}));
    assert!(!whole(&found, begun) || found["count"] == 100, "{found}");
    let (grep, begun) = (begun.elapsed(), Instant::now());
    let found = place.glob(json!({"pattern": "**/f7.txt", "max_results": 10_000}));
    assert!(!whole(&found, begun) || found["count"] == directories, "{found}");
    println!("MEASURED {} files: grep {grep:?}, glob {:?}", directories * each, begun.elapsed());
    // Cancelled from the start, in the middle of the walk, and in the middle of the search.
    for part in [0, 10, 2] {
        let cancel = place.cancel.child_token();
        let wait = if part == 0 { Duration::ZERO } else { grep / part };
        let (told, late) = std::thread::scope(|scope| {
            let stopper = scope.spawn(|| {
                std::thread::sleep(wait);
                cancel.cancel();
                Instant::now()
            });
            let args = arguments::read("grep", Some(r#"{"pattern":"none"}"#)).unwrap();
            let call = grep::Call::prepare(args, &place.ws).unwrap();
            let told = grep::run(approved(call), &place.ws, &cancel).text;
            let ended = Instant::now();
            (told, ended.saturating_duration_since(stopper.join().unwrap()))
        });
        println!("MEASURED cancelled after {wait:?}: over {late:?} later");
        assert!(late < Duration::from_secs(100), "{late:?}");
        assert!(part > 0 || told.contains("Cancelled"), "{told}");
    }
}
