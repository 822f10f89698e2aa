use super::{Transport, actions, check};
use serde_json::{Value, json};

fn on_socket(mut request: Value) -> (Option<String>, Vec<String>) {
    // The id comes first, as a careful client writes it.
    let fields = std::mem::take(request.as_object_mut().unwrap());
    let body: Vec<String> = fields.iter().map(|(key, value)| format!("{}:{value}", json!(key))).collect();
    let raw = format!("{{\"_msgId\":\"1\",{}}}", body.join(","));
    let checked = check(raw.as_bytes(), Transport::Socket);
    (checked.refusal.map(|refusal| refusal["error"].as_str().unwrap().to_owned()), checked.violations)
}

#[test]
fn takes_what_the_protocol_shows() {
    for request in [
        json!({"action": "sandbox_approve", "operation": "bash", "command": "ls", "_sessionId": "s", "_requestId": "r",
            "_userId": "u", "_sessionScope": "dm"}),
        json!({"action": "sandbox_result", "operation": "bash", "command": "ls", "output": "a", "exitCode": -1}),
        json!({"action": "memory_write", "scope": "a/b", "content": "c", "tags": ["t"]}),
        json!({"action": "audit_query", "filter": {"since": "2026-01-01T00:00:00Z", "limit": 5.0}}),
        json!({"action": "scheduler_add_cron", "schedule": "* * * * *", "prompt": "p",
            "delivery": {"mode": "channel", "target": "last"}}),
        json!({"action": "scheduler_list_jobs"}),
        json!({"action": "web_fetch", "url": "https://a.example", "headers": {"a": "b"}, "timeoutMs": 1000}),
        json!({"action": "call_tool", "tool": "mcp_a_b", "args": {"x": [null]}}),
        json!({"action": "llm_call", "messages": [{"role": "user", "content": "a"}], "maxTokens": 8192,
            "tools": [{"name": "bash", "description": "d", "parameters": {"type": "object"}}]}),
    ] {
        let (refusal, violations) = on_socket(request.clone());
        assert!(refusal.is_none() && violations.is_empty(), "{request}: {refusal:?} {violations:?}");
    }
}

#[test]
fn refuses_with_the_path_and_at_most_three_issues() {
    for (request, wanted) in [
        (json!({"action": "sandbox_bash"}), "Validation failed for action \"sandbox_bash\": command: required"),
        (json!({"action": "web_search", "query": "q", "extra": 1}), "extra: unrecognized key"),
        (json!({"action": "web_search", "query": "q", "_token": 1}), "_token: unrecognized key"),
        (json!({"action": "web_search", "query": "q\u{0}"}), "query: contains a NUL character"),
        (json!({"action": "web_search", "query": "😀".repeat(501)}), "query: has 1002 characters; the limit is 1000"),
        (json!({"action": "web_search", "query": "q", "maxResults": 2.5}), "maxResults: expected an integer"),
        (json!({"action": "web_search", "query": "q", "maxResults": 21}), "maxResults: 21 is outside 1..20"),
        (json!({"action": "web_search", "query": null}), "query: expected a string, received null"),
        (json!({"action": "memory_read", "id": "7"}), "id: expected a lower-case UUID"),
        (json!({"action": "memory_list", "scope": "/x"}), "scope: expected a memory scope"),
        (json!({"action": "sandbox_approve", "operation": "run"}), "operation: expected one of bash"),
        (json!({"action": "call_tool", "tool": "t", "args": []}), "args: expected an object, received an array"),
        (json!({"action": "agent_collect", "handleIds": []}), "handleIds: has 0 items; allowed are 1 to 20"),
        (
            json!({"action": "llm_call", "messages": [{"role": "user", "content": [{"type": "text", "text": "a", "x": 1}]}]}),
            "messages.0.content.0.x: unrecognized key",
        ),
        (
            json!({"action": "llm_call", "messages": [{"role": "user", "content": [{"type": "audio"}]}]}),
            "messages.0.content.0.type: not a known kind of block",
        ),
        (json!({"action": "llm_call", "messages": [], "maxTokens": 0}), "messages: has 0 items"),
        (json!({"action": "nonsense"}), "Unknown or missing action"),
        (json!({"command": "ls"}), "Unknown or missing action"),
        (json!({"action": "agent_response", "content": "x"}), "No handler for action \"agent_response\""),
        (
            json!({"action": "llm_call", "messages": [{"role": "user", "content": ""}]}),
            "Handler error: invalid_request_error",
        ),
    ] {
        let (refusal, violations) = on_socket(request.clone());
        assert!(refusal.as_ref().is_some_and(|text| text.contains(wanted)), "{request}: {refusal:?}");
        assert!(!violations.is_empty(), "{request}");
    }
    let (refusal, _) = on_socket(json!({"action": "web_search", "a": 1, "b": 2, "c": 3, "d": 4}));
    assert_eq!(refusal.unwrap().matches("; ").count(), 2);
}

#[test]
fn watches_the_envelope() {
    let violations = |raw: &str, transport| check(raw.as_bytes(), transport).violations.join(" | ");
    let bash = r#""action":"sandbox_approve","operation":"bash","command":"ls""#;
    assert!(violations(&format!("{{{bash}}}"), Transport::Socket).contains("_msgId is missing"));
    assert!(violations(&format!("{{{bash}}}"), Transport::Http).contains("_sessionId is missing"));
    assert_eq!(violations(&format!("{{{bash},\"_sessionId\":\"\"}}"), Transport::Http), "");
    assert!(violations(&format!("{{\"_msgId\":1,{bash}}}"), Transport::Socket).contains("not a string"));
    assert!(violations(&format!("{{\"_msgId\":\"x1\",{bash}}}"), Transport::Socket).contains("not a decimal"));
    assert!(violations(&format!("{{\"_msgId\":\"1\",\"_msgId\":\"2\",{bash}}}"), Transport::Socket).contains("twice"));
    let shadowed = r#"{"action":"call_tool","tool":"t","args":{"_msgId":"9"},"_msgId":"1"}"#;
    assert!(violations(shadowed, Transport::Socket).contains("stands before"));
    assert_eq!(
        violations(r#"{"_msgId":"1","action":"agent_response","content":"a","error":true}"#, Transport::Listen),
        ""
    );
    assert_eq!(violations(r#"{"_msgId":"1","action":"fetch_work"}"#, Transport::Listen), "");
    assert_eq!(violations("null", Transport::Socket), "Invalid JSON");
}

#[test]
fn every_action_is_listed_once() {
    let mut names: Vec<&str> = actions::ACTIONS.iter().map(|spec| spec.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert_eq!(count, 41);
}
