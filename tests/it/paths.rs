//! CASES F01–F17 and G01–G09 through the built runner: files stay what they are, and nothing outside is seen or changed.

use crate::rows::*;
use crate::support::runner;
use ax_runner::devhost::FakeHost;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A place outside the workspace that the runner's user may write.
struct Outside(tempfile::TempDir);

impl Outside {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("secret"), "CANARY in a file\n").unwrap();
        std::fs::create_dir(place.path().join("CANARY-dir")).unwrap();
        std::fs::write(place.path().join("CANARY-dir/f"), "CANARY below\n").unwrap();
        Self(place)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Everything there is, with its content.
    fn everything(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        let mut todo = vec![self.path().to_owned()];
        while let Some(directory) = todo.pop() {
            for entry in std::fs::read_dir(directory).unwrap().flatten() {
                let path = entry.path();
                if entry.file_type().unwrap().is_dir() {
                    todo.push(path.clone());
                }
                all.insert(path.clone(), std::fs::read(&path).unwrap_or_default());
            }
        }
        all
    }
}

/// Each file tool on one path; none of them has the word CANARY in its arguments.
fn every_tool(path: &str) -> Vec<Value> {
    vec![
        read(path),
        write(path, "EVIL"),
        edit(path, "in a file", "EVIL"),
        grep("A[N]ARY", path),
        call("glob", json!({"pattern": "**", "path": path})),
    ]
}

/// Plays calls in turns of at most 45, since a turn has 50.
fn play_many(calls: &[Value], prepare: impl Fn(&FakeHost)) -> Vec<String> {
    calls.chunks(45).flat_map(|part| play_with(one_by_one(part), &prepare, |runner| runner).1).collect()
}

#[test]
fn f01_no_link_leads_out() {
    let outside = Outside::new();
    let before = outside.everything();
    let out = outside.path().display().to_string();
    let prepare = |host: &FakeHost| {
        let ws = host.workspace();
        let depth = "../".repeat(12);
        let relative = format!("{}{}", depth, out.trim_start_matches('/'));
        let links: [(&str, &str); 13] = [
            ("secret", &format!("{out}/secret")),
            ("new", &format!("{out}/new")),
            ("dir", &out),
            ("rel", &relative),
            ("b", &out),
            ("a", "b"),
            ("up", ".."),
            ("dot", "./rel/secret"),
            ("proc", "/proc/self/root"),
            ("cwd", "/proc/self/cwd"),
            ("fd", "/dev/fd"),
            ("self", "/proc/self"),
            ("slash", "/"),
        ];
        for (name, target) in links {
            symlink(target, ws.join(name)).unwrap();
        }
        for at in 0..41 {
            symlink(format!("chain{}", at + 1), ws.join(format!("chain{at}"))).unwrap();
        }
        symlink("loop", ws.join("loop")).unwrap();
        std::fs::create_dir(ws.join("in")).unwrap();
        symlink(format!("../dir/..{out}"), ws.join("in/deep")).unwrap();
    };
    let paths = [
        "secret",
        "new",
        "dir/secret",
        "dir/n",
        "rel/secret",
        "rel/n/m",
        "a/secret",
        "a/n",
        "up/x",
        "up",
        "dot",
        "proc/etc/passwd",
        &format!("proc{out}/secret"),
        "cwd/../x",
        "fd/0",
        "self/environ",
        "self/root/etc/passwd",
        "slash/etc/passwd",
        &format!("slash{out}/n"),
        "chain0",
        "loop",
        "loop/x",
        "in/deep/secret",
        "in/deep/n/o/p",
        "dir/../secret",
        "up/../x/y",
        "dir",
        "a",
    ];
    let calls: Vec<Value> = paths.iter().flat_map(|path| every_tool(path)).collect();
    for (call, told) in calls.iter().zip(play_many(&calls, prepare)) {
        assert!(!told.contains("CANARY") && !told.contains("root:x:"), "{call}: {told}");
        // By its letters alone `x/..` is nothing, whatever `x` is.
        let inside = call["args"]["path"].as_str().unwrap().starts_with("up/../") || call["args"]["path"] == "cwd/../x";
        assert!(inside || told.to_lowercase().contains("error"), "{call}: {told}");
    }
    assert_eq!(outside.everything(), before);
}

#[test]
fn f01_no_race_leads_out() {
    let outside = Outside::new();
    std::fs::write(outside.path().join("f"), "CANARY of the race\n").unwrap();
    let before = outside.everything();
    let out = outside.path().display().to_string();
    // Exchanges a directory and a link, a file and a link, and an ancestor, as fast as it can.
    let flip = format!(
        "import ctypes, os\nl = ctypes.CDLL(None)\nos.makedirs('p/q'); open('p/f', 'w').write('inside'); os.symlink('{out}', 'p2')\n\
         open('leaf', 'w').write('inside'); os.symlink('{out}/f', 'leaf2'); print('ready', flush=True)\n\
         while True:\n for a, b in ((b'p', b'p2'), (b'leaf', b'leaf2')): l.syscall(316, -100, a, -100, b, 2)\n"
    );
    let path = |at: usize| ["p/f", "leaf", "p/q/new/deep/f", "p/x"][at % 4].to_owned();
    let calls: Vec<Value> = (0..45)
        .map(|at| match at % 5 {
            0 => write(&path(at / 5), "EVIL"),
            1 => edit(&path(at / 5), "CANARY", "EVIL"),
            2 => read(&path(at / 5)),
            3 => grep("CANAR[Y]", if at % 2 == 0 { "p" } else { "." }),
            _ => call("glob", json!({"pattern": "**", "path": if at % 2 == 0 { "p" } else { "." }})),
        })
        .collect();
    let round = json!({"tools": calls});
    for _ in 0..6 {
        let script = json!([{"tools": [bash("sleep .3")]}, round, {"text": "done"}]);
        let host = FakeHost::socket(ax_runner::devhost::Script::json(script)).start();
        let mut flipper = std::process::Command::new("python3")
            .args(["-c", &flip])
            .current_dir(host.workspace())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let ended = runner(&host).run();
        flipper.kill().unwrap();
        flipper.wait().unwrap();
        ended_well(&host, &ended);
        for told in told(&host) {
            assert!(!told.contains("of the race") && !told.contains("CANARY-dir"), "{told}");
        }
        assert_eq!(outside.everything(), before);
    }
}

#[test]
fn f02_nothing_is_made_on_the_way_out() {
    let outside = Outside::new();
    let before = outside.everything();
    let out = outside.path().display().to_string();
    let calls = [
        write("link/new/deep/f", "x"),
        write("link/CANARY-dir/new", "x"),
        write(&format!("{out}/x/y"), "x"),
        write("../x/y/z", "x"),
        write("a/../../x/y", "x"),
        write("a/b/link/new/f", "x"),
        call("skill_write", json!({"name": "evil", "description": "d", "body": "b"})),
        write("ok/deep/er/f", "x"),
    ];
    let (host, told) = play_with(
        one_by_one(&calls),
        |host| {
            let ws = host.workspace();
            symlink(&out, ws.join("link")).unwrap();
            std::fs::create_dir_all(ws.join("a/b")).unwrap();
            symlink(&out, ws.join("a/b/link")).unwrap();
            std::fs::remove_dir_all(ws.join(".ax/skills")).unwrap();
            symlink(&out, ws.join(".ax/skills")).unwrap();
        },
        |runner| runner,
    );
    for (call, told) in calls[..7].iter().zip(&told) {
        assert!(told.contains("rror"), "{call}: {told}");
    }
    assert!(told[7].contains("\"written\":true") && host.workspace().join("ok/deep/er/f").exists());
    assert_eq!(outside.everything(), before);
    let names = std::fs::read_dir(host.workspace()).unwrap().flatten().map(|entry| entry.file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().starts_with(".ax-tmp")), "a temporary file is left");
}

#[test]
fn f04_ordinary_names_are_ordinary() {
    let long = "n".repeat(255);
    let wide = "é".repeat(127);
    let names = [
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
        &long,
        &wide,
        "~",
        "~x/y",
        "back\\slash",
        "..\\up",
        "{a,b}",
        "a'b`c",
        "\u{202e}rtl",
        "é.txt",
        "e\u{301}.txt",
        "tab\there",
        "%2e%2e",
        "CON",
        "#x#",
        "!x",
        "x;y|z&",
        ".x.",
        " ",
        "\u{7f}",
        "日本/語",
    ];
    let prefixes = ["", "./", "/ROOT/", "sub/../", ".//"];
    for (at, part) in names.chunks(9).enumerate() {
        let host = FakeHost::socket(one_by_one(&[])).start();
        let root = host.workspace().display().to_string();
        let calls: Vec<Value> = part
            .iter()
            .enumerate()
            .flat_map(|(nth, name)| {
                let path = prefixes[(at + nth) % prefixes.len()].replace("/ROOT", &root) + name;
                let path = path.as_str();
                [
                    write(path, "one two\n"),
                    edit(path, "two", "three"),
                    read(path),
                    grep("three", path),
                    call("grep", json!({"pattern": "three", "output_mode": "count"})),
                ]
            })
            .collect();
        host.set_script(one_by_one(&calls));
        let ended = runner(&host).run();
        ended_well(&host, &ended);
        let told = told(&host);
        for (nth, name) in part.iter().enumerate() {
            let told = &told[nth * 5..nth * 5 + 5];
            assert!(told[0].contains("\"created\":true") && told[1].contains("\"edited\":true"), "{name:?}: {told:?}");
            assert!(
                told[2].contains("\"content\":\"one three\\n\"") && told[3].contains("\"count\":1"),
                "{name:?}: {told:?}"
            );
            assert!(told[4].contains(&format!("\"count\":{}", nth + 1)), "{name:?}: {told:?}");
            assert_eq!(std::fs::read_to_string(host.workspace().join(name)).unwrap(), "one three\n", "{name:?}");
        }
    }
    let calls =
        [write(&"n".repeat(256), "x"), write("", "x"), write(&format!("{}/x", "d/".repeat(600)), "x"), read("a\u{0}b")];
    let (_host, told) = play(one_by_one(&calls));
    assert!(told.iter().all(|told| told.contains("rror") && told.len() < 3000), "{told:?}");
}

#[test]
fn f05_magic_links_are_refused() {
    let paths = [
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/../etc/passwd",
        "/proc/self/fd/3",
        "/dev/fd/0",
        "/dev/stdin",
        "/proc/1/root",
        "/dev/tty",
        "/dev/zero",
        "//proc/self/environ",
        "/proc/./self/environ",
        "/./etc/passwd",
        "../../../../proc/self/environ",
        "/proc/thread-self/root/etc/passwd",
        "/dev/shm/x",
        "/sys/kernel",
    ];
    let calls: Vec<Value> = paths.iter().flat_map(|path| every_tool(path)).collect();
    for (call, told) in calls.iter().zip(play_many(&calls, |_| {})) {
        assert!(told.contains("leads out of the workspace"), "{call}: {told}");
    }
}

#[test]
fn f07_and_f17_links_to_files() {
    let outside = Outside::new();
    std::fs::hard_link(outside.path().join("secret"), outside.path().join("hard")).unwrap();
    let before = outside.everything();
    let calls = [
        write("h1", "new"),
        edit("h2", "in a file", "EVIL"),
        write("l1", "one\n"),
        edit("l2", "old", "two"),
        edit("d/l3", "old", "three"),
        write("dangling", "made"),
        edit("same", "old", "four"),
    ];
    let (host, told) = play_with(
        one_by_one(&calls),
        |host| {
            let ws = host.workspace();
            for name in ["h1", "h2"] {
                std::fs::hard_link(outside.path().join("secret"), ws.join(name)).unwrap();
            }
            for name in ["t1", "t2", "t3", "t4"] {
                std::fs::write(ws.join(name), "old\n").unwrap();
            }
            std::fs::create_dir(ws.join("d")).unwrap();
            for (name, target) in [
                ("l1", "t1"),
                ("l2", "./d/../t2"),
                ("d/l3", "../t3"),
                ("dangling", "d/new"),
                ("same", "l4"),
                ("l4", "t4"),
            ] {
                symlink(target, ws.join(name)).unwrap();
            }
        },
        |runner| runner,
    );
    assert!(told.iter().all(|told| told.contains(":true")), "{told:?}");
    assert_eq!(outside.everything(), before);
    let text = |name: &str| std::fs::read_to_string(host.workspace().join(name)).unwrap();
    assert_eq!((text("h1").as_str(), text("h2").as_str()), ("new", "CANARY EVIL\n"));
    assert_eq!(
        [text("t1"), text("t2"), text("t3"), text("t4"), text("d/new")],
        ["one\n", "two\n", "three\n", "four\n", "made"]
    );
    for name in ["l1", "l2", "d/l3", "dangling", "same", "l4"] {
        assert!(host.workspace().join(name).symlink_metadata().unwrap().is_symlink(), "{name}");
    }
}

#[test]
fn f08_what_is_no_file_is_named_and_holds_nothing_up() {
    let prepare = |host: &FakeHost| {
        let ws = host.workspace();
        for name in ["fifo", ".gitignore", "sub.txt"] {
            nix::unistd::mkfifo(&ws.join(name), nix::sys::stat::Mode::S_IRWXU).unwrap();
        }
        std::os::unix::net::UnixListener::bind(ws.join("sock")).unwrap();
        std::fs::create_dir(ws.join("dir")).unwrap();
        std::fs::write(ws.join("dir/text"), "findme\n").unwrap();
        symlink("fifo", ws.join("tofifo")).unwrap();
        symlink("/dev/zero", ws.join("zero")).unwrap();
        if nix::unistd::geteuid().is_root() {
            let kind = nix::sys::stat::SFlag::S_IFCHR;
            let device = nix::sys::stat::makedev(1, 5);
            let _ = nix::sys::stat::mknod(&ws.join("device"), kind, nix::sys::stat::Mode::S_IRWXU, device);
        }
    };
    let kinds = [
        ("fifo", "pipe"),
        ("sock", "socket"),
        ("dir", "directory"),
        ("tofifo", "pipe"),
        ("zero", "link"),
        ("device", "device"),
    ];
    let calls: Vec<Value> = kinds
        .iter()
        .flat_map(|(name, _)| [read(name), write(name, "x"), edit(name, "a", "b")])
        .chain([grep("findme", "."), glob("**"), grep("x", "fifo")])
        .collect();
    let (host, told) = play_with(one_by_one(&calls), prepare, |runner| runner);
    for (at, (name, kind)) in kinds.iter().enumerate() {
        for told in &told[at * 3..at * 3 + 3] {
            // Only root can make one; without it the calls made and changed a file.
            let missing = *name == "device" && !nix::unistd::geteuid().is_root();
            assert!(missing || told.contains("rror") && told.contains(kind), "{name}: {told}");
        }
    }
    assert!(told[18].contains("dir/text:1:findme") && told[18].contains("skipped"), "{}", told[18]);
    assert!(told[19].contains("dir/text") && told[20].contains("pipe"), "{told:?}");
    let kind = host.workspace().join("fifo").symlink_metadata().unwrap().permissions().mode();
    assert!(kind & 0o170_000 == 0o010_000, "the pipe is still one");
}

/// A file, an edit as (old, new), and what must stand there afterwards; `None` when nothing may change.
type Edit = (&'static [u8], &'static str, &'static str, Option<&'static [u8]>);

#[test]
fn f10_to_f14_an_edit_changes_what_it_names() {
    let template = "$& $$ $1 ${1} ${name} $` $' \\1 \\0 \n %s {} {{x}} &";
    let table: [Edit; 27] = [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny", Some(b"x\r\ny\r\nc\r\n")),
        (b"a\r\nb\r\nc\r\n", "b", "x\ny", Some(b"a\r\nx\r\ny\r\nc\r\n")),
        (b"a\nb\r\nc\rd\n", "b\nc", "b\nz", Some(b"a\nb\r\nz\rd\n")),
        (b"a\rb\rc\r", "a\nb", "x", None),
        (b"x\ny\rz\n", "x\ny", "p\nq", Some(b"p\nq\rz\n")),
        (b"a\r\nb\nc\r\n", "a\nb\nc", "A\nB\nC", Some(b"A\r\nB\nC\r\n")),
        (b"a\r\nb\r\n", "\n", "", None),
        (b"a\r\nb", "a\nb\n", "x", None),
        (b"\xef\xbb\xbfusing X;\nrest\n", "using X;", "using Y;", Some(b"\xef\xbb\xbfusing Y;\nrest\n")),
        (b"\xef\xbb\xbfusing X;\r\n", "using X;\n", "", Some(b"\xef\xbb\xbf")),
        (b"\xff\xfea\0b\0", "a", "b", None),
        (b"\xfe\xff\0a\0b", "a", "b", None),
        (b"one # \xe9\ntwo\n", "two", "2", Some(b"one # \xe9\n2\n")),
        (b"one \xd6\xd0\xce\xc4 two\r\nx\n", "x", "y", Some(b"one \xd6\xd0\xce\xc4 two\r\ny\n")),
        (b"one\ntail \xe2\x80", "one", "1", Some(b"1\ntail \xe2\x80")),
        (b"one \xff two\n", "two", "2", Some(b"one \xff 2\n")),
        (b"one \xed\xa0\xbd two\n", "one", "1", Some(b"1 \xed\xa0\xbd two\n")),
        (b"one \xef\xbf\xbd two\n", "two", "2", Some(b"one \xef\xbf\xbd 2\n")),
        (b"one \0 two\n", "two", "2", Some(b"one \0 2\n")),
        (b"caf\xe9 x\ncaf\xe9 y\n", "caf\u{fffd} x", "z", None),
        (b"a.*(b)[c]\\d+^$\nab\n", "a.*(b)[c]\\d+^$", "z", Some(b"z\nab\n")),
        (b"same\nx\nsame\n", "same", "y", None),
        (b"aaa\n", "aa", "b", None),
        (b"alpha   beta\nalpha\tbeta\n", "alpha beta", "x", None),
        (b"  if x:\n    y\n", "if x:\n  y", "z", None),
        (b"", "x", "y", None),
        (b"x", "X", "y", None),
    ];
    let mut calls: Vec<Value> =
        table.iter().enumerate().map(|(at, (_, old, new, _))| edit(&format!("f{at}"), old, new)).collect();
    calls.push(edit("t1", "HERE", template));
    calls.push(call(
        "edit_file",
        json!({"path": "t2", "old_string": "HERE", "new_string": template, "replace_all": true}),
    ));
    calls.push(edit("missing", "a", "b"));
    calls.push(edit("f0", "x", "x"));
    calls.push(write("bom", "plain\n"));
    let (host, told) = play_with(
        one_by_one(&calls),
        |host| {
            for (at, (before, ..)) in table.iter().enumerate() {
                std::fs::write(host.workspace().join(format!("f{at}")), before).unwrap();
            }
            std::fs::write(host.workspace().join("t1"), "a HERE b").unwrap();
            std::fs::write(host.workspace().join("t2"), "HERE HERE").unwrap();
            std::fs::write(host.workspace().join("bom"), "\u{feff}old\n").unwrap();
        },
        |runner| runner,
    );
    let now = |name: &str| std::fs::read(host.workspace().join(name)).unwrap();
    for (at, (before, old, new, after)) in table.iter().enumerate() {
        let what = format!("{:?} {old:?} → {new:?}: {}", String::from_utf8_lossy(before), told[at]);
        assert_eq!(now(&format!("f{at}")), after.unwrap_or(before), "{what}");
        assert_eq!(told[at].contains("\"edited\":true"), after.is_some(), "{what}");
        assert!(after.is_some() || told[at].contains("\"error\""), "{what}");
    }
    assert!(told[21].contains("found 2 times (lines 1, 3)"), "{}", told[21]);
    assert!(told[23].contains("white space") && told[23].contains('1') && told[23].contains('2'), "{}", told[23]);
    assert_eq!(now("t1"), format!("a {template} b").into_bytes());
    assert_eq!(now("t2"), format!("{template} {template}").into_bytes());
    assert!(told[28].contains("\"replacements\":2") && told[29].contains("no such file"), "{told:?}");
    assert!(told[30].contains("the same"), "{}", told[30]);
    assert_eq!(now("bom"), b"plain\n");
}

#[test]
fn f15_permissions_stay() {
    const NAME: &str = "f15_permissions_stay";
    if !root(NAME) {
        return;
    }
    let modes = [0o755, 0o640, 0o600, 0o444, 0o4755, 0o2755, 0o1644, 0o400, 0o666];
    let calls: Vec<Value> = modes
        .iter()
        .flat_map(|mode| [write(&format!("w{mode:o}"), "new\n"), edit(&format!("e{mode:o}"), "old", "new")])
        .chain([write("fresh", "x"), write("shared/fresh", "x"), bash("umask 077; touch mine; stat -c %a fresh")])
        .collect();
    let (host, told) = play_with(
        one_by_one(&calls),
        |host| {
            for mode in modes {
                for kind in ["w", "e"] {
                    let path = host.workspace().join(format!("{kind}{mode:o}"));
                    std::fs::write(&path, "old\n").unwrap();
                    std::os::unix::fs::chown(&path, Some(STRANGER), Some(STRANGER)).unwrap();
                    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
                }
            }
            let shared = host.workspace().join("shared");
            std::fs::create_dir(&shared).unwrap();
            std::os::unix::fs::chown(&shared, Some(STRANGER), Some(STRANGER)).unwrap();
            std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o2775)).unwrap();
        },
        |runner| runner.user(STRANGER),
    );
    for (at, mode) in modes.iter().enumerate() {
        for (kind, told) in ["w", "e"].iter().zip(&told[at * 2..at * 2 + 2]) {
            let path = host.workspace().join(format!("{kind}{mode:o}"));
            let (now, text) = (path.metadata().unwrap().permissions().mode(), std::fs::read_to_string(&path).unwrap());
            // Handing the files over has already taken the set-id bits, as a write does.
            assert_eq!(now & 0o1777, mode & 0o1777, "{kind}{mode:o}: {told}");
            let writable = mode & 0o200 != 0;
            assert_eq!(
                (text.as_str(), told.contains("rror")),
                if writable { ("new\n", false) } else { ("old\n", true) },
                "{told}"
            );
            assert!(writable || told.contains("permission denied"), "{told}");
        }
    }
    assert_eq!(output(&told[modes.len() * 2 + 2]), "644\n");
}

#[test]
fn f16_a_failed_write_leaves_the_old_file() {
    const NAME: &str = "f16_a_failed_write_leaves_the_old_file";
    if !root(NAME) || !crate::net::have("unshare", NAME) {
        return;
    }
    let big = "0123456789abcdef".repeat(30_000);
    let calls = [
        bash(
            "(printf H; head -c 599999 /dev/zero | tr '\\0' o) > small/f; head -c 600000 /dev/zero | tr '\\0' o > capped; md5sum < small/f; df -k small | tail -1",
        ),
        write("small/f", &big),
        edit("small/f", &format!("H{}", "o".repeat(399_999)), &big),
        bash("ls -A small; tr -d Ho < small/f | wc -c; wc -c < small/f"),
        bash("rm small/f; df -k small | tail -1 | awk '{print $3}'"),
        write("small/g", "fits"),
        write("ro/f", "x"),
        write("ro/new", "x"),
        edit("ro/f", "old", "x"),
        bash("cat ro/f; ls -A ro; ls -A | grep -c ax-tmp"),
    ];
    let host = FakeHost::socket(one_by_one(&calls)).start();
    let ws = host.workspace();
    for name in ["small", "ro"] {
        std::fs::create_dir(ws.join(name)).unwrap();
    }
    std::fs::write(ws.join("ro/f"), "old").unwrap();
    let place = ws.display().to_string();
    let setup = format!(
        "set -e; mount -t tmpfs -o size=900k none {place}/small; mount --bind {place}/ro {place}/ro; mount -o remount,bind,ro {place}/ro; exec \"$@\""
    );
    let vector = ["unshare", "-m", "--propagation", "private", "sh", "-c", &setup, "sh", crate::support::BIN];
    let ended = host.command(vector.iter().map(Into::into).collect()).payload(&host.payload("go")).run();
    if ended.code != Some(0) && ended.stderr.contains("mount") {
        return crate::support::skip(NAME, ended.stderr.trim());
    }
    ended_well(&host, &ended);
    let told = told(&host);
    assert!(told[1].contains("no space left") && told[2].contains("no space left"), "{} {}", told[1], told[2]);
    assert_eq!(output(&told[3]), "f\n0\n600000\n");
    assert_eq!(output(&told[4]), "0\n");
    assert!(told[5].contains("written"), "{}", told[5]);
    for told in &told[6..9] {
        assert!(told.contains("read-only file system"), "{told}");
    }
    assert_eq!(output(&told[9]), "Exit code 1\noldf\n0\n");
}

#[test]
fn f16_a_killed_runner_leaves_old_or_new() {
    let new = "n".repeat(400_000);
    for delay in [0, 2, 5, 9, 14, 20, 30, 45] {
        let host = FakeHost::socket(at_once(&[write("f", &new)])).start();
        std::fs::write(host.workspace().join("f"), "o".repeat(300_000)).unwrap();
        let running = runner(&host).spawn().unwrap();
        host.wait_request("sandbox_approve", 1, crate::support::LIMIT).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(delay));
        running.signal(ax_runner::devhost::Signal::SIGKILL);
        let _ = running.wait();
        let text = std::fs::read_to_string(host.workspace().join("f")).unwrap();
        assert!(text == new || text == "o".repeat(300_000), "a mix of {} bytes after {delay} ms", text.len());
    }
}

#[test]
fn g01_a_pattern_is_no_option() {
    let patterns = [
        "--pre=/W/p.sh",
        "--pre /W/p.sh",
        "-f/etc/passwd",
        "--help",
        "-e",
        "--",
        "-w",
        "--hostname-bin=/W/p.sh",
        "--files",
        "-u",
        "--no-ignore",
        "-r",
        "@argfile",
        "--search-zip",
    ];
    let host = FakeHost::socket(one_by_one(&[])).start();
    let root = host.workspace().display().to_string();
    let mut calls: Vec<Value> = patterns.iter().map(|pattern| grep(&pattern.replace("/W", &root), ".")).collect();
    calls.extend(
        patterns.iter().map(|pattern| call("grep", json!({"pattern": "x", "glob": pattern.replace("/W", &root)}))),
    );
    calls.extend([
        grep("text", "-rf"),
        glob("--pre=p.sh"),
        glob("-*"),
        call("glob", json!({"pattern": "*", "path": "--files"})),
    ]);
    host.set_script(one_by_one(&calls));
    let lines: Vec<String> = patterns.iter().map(|pattern| pattern.replace("/W", &root)).collect();
    std::fs::write(host.workspace().join("patterns.txt"), lines.join("\n")).unwrap();
    std::fs::write(host.workspace().join("-rf"), "text\n").unwrap();
    std::fs::write(host.workspace().join(".rgrc"), "--pre=./p.sh\n").unwrap();
    let script = host.workspace().join("p.sh");
    std::fs::write(&script, format!("#!/bin/sh\ntouch {root}/PWNED\n")).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let ended = runner(&host).env("RIPGREP_CONFIG_PATH", host.workspace().join(".rgrc")).run();
    ended_well(&host, &ended);
    let told = told(&host);
    for (at, pattern) in patterns.iter().enumerate() {
        assert!(told[at].contains(&format!("patterns.txt:{}:", at + 1)), "{pattern}: {}", told[at]);
        assert!(!told[patterns.len() + at].contains("rror"), "{pattern}: {}", told[patterns.len() + at]);
    }
    let last = &told[patterns.len() * 2..];
    assert!(last[0].contains("-rf:1:text") && last[2].contains("\"-rf\""), "{last:?}");
    assert!(!host.workspace().join("PWNED").exists());
}

#[test]
fn g03_truncated_is_exact() {
    let many = |pattern: &str, max: u64| call("grep", json!({"pattern": pattern, "max_results": max}));
    let files = |max: u64| call("glob", json!({"pattern": "d/*", "max_results": max}));
    let calls = [
        many("five", 5),
        many("five", 4),
        many("five", 6),
        many("five", 1),
        files(20),
        files(19),
        files(21),
        grep("busy", "busy"),
        call("grep", json!({"pattern": "busy", "max_results": 500})),
        call("grep", json!({"pattern": "busy", "max_results": 499})),
        call("grep", json!({"pattern": "busy", "output_mode": "count"})),
        call("grep", json!({"pattern": "five", "output_mode": "files", "max_results": 5})),
        call("grep", json!({"pattern": "five", "output_mode": "files", "max_results": 4})),
        many("five", 5),
        call("grep", json!({"pattern": "five", "max_results": 5, "context_lines": 2})),
        many("none", 1),
        grep("end", "."),
    ];
    let (_host, told) = play_with(
        one_by_one(&calls),
        |host| {
            std::fs::create_dir(host.workspace().join("d")).unwrap();
            for at in 0..20 {
                let text = if at < 5 { "a\nfive\nb\n" } else { "-\n" };
                std::fs::write(host.workspace().join(format!("d/{at:02}")), text).unwrap();
            }
            std::fs::write(host.workspace().join("busy"), "busy\n".repeat(500)).unwrap();
            std::fs::write(host.workspace().join("nolf"), "x\nend").unwrap();
        },
        |runner| runner,
    );
    let found: Vec<(bool, u64)> = told
        .iter()
        .map(|told| {
            let value: Value = serde_json::from_str(told).unwrap();
            (value["truncated"].as_bool().unwrap(), value["count"].as_u64().unwrap())
        })
        .collect();
    let wanted = [
        (false, 5),
        (true, 4),
        (false, 5),
        (true, 1),
        (false, 20),
        (true, 19),
        (false, 20),
        (true, 100),
        (false, 500),
        (true, 499),
        (false, 1),
        (false, 5),
        (true, 4),
        (false, 5),
        (false, 5),
        (false, 0),
        (false, 1),
    ];
    assert_eq!(found, wanted);
    assert_eq!(told[0], told[13]);
    assert!(told[10].contains("busy:500"), "{}", told[10]);
}

#[test]
fn g05_and_g07_odd_text_is_found_or_named() {
    let mut minified = "a;".repeat(1_250_000);
    minified.push_str("NEEDLE-ü😀");
    minified.push_str(&"b;".repeat(1_250_000));
    let calls = [
        grep("NEEDLE", "min.js"),
        grep("NEED.E", "."),
        grep("word", "."),
        grep("foo$", "crlf"),
        grep("^foo", "bom"),
        grep("caf. w", "latin1"),
        grep("caf", "latin1"),
    ];
    let (_host, told) = play_with(
        one_by_one(&calls),
        |host| {
            let put = |name: &str, bytes: &[u8]| std::fs::write(host.workspace().join(name), bytes).unwrap();
            put("min.js", minified.as_bytes());
            let mut late = "filler line\n".repeat(800).into_bytes();
            late.extend(b"\0\nword after\n");
            put("late-nul", &late);
            put("early-nul", b"word\0word\n");
            put("latin1", b"caf\xe9 word\n");
            put("utf16", b"\xff\xfew\0o\0r\0d\0\n\0");
            put("crlf", b"foo\r\nbar\r\n");
            put("bom", b"\xef\xbb\xbffoo word\n");
            put("x.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03word");
            put("cr", b"word\rword\r");
        },
        |runner| runner,
    );
    for told in &told[..2] {
        assert!(told.contains("NEEDLE-ü😀") && told.len() < 5000 && told.contains("\"count\":1"), "{}", told.len());
    }
    let words = &told[2];
    for name in ["late-nul", "early-nul", "latin1", "utf16", "bom", "x.gz", "cr"] {
        assert!(words.contains(name), "{name} is neither found nor named: {words}");
    }
    assert!(!words.contains("\\u0000"), "{words}");
    assert!(told[3].contains("crlf:1:foo\\n"), "{}", told[3]);
    assert!(told[4].contains("bom:1:"), "{}", told[4]);
    for told in &told[5..7] {
        assert!(told.contains("latin1:1:caf"), "{told}");
    }
}

#[test]
fn g06_a_pattern_finds_nothing_outside() {
    let outside = Outside::new();
    let out = outside.path().display().to_string();
    let name = outside.path().file_name().unwrap().to_str().unwrap().to_owned();
    let patterns = [
        format!("../{name}/*"),
        format!("../../{name}/*"),
        format!("{out}/*"),
        "*/../../*/*".to_owned(),
        format!("{{..,..}}/{name}/*"),
        format!("{{.,..}}/{name}/**"),
        format!("[.][.]/{name}/*"),
        "l/**".to_owned(),
        "l/*".to_owned(),
        format!("{out}/secret"),
        format!("{out}/missing"),
        "**/secret".to_owned(),
        "f/**".to_owned(),
        "./../*".to_owned(),
        "/**".to_owned(),
        "**/../../**".to_owned(),
        "?.?./*".to_owned(),
        "l/CANARY-dir/*".to_owned(),
        "d/l/**".to_owned(),
        "{l,m}/*".to_owned(),
    ];
    let mut calls: Vec<Value> = patterns.iter().map(|pattern| glob(pattern)).collect();
    calls.extend(patterns.iter().map(|pattern| call("grep", json!({"pattern": "A[N]ARY", "glob": pattern}))));
    calls.extend([grep("A[N]ARY", "l"), grep("A[N]ARY", "f"), glob("foo..bar/*.txt"), grep("A[N]ARY", "..")]);
    let (_host, told) = play_with(
        one_by_one(&calls),
        |host| {
            let ws = host.workspace();
            symlink(&out, ws.join("l")).unwrap();
            symlink(format!("{out}/secret"), ws.join("f")).unwrap();
            std::fs::create_dir(ws.join("d")).unwrap();
            symlink(format!("../l/{out}"), ws.join("d/l")).unwrap();
            std::fs::create_dir(ws.join("foo..bar")).unwrap();
            std::fs::write(ws.join("foo..bar/a.txt"), "x").unwrap();
        },
        |runner| runner,
    );
    for (call, told) in calls.iter().zip(&told) {
        assert!(!told.contains("CANARY") && !told.contains("secret\""), "{call}: {told}");
    }
    // A name that is there and one that is not are the same.
    assert_eq!(told[9], told[10]);
    assert!(told[42].contains("foo..bar/a.txt"), "{}", told[42]);
}

#[test]
fn g09_hidden_is_found_and_ignored_is_named() {
    let calls = [
        glob("**"),
        glob(".github/**"),
        glob(".env"),
        glob("*.log"),
        glob("build/**"),
        call("glob", json!({"pattern": "*", "path": "build"})),
        grep("needle", "."),
        grep("needle", "build"),
        grep("needle", "build/out.txt"),
        grep("needle", ".git"),
        glob(".git/**"),
        grep("needle", ".env"),
        glob("sub/**"),
    ];
    for repository in [true, false] {
        let (_host, told) = play_with(
            one_by_one(&calls),
            |host| {
                let put = |name: &str, text: &str| {
                    let path = host.workspace().join(name);
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(path, text).unwrap();
                };
                for name in [
                    ".github/workflows/ci.yml",
                    ".env",
                    "build/out.txt",
                    "a.log",
                    "src/a.rs",
                    "sub/keep.tmp",
                    "sub/gone.tmp",
                ] {
                    put(name, "needle\n");
                }
                put(".gitignore", "build/\n*.log\n");
                put("sub/.gitignore", "*.tmp\n!keep.tmp\n");
                if repository {
                    put(".git/config", "needle\n");
                }
            },
            |runner| runner,
        );
        let has = |at: usize, name: &str| told[at].contains(name);
        assert!(has(0, ".github/workflows/ci.yml") && has(0, "\".env\"") && has(0, "src/a.rs"), "{}", told[0]);
        assert!(!has(0, "\"build/out.txt\"") && !has(0, "\".git/"), "{}", told[0]);
        assert!(has(0, ".gitignore") && has(0, "note"), "hidden by rules, and said so: {}", told[0]);
        assert!(has(1, "ci.yml") && has(2, ".env"));
        assert!(
            has(4, "build/out.txt")
                && has(5, "build/out.txt")
                && has(7, "build/out.txt:1")
                && has(8, "build/out.txt:1")
        );
        assert!(has(6, ".env:1:needle") && !has(6, "build/out.txt:") && !has(6, ".git/config"), "{}", told[6]);
        assert!(has(12, "sub/keep.tmp") && !has(12, "\"sub/gone.tmp\""), "{}", told[12]);
    }
}
