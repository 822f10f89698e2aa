//! Called as `node` for a script that is not ours: the real one takes over, whatever else of that name is in PATH
//! (PROTOCOL §1.1, T35).

use crate::support::{BIN, LIMIT, comes_true};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn directory(at: &Path, name: &str) -> PathBuf {
    let directory = at.join(name);
    std::fs::create_dir(&directory).unwrap();
    directory
}

/// What came on stdout and stderr, and the exit code.
fn called(path: &[&Path]) -> (String, String, Option<i32>) {
    let mut child = Command::new(BIN)
        .arg0("node")
        .args(["x.js", "a"])
        .env_clear()
        .env("PATH", std::env::join_paths(path).unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let ended = comes_true(|| child.try_wait().unwrap().is_some());
    let _ = child.kill();
    let output = child.wait_with_output().unwrap();
    assert!(ended, "still on its way after {} s", LIMIT.as_secs());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

#[test]
fn copies_of_the_program_do_not_call_each_other_for_ever() {
    let place = tempfile::tempdir().unwrap();
    let (one, other) = (directory(place.path(), "one"), directory(place.path(), "other"));
    for copy in [&one, &other] {
        std::fs::copy(BIN, copy.join("node")).unwrap();
    }
    let (said, told, code) = called(&[&one, &other]);
    assert_eq!((said.as_str(), code), ("", Some(127)), "{told}");
    assert!(told.starts_with("node: this image has no Node.js"), "{told}");
    // Behind them is a real one, which finds ours by its name again.
    let real = directory(place.path(), "real");
    let script = format!(
        "#!/bin/sh\n[ \"$2\" = b ] || PATH={}:{} node y.js b\necho \"real $*\"\n",
        one.display(),
        real.display()
    );
    std::fs::write(real.join("node"), script).unwrap();
    std::fs::set_permissions(real.join("node"), PermissionsExt::from_mode(0o755)).unwrap();
    let (said, told, code) = called(&[&one, &other, &one, &real]);
    assert_eq!((said.as_str(), code), ("real y.js b\nreal x.js a\n", Some(0)), "{told}");
}
