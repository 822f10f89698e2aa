//! Every request of a turn × every place of a cut × every kind of cut over the host's one bridge, as a committed table.
//!
//! `AX_WRITE_FIXTURES=1 AX_SOAK=1 cargo test --test it listen_fault_matrix` writes it anew.

use crate::http::in_parallel;
use crate::support::{At, BIN, Cut, How, LIMIT, Place, Relay, lines, stage, tools_then_done};
use ax_runner::devhost::FakeHost;
use serde_json::{Value, json};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/fault-matrix-listen.md");

const HEAD: &str = "\
# What one broken exchange does to a turn (listen mode)

The turn: the model calls one tool (`bash` with a command that adds a line to a file, or a host tool), then says `done`. One
request of it is cut at one place. The host never dials twice, so a cut is the end of the link: nothing is sent again, and an
answer that cannot be delivered is exit 1. A Unix socket resets its peer if and only if something it sent was never read, so
there are no resets after the request. The columns are those of `fault-matrix-http.md`; the model's time is set to 2 s here.
Written by the test `listen_fault_matrix`; `AX_WRITE_FIXTURES=1 AX_SOAK=1` writes it anew.

| request | cut | as | sent | host | ran | exit | answers | the answer |
|---|---|---|---|---|---|---|---|---|
";

fn bash() -> Value {
    json!([{"name": "bash", "args": {"command": "echo x >>count"}}])
}

fn write() -> Value {
    json!([{"name": "memory", "args": {"type": "write", "scope": "s", "content": "c"}}])
}

type Subject = (&'static str, &'static str, fn() -> Value);

const SUBJECTS: [Subject; 6] = [
    ("`llm_call`, the first", "llm_call", bash),
    ("`llm_call`, after a tool", "llm_call+", bash),
    ("`sandbox_approve`", "sandbox_approve", bash),
    ("`sandbox_result`", "sandbox_result", bash),
    ("`memory_write` (writes)", "memory_write", write),
    ("`agent_response`", "agent_response", bash),
];

const PLACES: [(&str, Place); 4] = [
    ("before it is read", Place::Before),
    ("in the middle of it", Place::Request(At::Half)),
    ("after it is read", Place::After),
    ("before the reply's last byte", Place::Reply(At::Last)),
];

type Cell = (Subject, (&'static str, Place), How);

fn row(&((name, at, tool), place, how): &Cell) -> String {
    let host = FakeHost::listen(tools_then_done(tool())).start();
    // Frames are cut.
    host.forgive();
    let inner = host.directory().join("inner.sock");
    let relay = Relay::before_runner(&host.socket_path(), &inner, Cut { stage: at, place: place.1, how });
    let mut payload = host.payload("go");
    payload["singleTurn"] = json!(true);
    let output = host
        .runner(BIN)
        .payload(&payload)
        .env("AX_IPC_SOCKET", &inner)
        .env("AX_LLM_TIMEOUT_MS", "2000")
        .deadline(LIMIT)
        .run();
    let title = format!("{name} {} {how:?}", place.0);
    assert!(!output.timed_out, "{title} hangs: {}", output.stderr);
    let carried = |request: &ax_runner::devhost::Request| request.carried_out && stage(&request.value) == at;
    format!(
        "| {name} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        place.0,
        match how {
            How::Eof => "end",
            How::Reset => "reset",
            How::Silence => "silence",
        },
        relay.written(at),
        host.requests().iter().filter(|request| carried(request)).count(),
        lines(&host, "count").len(),
        output.code.unwrap_or(-1),
        host.answers().len(),
        host.answer().unwrap_or_default().replace('\n', "\u{21b5}"),
    )
}

#[test]
fn listen_fault_matrix() {
    let all = std::env::var_os("AX_SOAK").is_some();
    let mut cells: Vec<Cell> = Vec::new();
    for subject in SUBJECTS {
        for place in PLACES {
            for how in [How::Eof, How::Reset, How::Silence] {
                let late = matches!(place.1, Place::After | Place::Reply(_));
                // Thirty seconds of an ordinary call's silence.
                let slow = how == How::Silence && ["sandbox_approve", "memory_write"].contains(&subject.1);
                if (how != How::Reset || !late) && (all || !slow) {
                    cells.push((subject, place, how));
                }
            }
        }
    }
    let rows = in_parallel(&cells, |(_, _, how)| u64::from(*how == How::Silence), row);
    println!("{HEAD}{}", rows.concat());
    if all && std::env::var_os("AX_WRITE_FIXTURES").is_some() {
        std::fs::write(FIXTURE, format!("{HEAD}{}", rows.concat())).unwrap();
    }
    let committed = std::fs::read_to_string(FIXTURE).unwrap_or_default();
    assert!(committed.starts_with(HEAD), "the table's introduction is an old one");
    for row in &rows {
        assert!(committed.contains(row), "not in the committed table: {row}");
    }
    assert!(!all || committed == format!("{HEAD}{}", rows.concat()));
}
