//! What the tests of the built runner share: the binary, a turn in one line, the host's own judgement of an exit and of a
//! request, and a relay that cuts the connection at any byte.

mod relay;

pub(crate) use relay::{At, Cut, Heard, How, Place, Relay, stage};

use ax_runner::devhost::{Builder, FakeHost, Output, Runner, Script, Transport, broken_rules};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The program under test.
pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_ax-runner");
/// Longer than any turn here takes on a busy machine; shorter than the commands in them sleep.
pub(crate) const LIMIT: Duration = Duration::from_secs(240);

/// Waits until it holds; `false` when it never does.
pub(crate) fn comes_true(mut condition: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !condition() {
        if begun.elapsed() > LIMIT {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Whether a process has ended; its number may still be there, where nobody asks how it did.
pub(crate) fn has_ended(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['Z', 'X']))
}

/// A user that nobody else is, not even another run of these tests beside this one: limits count all processes of a user.
pub(crate) fn lone_user() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    100_000_000 + std::process::id() * 64 + NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Says that a test, or a part of one, is not run here. Past the harness's capture, so that a skip is always seen and counted.
pub(crate) fn skip(test: &str, why: impl std::fmt::Display) {
    pass_on(&format!("SKIP {test}: {why}"));
}

/// Passes on what a test that ran in a process of its own said was skipped or measured. The harness may have begun the line.
pub(crate) fn relay(text: &str) {
    let said = |line: &str| ["SKIP ", "MEASURED "].iter().find_map(|word| Some(line[line.find(word)?..].to_owned()));
    text.lines().filter_map(said).for_each(|line| pass_on(&line));
}

fn pass_on(line: &str) {
    // A line of its own, also where the harness has written the half of one.
    let _ = std::io::stderr().write_all(format!("\n{line}\n").as_bytes());
}

/// A runner with a deadline and a payload.
pub(crate) fn runner(host: &FakeHost) -> Runner {
    host.runner(BIN).deadline(LIMIT).payload(&host.payload("go"))
}

/// One turn against a host that is yet to start.
pub(crate) fn turn(builder: Builder) -> (FakeHost, Output) {
    let host = builder.start();
    let output = runner(&host).run();
    assert!(!output.timed_out, "the runner hangs: {}", output.stderr);
    (host, output)
}

/// A script of one round of tools and then `done`. The first part repeats as long as no result has come, so a model
/// call that is asked twice is answered alike.
pub(crate) fn tools_then_done(tools: Value) -> Script {
    Script::json(json!([
        {"when": "\\A\\z", "repeat": true, "tools": tools},
        {"repeat": true, "text": "done"}]))
}

/// One bash call, then `done`.
pub(crate) fn bash_then_done(command: &str) -> Script {
    tools_then_done(json!([{"name": "bash", "args": {"command": command}}]))
}

/// The lines of a file in the workspace; none when there is no such file.
pub(crate) fn lines(host: &FakeHost, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(host.workspace().join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The results the model was given, by call id, from the last model call.
pub(crate) fn results(host: &FakeHost) -> BTreeMap<String, String> {
    let calls = host.requests_of("llm_call");
    let messages = calls.last().map(|call| call.value["messages"].clone()).unwrap_or_default();
    let blocks = messages.as_array().cloned().unwrap_or_default();
    blocks
        .iter()
        .filter_map(|message| message["content"].as_array())
        .flatten()
        .filter(|block| block["type"] == "tool_result")
        .map(|block| {
            let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
            (text("tool_use_id"), text("content"))
        })
        .collect()
}

/// The only result.
pub(crate) fn result(host: &FakeHost) -> String {
    let results = results(host);
    assert_eq!(results.len(), 1, "{results:?}");
    results.into_values().next().unwrap_or_default()
}

/// What the host makes of an ended runner (PROTOCOL §1.4, §1.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Stdout is the answer.
    Accepts,
    /// The whole turn is run again.
    Retries,
    /// The user is told that it failed.
    GivesUp,
}

/// The host's rule, word for word.
pub(crate) fn judge(code: i32, stdout: &str, stderr: &str) -> Judgement {
    if code == 0 || !stdout.trim().is_empty() {
        return Judgement::Accepts;
    }
    let text = stderr.to_lowercase();
    let any = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let permanent = any(&["401", "403", "unauthorized", "forbidden"])
        || (any(&["invalid"]) && any(&["api key"]))
        || any(&["no api credentials", "400", "bad request", "validation failed"])
        || any(&["timed out", "timeout", "sigkill", "kill eperm"])
        || (any(&["eperm"]) && any(&["relaysignaltochild"]));
    if permanent { Judgement::GivesUp } else { Judgement::Retries }
}

/// Everything the rule and the choice of a diagnosis look for.
pub(crate) const TRIGGERS: [&str; 31] = [
    "401",
    "403",
    "400",
    "429",
    "500",
    "502",
    "503",
    "unauthorized",
    "forbidden",
    "invalid api key",
    "api key",
    "no api credentials",
    "bad request",
    "validation failed",
    "timed out",
    "timeout",
    "sigkill",
    "eperm",
    "econnreset",
    "econnrefused",
    "epipe",
    "socket hang",
    "spawn",
    "enomem",
    "cannot allocate",
    "rate limit",
    "certificate",
    "etimedout",
    "enotfound",
    "broken pipe",
    "tls",
];

/// The triggers that stand in a text.
pub(crate) fn triggers(text: &str) -> Vec<&'static str> {
    let text = text.to_lowercase();
    TRIGGERS.into_iter().filter(|word| text.contains(word)).collect()
}

/// A request that a host of a few lines has read, judged as the development host judges its own.
pub(crate) fn judged(raw: &[u8], transport: Transport) -> Value {
    assert_eq!(broken_rules(raw, transport), Vec::<String>::new(), "{}", String::from_utf8_lossy(raw));
    serde_json::from_slice(raw).unwrap()
}

/// The same for a host on threads of its own, whose panics nobody hears.
#[derive(Debug, Default)]
pub(crate) struct Judge(Mutex<Vec<String>>);

impl Judge {
    pub(crate) fn hear(&self, raw: &[u8], transport: Transport) {
        self.0.lock().unwrap().extend(broken_rules(raw, transport));
    }

    /// To be asked at the end.
    pub(crate) fn ask(&self) {
        let broken = self.0.lock().unwrap();
        assert!(broken.is_empty() || std::thread::panicking(), "the runner broke rules of the host's: {broken:?}");
    }
}
