//! The log file is best effort, in a place that commands can write to (PROTOCOL §13; CASES F08).

use crate::support::runner;
use ax_runner::devhost::{FakeHost, Script};
use serde_json::json;
use std::fs;
use std::os::unix::fs::FileTypeExt;

#[test]
fn holds_the_lines_of_stderr() {
    let home = tempfile::tempdir().unwrap();
    let host = FakeHost::socket(Script::text("done")).start();
    let output = runner(&host).env("AX_HOME", home.path()).env("LOG_LEVEL", "debug").run();
    assert_eq!(output.text(), "done");
    let file = fs::read_to_string(home.path().join("data/ax.log")).unwrap();
    assert!(file.lines().count() > 1, "{file}");
    assert_eq!(file, output.stderr);
}

/// Each is planted before the first line is written: by somebody before the start, or by a command of a turn whose first
/// line comes later.
#[test]
fn f08_what_is_planted_in_its_place_holds_nothing_up() {
    let plants = [
        "mkfifo ax.log",
        "ln -s victim ax.log; mkfifo victim",
        "ln -s victim ax.log; printf kept > victim",
        "mkdir ax.log",
        "ln -s /dev/full ax.log",
    ];
    for (plant, before) in plants.iter().flat_map(|plant| [(plant, true), (plant, false)]) {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        fs::create_dir(&data).unwrap();
        let planting = format!("cd {}; {plant}", data.display());
        let early = if before { planting.as_str() } else { "true" };
        std::process::Command::new("/bin/sh").args(["-c", early]).status().unwrap();
        let command = if before { "true" } else { planting.as_str() };
        let script = json!([{"tools": [{"name": "bash", "args": {"command": command}}]}, {"error": "no model today"}]);
        let host = FakeHost::socket(Script::json(script)).start();
        let level = if before { "info" } else { "warn" };
        let output = runner(&host).env("AX_HOME", home.path()).env("LOG_LEVEL", level).run();
        assert!(!output.timed_out && output.code == Some(0), "{plant}: {}", output.stderr);
        assert!(
            output.text().contains("no model today") && output.stderr.contains("llm_call_failed"),
            "{}",
            output.stderr
        );
        let victim = data.join("victim");
        if victim.exists() && !fs::metadata(&victim).unwrap().file_type().is_fifo() {
            assert_eq!(fs::read_to_string(&victim).unwrap(), "kept", "a link was followed");
        }
    }
}
