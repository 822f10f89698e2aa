//! Building the system prompt, beside reading the payload it is made from.

use crate::place::Programs;
use crate::table::{Row, interleaved};
use crate::{Effort, Outcome};
use ax_runner::prompt::{Clock, PromptInput, build};
use ax_runner::wire::{Identity, Payload};
use serde_json::{Value, json};
use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Times it is done for one figure.
const BATCH: u32 = 20;

pub(crate) fn rows(_: &Programs, effort: &Effort) -> Outcome<Vec<Row>> {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/payload-k8s-direct.json");
    let small: Value = serde_json::from_slice(&fs::read(fixture)?)?;
    let mut large = small.clone();
    let skill = |at: usize| json!({"name": format!("skill-{at}"), "description": "what it is for ".repeat(12), "kind": "enabled"});
    large["skills"] = (0..500).map(skill).collect();
    large["identity"]["agents"] = "A rule of the operator's, as long as rules are.\n".repeat(20_000).into();
    let mut rows = Vec::new();
    for (what, payload) in [("a session's", &small), ("500 skills and 1 MB of identity:", &large)] {
        let bytes = payload.to_string().into_bytes();
        let payload = Payload::read(&bytes)?;
        let identity = Identity::default();
        let clock = Clock { unix_seconds: 1_767_225_600, offset_seconds: 0 };
        let input = PromptInput::from_payload(&payload, &identity, "pi-coding-agent", "/workspace", clock);
        let length = build(&input).text.len();
        let [ours, theirs] = interleaved(
            effort.searches,
            [&mut || Ok(batch(|| drop(black_box(build(black_box(&input)))))), &mut || {
                Ok(batch(|| drop(black_box(Payload::read(black_box(&bytes))))))
            }],
        )?;
        let beside = format!("reading its payload of {} bytes", bytes.len());
        rows.push(Row::times(&format!("{what} prompt of {length} bytes"), ours, &beside, theirs, ""));
    }
    Ok(rows)
}

fn batch(mut work: impl FnMut()) -> Duration {
    let start = Instant::now();
    (0..BATCH).for_each(|_| work());
    start.elapsed() / BATCH
}
