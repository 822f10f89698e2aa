//! Answers of the host to `sandbox_approve` (CASES I14; PROTOCOL §8.1): only exactly `approved: true` is consent, and a
//! denial, a refused question and no answer are three different things.

use crate::support::{bash_then_done, lines, result, turn};
use ax_runner::devhost::{FakeHost, Fault, Policy};
use serde_json::{Value, json};

fn reply(body: &str) -> (usize, String, FakeHost) {
    let body = body.replacen('{', "{\"_msgId\":\"{{msgId}}\",", 1);
    let (host, output) =
        turn(FakeHost::socket(bash_then_done("echo x >>count")).fault("sandbox_approve", 1, Fault::Body(body)));
    assert_eq!(output.text(), "done", "{}", output.stderr);
    (lines(&host, "count").len(), result(&host), host)
}

#[test]
fn only_a_clear_yes_runs() {
    for body in [
        r#"{"ok":true,"approved":false}"#,
        r#"{"ok":true,"approved":"true"}"#,
        r#"{"ok":true,"approved":1}"#,
        r#"{"ok":true,"approved":null}"#,
        r#"{"ok":true,"approved":[true]}"#,
        r#"{"ok":true,"approved":{}}"#,
        r#"{"ok":true,"Approved":true}"#,
        r#"{"ok":true}"#,
        r#"{"ok":false,"approved":true}"#,
        r#"{"ok":"true","approved":true}"#,
        r#"{"ok":null,"approved":true}"#,
        r#"{"approved":true}"#,
        r#"{"ok":true,"approved":false,"approved":true}"#,
        r#"{"ok":true,"approved":true,"approved":false}"#,
        r#"{"ok":false,"ok":true,"approved":true}"#,
        r#"{"ok":true,"data":{"approved":true}}"#,
        r#"{"ok":false,"error":"Validation failed for action"}"#,
        r#"{"ok":true,"approved":false,"reason":7}"#,
        r#"{"ok":true,"approved":false,"reason":"\ud83d"}"#,
    ] {
        let (ran, text, host) = reply(body);
        assert_eq!(ran, 0, "{body}: {text}");
        assert!(!text.trim().is_empty());
        assert_eq!(host.requests_of("sandbox_result").len(), 0, "{body}: what did not run is not reported");
        assert_eq!(host.violations(), []);
    }
    for body in [r#"{"ok":true,"approved":true}"#, r#"{"ok":true,"approved":true,"fileId":"f","reason":"fine"}"#] {
        assert_eq!(reply(body).0, 1, "{body}");
    }
}

#[test]
fn i14_an_answer_that_changes_the_call_is_no_consent() {
    for body in [
        r#"{"ok":true,"approved":true,"command":"echo harmless"}"#,
        r#"{"ok":true,"approved":true,"operation":"read"}"#,
        r#"{"ok":true,"approved":true,"args":{"command":"echo harmless"}}"#,
        r#"{"ok":true,"approved":true,"updatedInput":{"command":"echo harmless"}}"#,
        r#"{"ok":true,"approved":true,"path":"elsewhere"}"#,
        r#"{"ok":true,"approved":true,"edits":[{"command":"echo harmless"}]}"#,
        r#"{"ok":true,"approved":true,"tool":{"input":{"command":"echo harmless"}}}"#,
        r#"{"ok":true,"approved":true,"error":"not this one"}"#,
    ] {
        let (ran, text, host) = reply(body);
        assert_eq!(ran, 0, "{body}: {text}");
        assert!(text.contains("not run"), "{body}: {text}");
        assert_eq!(host.requests_of("sandbox_result").len(), 0);
    }
    for body in [
        r#"{"ok":true,"approved":true,"operation":"bash","command":"echo x >>count"}"#,
        r#"{"ok":true,"approved":true,"args":{"command":"echo x >>count"}}"#,
    ] {
        assert_eq!(reply(body).0, 1, "an echo changes nothing: {body}");
    }
}

#[test]
fn the_model_can_tell_no_from_nothing() {
    let denied = reply(r#"{"ok":true,"approved":false,"reason":"not on Fridays"}"#).1;
    assert!(denied.contains("Denied: not on Fridays"), "{denied}");
    let silent = reply(r#"{"ok":true,"approved":false,"reason":" "}"#).1;
    assert!(silent.contains("Denied: denied by host policy"), "{silent}");
    let refused = reply(r#"{"ok":false,"error":"Validation failed for action \"sandbox_approve\": command: no"}"#).1;
    assert!(!refused.contains("Denied") && refused.contains("command: no"), "{refused}");
}

#[test]
fn i14_a_file_that_changes_while_the_approval_is_pending() {
    // The edit was judged against other bytes; it is refused or made on exactly what was approved, never on a mix.
    let script = crate::support::tools_then_done(
        json!([{"name": "edit_file", "args": {"path": "f", "old_string": "safe", "new_string": "changed"}}]),
    );
    let policy = Policy::json(json!([{"operation": "edit", "verdict": "allow", "delay_ms": 3000}]));
    let host = FakeHost::socket(script).policy(policy).start();
    let file = host.workspace().join("f");
    std::fs::write(&file, "safe\n").unwrap();
    let running = crate::support::runner(&host).spawn().unwrap();
    assert!(host.wait_request("sandbox_approve", 1, crate::support::LIMIT).is_some());
    std::fs::write(&file, "safe and other\n").unwrap();
    let output = running.wait();
    assert_eq!(output.text(), "done", "{}", output.stderr);
    let (now, told): (String, Value) =
        (std::fs::read_to_string(&file).unwrap(), serde_json::from_str(&result(&host)).unwrap_or_default());
    match told["edited"].as_bool() {
        Some(true) => assert_eq!(now, "changed and other\n"),
        _ => assert_eq!(now, "safe and other\n", "{told}"),
    }
}
