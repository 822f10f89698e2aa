//! What `.gitignore` files hide, compared with git itself.

use super::*;
use std::collections::BTreeSet;
use std::process::Command;

/// Rules, one file each.
const RULES: &[&[u8]] = &[
    b"{a,b}",
    b"x{a,b}\n{x",
    b"{a",
    b"a\\{b\\}\n\\{a,b\\}",
    b"d/{a,b}/\n}",
    b"[{]a,b}",
    b"{a,[b]}",
    b"[!a]",
    b"[^a]",
    b"[!]a]\n[]a]",
    b"[!!]\n[!^]",
    b"[\\]a]",
    b"[\\!]a\n[\\^]",
    b"[a-\\b]",
    b"[b-a]",
    b"[a-]b\n[--a]",
    b"[A-z]b",
    b"[[:upper:]b]",
    b"[[:nothing:]a]",
    b"[[:]\n[:a]",
    b"[a",
    b"a[/]b\nd[/]a",
    b"[\xc3\xa9]",
    b"\\a\n\\\\a",
    b"\\*",
    b"a\\",
    b"\\#a\n#b",
    b"\\!a",
    b"*\n!a",
    b"*\n!*/\n!a*",
    b"d/*\n!d/a",
    b"d\n!d/a",
    b"a\\ b\nb\\ ",
    b"b \na  ",
    b"a\t\n b",
    b"**/a",
    b"d/**\n!d/**/",
    b"**/d/a\nab**",
    b"/a\n/d/b",
    b"ab/\nd/a/",
    b"\xef\xbb\xbfa\n\xef\xbb\xbfb",
    b"a\r\nb\r\n",
    b"b \r\n{}\r\n",
    b"a\r",
    b"a\0b\nb",
    b"caf\xe9",
    b"*.b\n.*\n?",
];

const NAMES: &[&[u8]] = &[
    b"a",
    b"b",
    b"ab",
    b"a.b",
    b".x",
    b"*",
    b"A",
    b"#a",
    b"#b",
    b"!a",
    b"a b",
    b"b ",
    b" b",
    b"{a,b}",
    b"{a}",
    b"a{b}",
    b"{a",
    b"{x",
    b"{",
    b"}",
    b"{}",
    b"a]",
    b"]",
    b"[a",
    b"[",
    b":",
    b":a]",
    b"\\a",
    b"a\\",
    b"\xc3\xa9",
    b"^",
    b"^a",
    b"!",
    b"-",
    b"-b",
    b"a\r",
    b"xa",
    b"x{a,b}",
    b"a\tb",
    b"caf\xe9",
    b"cafe",
    b"caf\xc3\xa9",
    b"\xe9b",
];

#[test]
fn gitignore_hides_what_git_hides() {
    let place = Place::new(&[]);
    let directories = ["", "d", "d/a", "ab", "{a,b}"];
    for (at, rules) in RULES.iter().enumerate() {
        let case = format!("{at:02}");
        directories.iter().for_each(|name| std::fs::create_dir_all(place.root().join(&case).join(name)).unwrap());
        for directory in directories {
            let directory = place.root().join(&case).join(directory);
            for name in NAMES.iter().map(|name| directory.join(std::ffi::OsStr::from_bytes(name))) {
                if !name.exists() {
                    std::fs::write(name, "").unwrap();
                }
            }
        }
        place.write(format!("{case}/.gitignore"), rules);
    }
    let git = |args: &[&str]| {
        let run =
            Command::new("git").args(args).current_dir(place.root()).env("HOME", place.base.path()).output().unwrap();
        assert!(run.status.success(), "{run:?}");
        String::from_utf8_lossy(&run.stdout).into_owned()
    };
    git(&["init", "-q"]);
    let listed = git(&["ls-files", "-z", "-o", "--exclude-per-directory=.gitignore"]);
    for (at, rules) in RULES.iter().enumerate() {
        let case = format!("{at:02}");
        let wanted: BTreeSet<&str> = listed.split_terminator('\0').filter(|path| path.starts_with(&case)).collect();
        let found = place.glob(json!({"pattern": "**", "path": case, "max_results": 1000}));
        let found: BTreeSet<&str> = found["files"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let rules = String::from_utf8_lossy(rules);
        assert!(found == wanted, "{rules:?}: {:?}", found.symmetric_difference(&wanted).collect::<Vec<_>>());
    }
}

#[test]
fn a_rule_that_is_cut_hides_nothing() {
    let place = Place::new(&[("seen", ""), ("hidden", "")]);
    let before =
        format!("hidden\n#{}\n", "x".repeat(ax_runner::limits::GITIGNORE_MAX_BYTES as usize - "hidden\n#\n/*".len()));
    place.write(".gitignore", format!("{before}/*.log\n").as_bytes());
    assert_eq!(place.files("**"), [".gitignore", "seen"]);
}

#[test]
fn large_files_of_rules_count_whole_or_it_is_said() {
    // Long ones, since a debug build takes its time for many.
    let wild = |count: usize| format!("*{}\n", "x".repeat(999)).repeat(count);
    let plain = |count: usize| (0..count).map(|at| format!("gen/f{at}.o\n")).collect::<String>();
    for (name, rules, whole) in [
        ("a comment", format!("#{}\n", "x".repeat(70_000)), true),
        ("plain rules", plain(6000), true),
        ("patterns", wild(60), true),
        ("too many rules", "x\n".repeat(ax_runner::limits::GITIGNORE_MAX_RULES), false),
        ("too many patterns", wild(70), false),
        ("too many bytes", format!("#{}\n", "x".repeat(1 << 20)), false),
    ] {
        // The first rules count in any case.
        let place = Place::new(&[("d/first", ""), ("d/last", ""), ("d/sub/seen", "")]);
        place.write("d/.gitignore", format!("first\n{rules}last").as_bytes());
        for path in if whole { [".", "d"] } else { [".", "d/sub"] } {
            let found = place.glob(json!({"pattern": "**", "path": path}));
            let (files, note) = (found["files"].to_string(), found["note"].to_string());
            assert!(files.contains("seen") && !files.contains("first"), "{name}: {found}");
            assert!(path == "d/sub" || files.contains("last") != whole, "{name}: {found}");
            let told = note.contains("1 .gitignore file is too large or could not be read: not all of its rules count");
            assert_eq!(told && note.contains("(d/.gitignore)"), !whole, "{name} in {path}: {found}");
        }
    }
    // What one level uses up the next does not have.
    let place = Place::new(&[]);
    for path in ["", "d/", "d/e/"] {
        place.write(format!("{path}.gitignore"), format!("{}last\n", wild(25)).as_bytes());
        place.write(format!("{path}last"), b"");
    }
    let found = place.glob(json!({"pattern": "**/last"}));
    assert!(found["note"].to_string().contains("(d/e/.gitignore)"), "{found}");
}
