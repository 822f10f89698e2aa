//! Asking for work (PROTOCOL §4.3): soon after an answer, seldom otherwise.

use crate::support::{BIN, LIMIT};
use ax_runner::devhost::{FakeHost, Script};
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn work_that_follows_an_answer_is_picked_up_soon() {
    let host = FakeHost::http(Script::json(json!([{"repeat": true, "text": "done"}]))).start();
    let running = host.runner(BIN).deadline(LIMIT).spawn().unwrap();
    let mut waits = Vec::new();
    for nth in 1..=15u64 {
        let mut payload = host.payload("go");
        payload["singleTurn"] = json!(nth == 15);
        // Anywhere between two looks.
        std::thread::sleep(Duration::from_millis(nth * 37 % 200));
        let pushed = Instant::now();
        host.push_work(&payload);
        host.wait_request("llm_call", nth as usize, LIMIT).expect("a model call");
        waits.push(pushed.elapsed());
        host.wait_answer(nth as usize, LIMIT).expect("an answer");
    }
    assert_eq!(running.wait().code, Some(0));
    waits.sort();
    println!(
        "| from work, soon after an answer, to the model call: median, longest | {:?}, {:?} |",
        waits[7], waits[14]
    );
}
