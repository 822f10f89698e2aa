//! Texts that must be true and say what to do next.

use crate::support::{LIMIT, runner, tools_then_done, turn};
use ax_runner::devhost::{FakeHost, Fault, Policy, Script};
use serde_json::{Value, json};

/// The texts of one round's results, in the order of its calls.
fn told(host: &FakeHost) -> Vec<String> {
    let last = host.requests_of("llm_call").last().unwrap().value["messages"].clone();
    let blocks = last.as_array().unwrap().iter().filter_map(|it| it["content"].as_array()).flatten();
    blocks.filter_map(|block| block["content"].as_str()).map(str::to_owned).collect()
}

#[test]
fn a_name_that_is_no_tools_is_told_what_it_is() {
    let entry =
        |n: usize| json!({"name": format!("mcp_s_t{n}"), "skill": "s", "summary": "x", "schema": {}, "dispatch": {}});
    for (mode, count, name) in [("direct", 186, "mcp_s_t185"), ("indirect", 1, "mcp_s_t0")] {
        let calls = json!([{"name": name, "args": {}}, {"name": "mcp_s_no", "args": {}}, {"name": "", "args": {}}]);
        let host = FakeHost::socket(tools_then_done(calls)).start();
        let mut payload = host.payload("go");
        payload["catalog"] = (0..count).map(entry).collect();
        payload["tool_dispatch"] = json!({"mode": mode, "spill_threshold_bytes": 20_480});
        let output = host.runner(crate::support::BIN).deadline(LIMIT).payload(&payload).run();
        assert_eq!(output.text(), "done", "{}", output.stderr);
        let told = told(&host);
        assert!(told[0].starts_with(&format!("Tool {name} not found: call it through call_tool")), "{told:?}");
        assert_eq!(told[1..], ["Tool mcp_s_no not found", "Tool not found: the call names none"]);
    }
}

#[test]
fn a_search_says_how_to_get_the_rest() {
    let calls = json!([
        {"name": "grep", "args": {"pattern": "hit", "max_results": 2}},
        {"name": "grep", "args": {"pattern": "hit", "output_mode": "files", "max_results": 1}},
        {"name": "grep", "args": {"pattern": "hit", "max_results": 3}},
        {"name": "glob", "args": {"pattern": "*.txt", "max_results": 1}},
        {"name": "grep", "args": {"pattern": "(\\w{900}){900}"}},
        {"name": "glob", "args": {"pattern": "*.log"}},
        {"name": "glob", "args": {"pattern": "c.log"}},
        {"name": "glob", "args": {"pattern": "build/**"}},
        {"name": "grep", "args": {"pattern": "x", "path": "c.log"}},
        {"name": "read_file", "args": {"path": "a.txt", "offset": 9}}
    ]);
    let host = FakeHost::socket(tools_then_done(calls)).start();
    let place = host.workspace();
    std::fs::create_dir(place.join("build")).unwrap();
    for (name, text) in [
        ("a.txt", "hit\n"),
        ("b.txt", "hit\nhit\n"),
        (".gitignore", "*.log\nbuild/\n"),
        ("c.log", "x\n"),
        ("build/o", ""),
    ] {
        std::fs::write(place.join(name), text).unwrap();
    }
    assert_eq!(runner(&host).run().text(), "done");
    let told: Vec<Value> = told(&host).iter().map(|text| serde_json::from_str(text).unwrap_or(json!(text))).collect();
    for (at, wanted) in [
        (0, "Cut after 2 matching lines: raise max_results (at most 10000)"),
        (1, "Cut after 1 file: raise"),
        (3, "the first 1 of 2 files: raise max_results (at most 10000)"),
        (5, "2 entries hidden by .gitignore were not searched (build/, c.log): begin pattern with the path of one"),
    ] {
        assert!(told[at]["note"].as_str().unwrap().contains(wanted), "{}", told[at]);
    }
    assert!(!told[2]["note"].to_string().contains("max_results") && told[2]["truncated"] == false, "{}", told[2]);
    assert!(told[4].to_string().contains("use fewer or smaller repetitions"), "{}", told[4]);
    assert_eq!((&told[6]["files"], &told[7]["files"]), (&json!(["c.log"]), &json!(["build/o"])));
    assert_eq!(told[8]["count"], 1);
    assert!(told[9].to_string().contains("a.txt has 1 line\""), "{}", told[9]);
}

#[test]
fn a_refusal_without_words_has_ours() {
    for reply in [json!({"approved": true, "error": ""}), json!({"error": " "})] {
        let policy = Policy::json(json!([{"reply": reply}]));
        let host = FakeHost::socket(tools_then_done(json!([{"name": "bash", "args": {"command": "touch ran"}}])));
        let (host, _) = turn(host.policy(policy));
        assert!(told(&host)[0].ends_with("so it was not run: its answer holds an error without words"), "{reply}");
        assert!(!host.workspace().join("ran").exists());
    }
}

#[test]
fn a_character_split_over_two_pieces_of_a_reply_is_whole() {
    let host = FakeHost::socket(Script::text("never said"));
    let body = r#"{"ok":true,"_msgId":"{{msgId}}","chunks":[{"type":"text","content":"a\ud83d"},{"type":"text","content":"\ude00b"},{"type":"done"}]}"#;
    let (_, output) = turn(host.fault("llm_call", 1, Fault::Body(body.to_owned())));
    assert_eq!(output.text(), "a\u{1f600}b");
}
