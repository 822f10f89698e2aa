//! Every request of a turn × every place of a cut × every kind of cut, as a table that is committed.
//!
//! `AX_WRITE_FIXTURES=1 cargo test --test it fault_matrix` writes it anew.

use crate::support::{At, Cut, How, Judgement, Place, Relay, judge, lines, runner, stage, tools_then_done};
use ax_runner::devhost::FakeHost;
use serde_json::{Value, json};
use std::sync::Mutex;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/fault-matrix.md");

const HEAD: &str = "\
# What one broken exchange does to a turn (connect mode)

The turn: the model calls one tool (`bash` with a command that adds a line to a file, or a host tool), then says `done`. One
request of it is cut at one place. A Unix socket resets its peer if and only if something it sent was never read, so there
are no resets after the request. *sent*: how often the runner wrote that request. *host*: how often the host carried it out.
*ran*: lines in the file. Written by the test `fault_matrix`; `AX_WRITE_FIXTURES=1` writes it anew.

| request | cut | as | sent | host | ran | exit | stdout | the host then |
|---|---|---|---|---|---|---|---|---|
";

struct Subject {
    name: &'static str,
    stage: &'static str,
    tool: fn() -> Value,
}

fn bash() -> Value {
    json!([{"name": "bash", "args": {"command": "echo x >>count"}}])
}

fn read() -> Value {
    json!([{"name": "memory", "args": {"type": "query", "scope": "s", "query": "q"}}])
}

fn write() -> Value {
    json!([{"name": "memory", "args": {"type": "write", "scope": "s", "content": "c"}}])
}

const SUBJECTS: [Subject; 6] = [
    Subject { name: "`llm_call`, the first", stage: "llm_call", tool: bash },
    Subject { name: "`llm_call`, after a tool", stage: "llm_call+", tool: bash },
    Subject { name: "`sandbox_approve`", stage: "sandbox_approve", tool: bash },
    Subject { name: "`sandbox_result`", stage: "sandbox_result", tool: bash },
    Subject { name: "`memory_query` (reads)", stage: "memory_query", tool: read },
    Subject { name: "`memory_write` (writes)", stage: "memory_write", tool: write },
];

const PLACES: [(&str, Place); 8] = [
    ("before it is read", Place::Before),
    ("after 1 byte of it", Place::Request(At::Byte(1))),
    ("in the middle of it", Place::Request(At::Half)),
    ("before its last byte", Place::Request(At::Last)),
    ("after it is read", Place::After),
    ("after 1 byte of the reply", Place::Reply(At::Byte(1))),
    ("in the middle of the reply", Place::Reply(At::Half)),
    ("before the reply's last byte", Place::Reply(At::Last)),
];

fn cell(subject: &Subject, place: (&str, Place), how: How) -> String {
    let host = FakeHost::socket(tools_then_done((subject.tool)())).start();
    let relay = Relay::start(&host.socket_path(), Cut { stage: subject.stage, place: place.1, how });
    let output = runner(&host).env("AX_IPC_SOCKET", relay.path()).env("AX_LLM_TIMEOUT_MS", "2000").run();
    let title = format!("{} {} {how:?}", subject.name, place.0);
    assert!(!output.timed_out, "{title} hangs: {}", output.stderr);
    let torn = "the connection ended inside a frame";
    let broken: Vec<_> = host.violations().into_iter().filter(|violation| violation.message != torn).collect();
    assert_eq!(broken, [], "{title}");
    let seen = host.requests().iter().filter(|request| stage(&request.value) == subject.stage).count();
    let (text, code) = (output.text(), output.code.unwrap_or(-1));
    format!(
        "| {} | {} | {} | {} | {seen} | {} | {code} | {} | {} |\n",
        subject.name,
        place.0,
        match how {
            How::Eof => "end",
            How::Reset => "reset",
            How::Silence => "silence",
        },
        relay.written(subject.stage),
        lines(&host, "count").len(),
        text.replace('\n', "\u{21b5}"),
        match judge(code, &text, &output.stderr) {
            Judgement::Accepts => "takes it",
            Judgement::Retries => "runs the turn again",
            Judgement::GivesUp => "gives up",
        },
    )
}

#[test]
fn fault_matrix() {
    let mut cells = Vec::new();
    for subject in &SUBJECTS {
        for place in PLACES {
            for how in [How::Eof, How::Reset, How::Silence] {
                // A silence costs the call's whole time; one place of each kind is enough.
                let rare = matches!(place.1, Place::Request(at) | Place::Reply(at) if at != At::Half);
                let impossible = how == How::Reset && matches!(place.1, Place::After | Place::Reply(_));
                if (how != How::Silence || !rare) && !impossible {
                    cells.push((subject, place, how));
                }
            }
        }
    }
    let queue = Mutex::new(cells.iter().enumerate().collect::<Vec<_>>());
    // Silences first: they take longest.
    queue.lock().unwrap().sort_by_key(|(_, (.., how))| *how == How::Silence);
    let rows = Mutex::new(vec![String::new(); cells.len()]);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                loop {
                    let Some((index, (subject, place, how))) = queue.lock().unwrap().pop() else { return };
                    let row = cell(subject, *place, *how);
                    rows.lock().unwrap()[index] = row;
                }
            });
        }
    });
    let table = format!("{HEAD}{}", rows.into_inner().unwrap().concat());
    println!("{table}");
    if std::env::var_os("AX_WRITE_FIXTURES").is_some() {
        std::fs::write(FIXTURE, &table).unwrap();
    }
    let committed = std::fs::read_to_string(FIXTURE).unwrap_or_default();
    for (now, then) in table.lines().zip(committed.lines()) {
        assert_eq!(now, then);
    }
    assert_eq!(table.len(), committed.len());
}
