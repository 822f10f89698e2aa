//! What a new turn replaces and what it inherits (PROTOCOL §2.4), and what is told before the answer.

use super::{answer, runner};
use crate::support::{BIN, LIMIT, bash_then_done};
use ax_runner::devhost::{FakeHost, Fault, Request, Script};
use serde_json::{Value, json};
use std::time::Duration;

fn system(request: &Request) -> String {
    request.value["messages"][0]["content"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_turn_replaces_the_state_of_the_last_one() {
    let tool = json!([{"name": "bash", "args": {"command": "echo A=$A B=$B C=$C >>seen"}}]);
    let script =
        json!([{"when": "^$", "tools": tool.clone()}, {"text": "one"}, {"when": "^$", "tools": tool}, {"text": "two"}]);
    let host = FakeHost::http(Script::json(script)).start();
    let running = host.runner(BIN).deadline(LIMIT).spawn().unwrap();
    let mut first = host.payload("the first message");
    first["singleTurn"] = json!(false);
    first["credentialEnv"] = json!({"A": "a-of-turn-one", "B": "b-of-turn-one"});
    first["history"] = json!([{"role": "user", "content": "an old question"}, {"role": "assistant", "content": "old"}]);
    first["identity"]["soul"] = json!("# SOUL\nThe soul of turn one.\n");
    first["identity"]["agents"] = json!("# AGENTS\nThe agents of turn one.\n");
    first["skills"] = json!([{"name": "gardening", "description": "Grows things"}]);
    host.push_work(&first);
    assert_eq!(host.wait_answer(1, LIMIT).unwrap().content, "one");

    let mut second = host.payload("the second message");
    second["credentialEnv"] = json!({"A": "a-of-turn-two", "C": "c-of-turn-two"});
    second["identity"] = json!({"agents": "# AGENTS\nThe agents of turn two.\n", "soul": "S", "identity": "I"});
    second["userId"] = json!("somebody-else");
    second.as_object_mut().unwrap().remove("skills");
    host.push_work(&second);
    let output = running.wait();
    assert_eq!(host.answers()[1].content, "two", "{}", output.stderr);
    assert_eq!(host.violations(), []);

    let seen = std::fs::read_to_string(host.workspace().join("seen")).unwrap();
    // A credential of an earlier turn is not the second turn's.
    assert_eq!(seen, "A=a-of-turn-one B=b-of-turn-one C=\nA=a-of-turn-two B= C=c-of-turn-two\n");
    let calls = host.requests_of("llm_call");
    let (before, after) = (system(&calls[0]), system(&calls[2]));
    assert!(before.contains("The soul of turn one.") && before.contains("gardening"));
    assert!(after.contains("The agents of turn two.") && after.contains("gardening"), "{after}");
    assert!(!after.contains("of turn one"), "{after}");
    let messages = calls[2].value["messages"].to_string();
    assert!(messages.contains("the second message"));
    assert!(!messages.contains("an old question") && !messages.contains("the first message"));
    assert_eq!(calls[2].value["_userId"], "somebody-else");
}

#[test]
fn what_a_payload_leaves_out_stays() {
    let host = FakeHost::http(Script::json(json!([{"repeat": true, "text": "done"}]))).start();
    let running = host.runner(BIN).deadline(LIMIT).spawn().unwrap();
    let mut first = host.payload("first");
    first["singleTurn"] = json!(false);
    host.push_work(&first);
    host.wait_answer(1, LIMIT).expect("an answer");
    let mut second = host.payload("second");
    for field in ["userId", "identity", "skills", "catalog", "tool_dispatch"] {
        second.as_object_mut().unwrap().remove(field);
    }
    // Empty is not known.
    second["sessionScope"] = json!("");
    second["sessionId"] = json!("");
    host.push_work(&second);
    // The host expects the second payload's words, and they are the first's.
    host.forgive();
    assert_eq!(running.wait().code, Some(0));
    let calls = host.requests_of("llm_call");
    assert_eq!((&calls[1].value["_userId"], &calls[1].value["_sessionScope"]), (&json!("dev"), &json!("dm")));
    assert_ne!(calls[1].value["_requestId"], calls[0].value["_requestId"]);
    assert_eq!(calls[1].value["_sessionId"], first["sessionId"]);
    assert!(system(&calls[1]).contains("Plain-spoken and careful."));
}

/// When each action arrived, since the host's start.
fn at(host: &FakeHost, action: &str) -> Duration {
    host.requests_of(action).pop().map_or(Duration::ZERO, |request| request.at)
}

/// How long after the report the answer came.
fn held_up(late_ms: u64) -> Duration {
    let host = FakeHost::http(bash_then_done("true")).fault("sandbox_result", 1, Fault::LateMs(late_ms)).start();
    let output = runner(&host).run();
    assert_eq!(answer(&host, &output), "done", "{}", output.stderr);
    at(&host, "agent_response").saturating_sub(at(&host, "sandbox_result"))
}

#[test]
fn reports_are_flushed_before_the_answer_but_not_for_ever() {
    // The wait begins with the report, so a machine that stalls in between may make it seem short.
    assert!((0..10).any(|_| held_up(300) >= Duration::from_millis(300)), "the answer overtakes the report");
    assert!(held_up(60_000) < Duration::from_secs(30));
}

#[test]
fn every_report_is_there_before_the_answer() {
    let tools: Vec<Value> = (0..12)
        .map(|number| json!({"name": "bash", "args": {"command": format!("echo {number}; sleep 0.{number:02}")}}))
        .collect();
    let host = FakeHost::http(Script::json(json!([{"when": "^$", "tools": tools}, {"text": "done"}]))).start();
    let output = runner(&host).run();
    assert_eq!(answer(&host, &output), "done", "{}", output.stderr);
    let order: Vec<String> = host.requests().into_iter().map(|request| request.action).collect();
    assert_eq!(order.iter().filter(|action| *action == "sandbox_result").count(), 12);
    assert_eq!(order.last().map(String::as_str), Some("agent_response"));
}
