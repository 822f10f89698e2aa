//! Replies of forwarded actions in the shapes of PROTOCOL §7.1, without any of the services behind them.

use serde_json::{Map, Value, json};

/// The fields after `ok: true`. `catalog` is the turn's list of catalog tools.
pub(super) fn reply(action: &str, request: &Value, catalog: &[Value]) -> Value {
    const ID: &str = "6f1c2f04-4d0e-4a53-9a53-0d6f2f7b9c11";
    let taint = json!({"source": "web", "trust": "external"});
    match action {
        "memory_write" => json!({"id": ID}),
        "memory_query" => json!({"results": []}),
        "memory_read" => json!({"entry": null}),
        "memory_list" | "audit_query" => json!({"entries": []}),
        "web_fetch" => {
            json!({"status": 200, "headers": {"content-type": "text/plain"}, "body": "canned page", "taint": taint})
        }
        "web_extract" => json!({"url": request["url"], "content": "canned page", "taint": taint}),
        "web_search" => json!({
            "0": {"title": "First", "url": "https://one.example/", "snippet": "canned", "taint": taint},
            "1": {"title": "Second", "url": "https://two.example/", "snippet": "canned", "taint": taint}}),
        "scheduler_add_cron" => json!({"jobId": ID}),
        "scheduler_run_at" => run_at(request),
        "scheduler_remove_cron" => json!({"removed": true}),
        "scheduler_list_jobs" => json!({"jobs": []}),
        "save_artifact" => json!({"written": true, "tier": request["tier"], "path": request["path"], "fileId": ID}),
        "agent_delegate" if request["wait"] == false => json!({"handleId": "h-1", "status": "started"}),
        "agent_delegate" => json!({"response": "canned response of the delegate"}),
        "agent_collect" => collect(request),
        "describe_tools" => describe(request, catalog),
        "call_tool" => call(request, catalog),
        "validate_commit" => json!({"ok": true}),
        "sandbox_bash" => json!({"output": "canned output"}),
        "sandbox_read_file" => json!({"content": "canned content"}),
        "sandbox_write_file" | "skill_write" => json!({"written": true, "path": request["path"]}),
        "sandbox_edit_file" => json!({"edited": true, "path": request["path"]}),
        "sandbox_grep" => json!({"matches": "", "truncated": false, "count": 0}),
        "sandbox_glob" => json!({"files": [], "truncated": false, "count": 0}),
        "plugin_list" => json!({"plugins": []}),
        "plugin_status" => json!({"found": false}),
        "agent_orch_list" => json!({"agents": []}),
        "agent_orch_poll" => json!({"messages": []}),
        _ => json!({}),
    }
}

fn run_at(request: &Value) -> Value {
    let datetime = request["datetime"].as_str().unwrap_or_default();
    let plausible = datetime.len() >= 16 && datetime.as_bytes()[..4].iter().all(u8::is_ascii_digit);
    match plausible {
        true => json!({"jobId": "j-1", "schedule": datetime}),
        false => json!({"ok": false, "error": "Invalid datetime string"}),
    }
}

fn collect(request: &Value) -> Value {
    let handles = request["handleIds"].as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(unknown) = handles.iter().find(|handle| *handle != "h-1") {
        return json!({"ok": false, "error": format!("Unknown handle {unknown}")});
    }
    let results: Vec<Value> = handles
        .iter()
        .map(|handle| json!({"handleId": handle, "response": "canned response of the delegate"}))
        .collect();
    json!({"results": results})
}

fn named<'a>(catalog: &'a [Value], name: &Value) -> Option<&'a Value> {
    catalog.iter().find(|entry| entry["name"] == *name)
}

fn describe(request: &Value, catalog: &[Value]) -> Value {
    let names = request["names"].as_array().map(Vec::as_slice).unwrap_or_default();
    let tool =
        |entry: &Value, schema: Value| json!({"name": entry["name"], "summary": entry["summary"], "schema": schema});
    if names.is_empty() {
        let tools: Vec<Value> = catalog.iter().map(|entry| tool(entry, json!({}))).collect();
        return json!({"tools": tools, "unknown": []});
    }
    let with_select = |entry: &Value| {
        let mut schema = entry["schema"].clone();
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert("_select".to_owned(), json!({"type": "string"}));
        }
        tool(entry, schema)
    };
    let (known, unknown): (Vec<&Value>, Vec<&Value>) = names.iter().partition(|name| named(catalog, name).is_some());
    let tools: Vec<Value> = known.into_iter().filter_map(|name| named(catalog, name)).map(with_select).collect();
    json!({"tools": tools, "unknown": unknown})
}

fn call(request: &Value, catalog: &[Value]) -> Value {
    if named(catalog, &request["tool"]).is_none() {
        let tool = request["tool"].as_str().unwrap_or_default();
        return json!({"error": format!("unknown tool {tool}"), "kind": "unknown_tool"});
    }
    let mut args: Map<String, Value> = request["args"].as_object().cloned().unwrap_or_default();
    args.remove("_select");
    json!({"result": {"canned": true, "args": args}})
}
