//! All tools through the runner itself, against a host that refuses what the real one would: a golden file per tool, hostile
//! calls, long conversations.

use ax_runner::devhost::{FakeHost, Output, Script};
use ax_runner::tools::TOOL_NAMES;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;

const RUNNER: &str = env!("CARGO_BIN_EXE_ax-runner");
const LIMIT: Duration = Duration::from_secs(240);
/// The long forms, minutes instead of seconds.
fn long() -> bool {
    std::env::var_os("AX_LONG").is_some()
}

const META: [&str; 5] = ["_msgId", "_sessionId", "_requestId", "_userId", "_sessionScope"];

fn run(host: &FakeHost, payload: &Value) -> Output {
    let output = host.runner(RUNNER).payload(payload).deadline(LIMIT).run();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(host.violations(), [], "{}", output.stderr);
    output
}

/// The texts of all tool results in a request's messages, in order.
fn results(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap();
    let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    let results = blocks.filter(|block| block["type"] == "tool_result");
    results.map(|block| block["content"].as_str().unwrap().to_owned()).collect()
}

fn last_results(host: &FakeHost) -> Vec<String> {
    results(&host.requests_of("llm_call").last().unwrap().value)
}

/// The requests of a turn without the model's and without their envelope; reports last.
fn frames(host: &FakeHost) -> Vec<Value> {
    let strip = |value: &Value| -> Value {
        let fields = value.as_object().unwrap().iter().filter(|(key, _)| !META.contains(&key.as_str()));
        Value::Object(fields.map(|(key, value)| (key.clone(), value.clone())).collect())
    };
    let requests = host.requests();
    let wanted = |report: bool| {
        let chosen = requests
            .iter()
            .filter(move |request| request.action != "llm_call" && (request.action == "sandbox_result") == report);
        chosen.map(|request| strip(&request.value)).collect::<Vec<_>>()
    };
    [wanted(false), wanted(true)].concat()
}

fn seed(workspace: &Path) {
    std::fs::create_dir_all(workspace.join("src")).unwrap();
    std::fs::write(workspace.join("a.txt"), "one\ntwo\nthree\n").unwrap();
    std::fs::write(workspace.join("src/main.rs"), "fn main() {\n    // two\n}\n").unwrap();
}

fn catalog() -> Value {
    json!([{
        "name": "mcp_tracker_get_ticket", "skill": "tracker", "summary": "Fetch one ticket by id.",
        "schema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        "dispatch": {"kind": "mcp", "server": "tracker", "toolName": "get_ticket"}
    }])
}

/// `fixtures/tools/<tool>.json`: the tool as it is offered; calls, what they put on the wire and what the model reads. The
/// arguments are written by hand; `AX_WRITE_FIXTURES=1` writes the rest anew, to be read before it is committed.
#[test]
fn each_tool_is_as_its_golden_file_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tools");
    for tool in TOOL_NAMES {
        let path = folder.join(format!("{tool}.json"));
        let golden: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let calls: Vec<&Value> = golden["calls"].as_array().unwrap().iter().collect();
        let mut script: Vec<Value> =
            calls.iter().map(|call| json!({"tools": [{"name": tool, "args": call["args"]}]})).collect();
        script.push(json!({"text": "done"}));
        let host = FakeHost::socket(Script::json(json!(script))).start();
        seed(&host.workspace());
        let mut payload = host.payload("go");
        payload["catalog"] = catalog();
        assert_eq!(run(&host, &payload).text(), "done");
        let asked = host.requests_of("llm_call");
        let offered = asked[0].value["tools"].as_array().unwrap();
        assert_eq!(offered.iter().map(|spec| spec["name"].as_str().unwrap()).collect::<Vec<_>>(), TOOL_NAMES);
        let spec = offered.iter().find(|spec| spec["name"] == tool).unwrap();
        // The one thing that differs from run to run.
        let root = host.workspace().display().to_string();
        let texts = last_results(&host).into_iter().map(|text| text.replace(&root, "<workspace>"));
        let calls: Vec<Value> =
            calls.iter().zip(texts).map(|(call, text)| json!({"args": call["args"], "result": text})).collect();
        let seen = json!({"spec": spec, "calls": calls, "frames": frames(&host)});
        if std::env::var_os("AX_WRITE_FIXTURES").is_some() {
            std::fs::write(&path, serde_json::to_string_pretty(&seen).unwrap() + "\n").unwrap();
        } else {
            assert_eq!(seen, golden, "{tool}: {}", serde_json::to_string_pretty(&seen).unwrap());
        }
    }
}

/// The same for a catalog tool offered as one of its own; what else is offered beside it is listed too.
#[test]
fn a_catalog_tool_is_as_its_golden_file_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tools/direct.json");
    let golden: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let calls: Vec<&Value> = golden["calls"].as_array().unwrap().iter().collect();
    let mut script: Vec<Value> =
        calls.iter().map(|call| json!({"tools": [{"name": call["tool"], "args": call["args"]}]})).collect();
    script.push(json!({"text": "done"}));
    let host = FakeHost::socket(Script::json(json!(script))).start();
    let long = format!("mcp_tracker_{}", "x".repeat(80));
    let entry = |name: &str, summary: &str| json!({"name": name, "skill": "tracker", "summary": summary, "schema": {}, "dispatch": {}});
    let mut payload = host.payload("go");
    payload["catalog"] = catalog();
    payload["catalog"]
        .as_array_mut()
        .unwrap()
        .extend([entry(&long, "A long name."), entry("grep", "A name that is taken.")]);
    payload["tool_dispatch"] = json!({"mode": "direct", "spill_threshold_bytes": 20_480});
    assert_eq!(run(&host, &payload).text(), "done");
    let offered = host.requests_of("llm_call")[0].value["tools"].as_array().unwrap().clone();
    let names: Vec<&Value> = offered.iter().map(|spec| &spec["name"]).collect();
    let texts = last_results(&host);
    assert_eq!(texts.len(), calls.len());
    let calls: Vec<Value> = calls
        .iter()
        .zip(texts)
        .map(|(call, text)| json!({"tool": call["tool"], "args": call["args"], "result": text}))
        .collect();
    let seen = json!({"offered": names, "specs": offered[13..], "calls": calls, "frames": frames(&host)});
    if std::env::var_os("AX_BLESS").is_some() {
        std::fs::write(&path, serde_json::to_string_pretty(&seen).unwrap() + "\n").unwrap();
    } else {
        assert_eq!(seen, golden, "{}", serde_json::to_string_pretty(&seen).unwrap());
    }
}

/// Arguments of every type and size, some of them nearly right.
fn arguments() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-z/.*-]{0,12}",
        Just("../../etc/passwd".to_owned()),
        Just("a\0b".to_owned()),
        Just("x".repeat(2100)),
        Just("x".repeat(600_000)),
        Just("😀\u{202e}\u{1b}[31m".to_owned()),
        Just("query".to_owned()),
        Just("https://example.com/".to_owned()),
    ];
    let leaf = prop_oneof![
        4 => text.prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => (0..200i64).prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
    ];
    let key = prop_oneof![
        8 => prop::sample::select(vec![
            "type", "scope", "content", "query", "url", "path", "pattern", "command", "old_string", "new_string", "name",
            "description", "body", "names", "tool", "args", "limit", "id", "task", "tier", "prompt", "schedule", "glob",
            "domains", "credentials",
        ]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["action", "_msgId", "_sessionId", "ok", "approved", "__proto__"]).prop_map(str::to_owned),
        1 => "[a-zA-Z_]{1,8}",
    ];
    leaf.prop_recursive(3, 10, 5, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            5 => prop::collection::btree_map(key.clone(), inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn kinds(tool: &str) -> &'static [&'static str] {
    match tool {
        "memory" => &["write", "query", "read", "delete", "list"],
        "web" => &["fetch", "extract", "search"],
        "scheduler" => &["add_cron", "run_at", "remove", "list"],
        "agent" => &["delegate", "collect"],
        _ => &[],
    }
}

fn call() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        // Not `bash`: what a random command does is not this test's question.
        12 => prop::sample::select(TOOL_NAMES.into_iter().filter(|name| *name != "bash").collect::<Vec<_>>()).prop_map(str::to_owned),
        1 => Just("no such tool".to_owned()),
        1 => Just(String::new()),
        1 => Just("n".repeat(300)),
        1 => Just("Grep\n\0é".to_owned()),
    ];
    let id = prop_oneof![4 => Just(None), 1 => Just(Some("same")), 1 => Just(Some("")), 1 => Just(Some("\0"))];
    (name, arguments(), id, any::<prop::sample::Index>(), 0..4u8).prop_map(|(name, mut args, id, kind, fit)| {
        if let (Some(fields), kinds @ [_, ..]) = (args.as_object_mut(), kinds(&name))
            && fit > 0
        {
            fields.insert("type".to_owned(), json!(kind.get(kinds)));
        }
        let mut call = Map::from_iter([("name".to_owned(), json!(name)), ("args".to_owned(), args)]);
        if let Some(id) = id {
            call.insert("id".to_owned(), json!(id));
        }
        Value::Object(call)
    })
}

/// A model that sends anything: the host never sees an invalid request, each call has one result, the turn ends, and nothing
/// outside the workspace changes. `AX_HOSTILE_TURNS` sets how many turns; a thousand take a quarter of an hour.
#[test]
fn a_hostile_model_breaks_no_rule() {
    let turns = std::env::var("AX_HOSTILE_TURNS").ok().and_then(|turns| turns.parse().ok()).unwrap_or(12);
    let mut runner = TestRunner::deterministic();
    for turn in 0..turns {
        let rounds = prop::collection::vec(prop::collection::vec(call(), 1..9), 1..14);
        let rounds = rounds.new_tree(&mut runner).unwrap().current();
        let count: usize = rounds.iter().map(Vec::len).sum();
        let mut script: Vec<Value> = rounds.into_iter().map(|calls| json!({"tools": calls})).collect();
        script.push(json!({"text": "end"}));
        let host = FakeHost::socket(Script::json(json!(script))).start();
        seed(&host.workspace());
        let outside = host.directory().join("canary");
        std::fs::write(&outside, "as it was").unwrap();
        std::os::unix::fs::symlink(host.directory(), host.workspace().join("out")).unwrap();
        let mut payload = host.payload("go");
        payload["catalog"] = catalog();
        let output = host.runner(RUNNER).payload(&payload).deadline(LIMIT).run();
        assert_eq!(host.violations(), [], "turn {turn}: {}", output.stderr);
        assert_eq!((output.text().as_str(), output.code), ("end", Some(0)), "turn {turn}: {}", output.stderr);
        assert_eq!(last_results(&host).len(), count, "turn {turn}");
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "as it was");
        assert_eq!(
            std::fs::read_dir(host.directory()).unwrap().filter(|it| it.as_ref().unwrap().file_name() == "x").count(),
            0
        );
    }
}

/// Four hundred turns with tool output in them, and as much again from this turn's tools: what the model is sent stays within
/// every limit, and it answers. With `AX_LONG` it is 20 MB each.
#[test]
fn a_long_history_is_summarised_without_an_audience() {
    let big = "read_file { \"command\": \"ls\" } ".repeat(if long() { 1750 } else { 120 });
    // The host may say three bytes a character, and none of it belongs into a file.
    let page = "€".repeat(199_000);
    let rounds = if long() { 7 } else { 1 };
    assert!(!long() || (400 * big.len() > 20_000_000 && rounds * 5 * page.len() > 20_000_000));
    let history: Vec<Value> = (0..400)
        .map(
            |at| json!({"role": if at % 2 == 0 { "user" } else { "assistant" }, "content": format!("turn {at} {big}")}),
        )
        .collect();
    for http in [false, true] {
        let fetch =
            |at: usize| json!({"name": "web", "args": {"type": "fetch", "url": format!("https://example.com/{at}")}});
        let mut script = vec![
            json!({"task": "fast", "text": "SUMMARY", "repeat": 10}),
            json!({"tools": [{"name": "bash", "args": {"command": "seq 1 100000"}}, {"name": "grep", "args": {"pattern": "o"}}]}),
        ];
        script.extend((0..rounds).map(|_| json!({"tools": (0..5).map(fetch).collect::<Vec<_>>()})));
        script.push(json!({"text": "The answer."}));
        let script = Script::json(json!(script));
        let host = if http { FakeHost::http(script).start() } else { FakeHost::socket(script).start() };
        host.set_reply("web_fetch", json!({"status": 200, "body": page}));
        let mut payload = host.payload("and now?");
        payload["history"] = json!(history);
        payload["singleTurn"] = json!(true);
        if http {
            host.push_work(&payload);
        }
        let output = run(&host, &payload);
        let answer = if http { host.answer().unwrap() } else { output.text() };
        assert_eq!(answer, "The answer.");
        let asked = host.requests_of("llm_call");
        let (fast, turn): (Vec<_>, Vec<_>) = asked.iter().partition(|request| request.value["taskType"] == "fast");
        assert!((1..=4).contains(&fast.len()) && turn.len() == rounds + 2, "{} {}", fast.len(), turn.len());
        assert_eq!(host.count("web_fetch"), rounds * 5);
        for request in &turn {
            assert!(request.raw.len() <= 1_000_000, "{}", request.raw.len());
        }
        for request in fast {
            assert!(request.value.get("_requestId").is_none() && request.value.get("tools").is_none());
            assert!(request.value["_sessionId"].is_string());
        }
        let text = turn[1].value["messages"].to_string();
        assert!(
            text.contains("SUMMARY")
                && text.contains("turn 399 ")
                && text.contains("turn 394 ")
                && !text.contains("turn 393 ")
        );
        // The last round's results are there, each with its share.
        let texts = last_results(&host);
        assert_eq!(texts.len(), rounds * 5 + 2);
        assert!(texts[texts.len() - 5..].iter().all(|text| text.contains("€€€") && text.contains("shortened")));
    }
}

#[test]
fn without_a_summary_the_oldest_turns_are_left_out() {
    let history: Vec<Value> = (0..300)
        .map(|at| json!({"role": if at % 2 == 0 { "user" } else { "assistant" }, "content": format!("turn {at}")}))
        .collect();
    for reply in [
        json!({"task": "fast", "error": "no"}),
        json!({"task": "fast", "text": " "}),
        json!({"task": "fast", "chunks": []}),
    ] {
        let host = FakeHost::socket(Script::json(json!([reply, {"text": "ok"}]))).start();
        let mut payload = host.payload("and now?");
        payload["history"] = json!(history);
        assert_eq!(run(&host, &payload).text(), "ok");
        let asked = host.requests_of("llm_call").pop().unwrap().value;
        let messages = asked["messages"].as_array().unwrap();
        assert!(messages.len() <= 200 && messages.len() > 170, "{}", messages.len());
        assert!(messages[1]["content"].as_str().unwrap().contains("oldest messages of this conversation.]"));
    }
}

#[test]
fn media_are_sent_in_every_round() {
    let tool = json!({"tools": [{"name": "glob", "args": {"pattern": "*"}}]});
    let host = FakeHost::socket(Script::json(json!([tool, tool, {"text": "red"}]))).start();
    let mut payload = host.payload("");
    let image = json!({"type": "image_data", "mimeType": "image/png", "data": "AAAA"});
    payload["message"] = json!([{"type": "text", "text": "What colour?"}, image, {"type": "image", "fileId": "f", "mimeType": "image/png"}]);
    assert_eq!(run(&host, &payload).text(), "red");
    for request in host.requests_of("llm_call") {
        let current = &request.value["messages"]
            .as_array()
            .unwrap()
            .iter()
            .find(|message| message["content"].is_array())
            .unwrap()["content"];
        let note = "[Attachment left out: image (image/png): the host could not find it.]";
        let text = |text: &str| json!({"type": "text", "text": text});
        assert_eq!(*current, json!([text("What colour?"), image, text(note)]));
    }
}

#[test]
fn fifty_large_results_never_make_a_request_too_large() {
    for http in [false, true] {
        let mut script = vec![];
        for round in 0..10 {
            let call = |at: usize| json!({"name": "call_tool", "args": {"tool": "mcp_tracker_get_ticket", "args": {"id": format!("{round}-{at}")}}});
            script.push(json!({"tools": (0..5).map(call).collect::<Vec<_>>()}));
        }
        script.push(json!({"text": "end"}));
        let script = Script::json(json!(script));
        let host = if http { FakeHost::http(script).start() } else { FakeHost::socket(script).start() };
        host.set_reply("call_tool", json!({"result": "é\u{1}".repeat(100_000)}));
        let mut payload = host.payload("go");
        payload["catalog"] = catalog();
        payload["singleTurn"] = json!(true);
        payload["tool_dispatch"] = json!({"mode": "indirect", "spill_threshold_bytes": 10_000_000});
        if http {
            host.push_work(&payload);
        }
        run(&host, &payload);
        let asked = host.requests_of("llm_call");
        assert_eq!(asked.len(), 11);
        let texts = last_results(&host);
        assert_eq!(texts.len(), 50);
        assert!(texts[0].contains("shortened to make room"), "{}", &texts[0][..200]);
    }
}

#[test]
fn catalog_tools_are_tools_in_direct_mode_and_large_results_are_files() {
    let script = json!([
        {"tools": [{"name": "mcp_tracker_get_ticket", "args": {"id": "7", "_select": ".x"}}]},
        {"tools": [{"name": "glob", "args": {"pattern": ".ax/tmp/*.txt"}}]},
        {"text": "end"}
    ]);
    let host = FakeHost::socket(Script::json(script)).start();
    host.set_reply(
        "call_tool",
        json!({"truncated": true, "full": "line\n".repeat(50_000), "preview": "see /tmp/tool-1.json"}),
    );
    let mut payload = host.payload("go");
    payload["catalog"] = catalog();
    payload["tool_dispatch"] = json!({"mode": "direct", "spill_threshold_bytes": 20_480});
    assert_eq!(run(&host, &payload).text(), "end");
    let offered = host.requests_of("llm_call")[0].value["tools"].as_array().unwrap().clone();
    let names: Vec<&str> = offered.iter().map(|spec| spec["name"].as_str().unwrap()).collect();
    assert_eq!(names[..13], TOOL_NAMES[..13]);
    assert_eq!(names[13..], ["mcp_tracker_get_ticket"]);
    let sent = &host.requests_of("call_tool")[0].value;
    assert_eq!(
        (&sent["tool"], &sent["args"]),
        (&json!("mcp_tracker_get_ticket"), &json!({"id": "7", "_select": ".x"}))
    );
    let texts = last_results(&host);
    let spilled: Value = serde_json::from_str(&texts[0]).unwrap();
    assert!(!texts[0].contains("/tmp/tool-1.json"));
    let path = spilled["_path"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(host.workspace().join(path)).unwrap(), "line\n".repeat(50_000));
    // Kept out of the repository, and told to be there.
    assert!(texts[1].contains("hidden by .gitignore") && texts[1].contains(path), "{}", texts[1]);
}

/// Nobody approves the file of a large result, so it must go nowhere but to its own new name.
#[test]
fn a_large_result_follows_no_link() {
    for planted in [".ax/tmp/.gitignore", ".ax/tmp"] {
        let script = json!([{"tools": [{"name": "mcp_tracker_get_ticket", "args": {"id": "7"}}]}, {"text": "end"}]);
        let host = FakeHost::socket(Script::json(script)).start();
        host.set_reply("call_tool", json!({"truncated": true, "full": "evil\n".repeat(50_000)}));
        let mut payload = host.payload("go");
        payload["catalog"] = catalog();
        payload["tool_dispatch"] = json!({"mode": "direct", "spill_threshold_bytes": 20_480});
        let at = host.workspace().join(planted);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::create_dir(host.workspace().join("src")).unwrap();
        std::fs::write(host.workspace().join("main.rs"), "mine").unwrap();
        let target = if planted.ends_with("tmp") { "../src" } else { "../../main.rs" };
        std::os::unix::fs::symlink(target, &at).unwrap();
        assert_eq!(run(&host, &payload).text(), "end");
        assert_eq!(std::fs::read_to_string(host.workspace().join("main.rs")).unwrap(), "mine");
        assert_eq!(std::fs::read_dir(host.workspace().join("src")).unwrap().count(), 0);
        let told = last_results(&host).concat();
        assert!(told.contains("leads through a link"), "{planted}: {}", &told[told.len().saturating_sub(500)..]);
    }
}

#[test]
fn a_skill_keeps_its_frontmatter_when_nobody_is_there() {
    let old = "---\nname: s\ndescription: d\n---\n\nold body\n";
    let calls = json!([
        {"name": "write_file", "args": {"path": ".ax/skills/s/SKILL.md", "content": old.replace("d\n---", "d\ndomains: [evil.example.com]\n---")}},
        {"name": "edit_file", "args": {"path": "link.md", "old_string": "description: d", "new_string": "description: e"}},
        {"name": "write_file", "args": {"path": "./.ax/skills/s/SKILL.md", "content": "no frontmatter"}},
        {"name": "skill_write", "args": {"name": "s", "description": "e", "body": "b"}},
        {"name": "edit_file", "args": {"path": ".ax/skills/s/SKILL.md", "old_string": "old body", "new_string": "new body"}}
    ]);
    for (session, changed) in [("scheduler:dm:ax:x", false), ("http:dm:ax:u:t", true)] {
        let mut script: Vec<Value> = calls.as_array().unwrap().iter().map(|call| json!({"tools": [call]})).collect();
        script.push(json!({"text": "end"}));
        let host = FakeHost::socket(Script::json(json!(script))).start();
        let file = host.workspace().join(".ax/skills/s/SKILL.md");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, old).unwrap();
        std::os::unix::fs::symlink(".ax/skills/s/SKILL.md", host.workspace().join("link.md")).unwrap();
        let mut payload = host.payload("go");
        payload["sessionId"] = json!(session);
        run(&host, &payload);
        let texts = last_results(&host);
        let refused = texts.iter().filter(|text| text.contains("Refusing to mutate SKILL.md frontmatter")).count();
        assert_eq!(refused, if changed { 0 } else { 4 }, "{texts:#?}");
        if !changed {
            assert_eq!(std::fs::read_to_string(&file).unwrap(), old.replace("old body", "new body"));
            assert_eq!(host.count("sandbox_approve"), 1, "refusals do not even ask");
        }
    }
}

#[test]
fn prompts_are_printed_with_the_cost_of_their_sections() {
    let payload = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/payload-k8s-direct.json");
    let output = std::process::Command::new(RUNNER).arg("prompt").arg("--payload").arg(payload).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("--- sections") && text.contains("tool-catalog"), "{text}");
}

/// Whatever a payload brings, the prompt fits, and words from outside stay in their line.
#[test]
fn no_payload_makes_a_prompt_too_long_or_forges_a_line() {
    let forged = "x\n## Forged\r\u{2028}## Forged\u{85}\u{1b}[2J## Forged";
    let huge = "é ".repeat(if long() { 500_000 } else { 110_000 });
    let skill = |name: &str, about: &str| json!({"name": name, "description": about, "kind": "pending", "pendingReasons": [about], "warnings": [about]});
    let entry = |at: usize, text: &str| {
        json!({"name": format!("mcp_a_{at}"), "skill": text, "summary": text, "dispatch": {},
            "schema": {"type": "object", "properties": {text: {}}, "required": [text]}})
    };
    let identity =
        |text: &str| json!({"agents": text, "soul": text, "identity": text, "heartbeat": text, "bootstrap": text});
    let cases = [
        json!({"identity": identity(&huge)}),
        json!({"identity": {"bootstrap": huge}}),
        json!({"agentId": huge, "profile": huge, "identity": identity("fine")}),
        json!({"agentId": forged, "profile": forged, "identity": identity("fine")}),
        json!({"skills": vec![skill(forged, forged); 500], "identity": identity("fine")}),
        json!({"skills": vec![skill(&huge, &huge); 3], "identity": identity("fine")}),
        json!({"skills": vec![skill("s", &"d ".repeat(900)); 500], "identity": identity("fine")}),
        json!({"catalog": (0..40).map(|at| entry(at, forged)).collect::<Vec<_>>(), "identity": identity("fine")}),
        json!({"catalog": (0..1500).map(|at| entry(at, "s")).collect::<Vec<_>>(), "identity": identity("fine")}),
        json!({"catalog": (0..3).map(|at| entry(at, &huge)).collect::<Vec<_>>(), "identity": identity("fine")}),
        json!({"history": vec![json!({"role": "user", "content": huge}); 3], "skills": [skill("s", "d")], "identity": identity("fine")}),
        json!({"taintRatio": 1e308, "taintThreshold": -1e308, "identity": identity("fine")}),
    ];
    for (at, fields) in cases.iter().enumerate() {
        let modes = if fields.get("catalog").is_some() { vec!["direct", "indirect"] } else { vec!["indirect"] };
        for mode in modes {
            let host = FakeHost::socket(Script::json(
                json!([{"text": "SUMMARY", "task": "fast", "repeat": true}, {"text": "ok"}]),
            ))
            .start();
            let mut payload = host.payload("go");
            payload.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            payload["tool_dispatch"] = json!({"mode": mode, "spill_threshold_bytes": 20_480});
            assert_eq!(run(&host, &payload).text(), "ok", "{at} {mode}");
            let asked = host.requests_of("llm_call").pop().unwrap().value;
            let system = asked["messages"][0]["content"].as_str().unwrap();
            assert_eq!(asked["messages"][0]["role"], "system");
            assert!(system.encode_utf16().count() <= 200_000, "{at}");
            assert!(!system.lines().any(|line| line.starts_with("## Forged")), "{at} {mode}: {system}");
            assert!(!system.contains(['\u{1b}', '\u{2028}', '\u{85}', '\r']), "{at} {mode}");
        }
    }
}

#[test]
fn each_subcommand_explains_itself() {
    for (words, wanted) in [
        (vec!["--help"], "git-sidecar"),
        (vec!["-h"], "usage:"),
        (vec!["prompt", "--help"], "--payload FILE"),
        (vec!["prompt", "-h"], "--payload FILE"),
        (vec!["prompt", "--payload", "/none", "--help"], "--payload FILE"),
        (vec!["git-sidecar", "--help"], "AX_GITDIR"),
        (vec!["git-sidecar", "-h"], "AX_GITDIR"),
        (vec!["enter", "--help"], "--policy FILE"),
        (vec!["enter", "-h"], "--policy FILE"),
        (vec!["doctor", "--help"], "--json"),
        (vec!["doctor", "-h"], "--json"),
    ] {
        let output = std::process::Command::new(RUNNER)
            .args(&words)
            .env_clear()
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains(wanted) && output.stderr.is_empty(), "{words:?}: {text}");
    }
}
