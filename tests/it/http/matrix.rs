//! Every request of a turn × every place of a cut × every kind of cut over HTTP, as a table that is committed.
//!
//! `AX_WRITE_FIXTURES=1 AX_SOAK=1 cargo test --test it http_fault_matrix` writes it anew. Without `AX_SOAK` the rows that
//! take half a minute or more are left out.

use super::relay::{Deed, Relay};
use crate::support::{At, BIN, How, Place, lines, stage, tools_then_done};
use ax_runner::devhost::FakeHost;
use serde_json::{Value, json};
use std::sync::Mutex;
use std::time::Duration;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/fault-matrix-http.md");

const HEAD: &str = "\
# What one broken exchange does to a turn (HTTP mode)

The turn: the model calls one tool (`bash` with a command that adds a line to a file, or a host tool), then says `done`. One
request of it is cut at one place. *sent*: how often the runner wrote that request. *host*: how often the host carried it out.
*ran*: lines in the file. *answers*: how many the host got. The model's time is set to 2 s here; other calls have 300 s, the
answer 5 s, and a reply that has begun 30 s between two pieces. Written by the test `http_fault_matrix`;
`AX_WRITE_FIXTURES=1 AX_SOAK=1` writes it anew.

| request | cut | as | sent | host | ran | exit | answers | the answer |
|---|---|---|---|---|---|---|---|---|
";

struct Subject {
    name: &'static str,
    stage: &'static str,
    tool: fn() -> Value,
    /// Seconds of silence that are borne: after the request, inside the reply's body.
    silence: (u64, u64),
}

fn bash() -> Value {
    json!([{"name": "bash", "args": {"command": "echo x >>count"}}])
}

fn memory(fields: Value) -> Value {
    json!([{"name": "memory", "args": fields}])
}

fn read() -> Value {
    memory(json!({"type": "query", "scope": "s", "query": "q"}))
}

fn write() -> Value {
    memory(json!({"type": "write", "scope": "s", "content": "c"}))
}

const SUBJECTS: [Subject; 7] = [
    Subject { name: "`llm_call`, the first", stage: "llm_call", tool: bash, silence: (2, 2) },
    Subject { name: "`llm_call`, after a tool", stage: "llm_call+", tool: bash, silence: (2, 2) },
    Subject { name: "`sandbox_approve`", stage: "sandbox_approve", tool: bash, silence: (300, 30) },
    Subject { name: "`sandbox_result`", stage: "sandbox_result", tool: bash, silence: (2, 2) },
    Subject { name: "`memory_query` (reads)", stage: "memory_query", tool: read, silence: (300, 30) },
    Subject { name: "`memory_write` (writes)", stage: "memory_write", tool: write, silence: (300, 30) },
    Subject { name: "`agent_response`", stage: "agent_response", tool: bash, silence: (5, 5) },
];

const PLACES: [(&str, Place); 4] = [
    ("before it is read", Place::Before),
    ("in the middle of it", Place::Request(At::Half)),
    ("after it is read", Place::After),
    ("before the reply's last byte", Place::Reply(At::Last)),
];

#[derive(Clone, Copy)]
struct Cell {
    subject: &'static Subject,
    place: (&'static str, Place),
    how: How,
}

impl Cell {
    /// Seconds of silence.
    fn silence(&self) -> u64 {
        match (self.how, self.place.1) {
            (How::Silence, Place::Reply(_)) => self.subject.silence.1,
            (How::Silence, _) => self.subject.silence.0,
            _ => 0,
        }
    }

    fn row(&self) -> String {
        let Self { subject, place, how } = *self;
        let host = FakeHost::http(tools_then_done((subject.tool)())).start();
        let relay = Relay::start(&host.url(), move |asked| match asked.stage == subject.stage && asked.nth == 1 {
            true => Deed::Cut(place.1, how),
            false => Deed::Pass,
        });
        let output = host
            .runner(BIN)
            .payload(&host.payload("go"))
            .env("AX_HOST_URL", relay.url())
            .env("AX_LLM_TIMEOUT_MS", "2000")
            .deadline(Duration::from_secs(90 + self.silence()))
            .run();
        let title = format!("{} {} {how:?}", subject.name, place.0);
        assert!(!output.timed_out, "{title} hangs: {}", output.stderr);
        let torn = "the request's body cannot be read";
        let broken: Vec<_> =
            host.violations().into_iter().filter(|violation| !violation.message.starts_with(torn)).collect();
        assert_eq!(broken, [], "{title}");
        let carried =
            |request: &ax_runner::devhost::Request| request.carried_out && stage(&request.value) == subject.stage;
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
            subject.name,
            place.0,
            match how {
                How::Eof => "end",
                How::Reset => "reset",
                How::Silence => "silence",
            },
            relay.written(subject.stage),
            host.requests().iter().filter(|request| carried(request)).count(),
            lines(&host, "count").len(),
            output.code.unwrap_or(-1),
            host.answers().len(),
            host.answer().unwrap_or_default().replace('\n', "\u{21b5}"),
        )
    }
}

#[test]
fn http_fault_matrix() {
    let all = std::env::var_os("AX_SOAK").is_some();
    let cells: Vec<Cell> = SUBJECTS
        .iter()
        .flat_map(|subject| PLACES.map(|place| (subject, place)))
        .flat_map(|(subject, place)| [How::Eof, How::Reset, How::Silence].map(|how| Cell { subject, place, how }))
        .filter(|cell| all || cell.silence() < 30)
        .collect();
    let rows = in_parallel(&cells, Cell::silence, Cell::row);
    println!("{HEAD}{}", rows.concat());
    if all && std::env::var_os("AX_WRITE_FIXTURES").is_some() {
        std::fs::write(FIXTURE, format!("{HEAD}{}", rows.concat())).unwrap();
    }
    let committed = std::fs::read_to_string(FIXTURE).unwrap_or_default();
    assert!(committed.starts_with(HEAD), "the table's introduction is an old one");
    for (cell, row) in cells.iter().zip(&rows) {
        assert!(committed.contains(row), "not in the committed table: {row}(silence {} s)", cell.silence());
    }
    assert!(!all || committed == format!("{HEAD}{}", rows.concat()));
}

/// Does all the work, sixteen at a time, what takes longest first.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    cost: impl Fn(&T) -> u64,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let mut order: Vec<(usize, &T)> = items.iter().enumerate().collect();
    order.sort_by_key(|(_, item)| cost(item));
    let (queue, done) = (Mutex::new(order), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                loop {
                    let Some((index, item)) = queue.lock().unwrap().pop() else { return };
                    let result = work(item);
                    done.lock().unwrap().push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
