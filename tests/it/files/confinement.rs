//! Paths that try to leave the workspace, standing still and while they are being swapped.

use super::*;
use ax_runner::workspace::{FileError, PathError};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, RenameFlags, ResolveFlag, openat2, renameat2};
use proptest::prelude::*;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Every tool on one path: each must refuse, before the host is asked.
#[track_caller]
fn all_refused(place: &Place, path: &str) {
    for outcome in [
        place.read(json!({ "path": path })),
        place.write(path, "overwritten"),
        place.edit(json!({"path": path, "old_string": CANARY, "new_string": "edited"})),
    ] {
        assert!(outcome.unasked, "{path}: {}", outcome.result);
        assert!(!outcome.result.to_string().contains(CANARY));
    }
    place.assert_outside_untouched();
}

#[test]
fn links_do_not_lead_out() {
    let place = Place::new();
    place.link("abs", place.out().join("secret"));
    place.link("rel", "../out/secret");
    place.link("dangling", place.out().join("new"));
    place.link("dangling_rel", "../out/new");
    place.link("dir", place.out());
    place.link("dir_rel", "../out");
    place.link("two", "abs");
    place.link("three", "./two");
    place.link("up", "..");
    place.put("deep/in/x", "");
    place.link("deep/in/up", "../../..");
    place.link("back", format!("../{}/deep", place.root().file_name().unwrap().display()));
    place.link("self", "self");
    place.link("ring_a", "ring_b");
    place.link("ring_b", "ring_a");
    place.link("proc", "/proc/self/root");
    place.link("zero", "/dev/zero");
    place.link("ghost", "nowhere/../../out/secret");
    place.link("ghost_dir", "deep/none/../../back");
    place.link("tty", "/dev/tty");
    for path in [
        "abs",
        "rel",
        "dangling",
        "dangling_rel",
        "dir/n",
        "dir/secret",
        "dir_rel/n",
        "dir_rel/new/deep/f",
        "dir/new/deep/f",
        "two",
        "three",
        "up/out/secret",
        "ghost",
        "ghost_dir/in/up/out/n",
        "nowhere/ghost_dir/../../ghost",
        "deep/in/up/out/secret",
        "back/in/x",
        "self",
        "ring_a",
        "ring_a/x",
        "proc/etc/passwd",
        "proc/tmp/x",
        "zero",
        "tty",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/../etc/passwd",
        "/proc/self/fd/3",
        "/dev/fd/0",
        "/dev/stdin",
        "../out/secret",
        "deep/../../out/secret",
    ] {
        all_refused(&place, path);
    }
    let out = place.out().join("secret");
    all_refused(&place, out.to_str().unwrap());
    place.read(json!({"path": "abs"})).fails_with("make it a relative link");
    place.read(json!({"path": "deep/in/up/x"})).fails_with("link deep/in/up leads out");
}

#[test]
fn an_absolute_link_is_refused_even_when_it_points_inside() {
    let place = Place::new();
    place.put("d/f", "x");
    place.link("l", place.at("d"));
    all_refused(&place, "l/f");
    assert_eq!(place.bytes("d/f"), b"x");
}

#[test]
fn links_inside_work_and_stay_links() {
    let place = Place::new();
    place.put("d/f", "one");
    place.put("d/e/x", "");
    place.link("leaf", "d/f");
    place.link("dir", "./d/");
    place.link("d/e/up", "../../d/e/../f");
    place.link("via", "dir/e/up");
    place.link("top", "d/..");
    for path in ["leaf", "dir/f", "d/e/up", "via", "dir/e/up", "top/leaf", "top/top/d/f"] {
        place.write(path, path).succeeds();
        assert_eq!(place.bytes("d/f"), path.as_bytes());
        place.edit(json!({"path": path, "old_string": path, "new_string": "new"})).succeeds();
        assert_eq!(place.read(json!({ "path": path })).result["content"], "new");
    }
    for link in ["leaf", "dir", "d/e/up", "via", "top"] {
        assert!(place.at(link).symlink_metadata().unwrap().is_symlink(), "{link}");
    }
    // A dangling link inside is written through, too.
    place.link("later", "d/made/here");
    place.write("later", "x").succeeds();
    assert_eq!(place.bytes("d/made/here"), b"x");
    place.read(json!({"path": "top"})).fails_with("is a directory");
    place.write("top", "x").fails_with("is a directory");
}

#[test]
fn forty_links_are_followed_and_no_more() {
    let place = Place::new();
    place.put("l0", "end");
    for n in 1..=41 {
        place.link(&format!("l{n}"), format!("l{}", n - 1));
    }
    assert_eq!(place.read(json!({"path": "l40"})).result["content"], "end");
    all_refused(&place, "l41");
}

#[test]
fn ordinary_names_are_ordinary() {
    let place = Place::new();
    let long = "n".repeat(255);
    for name in [
        "foo..bar",
        "..hidden",
        "...x",
        "a:b:c.txt",
        "[...slug].ts",
        "v1..2/x",
        "-rf",
        "--help",
        " lead",
        "trail ",
        "new\nline",
        "q\"uote",
        "$HOME",
        "*",
        "~",
        "~user/x",
        "a\\b",
        "..\\x",
        "%2e%2e",
        "é",
        "a\u{301}",
        &long,
    ] {
        place.write(name, "one").succeeds();
        place.edit(json!({"path": name, "old_string": "one", "new_string": "two"})).succeeds();
        assert_eq!(place.read(json!({ "path": name })).result, json!({"content": "two"}));
        assert_eq!(place.bytes(name), b"two");
        let absolute = place.at(name);
        assert_eq!(place.read(json!({ "path": absolute })).result, json!({"content": "two"}));
    }
}

#[test]
fn a_path_of_thousands_of_components_costs_nothing() {
    const DEPTH: usize = 3000;
    let place = Place::new();
    let deep = "d/".repeat(DEPTH);
    let path = place.ws.path(&format!("{deep}f")).unwrap();
    place.ws.write_atomic(&path, b"deep", &place.ws.fingerprint(&path).unwrap()).unwrap();
    let (content, _) = place.ws.read(&path, 9).unwrap();
    assert_eq!(content, b"deep");
    // A link down there that goes all the way up, and one that goes up too far.
    let dir = place.ws.open_dir(&place.ws.path(&deep).unwrap()).unwrap();
    place.put("top", "top");
    nix::unistd::symlinkat(format!("{}top", "../".repeat(1000)).as_str(), &dir, "up").unwrap();
    let up = place.ws.path(&format!("{deep}up")).unwrap();
    assert!(matches!(place.ws.read(&up, 9), Err(FileError::Os { errno: Errno::ENOENT, .. })));
    // Up and down for ever ends with an error.
    place.put("a/b", "");
    for n in 0..40 {
        place.link(&format!("zig{n}"), format!("{}zig{}", "a/../".repeat(800), n + 1));
    }
    let zig = place.ws.path("zig0").unwrap();
    assert!(matches!(place.ws.read(&zig, 9), Err(FileError::Path(PathError::TooLong { .. }))));
    // The standard library's removal opens a descriptor a level.
    let mut level = place.at("d");
    for _ in 0..DEPTH / 500 {
        let moved = place.at("moved");
        let inner = level.join("d/".repeat(499)).join("d");
        let _ = std::fs::rename(&inner, &moved);
        std::fs::remove_dir_all(&level).unwrap();
        let _ = std::fs::rename(&moved, place.at("d"));
        level = place.at("d");
    }
}

/// Runs `attack` as fast as it goes while `calls` run.
fn under_attack(attack: impl Fn() + Sync, calls: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                attack();
            }
        });
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(calls));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
}

fn exchange(a: &Path, b: &Path) {
    renameat2(AT_FDCWD, a, AT_FDCWD, b, RenameFlags::RENAME_EXCHANGE).unwrap();
}

fn each_tool(place: &Place, path: &str, calls: usize, succeeded: &AtomicUsize) {
    for n in 0..calls {
        let outcome = match n % 3 {
            0 => place.read(json!({ "path": path })),
            1 => place.write(path, "inside"),
            _ => place.edit(json!({"path": path, "old_string": "i", "new_string": "I", "replace_all": true})),
        };
        assert!(!outcome.result.to_string().contains(CANARY), "{}", outcome.result);
        succeeded.fetch_add(usize::from(outcome.error().is_none()), Ordering::Relaxed);
    }
}

#[test]
fn a_directory_that_turns_into_a_link_and_back() {
    for target in ["../out", "/absolute"] {
        let place = Place::new();
        place.put("p/f", "inside");
        place.link("q", if target == "/absolute" { place.out() } else { target.into() });
        let (p, q, succeeded) = (place.at("p"), place.at("q"), AtomicUsize::new(0));
        under_attack(|| exchange(&p, &q), || each_tool(&place, "p/f", 2_000, &succeeded));
        place.assert_outside_untouched();
        assert!(succeeded.load(Ordering::Relaxed) > 0);
    }
}

#[test]
fn a_file_that_turns_into_a_link_and_back() {
    let place = Place::new();
    place.put("f", "inside");
    place.link("g", "../out/f");
    let (f, g, succeeded) = (place.at("f"), place.at("g"), AtomicUsize::new(0));
    under_attack(
        || {
            // A write replaces what stands there, so the link has to be planted anew.
            if renameat2(AT_FDCWD, &f, AT_FDCWD, &g, RenameFlags::RENAME_EXCHANGE).is_err()
                || !g.is_symlink() && !f.is_symlink()
            {
                let _ = std::fs::remove_file(&g);
                let _ = std::os::unix::fs::symlink("../out/f", &g);
            }
        },
        || each_tool(&place, "f", 2_000, &succeeded),
    );
    place.assert_outside_untouched();
    assert!(succeeded.load(Ordering::Relaxed) > 0);
}

#[test]
fn an_ancestor_that_is_swapped_while_directories_are_made() {
    let place = Place::new();
    std::fs::create_dir_all(place.at("p/a")).unwrap();
    place.link("q", "../out");
    let (p, q) = (place.at("p"), place.at("q"));
    under_attack(
        || exchange(&p, &q),
        || {
            for n in 0..600 {
                place.write(&format!("p/a/b{n}/c/d/e"), "x");
                place.write(&format!("p/new{n}/c/d/e"), "x");
            }
        },
    );
    place.assert_outside_untouched();
}

#[test]
fn a_directory_that_is_swapped_between_the_approval_and_the_write() {
    let place = Place::new();
    place.put("p/f", "inside");
    let args = serde_json::from_value(json!({"path": "p/f", "content": "new"})).unwrap();
    let call = approved(write_file::Call::prepare(args, &place.ws).unwrap());
    std::fs::rename(place.at("p"), place.at("old")).unwrap();
    place.link("p", "../out");
    Outcome::of(Ok(write_file::run(call, &place.ws))).fails_with("leads out of the workspace");
    place.assert_outside_untouched();
}

/// A tree with links of every kind.
fn maze() -> Place {
    let place = Place::new();
    for file in ["f", "a/f", "a/b/f", "a/b/c/f", "a..b/f", " /f"] {
        place.put(file, file);
    }
    for (link, target) in [
        ("l", "a"),
        ("a/l", "b"),
        ("a/b/up", ".."),
        ("a/b/upup", "../.."),
        ("a/b/out", "../../../out"),
        ("a/b/c/far", "../../../../out/f"),
        ("lf", "a/f"),
        ("a/lf", "../f"),
        ("ll", "l/l"),
        ("loop", "loop"),
        ("a/loop", "../a/loop/x"),
        ("none", "a/none"),
        ("o", "../out"),
        ("of", "../out/f"),
        ("slash", "a/b/"),
        ("file_slash", "f/x"),
        ("dots", "./a/././b/.."),
        ("proc", "/proc/self"),
        ("tricky", "l/l/../../f"),
        ("through", "a/b/upup/a/b/upup/f"),
        ("escape_late", "l/l/upup/../out/f"),
        ("here", "."),
    ] {
        place.link(link, target);
    }
    place.link("in", place.at("a"));
    place.link("a/root", place.root());
    place
}

const WORDS: [&str; 33] = [
    "a",
    "b",
    "c",
    "f",
    "l",
    "up",
    "upup",
    "out",
    "far",
    "lf",
    "ll",
    "loop",
    "none",
    "o",
    "of",
    "slash",
    "file_slash",
    "dots",
    "proc",
    "in",
    "root",
    "a..b",
    " ",
    ".",
    ".",
    "..",
    "..",
    "",
    "missing",
    "tricky",
    "through",
    "escape_late",
    "here",
];

/// The kernel's own answer, which is only asked in tests.
fn kernel(place: &Place, path: &str) -> Result<u64, Errno> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    loop {
        match openat2(place.ws.root_dir(), if path.is_empty() { "." } else { path }, how) {
            // Something was renamed meanwhile, anywhere on the machine.
            Err(Errno::EAGAIN) => {}
            opened => return std::fs::File::from(opened?).metadata().map(|file| file.ino()).map_err(|_| Errno::EIO),
        }
    }
}

#[test]
fn any_path_is_inside_or_refused_as_the_kernel_says() {
    let place = maze();
    if let Err(Errno::ENOSYS | Errno::EPERM) = kernel(&place, "f") {
        return crate::support::skip("any_path_is_inside_or_refused_as_the_kernel_says", "no openat2 to compare with");
    }
    let config = ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() };
    let words = prop::collection::vec(prop::sample::select(&WORDS[..]), 1..9);
    let paths = (words, 0..4).prop_map(|(words, kind)| match kind {
        0 => format!("{{root}}/{}", words.join("/")),
        _ => words.join("/"),
    });
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let agreed = runner.run(&paths, |raw| {
        let raw = raw.replace("{root}", place.root().to_str().unwrap());
        let path = match place.ws.path(&raw) {
            Ok(path) => path,
            Err(PathError::Empty) if raw.is_empty() => return Ok(()),
            Err(error) => {
                // Letters only: an oracle that counts.
                let mut depth = 0_i32;
                let left = raw.split('/').filter(|word| !word.is_empty() && *word != ".").any(|word| {
                    depth += if word == ".." { -1 } else { 1 };
                    depth < 0
                });
                let outside = raw.starts_with('/') && !path_is_under(&raw, place.root());
                prop_assert!(left || outside, "{} {}", raw, error);
                return Ok(());
            }
        };
        let clean = path.as_path().to_str().unwrap();
        match (kernel(&place, clean), place.ws.open_file(&path)) {
            (Ok(inode), Ok(file)) => prop_assert_eq!(file.metadata().unwrap().ino(), inode),
            (Ok(inode), Err(FileError::NotRegular { .. } | FileError::TrailingSlash { .. })) => {
                if let Ok(dir) = place.ws.open_dir(&path) {
                    prop_assert_eq!(nix::sys::stat::fstat(&dir).unwrap().st_ino, inode);
                }
            }
            (Err(Errno::EXDEV | Errno::ELOOP), Err(FileError::Path(_) | FileError::TrailingSlash { .. })) => {}
            (Err(Errno::ENOENT | Errno::ENOTDIR), Err(FileError::Os { .. } | FileError::TrailingSlash { .. })) => {}
            (kernel, ours) => prop_assert!(false, "{}: the kernel says {:?}, we say {:?}", raw, kernel, ours),
        }
        Ok(())
    });
    if let Err(error) = agreed {
        panic!("{error}");
    }
    place.assert_outside_untouched();
}

#[test]
fn whatever_the_path_a_write_stays_inside() {
    let place = maze();
    let config = ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() };
    let words = prop::collection::vec(prop::sample::select(&WORDS[..]), 1..9).prop_map(|words| words.join("/"));
    let written = AtomicUsize::new(0);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let held = runner.run(&words, |raw| {
        let Ok(path) = place.ws.path(&raw) else { return Ok(()) };
        let Ok(print) = place.ws.fingerprint(&path) else { return Ok(()) };
        if place.ws.write_atomic(&path, raw.as_bytes(), &print).is_ok() {
            written.fetch_add(1, Ordering::Relaxed);
            prop_assert_eq!(place.ws.read(&path, 1 << 10).unwrap().0, raw.as_bytes());
        }
        Ok(())
    });
    if let Err(error) = held {
        panic!("{error}");
    }
    assert!(written.load(Ordering::Relaxed) > 100);
    place.assert_outside_untouched();
}

#[test]
fn both_names_of_the_root_are_understood() {
    let place = Place::new();
    std::os::unix::fs::symlink("ws", place.base.path().join("alias")).unwrap();
    place.put("d/f", "text");
    let alias = Workspace::open(&place.base.path().join("alias")).unwrap();
    for name in [place.at("d/f"), place.base.path().join("alias/./d//f")] {
        let path = alias.path(name.to_str().unwrap()).unwrap();
        assert_eq!(path.as_path(), Path::new("d/f"));
        assert_eq!(alias.read(&path, 9).unwrap().0, b"text");
    }
}

fn path_is_under(raw: &str, root: &Path) -> bool {
    let mut names: Vec<&str> = Vec::new();
    for word in raw.split('/').filter(|word| !word.is_empty() && *word != ".") {
        if word == ".." {
            names.pop();
        } else {
            names.push(word);
        }
    }
    Path::new("/").join(names.join("/")).starts_with(root)
}

#[test]
fn what_is_approved_for_one_place_is_not_done_at_another() {
    let place = Place::new();
    let write = |path: &str| {
        let args = serde_json::from_value(json!({"path": path, "content": "mine"})).unwrap();
        approved(write_file::Call::prepare(args, &place.ws).unwrap())
    };
    std::fs::create_dir(place.at(".ax")).unwrap();
    std::fs::create_dir(place.at("d")).unwrap();
    // An existing directory, one that is yet to be made, and one below it become a link.
    let calls = [write("d/SOUL.md"), write("new/SOUL.md"), write("new/deep/SOUL.md")];
    std::fs::remove_dir(place.at("d")).unwrap();
    place.link("d", ".ax");
    place.link("new", ".ax");
    for call in calls {
        Outcome::of(Ok(write_file::run(call, &place.ws))).fails_with("another place");
    }
    assert_eq!(std::fs::read_dir(place.at(".ax")).unwrap().count(), 0, "nothing was made on the way");
    // A file becomes a link to another one.
    place.put(".env", "SECRET");
    place.put("f", "SECRET");
    let read = read_file::Call::prepare(serde_json::from_value(json!({"path": "f"})).unwrap(), &place.ws).unwrap();
    let edit = json!({"path": "f", "old_string": "SECRET", "new_string": "x"});
    let edit = edit_file::Call::prepare(serde_json::from_value(edit).unwrap(), &place.ws).unwrap();
    std::fs::remove_file(place.at("f")).unwrap();
    place.link("f", ".env");
    Outcome::of(Ok(read_file::run(approved(read), &place.ws))).fails_with("another place");
    Outcome::of(Ok(edit_file::run(approved(edit), &place.ws))).fails_with("another place");
    assert_eq!(place.bytes(".env"), b"SECRET");
    // A link that stays is followed as ever.
    place.link("l", ".env");
    place.read(json!({"path": "l"})).succeeds();
}
