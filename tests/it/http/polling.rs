//! Asking for work (PROTOCOL §4.3): soon after an answer, seldom otherwise.

use crate::support::{BIN, LIMIT};
use ax_runner::devhost::{FakeHost, Script};
use serde_json::{Value, json};
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

/// The events of PROTOCOL §13 that a session without a fault leaves.
#[test]
fn the_log_tells_what_the_session_did() {
    let host = FakeHost::http(Script::json(json!([{"repeat": true, "text": "done"}]))).start();
    let mut payload = host.payload("go");
    payload["singleTurn"] = json!(true);
    payload["webProxyUrl"] = json!("http://127.0.0.1:1");
    let entry = |name: &str, skill: &str| json!({"name": name, "skill": skill, "summary": "s", "schema": {}, "dispatch": {"kind": "mcp"}});
    payload["catalog"] = json!([entry("mcp_a_x", "a"), entry("mcp_a_y", "a"), entry("mcp_b_x", "b")]);
    host.push_work(&payload);
    let output = host.runner(BIN).deadline(LIMIT).env("LOG_LEVEL", "debug").run();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let lines: Vec<Value> = output.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let event =
        |name: &str| lines.iter().find(|line| line["msg"] == name).unwrap_or_else(|| panic!("{name}: {lines:?}"));
    for name in ["work_loop_waiting", "web_proxy_env_set", "single_turn_exit"] {
        event(name);
    }
    let catalog = event("agent_catalog_received");
    assert_eq!(
        (&catalog["tools"], &catalog["skills"], &catalog["section"]),
        (&json!(3), &json!("a: 2, b: 1"), &json!("full"))
    );
}
