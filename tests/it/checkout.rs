//! A turn on a real tree: this repository's own checkout, copied, searched, edited and checked.

use crate::support::{LIMIT, runner};
use ax_runner::devhost::{FakeHost, Script};
use serde_json::json;
use std::path::Path;
use std::{fs, io};

/// Copies what a checkout has, without what is built in it.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type()? {
            kind if kind.is_dir() && [".git", "target"].iter().any(|name| entry.file_name() == *name) => {}
            kind if kind.is_dir() => copy(&source, &target)?,
            kind if kind.is_file() => drop(fs::copy(&source, &target)?),
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn a_turn_on_our_own_checkout() {
    let bash = |command: &str| json!([{"name": "bash", "args": {"command": command}}]);
    let script = json!([
        {"text": "Where is it?", "tools": bash("grep -rn 'pub fn cut_units' src")},
        {"when": "src/text/utf16.rs:", "tools": [
            {"name": "read_file", "args": {"path": "src/text/utf16.rs", "offset": 1, "limit": 12}},
            {"name": "grep", "args": {"pattern": "cut_units\\(", "path": "src/text", "output_mode": "count"}}
        ]},
        {"when": "UTF-16 code units", "tools": [{"name": "edit_file", "args": {
            "path": "src/text/utf16.rs",
            "old_string": "text.len() <= max",
            "new_string": "text.len() < max"
        }}]},
        {"when": "\"replacements\":1", "tools": bash(
            "diff -r \"$OLDPWD_CHECK\" . | grep '^[<>]'; bash -n tests/static && bash -n .ci/run && echo shell fine"
        )},
        {"when": "shell fine", "text": "Edited and checked."},
        {"text": "It went another way."}
    ]);
    let host = FakeHost::socket(Script::json(script)).start();
    let original = Path::new(env!("CARGO_MANIFEST_DIR"));
    copy(original, &host.workspace()).unwrap();
    let before = tempfile::tempdir().unwrap();
    copy(original, before.path()).unwrap();
    let output = runner(&host)
        .env("OLDPWD_CHECK", before.path())
        .env("AX_PASS_ENV", "OLDPWD_CHECK")
        .payload(&host.payload("Change the comparison in cut_units."))
        .deadline(LIMIT)
        .run();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(output.text(), "Where is it?\n\nEdited and checked.");
    assert_eq!(host.violations(), []);
    let shown = host.requests_of("sandbox_result").pop().unwrap().value["output"].to_string();
    for line in ["<     if text.len() <= max {", ">     if text.len() < max {"] {
        assert!(shown.contains(line), "{shown}");
    }
}
