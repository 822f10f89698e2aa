use super::*;
use crate::wire::{Action, Meta};
use proptest::prelude::*;

fn wire(tool: &str, args: Value) -> Result<String, String> {
    let forward = decode(tool, Some(&args.to_string()))?;
    Ok(String::from_utf8(Action::Forward(forward).encode(None, &Meta::default()).unwrap()).unwrap())
}

#[test]
fn each_operation_becomes_the_hosts_action() {
    let id = "00000000-0000-4000-8000-000000000001";
    for (tool, args, wanted) in [
        (
            "memory",
            json!({"type":"write","scope":"g","content":"c","tags":["t"]}),
            r#"{"action":"memory_write","content":"c","scope":"g","tags":["t"]}"#,
        ),
        ("memory", json!({"type":"query","scope":"g","query":null}), r#"{"action":"memory_query","scope":"g"}"#),
        (
            "memory",
            json!({"type":"delete","id":id}),
            r#"{"action":"memory_delete","id":"00000000-0000-4000-8000-000000000001"}"#,
        ),
        (
            "web",
            json!({"type":"fetch","url":"https://a.b","method":"HEAD","headers":{"a":"b"},"timeoutMs":1000}),
            r#"{"action":"web_fetch","headers":{"a":"b"},"method":"HEAD","timeoutMs":1000,"url":"https://a.b"}"#,
        ),
        (
            "web",
            json!({"type":"search","query":"q","maxResults":20}),
            r#"{"action":"web_search","maxResults":20,"query":"q"}"#,
        ),
        ("scheduler", json!({"type":"list"}), r#"{"action":"scheduler_list_jobs"}"#),
        (
            "scheduler",
            json!({"type":"run_at","datetime":"2026-01-01T00:00:00","prompt":"p"}),
            r#"{"action":"scheduler_run_at","datetime":"2026-01-01T00:00:00","prompt":"p"}"#,
        ),
        (
            "save_artifact",
            json!({"tier":"user","path":"a.txt","content":""}),
            r#"{"action":"save_artifact","content":"","path":"a.txt","tier":"user"}"#,
        ),
        ("audit", json!({}), r#"{"action":"audit_query"}"#),
        (
            "audit",
            json!({"action":"llm_call","limit":3}),
            r#"{"action":"audit_query","filter":{"action":"llm_call","limit":3}}"#,
        ),
        (
            "agent",
            json!({"type":"delegate","task":"t","wait":false}),
            r#"{"action":"agent_delegate","task":"t","wait":false}"#,
        ),
        ("agent", json!({"type":"collect","handleIds":["h"]}), r#"{"action":"agent_collect","handleIds":["h"]}"#),
        ("describe_tools", json!({"names":[]}), r#"{"action":"describe_tools","names":[]}"#),
        (
            "call_tool",
            json!({"tool":"mcp_a_b","args":{"_select":".x","action":"llm_call"}}),
            r#"{"action":"call_tool","args":{"_select":".x","action":"llm_call"},"tool":"mcp_a_b"}"#,
        ),
        ("bash", json!({"command":"ls"}), r#"{"action":"sandbox_bash","command":"ls"}"#),
        (
            "grep",
            json!({"pattern":"x","context_lines":0}),
            r#"{"action":"sandbox_grep","context_lines":0,"pattern":"x"}"#,
        ),
    ] {
        assert_eq!(wire(tool, args).as_deref(), Ok(wanted), "{tool}");
    }
}

#[test]
fn refuses_what_the_host_would_refuse_and_says_why() {
    for (tool, args, wanted) in [
        ("memory", json!({}), "memory: field `type` is missing (one of \"write\", \"query\""),
        ("memory", json!({"type":"forget"}), "unknown type \"forget\" for tool \"memory\"; allowed: \"write\""),
        ("memory", json!({"type":1}), "memory: field `type` must be one of"),
        ("memory", json!({"type":"write","scope":"g"}), "memory (type \"write\"): field `content` is missing"),
        ("memory", json!({"type":"read","id":"1"}), "field `id` must be an id (lower-case UUID)"),
        (
            "memory",
            json!({"type":"read","id":"00000000-0000-4000-8000-000000000001","scope":"g"}),
            "unknown field \"scope\"; allowed: id",
        ),
        (
            "memory",
            json!({"type":"list","scope":"g","limit":101}),
            "field `limit` must be an integer from 1 to 100; received 101",
        ),
        ("web", json!({"type":"fetch","url":"a.b"}), "field `url` must be a URL"),
        ("web", json!({"type":"fetch","url":"https://a.b","timeoutMs":999}), "field `timeoutMs`"),
        ("audit", json!({"_sessionId":"x"}), "unknown field \"_sessionId\""),
        ("agent", json!({"type":"collect","handleIds":[]}), "field `handleIds` must be a list of 1 to 20 strings"),
        ("call_tool", json!({"tool":"x"}), "field `args` is missing"),
        ("call_tool", json!({"tool":"x","args":"{}"}), "field `args` must be an object"),
        ("describe_tools", json!({"names":"x"}), "field `names` must be a list of strings"),
        ("scheduler", json!({"type":"list","id":"x"}), "unknown field \"id\"; allowed: none"),
        ("nothing", json!({}), "Tool nothing not found"),
        (
            "skill_write",
            json!({"name":"n","description":"d","body":"b","openapi":[{"spec":"s"}]}),
            "field `openapi[0].baseUrl` is missing",
        ),
    ] {
        let message = wire(tool, args).unwrap_err();
        assert!(message.contains(wanted), "{tool}: {message}");
    }
    assert!(decode("memory", Some("null")).unwrap_err().contains("must be a JSON object"));
}

#[test]
fn a_catalog_tool_goes_out_as_call_tool() {
    let forward = decode_catalog("mcp_a_b", Some(r#"{"id":1}"#)).unwrap();
    let bytes = Action::Forward(forward).encode(None, &Meta::default()).unwrap();
    assert_eq!(bytes, br#"{"action":"call_tool","args":{"id":1},"tool":"mcp_a_b"}"#);
    assert!(decode_catalog("mcp_a_b", Some("[]")).is_err());
}

#[test]
fn repeats_only_what_reads_and_waits_long_for_agents() {
    let action = |tool: &str, args: Value| Action::Forward(decode(tool, Some(&args.to_string())).unwrap());
    let default = std::time::Duration::from_secs(1);
    let delegate = action("agent", json!({"type":"delegate","task":"t"}));
    assert!(!delegate.repeatable() && delegate.timeout(default) == limits::AGENT_TIMEOUT);
    assert!(action("agent", json!({"type":"collect","handleIds":["h"]})).repeatable());
    assert!(action("audit", json!({})).repeatable());
    assert!(!action("call_tool", json!({"tool":"t","args":{}})).repeatable());
    assert!(!action("scheduler", json!({"type":"remove","id":"x"})).repeatable());
    assert_eq!(action("bash", json!({"command":"x"})).timeout(default), limits::BASH_FORWARDED_TIMEOUT);
}

#[test]
fn fields_shared_by_operations_agree() {
    for tool in TOOLS {
        let fields: Vec<&Field> = tool.operations.iter().flat_map(|operation| operation.fields).collect();
        for field in &fields {
            assert!(fields.iter().all(|other| other.name != field.name || other.kind == field.kind), "{}", field.name);
        }
    }
}

#[test]
fn schemas_are_flat_and_descriptions_fit() {
    for tool in TOOLS.into_iter().chain(local::TOOLS) {
        let spec = tool.spec();
        let schema: Value = serde_json::from_str(spec.parameters.get()).unwrap();
        assert_eq!(schema["type"], "object");
        assert!(schema.get("anyOf").is_none());
        assert!(
            !spec.description.is_empty() && crate::text::units(&spec.description) <= limits::TOOL_DESCRIPTION_MAX_UNITS
        );
        for name in schema["required"].as_array().into_iter().flatten() {
            assert!(schema["properties"][name.as_str().unwrap()].is_object());
        }
    }
    let memory: Value = serde_json::from_str(spec("memory").unwrap().parameters.get()).unwrap();
    assert_eq!(memory["required"], json!(["type"]));
    let about = memory["properties"]["scope"]["description"].as_str().unwrap();
    assert!(about.ends_with("Required for write, query, list."), "{about}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let key =
            prop_oneof!["[a-z_]{1,8}", Just("type".to_owned()), Just("action".to_owned()), Just("_msgId".to_owned())];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key, inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_the_model_sends_the_envelope_is_ours(at in 0usize..15, args in any_json(), kind in 0usize..6) {
        let tool = crate::tools::TOOL_NAMES[at];
        let mut args = args;
        if let (Some(fields), Some(operation)) = (args.as_object_mut(), find(tool).unwrap().operations.get(kind)) {
            fields.insert("type".to_owned(), json!(operation.kind));
        }
        if let Ok(forward) = decode(tool, Some(&args.to_string())) {
            prop_assert!(forward.fields().keys().all(|key| key != "action" && !key.starts_with('_')));
            let action = Action::Forward(forward);
            prop_assert!(find(tool).unwrap().operations.iter().any(|operation| operation.action == action.name()));
        }
    }
}
