//! Replies of the model that are cut, empty, broken or odd (CASES L03, L04, L06, L07): the strict host must take every
//! request that follows, and each call has exactly one result.

use crate::support::{lines, results, turn};
use ax_runner::devhost::{FakeHost, Fault, Output, Policy, Script, Transport};
use serde_json::{Value, json};

/// Runs a script; every request must be one the host and the provider take.
fn run(script: Value) -> (FakeHost, Output) {
    let (host, output) = turn(FakeHost::socket(Script::json(script)));
    assert_eq!(host.violations(), [], "{}", output.stderr);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    (host, output)
}

fn call(id: &str, command: &str) -> Value {
    json!({"name": "bash", "args": {"command": command}, "id": id})
}

#[test]
fn l03_each_of_a_mixed_batch_has_one_result() {
    let policy = Policy::json(json!([
        {"command": "^denied", "verdict": "deny"},
        {"command": "^odd", "reply": {"approved": 7}}]));
    let tools = json!([
        call("a", "echo a >>count"), call("b", "denied"), call("c", "odd"), call("d", "exit 3"), call("e", "kill -9 $$"),
        {"name": "nonesuch", "args": {}, "id": "f"}, {"name": "no such.tool/\u{1f600}", "args": {}, "id": "g"},
        {"name": "", "args": {}, "id": "h"}, {"name": "bash", "args_raw": "[", "id": "i"},
        {"name": "n".repeat(300), "args": {}, "id": "j"},
        call("", "echo empty >>count"), call("", "echo empty >>count"),
        call("same", "echo 1 >>count"), call("same", "echo 2 >>count"), call("same", "echo 3 >>count"),
        call(&"l".repeat(400), "echo long >>count"), call("sp ace/\u{e9}", "echo odd-id >>count"),
        {"name": "memory", "args": {"type": "list", "scope": "s"}, "id": "m"}]);
    let broken = json!([{"tools": tools.as_array().unwrap().iter().filter(|it| it["id"] != "i").collect::<Vec<_>>()}, {"text": "done"}]);
    let count = broken[0]["tools"].as_array().unwrap().len();
    let (host, output) = turn(FakeHost::socket(Script::json(broken)).policy(policy));
    assert_eq!(host.violations(), [], "{}", output.stderr);
    assert_eq!(output.text(), "done", "{}", output.stderr);
    let texts = results(&host);
    assert_eq!(texts.len(), count, "{texts:?}");
    assert!(texts["f"].contains("not found") && texts["b"].contains("Denied") && texts["d"].contains("Exit code 3"));
    let mut ran = lines(&host, "count");
    ran.sort();
    assert_eq!(ran, ["1", "2", "3", "a", "empty", "empty", "long", "odd-id"]);
}

#[test]
fn l03_ids_stay_unique_over_the_turn() {
    let (host, _) = run(json!([
        {"tools": [call("x", "true"), call("", "true")]},
        {"tools": [call("x", "true"), call("", "true"), call("call_1", "true"), call("call_2", "true")]},
        {"tools": [call("call_3", "true"), call("call_4", "true"), call("", "true")]}, {"text": "done"}]));
    assert_eq!(results(&host).len(), 9);
}

#[test]
fn l04_a_reply_at_its_token_limit_runs_no_cut_call() {
    let limit = json!({"inputTokens": 5, "outputTokens": 8192});
    let write = json!({"path": "kept", "content": "ha"});
    for (tools, more) in [
        (json!([{"name": "write_file", "args": {"path": "kept"}}]), 1),
        (json!([{"name": "write_file", "args": {}}]), 1),
        (json!([{"name": "write_file", "args_raw": "\"{\\\"path\\\": \\\"kept\\\", \\\"cont\""}]), 1),
        (json!([{"name": "write_file", "args": write}]), 1),
        (json!([{"name": "bash", "args": {"command": "echo x >>count"}}, {"name": "write_file", "args": write}]), 2),
    ] {
        for usage in [limit.clone(), json!({"inputTokens": 5, "outputTokens": 9000})] {
            let host = FakeHost::socket(Script::json(json!([
                {"text": "I will", "tools": tools, "usage": usage}, {"text": "done"}])))
            .start();
            std::fs::write(host.workspace().join("kept"), "before").unwrap();
            let output = crate::support::runner(&host).run();
            assert_eq!(output.text(), "I will\n\ndone", "{}", output.stderr);
            assert_eq!(std::fs::read_to_string(host.workspace().join("kept")).unwrap(), "before");
            assert!(host.requests_of("sandbox_approve").iter().all(|it| it.value["operation"] != "write"));
            let texts = results(&host);
            assert_eq!(texts.len(), more);
            assert!(texts.values().any(|text| text.contains("cut at its limit of 8192 tokens")), "{texts:?}");
            assert_eq!(host.violations(), []);
        }
    }
    // Nothing that is said after it makes the call whole, and a second end takes nothing back.
    let cut = json!({"type": "tool_use", "toolCall": {"id": "a", "name": "write_file", "args": write}});
    let done = json!({"type": "done", "usage": limit});
    for chunks in [
        json!([cut, {"type": "text", "content": " \n"}, done]),
        json!([cut, {"type": "thinking", "content": "x"}, done]),
        json!([done, cut]),
        json!([cut, done, {"type": "done"}]),
        json!([cut, done, {"type": "done", "usage": null}, {"type": "text", "content": ""}]),
    ] {
        let host = FakeHost::socket(Script::json(json!([{"chunks": chunks}, {"text": "done"}]))).start();
        crate::support::runner(&host).run();
        assert!(crate::support::result(&host).contains("cut at its limit"), "{chunks}");
        assert_eq!((host.count("sandbox_approve"), host.violations()), (0, vec![]), "{chunks}");
    }
    // Below the limit nothing is cut; a limit of its own is the one that counts.
    let script = || {
        Script::json(
            json!([{"tools": [call("a", "echo x >>count")], "usage": {"outputTokens": 300}}, {"text": "done"}]),
        )
    };
    let (host, _) = turn(FakeHost::socket(script()));
    assert_eq!(lines(&host, "count").len(), 1);
    let host = FakeHost::socket(script()).start();
    crate::support::runner(&host).arg("--max-tokens").arg("300").run();
    assert_eq!(lines(&host, "count").len(), 0);
}

#[test]
fn l04_an_answer_that_was_cut_says_so() {
    let note = "[The reply was cut at its limit of 8192 tokens.]";
    for (text, tokens, wanted) in [
        ("half an", 8192, format!("half an\n\n{note}")),
        ("half an", 9000, format!("half an\n\n{note}")),
        ("", 8192, note.to_owned()),
        ("whole", 8191, "whole".to_owned()),
    ] {
        let script = json!([{"text": text, "usage": {"outputTokens": tokens}}]);
        let (host, output) = run(script.clone());
        assert_eq!((output.text(), host.count("llm_call")), (wanted.clone(), 1));
        let (host, _) = turn(FakeHost::listen(Script::json(script)));
        assert_eq!(host.answer(), Some(wanted));
    }
}

#[test]
fn l04_a_model_that_is_cut_again_and_again_ends() {
    let (host, output) = run(json!([{
        "tools": [{"name": "write_file", "args": {"path": "a"}}], "usage": {"outputTokens": 8192}, "repeat": true}]));
    assert!(output.text().contains("stopped after"), "{}", output.text());
    assert!(host.requests_of("llm_call").len() <= 100);
}

#[test]
fn l06_nothing_empty_goes_out() {
    let (host, output) = run(json!([
        {"text": "", "tools": [
            call("a", "true"), call("b", "printf ' \\n'"), call("c", "printf '\\0'"), call("d", "printf '\\t\\r\\n'"),
            {"name": "write_file", "args": {"path": "empty", "content": ""}, "id": "e"}]},
        {"text": " \n", "tools": [{"name": "read_file", "args": {"path": "empty"}, "id": "f"}]},
        {"thinking": "hm", "tools": [call("g", "true")]},
        {"text": ["", ""], "tools": [call("h", "true")]},
        {"text": "\u{0}\u{0}", "tools": [call("i", "true")]},
        {"text": "a\u{0}b", "tools": [call("j", "true")]},
        {"text": "done"}]));
    assert_eq!(results(&host).len(), 10, "{}", output.stderr);
    for script in [json!([{"text": ""}]), json!([{"thinking": "only"}]), json!([{"chunks": []}])] {
        let (host, output) = run(script.clone());
        assert_eq!((output.text().as_str(), host.requests_of("llm_call").len()), ("", 1), "{script}");
    }
}

#[test]
fn l06_empty_messages_and_histories() {
    let host = FakeHost::socket(Script::json(json!([{"text": "done"}]))).start();
    let mut payload = host.payload("hi");
    payload["history"] = json!([
        {"role": "user", "content": ""}, {"role": "assistant", "content": ""}, {"role": "user", "content": []},
        {"role": "assistant", "content": [{"type": "text", "text": ""}]}, {"role": "assistant", "content": " \n"},
        {"role": "user", "content": [{"type": "image", "fileId": "f", "mimeType": "image/png"}], "sender": "a b"},
        {"role": "user", "content": null, "sender": "\u{1f600}"}, {"role": "user", "content": "\u{0}"}]);
    let output = host.runner(crate::support::BIN).payload(&payload).run();
    assert_eq!(output.text(), "done", "{}", output.stderr);
    assert_eq!(host.violations(), []);
}

#[test]
fn l07_lone_surrogates_stay_inside() {
    let (host, output) = run(json!([
        {"tools": [{"name": "bash", "args_raw": "{\"command\":\"touch evil \\ud83d\"}", "id": "a"},
            {"name": "bash", "args_raw": "{\"command\":\"echo x >>count\",\"\\udc00\":1}", "id": "b"},
            {"name": "bash", "args_raw": "{\"command\":\"echo \\ud83d\\ude00 >>count\"}", "id": "c"},
            call("d", "printf '\\xed\\xa0\\xbd'; touch \"$(printf 'n\\xed\\xa0\\xbd')\"; ls")]},
        {"text": "done"}]));
    assert_eq!(output.text(), "done");
    assert_eq!(lines(&host, "count"), ["\u{1f600}"]);
    assert!(!host.workspace().join("evil").exists() && results(&host).len() == 4);
    let chunk =
        r#"{"type":"tool_use","toolCall":{"id":"\ud83d","name":"bash","args":{"command":"touch evil \ud83d"}}}"#;
    let raw = format!(r#"{{"ok":true,"chunks":[{chunk}],"_msgId":"{{{{msgId}}}}"}}"#);
    let (host, output) = run(json!([{"raw": raw}, {"text": "done"}]));
    assert_eq!((output.text().as_str(), host.requests_of("sandbox_approve").len()), ("done", 0));
    // In text, in the id, in the name, in the error: replaced, never fatal.
    for raw in [
        r#"{"ok":true,"chunks":[{"type":"text","content":"a\ud83db"}],"_msgId":"{{msgId}}"}"#,
        r#"{"ok":true,"chunks":[{"type":"tool_use","toolCall":{"id":"\ud83d","name":"ba\udc00sh","args":{}}}],"_msgId":"{{msgId}}"}"#,
        r#"{"ok":false,"error":"model said \ud83d","_msgId":"{{msgId}}"}"#,
        r#"{"ok":true,"note":"\ud83d","chunks":[{"type":"text","content":"fine"}],"_msgId":"{{msgId}}"}"#,
    ] {
        let (_, output) = run(json!([{"raw": raw}, {"text": "more"}]));
        assert!(!output.text().is_empty(), "{raw}");
        assert!(!output.text().contains("JSON object"), "{raw}: {}", output.text());
    }
}

#[test]
fn odd_chunks_cost_nothing() {
    let fine = |chunks: Value| {
        let (host, output) = run(json!([{"chunks": chunks}, {"text": "more"}]));
        assert_eq!(host.requests_of("llm_call").len(), 1, "{chunks}: {}", output.text());
        output.text()
    };
    for usage in [
        Value::Null,
        json!({}),
        json!({"inputTokens": null, "outputTokens": null}),
        json!({"inputTokens": 1.5, "outputTokens": -3}),
        json!({"inputTokens": 1e300, "outputTokens": "12"}),
        json!(7),
        json!({"inputTokens": u64::MAX, "outputTokens": 5, "cacheReadTokens": {}}),
    ] {
        assert_eq!(fine(json!([{"type": "text", "content": "a"}, {"type": "done", "usage": usage}])), "a", "{usage}");
    }
    assert_eq!(
        fine(json!([{"type": "text", "content": "a"}, {"type": "image", "data": 5}, {"type": "text", "content": "b"}])),
        "ab"
    );
    assert_eq!(
        fine(json!([{"type": "text"}, {"type": "text", "content": null}, {"type": "text", "content": "b"}])),
        "b"
    );
    assert_eq!(fine(json!([{"type": "text", "content": "a", "extra": {"x": 1}}])), "a");
    let large = json!([{"tools": [call("a", "true")], "usage": {"inputTokens": u64::MAX, "outputTokens": 1}},
        {"text": "done", "usage": {"inputTokens": u64::MAX, "outputTokens": 1}}]);
    assert_eq!(run(large).1.text(), "done", "a sum of tokens does not overflow");
}

#[test]
fn odd_calls_get_their_results() {
    let calls = json!([
        {"type": "tool_use", "toolCall": {"id": null, "name": "bash", "args": {"command": "echo a >>count"}}},
        {"type": "tool_use", "toolCall": {"id": 7, "name": "bash", "args": {"command": "echo b >>count"}}},
        {"type": "tool_use", "toolCall": {"name": "bash", "args": {"command": "echo c >>count"}}},
        {"type": "tool_use", "toolCall": {"id": "d", "name": null, "args": {}}},
        {"type": "tool_use", "toolCall": {"id": "e", "args": {}}},
        {"type": "tool_use", "toolCall": {"id": "f", "name": "bash"}},
        {"type": "tool_use", "toolCall": {"id": "g", "name": "bash", "args": null, "more": 1}}]);
    let (host, output) = run(json!([{"chunks": calls}, {"text": "done"}]));
    assert_eq!(output.text(), "done", "{}", output.stderr);
    assert_eq!(results(&host).len(), 7);
    assert_eq!(lines(&host, "count").len(), 3);
}

#[test]
fn a_broken_reply_is_asked_for_once_more() {
    for broken in [
        r#"{"ok":true,"chunks":[{"content":"no type"}],"_msgId":"{{msgId}}"}"#,
        r#"{"ok":true,"chunks":{"type":"text"},"_msgId":"{{msgId}}"}"#,
        r#"{"ok":true,"chunks":[7],"_msgId":"{{msgId}}"}"#,
        r#"{"ok":true,"chunks":[{"type":"tool_use"}],"_msgId":"{{msgId}}"}"#,
        r#"{"ok":true,"_msgId":"{{msgId}}"}"#,
        r#"{"ok":true,"chunks":null,"_msgId":"{{msgId}}"}"#,
        r#"{"ok":true,"chunks":[],"chunks":[{"type":"text","content":"x"}],"_msgId":"{{msgId}}"}"#,
    ] {
        let (host, output) = run(json!([{"raw": broken}, {"text": "better"}]));
        assert_eq!((output.text().as_str(), host.requests_of("llm_call").len()), ("better", 2), "{broken}");
        let (host, output) = run(json!([{"raw": broken, "repeat": true}]));
        assert_eq!(host.requests_of("llm_call").len(), 2);
        assert!(output.text().contains("could not be finished"), "{broken}: {}", output.text());
    }
}

#[test]
fn a_refused_request_is_told_and_not_repeated() {
    // An error of the model is an answer on every transport, and never an empty success (PROTOCOL T1).
    for transport in [Transport::Socket, Transport::Listen, Transport::Http] {
        for said in ["", "Working on it."] {
            let first = json!({"text": said, "tools": [call("a", "true")]});
            let script = json!([first, {"error": "Handler error: 400 prompt is too long", "repeat": true}]);
            let (host, output) = turn(FakeHost::builder(transport, Script::json(script)));
            let answer = host.answer().unwrap_or_else(|| output.text());
            assert!(answer.starts_with(said) && answer.contains("prompt is too long"), "{transport:?}: {answer}");
            assert_eq!(host.requests_of("llm_call").len(), 2, "{transport:?}");
            assert_eq!(output.code, Some(0));
        }
    }
}

#[test]
fn i15_what_is_not_a_reply_is_no_success() {
    for (fault, asked) in [
        (Fault::Body("<html>Bad gateway</html>".into()), 1),
        (Fault::Body(r#"{"code":500}"#.into()), 1),
        (Fault::Body("".into()), 1),
        (Fault::Body(r#"{"error":{"message":"overloaded"}}"#.into()), 1),
        (Fault::Status(502, "<html>".into()), 2),
        (Fault::Status(503, "".into()), 2),
        (Fault::Status(429, "slow down".into()), 2),
        (Fault::Status(400, "bad".into()), 1),
        (Fault::Status(302, "moved".into()), 1),
    ] {
        let (host, output) = turn(FakeHost::http(Script::text("fine")).fault("llm_call", 1, fault.clone()));
        let answer = host.answer().unwrap_or_default();
        assert_eq!(host.answers().len(), 1, "{fault:?} {}", output.stderr);
        assert_eq!(host.requests_of("llm_call").len(), asked, "{fault:?}: {answer}");
        match asked {
            1 => assert!(answer.contains("could not be finished"), "{fault:?}: {answer}"),
            _ => assert_eq!(answer, "fine", "{fault:?}"),
        }
    }
}
