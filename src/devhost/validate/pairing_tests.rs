use super::check;
use serde_json::{Value, json};

fn issues(messages: Value) -> Vec<String> {
    check(json!({"messages": messages}).as_object().unwrap())
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn calls(ids: &[&str]) -> Value {
    let blocks: Vec<Value> =
        ids.iter().map(|id| json!({"type": "tool_use", "id": id, "name": "bash", "input": {}})).collect();
    json!({"role": "assistant", "content": blocks})
}

fn result(id: &str) -> Value {
    json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "x"}]})
}

#[test]
fn accepts_results_in_one_or_several_messages_and_in_any_order() {
    assert_eq!(issues(json!([{"role": "system", "content": "s"}, user("a")])), [""; 0]);
    assert_eq!(issues(json!([user("a"), calls(&["1", "2"]), result("2"), result("1")])), [""; 0]);
    assert_eq!(issues(json!([user("a"), calls(&["1"]), result("1"), user("b")])), [""; 0]);
    let merged = json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "1", "content": "x"},
        {"type": "tool_result", "tool_use_id": "2", "content": "y"},
        {"type": "text", "text": "and"}]});
    assert_eq!(issues(json!([user("a"), calls(&["1", "2"]), merged])), [""; 0]);
}

#[test]
fn refuses_what_a_provider_refuses() {
    for (messages, wanted) in [
        (json!([user("a"), calls(&["1"])]), "without a result"),
        (json!([user("a"), calls(&["1", "2"]), result("1"), user("b")]), "without a result directly after them: 2"),
        (json!([user("a"), calls(&["1"]), user("b"), result("1")]), "answers no open call"),
        (json!([user("a"), calls(&["1"]), result("1"), result("1")]), "answers no open call"),
        (json!([user("a"), result("1")]), "answers no open call"),
        (json!([user("a"), calls(&["1", "1"]), result("1")]), "used twice"),
        (json!([user("a"), calls(&[""]), result("")]), "empty id"),
        (json!([user("a"), calls(&["1"]), calls(&["2"]), result("2")]), "without a result"),
        (json!([user("")]), "text is empty"),
        (json!([user(" \n")]), "text is empty"),
        (json!([{"role": "user", "content": []}]), "list of blocks is empty"),
        (json!([{"role": "user", "content": [{"type": "text", "text": ""}]}]), "text block is empty"),
        (json!([user("a"), {"role": "system", "content": "s"}]), "only at the beginning"),
        (json!([{"role": "system", "content": ""}, user("a")]), "not empty"),
        (json!([{"role": "assistant", "content": "a"}, user("b")]), "begins with the user"),
        (json!([user("a"), {"role": "assistant", "content": "b"}]), "does not end with the user"),
        (
            json!([{"role": "user", "content": [{"type": "tool_use", "id": "1", "name": "x", "input": {}}]}]),
            "user message",
        ),
        (
            json!([user("a"), {"role": "assistant", "content": [{"type": "image", "fileId": "f", "mimeType": "image/png"}]}, user("b")]),
            "an assistant message",
        ),
        (
            json!([user("a"), {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "x", "input": []}]}, result("1")]),
            "not an object",
        ),
    ] {
        let found = issues(messages.clone());
        assert!(found.iter().any(|issue| issue.contains(wanted)), "{messages}\nwanted {wanted}\nfound {found:?}");
    }
}

#[test]
fn tools_have_usable_names_and_schemas() {
    let call = json!({"messages": [user("a")], "tools": [
        {"name": "a.b", "description": "", "parameters": {"type": "object"}},
        {"name": "x", "description": "", "parameters": {"anyOf": []}},
        {"name": "x", "description": "", "parameters": {"type": "object"}}]});
    let found = check(call.as_object().unwrap());
    assert_eq!(found.len(), 3, "{found:?}");
}
