//! Called as `node` for a script that is not ours: the real one takes over, whatever else of that name is in PATH
//! (PROTOCOL §1.1, T35).

use crate::support::{BIN, LIMIT, comes_true};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs a shell command that makes a program. Not written here: a child that another test starts meanwhile would hold it open,
/// and what is open for writing cannot be started.
fn make(command: &str, place: &Path, name: &str) -> PathBuf {
    let directory = place.join(name);
    std::fs::create_dir(&directory).unwrap();
    let made = Command::new("/bin/sh").args(["-c", command, BIN]).current_dir(&directory).status().unwrap();
    assert!(made.success(), "{command}");
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
    let [one, other] = ["one", "other"].map(|name| make("cp \"$0\" node", place.path(), name));
    let (said, told, code) = called(&[&one, &other]);
    assert_eq!((said.as_str(), code), ("", Some(127)), "{told}");
    assert!(told.starts_with("node: this image has no Node.js"), "{told}");
    // Behind them is a real one, which finds ours by its name again.
    let lines = r#"'#!/bin/sh' 'd=${0%/*}' '[ "$2" = b ] || PATH=$d/../one:$d node y.js b' 'echo "real $*"'"#;
    let real = make(&format!("printf '%s\\n' {lines} >node; chmod +x node"), place.path(), "real");
    let (said, told, code) = called(&[&one, &other, &one, &real]);
    assert_eq!((said.as_str(), code), ("real y.js b\nreal x.js a\n", Some(0)), "{told}");
}
