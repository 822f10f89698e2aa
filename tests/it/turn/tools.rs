//! Tools in a turn: limits, order, budget, breaker, and exactly what is asked and reported (PROTOCOL Appendix B 9–15, 20, 21).

use crate::support::{bash_then_done, lines, result, results, runner, tools_then_done, turn};
use ax_runner::devhost::{FakeHost, Script, Transport};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

#[test]
fn b9_every_turn_with_an_action_for_an_answer_has_exactly_one() {
    let image = json!([{"type": "image_data", "data": "aGk=", "mimeType": "image/png"}]);
    for transport in [Transport::Listen, Transport::Http] {
        for message in
            [json!("go"), json!(""), json!(" \n"), json!([]), json!([{"type": "text", "text": ""}]), image.clone()]
        {
            let host = FakeHost::builder(transport, Script::text("hello")).start();
            let mut payload = host.payload("go");
            payload["message"] = message.clone();
            let output = host.runner(crate::support::BIN).payload(&payload).run();
            assert_eq!(output.code, Some(0), "{transport:?} {message}: {}", output.stderr);
            assert_eq!((host.answers().len(), host.violations()), (1, vec![]), "{transport:?} {message}");
            assert!(!host.answer().unwrap().is_empty());
            assert_eq!(output.text(), "");
        }
        // A fatal error is an answer too.
        let host = FakeHost::builder(transport, Script::text("hello")).start();
        let output = runner(&host).arguments(["--agent", "nobody"]).run();
        assert_eq!(output.code, Some(1), "{}", output.stderr);
        assert_eq!(host.answers().len(), 1, "{transport:?}");
        assert!(host.answer().unwrap().contains("unknown agent"), "{:?}", host.answer());
        assert!(host.answers()[0].request_id.is_some(), "{transport:?}: nobody is named");
    }
    let host = FakeHost::listen(Script::text("hello")).start();
    let output = host.runner(crate::support::BIN).stdin("{\"message\":\"m\",\"ipcToken\":\"hunter2\"").run();
    assert_eq!((output.code, host.answers().len()), (Some(1), 1), "{}", output.stderr);
    assert!(!host.answer().unwrap().contains("hunter2"));
    let host = FakeHost::http(Script::text("hello")).start();
    host.push_raw_work("not json");
    host.push_work(&host.payload("go"));
    let running = host.runner(crate::support::BIN).spawn().unwrap();
    assert!(host.wait_answer(1, crate::support::LIMIT).is_some());
    drop(running);
}

#[test]
fn what_is_no_download_says_so() {
    let write = |path: &str| json!({"name": "write_file", "args": {"path": path, "content": "old"}, "id": path.replace('/', "_")});
    let edit = json!({"name": "edit_file", "args": {"path": "artifacts/a", "old_string": "old", "new_string": "new"}, "id": "edit"});
    let host = FakeHost::socket(tools_then_done(json!([
        write("artifacts/a"),
        write("artifacts//b"),
        write("artifacts2/c"),
        write("src/artifacts/d"),
        write("./artifacts/e"),
        write("x/../artifacts/f"),
        edit
    ])))
    .start();
    assert_eq!(runner(&host).run().text(), "done");
    // The host goes by how the path is spelled (PROTOCOL §8.1), and by what was written.
    let noted: Vec<String> =
        results(&host).into_iter().filter(|(_, text)| text.contains("\"note\"")).map(|(id, _)| id).collect();
    assert_eq!(noted, ["__artifacts_e", "edit", "x____artifacts_f"]);
    assert!(results(&host)["__artifacts_e"].contains("with the path artifacts/e,"), "{:?}", results(&host));
}

#[test]
fn b12_b21_a_large_result_is_cut_for_the_model_and_for_the_report() {
    let commands = [
        "head -c 700000 /dev/zero | tr '\\0' x",
        "for i in $(seq 40000); do printf '\u{1f600}\u{e9}'; done",
        "head -c 300000 /dev/zero",
        "head -c 300000 /dev/urandom",
    ];
    for command in commands {
        let (host, output) = turn(FakeHost::socket(bash_then_done(command)));
        assert_eq!(output.text(), "done", "{}", output.stderr);
        assert!(units(&result(&host)) <= 200_100, "{command}");
        let report = &host.requests_of("sandbox_result")[0].value;
        assert!(units(report["output"].as_str().unwrap()) <= 500_000);
        assert_eq!(host.violations(), []);
    }
    // A result of a host tool over the limit says how long it was.
    let host =
        FakeHost::socket(tools_then_done(json!([{"name": "memory", "args": {"type": "list", "scope": "s"}}]))).start();
    host.set_reply("memory_list", json!({"entries": ["y".repeat(260_000)]}));
    let output = runner(&host).run();
    assert_eq!(output.text(), "done", "{}", output.stderr);
    assert!(units(&result(&host)) <= 200_100 && result(&host).contains("chars total]"));
    assert_eq!(host.violations(), []);
}

#[test]
fn b13_calls_of_a_round_run_side_by_side() {
    // Each waits for the files of all: were one not begun before another has ended, none would end.
    let wait = |n: usize| json!({"name": "bash", "args": {"command": format!("mkdir -p d; touch d/{n}; until set -- d/*; [ $# = 24 ]; do sleep 0.1; done"), "timeout_ms": 60000}});
    let (host, output) = turn(FakeHost::socket(tools_then_done((0..24).map(wait).collect())));
    assert_eq!(output.text(), "done", "{}", output.stderr);
    assert!(results(&host).values().all(|text| text.contains("no output")), "{:?}", results(&host));
    let last = host.requests_of("llm_call").last().unwrap().value["messages"].as_array().unwrap().clone();
    let tail = &last[last.len() - 2..];
    assert!(tail.iter().all(|it| it["content"].as_array().unwrap().len() == 1), "one message for each result");
}

#[test]
fn b14_the_fifty_first_call_does_not_run() {
    let call = |n: usize| json!({"name": "bash", "args": {"command": format!("echo {n} >>count")}});
    let round = |from: usize, count: usize| json!({"tools": (from..from + count).map(call).collect::<Vec<_>>()});
    let (host, output) =
        turn(FakeHost::socket(Script::json(json!([round(0, 30), round(30, 25), round(55, 1), {"text": "done"}]))));
    assert_eq!(output.text(), "done", "{}", output.stderr);
    assert_eq!((lines(&host, "count").len(), host.requests_of("sandbox_approve").len()), (50, 50));
    let texts = results(&host);
    let refused = texts.values().filter(|text| text.contains("Maximum tool call limit reached (50 calls)")).count();
    assert_eq!((texts.len(), refused), (56, 6));
    assert_eq!(host.violations(), []);
}

#[test]
fn b14_a_host_tool_that_keeps_failing_is_not_asked_again() {
    let list = json!({"tools": [{"name": "memory", "args": {"type": "list", "scope": "s"}}]});
    let bash = json!({"tools": [{"name": "bash", "args": {"command": "exit 1"}}]});
    let host = FakeHost::socket(Script::json(json!([
        list, list, bash, bash, bash, bash, list, list, list, bash, {"text": "done"}])))
    .start();
    host.set_reply("memory_list", json!({"ok": false, "error": "down"}));
    let output = runner(&host).run();
    assert_eq!(output.text(), "done", "{}", output.stderr);
    assert_eq!(host.requests_of("memory_list").len(), 3);
    assert_eq!(host.requests_of("sandbox_approve").len(), 5, "commands that fail are not a broken tool");
    assert_eq!(results(&host).values().filter(|text| text.contains("3 consecutive times")).count(), 2);
}

/// Asked and reported, without the envelope.
fn fields(host: &FakeHost, action: &str) -> Vec<Value> {
    let strip = |mut value: Value| {
        value.as_object_mut().unwrap().retain(|key, _| !key.starts_with('_') && key != "action");
        value
    };
    host.requests_of(action).into_iter().map(|request| strip(request.value)).collect()
}

#[test]
fn b15_exactly_these_fields_are_asked_and_reported() {
    let cases = [
        (
            json!({"name": "bash", "args": {"command": "echo hi; exit 2"}}),
            json!({"operation": "bash", "command": "echo hi; exit 2"}),
            Some(json!({"operation": "bash", "command": "echo hi; exit 2", "output": "hi\n", "exitCode": 2})),
        ),
        (
            json!({"name": "write_file", "args": {"path": "./a", "content": "c"}}),
            json!({"operation": "write", "path": "./a", "content": "c"}),
            Some(json!({"operation": "write", "path": "./a", "success": true})),
        ),
        (
            json!({"name": "read_file", "args": {"path": "seed"}}),
            json!({"operation": "read", "path": "seed"}),
            Some(json!({"operation": "read", "path": "seed", "success": true})),
        ),
        (
            json!({"name": "edit_file", "args": {"path": "seed", "old_string": "s", "new_string": "t"}}),
            json!({"operation": "edit", "path": "seed", "old_string": "s", "new_string": "t"}),
            Some(json!({"operation": "edit", "path": "seed", "success": true})),
        ),
    ];
    for (tool, asked, reported) in cases {
        let host = FakeHost::socket(tools_then_done(json!([tool]))).start();
        std::fs::write(host.workspace().join("seed"), "seed").unwrap();
        let output = runner(&host).run();
        assert_eq!(output.text(), "done", "{}", output.stderr);
        assert_eq!(fields(&host, "sandbox_approve"), [asked]);
        assert_eq!(fields(&host, "sandbox_result"), reported.into_iter().collect::<Vec<_>>());
        assert_eq!(host.violations(), []);
    }
}

#[test]
fn a_silent_command_is_reported_in_the_hosts_words() {
    let call = |command: &str, ms: u64| json!({"name": "bash", "args": {"command": command, "timeout_ms": ms}});
    let (host, output) = turn(FakeHost::socket(tools_then_done(json!([
        call("true", 30_000),
        call("false", 30_000),
        call("kill -9 $$", 30_000),
        call("sleep 60", 100)
    ]))));
    assert_eq!(output.text(), "done", "{}", output.stderr);
    let told: BTreeMap<String, Value> = fields(&host, "sandbox_result")
        .into_iter()
        .map(|report| (report["command"].as_str().unwrap().to_owned(), report["output"].clone()))
        .collect();
    let wanted = json!({"true": "(no output)", "false": "Command failed", "kill -9 $$": "Command failed", "sleep 60": "Command timed out"});
    assert_eq!(json!(told), wanted);
    assert!(
        results(&host).values().all(|text| text.contains("(no output)")),
        "the model is told what it said: nothing"
    );
}

#[test]
fn the_report_is_flushed_before_the_answer() {
    for transport in [Transport::Socket, Transport::Listen, Transport::Http] {
        let (host, output) = turn(FakeHost::builder(transport, bash_then_done("echo hi")).fault(
            "sandbox_result",
            1,
            ax_runner::devhost::Fault::DelayMs(300),
        ));
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        assert_eq!(host.requests_of("sandbox_result").len(), 1);
        let last = host.requests().last().unwrap().action.clone();
        match transport {
            Transport::Socket => assert_eq!(output.text(), "done"),
            Transport::Listen => assert!(["agent_response", "fetch_work"].contains(&last.as_str()), "{last}"),
            Transport::Http => assert_eq!(last, "agent_response"),
        }
    }
}
