//! What the row tests of the tools share: calls of a scripted model through the built runner, and what it was told.

use crate::support::runner;
use ax_runner::devhost::{FakeHost, Output, Runner, Script};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// An ordinary user whom no passwd file knows.
pub(crate) const STRANGER: u32 = 12_345;

/// One call of a tool.
pub(crate) fn call(name: &str, args: Value) -> Value {
    json!({"name": name, "args": args})
}

/// One call whose arguments arrive as exactly this text.
pub(crate) fn raw(name: &str, args: &str) -> Value {
    json!({"name": name, "args_raw": args})
}

/// One command.
pub(crate) fn bash(command: impl AsRef<str>) -> Value {
    call("bash", json!({"command": command.as_ref()}))
}

/// One command with a time limit.
pub(crate) fn bash_for(command: &str, ms: u64) -> Value {
    call("bash", json!({"command": command, "timeout_ms": ms}))
}

pub(crate) fn read(path: &str) -> Value {
    call("read_file", json!({"path": path}))
}

pub(crate) fn write(path: &str, content: &str) -> Value {
    call("write_file", json!({"path": path, "content": content}))
}

pub(crate) fn edit(path: &str, old: &str, new: &str) -> Value {
    call("edit_file", json!({"path": path, "old_string": old, "new_string": new}))
}

pub(crate) fn grep(pattern: &str, path: &str) -> Value {
    call("grep", json!({"pattern": pattern, "path": path}))
}

pub(crate) fn glob(pattern: &str) -> Value {
    call("glob", json!({"pattern": pattern}))
}

fn named(calls: &[Value]) -> Vec<Value> {
    let name = |(at, call): (usize, &Value)| {
        let mut call = call.clone();
        call["id"] = format!("c{at:03}").into();
        call
    };
    calls.iter().enumerate().map(name).collect()
}

/// A model that makes these calls, each in a reply of its own.
pub(crate) fn one_by_one(calls: &[Value]) -> Script {
    let rounds = named(calls).into_iter().map(|call| json!({"tools": [call]}));
    Script::json(rounds.chain([json!({"repeat": true, "text": "done"})]).collect())
}

/// A model that makes these calls in one reply.
pub(crate) fn at_once(calls: &[Value]) -> Script {
    Script::json(json!([{"tools": named(calls)}, {"repeat": true, "text": "done"}]))
}

/// What the model was told, in the order of its calls. Each result must be told once and stay as it was.
pub(crate) fn told(host: &FakeHost) -> Vec<String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for request in host.requests_of("llm_call") {
        let messages = request.value["messages"].as_array().cloned().unwrap_or_default();
        for block in messages.iter().filter_map(|message| message["content"].as_array()).flatten() {
            if block["type"] == "tool_result" {
                let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
                let old = all.entry(text("tool_use_id")).or_insert_with(|| text("content"));
                assert!(*old == text("content") || old.len() > 50_000, "a result changed: {old}");
            }
        }
    }
    all.into_values().collect()
}

/// A turn that ends well on a host that is prepared first.
pub(crate) fn play_with(
    script: Script,
    prepare: impl FnOnce(&FakeHost),
    configure: impl FnOnce(Runner) -> Runner,
) -> (FakeHost, Vec<String>) {
    let host = FakeHost::socket(script).start();
    prepare(&host);
    let output = configure(runner(&host)).run();
    ended_well(&host, &output);
    let told = told(&host);
    (host, told)
}

pub(crate) fn ended_well(host: &FakeHost, output: &Output) {
    assert!(!output.timed_out, "the runner hangs: {}", output.stderr);
    assert_eq!((output.code, output.text().as_str()), (Some(0), "done"), "{}", output.stderr);
    assert_eq!(host.violations(), []);
}

/// A turn that ends well.
pub(crate) fn play(script: Script) -> (FakeHost, Vec<String>) {
    play_with(script, |_| {}, |runner| runner)
}

/// The `output` of a bash result.
pub(crate) fn output(told: &str) -> String {
    let value: Value = serde_json::from_str(told).unwrap_or_else(|error| panic!("{error}: {told}"));
    value["output"].as_str().unwrap_or_else(|| panic!("no output: {told}")).to_owned()
}

/// Can tests become another user?
pub(crate) fn root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        crate::support::skip(test, "needs root to start the runner as another user");
    }
    root
}

/// Processes that work inside a directory.
pub(crate) fn working_in(place: &Path) -> Vec<String> {
    let place = place.canonicalize().unwrap_or_else(|_| place.to_owned());
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let inside = processes.filter(|process| {
        std::fs::read_link(process.path().join("cwd")).is_ok_and(|directory| directory.starts_with(&place))
    });
    let name = |process: std::fs::DirEntry| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ")
    };
    inside.map(name).filter(|line| !line.is_empty()).collect()
}
