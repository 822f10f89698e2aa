//! What the model is told of the host's own tools: in the host's order, without its envelope, and never more than is known.

use crate::support::{LIMIT, result, results, runner, tools_then_done, turn};
use ax_runner::devhost::{FakeHost, Fault, Script};
use serde_json::{Value, json};

/// The result of one call that the host answers with exactly these bytes.
fn told(tool: Value, action: &str, body: &str) -> String {
    let host = FakeHost::socket(tools_then_done(json!([tool])));
    let (host, output) = turn(host.fault(action, 1, Fault::Body(body.to_owned())));
    assert_eq!((output.text().as_str(), host.violations()), ("done", vec![]), "{body}: {}", output.stderr);
    result(&host)
}

fn fetch() -> Value {
    json!({"name": "web", "args": {"type": "fetch", "url": "https://a.example/"}})
}

fn catalog_call() -> Value {
    json!({"name": "call_tool", "args": {"tool": "mcp_a_b", "args": {}}})
}

#[test]
fn a_reply_keeps_the_hosts_order_and_digits() {
    for (tool, action, body, wanted) in [
        (
            fetch(),
            "web_fetch",
            r#"{"ok":true,"status":404,"headers":{"x":"1","b":"2"},"body":"é\n","taint":{"source":"w"},"_msgId":"{{msgId}}"}"#,
            r#"{"status":404,"headers":{"x":"1","b":"2"},"body":"é\n"}"#,
        ),
        (
            fetch(),
            "web_fetch",
            r#"{"_msgId":"{{msgId}}","z":[{"t":1,"\u0074aint":1,"a":2}],"\u006fk":true,"n":1.50,"m":12345678901234567890123,"e":1e999}"#,
            r#"{"z":[{"t":1,"a":2}],"n":1.50,"m":12345678901234567890123,"e":1e999}"#,
        ),
        (
            catalog_call(),
            "call_tool",
            r#"{"ok":true,"result":{"step3":1,"taint":0,"step1":{"z":1,"a":1},"ok":false},"taint":{"x":1},"_msgId":"{{msgId}}"}"#,
            r#"{"result":{"step3":1,"taint":0,"step1":{"z":1,"a":1},"ok":false}}"#,
        ),
        (
            fetch(),
            "web_fetch",
            r#"{"ok":true,"_msgId":"{{msgId}}","a":{"k":1,"b":2,"\u006b":3},"taint":1,"taint":2}"#,
            r#"{"a":{"k":3,"b":2}}"#,
        ),
    ] {
        assert_eq!(told(tool, action, body), wanted, "{body}");
    }
    let long = format!(
        r#"{{"ok":true,"status":404,"headers":{{"a":"b"}},"body":"{}","_msgId":"{{{{msgId}}}}"}}"#,
        "b".repeat(300_000)
    );
    let text = told(fetch(), "web_fetch", &long);
    assert!(text.starts_with(r#"{"status":404,"headers":{"a":"b"},"body":"bb"#), "{}", &text[..80]);
}

#[test]
fn a_direct_tool_keeps_its_schemas_order() {
    let host = FakeHost::socket(Script::text("done")).start();
    let mut payload = host.payload("go");
    payload["tool_dispatch"] = json!({"mode": "direct", "spill_threshold_bytes": 20_480});
    let schema = r#"{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"type":"number","minimum":0.10}},"required":["zeta"]}"#;
    payload["catalog"] = json!([{"name": "mcp_s_t", "skill": "s", "summary": "x", "schema": "HERE", "dispatch": {}}]);
    let payload = payload.to_string().replace("\"HERE\"", schema);
    let output = host.runner(crate::support::BIN).deadline(LIMIT).stdin(payload).run();
    assert_eq!(output.text(), "done", "{}", output.stderr);
    let asked = host.requests_of("llm_call");
    let sent = std::str::from_utf8(&asked[0].raw).unwrap();
    assert!(
        sent.contains(r#""properties":{"zeta":{"type":"string"},"alpha":{"type":"number","minimum":0.10},"_select""#),
        "{sent}"
    );
    assert!(sent.contains("`mcp_s_t(zeta, alpha?, _select?)`"));
}

#[test]
fn an_answer_that_is_neither_yes_nor_no_leaves_a_change_in_doubt() {
    let write = json!({"name": "memory", "args": {"type": "write", "scope": "g", "content": "c"}});
    let list = json!({"name": "memory", "args": {"type": "list", "scope": "g"}});
    let deep = format!(r#"{{"ok":true,"_msgId":"{{{{msgId}}}}","id":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let said = |members: &str| format!(r#"{{{members}"_msgId":"{{{{msgId}}}}"}}"#);
    for body in [
        deep,
        said(""),
        said(r#""ok":1,"#),
        said(r#""ok":"true","#),
        said(r#""ok":null,"id":"x","#),
        said(r#""ok":{},"#),
        said(r#""ok":true,"ok":false,"#),
        said(r#""error":"no","#),
    ] {
        let text = told(write.clone(), "memory_write", &body);
        assert!(text.starts_with("Error: the host's answer ") && text.contains("is unknown"), "{body}: {text}");
        assert_eq!(text.contains(": no;"), body.contains("error"), "{body}: {text}");
        let text = told(list.clone(), "memory_list", &body);
        assert!(text.starts_with("Error: the host's answer ") && !text.contains("unknown"), "{body}: {text}");
    }
    let text = told(write, "memory_write", &said(r#""ok":false,"error":"no","#));
    assert_eq!(text, "Error: no");
}

#[test]
fn a_url_goes_to_the_host_whatever_its_host_names_letters() {
    let extract = |url: &str| json!({"name": "web", "args": {"type": "extract", "url": url}});
    let urls = ["https://exämple.com/", "https://例え.jp/a", "https://ä b/", "exämple.com"];
    let (host, _) = turn(FakeHost::socket(tools_then_done(urls.into_iter().map(extract).collect())));
    let sent: Vec<Value> = host.requests_of("web_extract").into_iter().map(|it| it.value["url"].clone()).collect();
    assert_eq!(json!(sent), json!(urls[..2]));
}

#[test]
fn a_failure_that_calls_itself_ok_counts_against_the_tool() {
    for (reply, sent) in [
        (json!({"installed": false}), 3),
        (json!({"error": "boom"}), 3),
        (json!({"error": null, "installed": true, "entries": [{"error": "x"}]}), 5),
    ] {
        let list = json!({"tools": [{"name": "memory", "args": {"type": "list", "scope": "s"}}]});
        let host = FakeHost::socket(Script::json(json!([list, list, list, list, list, {"text": "done"}]))).start();
        host.set_reply("memory_list", reply.clone());
        assert_eq!(runner(&host).run().text(), "done");
        assert_eq!(host.count("memory_list"), sent, "{reply}");
        let text = reply.to_string();
        assert_eq!(results(&host).values().filter(|told| **told == text).count(), sent, "{reply}");
    }
}

#[test]
fn what_is_lost_of_a_result_that_cannot_be_stored_is_said() {
    for (result, whole) in [(json!("x".repeat(300_000)), false), (json!({"b": ["x".repeat(30_000)]}), true)] {
        let host = FakeHost::socket(tools_then_done(json!([catalog_call()]))).start();
        host.set_reply("call_tool", json!({"result": result}));
        std::fs::create_dir_all(host.workspace().join(".ax")).unwrap();
        std::fs::write(host.workspace().join(".ax/tmp"), "in the way").unwrap();
        assert_eq!(runner(&host).run().text(), "done");
        let text = crate::support::result(&host);
        let told: Value = serde_json::from_str(&text).unwrap();
        assert!(told["_spill_failed"].as_str().unwrap().contains("not a directory"), "{}", &text[..300]);
        let note = told["note"].as_str().unwrap_or_default();
        assert_eq!(told["result"] == result, whole);
        assert_eq!(note.contains("first 100000 of 300000 characters"), !whole, "{note}");
    }
}
