use super::{ModelReply, Script};
use crate::devhost::fault::Fault;
use serde_json::{Value, json};

fn next(script: &mut Script, last: &str) -> ModelReply {
    script.reply("default", last, 0)
}

#[test]
fn replies_come_in_order_then_the_script_has_ended() {
    let mut script = Script::json(json!([{"text": ["One ", "file"]}, {"text": "two"}]));
    assert_eq!(next(&mut script, "").text, "One file");
    assert_eq!(next(&mut script, "").text, "two");
    assert_eq!(next(&mut script, "").text, "script ended");
}

#[test]
fn a_condition_skips_a_reply_until_it_holds() {
    let mut script = Script::json(json!([
        {"when": "pass", "text": "good"}, {"when": "fail", "text": "bad"}, {"text": "else", "repeat": 2}]));
    assert_eq!(next(&mut script, "nothing").text, "else");
    assert_eq!(next(&mut script, "1 failed").text, "bad");
    assert_eq!(next(&mut script, "1 failed").text, "else");
    assert_eq!(next(&mut script, "all pass").text, "good");
    assert_eq!(next(&mut script, "all pass").text, "script ended");
}

#[test]
fn raw_arguments_are_not_touched() {
    let mut script = Script::json(
        json!([{"tools": [{"name": "bash", "args_raw": r#"{"a":1,"a":"\ud83d"}"#, "id": ""}], "usage": {"outputTokens": 5}}]),
    );
    let reply = next(&mut script, "");
    assert_eq!(
        reply.body,
        r#"{"ok":true,"chunks":[{"type":"tool_use","toolCall":{"id":"","name":"bash","args":{"a":1,"a":"\ud83d"}}},{"type":"done","usage":{"outputTokens":5}}]}"#
    );
}

#[test]
fn other_bodies_and_faults() {
    let mut script = Script::json(json!([
        {"error": "busy", "delay_ms": 3}, {"raw": "<html>", "fault": "no_id"}, {"raw": {"ok": 1}}, {"chunks": []},
        {"task": "fast", "text": "short"}]));
    let reply = next(&mut script, "");
    assert_eq!((reply.body.as_str(), reply.faults), (r#"{"error":"busy","ok":false}"#, vec![Fault::DelayMs(3)]));
    let reply = next(&mut script, "");
    assert_eq!((reply.body.as_str(), reply.exact, reply.faults), ("<html>", true, vec![Fault::NoId]));
    assert_eq!(next(&mut script, "").body, r#"{"ok":1}"#);
    assert_eq!(next(&mut script, "").body, r#"{"chunks":[],"ok":true}"#);
    assert_eq!(script.reply("fast", "", 0).text, "short");
    assert!(script.reply("fast", "", 0).text.starts_with("Summary"));
}

#[test]
fn a_mistake_is_named_with_its_place() {
    let error = |value: Value| Script::from_value(value).unwrap_err().to_string();
    assert!(error(json!([{}, {"tex": "a"}])).starts_with("script: reply 2: unknown field `tex`"));
    assert!(error(json!([{"tools": [{"name": "a"}, {"nam": "b"}]}])).starts_with("script: reply 1: tool 2: "));
    assert!(error(json!([{"when": "("}])).contains("reply 1: when: "));
    assert!(error(json!([{"text": "a", "raw": "b"}])).contains("exclude each other"));
    assert!(error(json!(["a"])).contains("reply 1: expected an object"));
    assert!(error(json!({"reply": []})).contains("unknown field"));
    assert!(error(json!({"replies": [], "actions": {"web_search": 1}})).contains("not an object"));
    assert!(Script::parse("[").unwrap_err().to_string().contains("line 1"));
}
