//! A conversation that outgrows its room (PROTOCOL §6.4–6.6): what is left of it is true, says what is missing, and leads on.

use crate::support::{results, runner};
use ax_runner::devhost::{FakeHost, Script};
use serde_json::{Value, json};

/// A turn in a workspace with ten files of 3000 lines.
fn turn(script: Value, change: impl FnOnce(&mut Value)) -> FakeHost {
    let host = FakeHost::socket(Script::json(script)).start();
    host.set_reply("memory_write", json!({"id": "i".repeat(9000)}));
    host.set_reply("web_extract", json!({"content": "c".repeat(9000)}));
    for file in 0..10 {
        let lines: Vec<String> = (1..=3000).map(|line| format!("{line:05} {}\n", "x".repeat(93))).collect();
        std::fs::write(host.workspace().join(format!("f{file}")), lines.concat()).unwrap();
    }
    let mut payload = host.payload("go");
    change(&mut payload);
    let output = runner(&host).payload(&payload).run();
    assert_eq!(host.violations(), [], "{}", output.stderr);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    host
}

fn read(file: usize) -> Value {
    json!({"name": "read_file", "args": {"path": format!("f{file}")}, "id": format!("r{file}")})
}

fn noisy(id: &str) -> Value {
    json!({"name": "bash", "args": {"command": "seq 1 30000; echo FATAL; exit 3"}, "id": id})
}

/// What a shortened text says about itself.
fn marker(text: &str) -> &str {
    let (_, rest) = text.split_once("[shortened to make room: ").unwrap_or_else(|| panic!("whole: {text}"));
    rest.split_once(']').unwrap().0
}

#[test]
fn a_result_that_is_shortened_twice_keeps_its_figures_its_end_and_a_way_on() {
    let first = json!([
        {"name": "memory", "args": {"type": "write", "scope": "s", "content": "c"}, "id": "write"},
        {"name": "web", "args": {"type": "extract", "url": "https://example.com/"}, "id": "extract"}]);
    let second = [noisy("a"), noisy("b"), noisy("c"), noisy("d")];
    let mut script = vec![json!({ "tools": first }), json!({ "tools": second })];
    script.extend((0..10).map(|file| json!({"tools": [read(file)]})));
    script.push(json!({"text": "done"}));
    let host = turn(json!(script), |_| ());

    let texts = results(&host);
    for (id, missing, advice) in [
        ("write", "8009 of 9009", ""),
        ("extract", "8014 of 9014", "; to see more, make this call again, alone"),
        ("a", "", "; let a command with long output write it to a file, and read that in parts"),
        ("r0", "100081 of 101081", "; to see them, read those lines with offset and limit"),
    ] {
        let marker = marker(&texts[id]);
        assert!(marker.starts_with(missing), "{id}: {marker}");
        assert!(marker.ends_with(&format!(" characters left out here{advice}")), "{id}: {marker}");
        assert!(serde_json::from_str::<Value>(&texts[id]).is_ok(), "{}", texts[id]);
    }
    assert!(texts["r0"].contains("00001 x") && texts["r0"].contains("continue with offset 1001"), "{}", texts["r0"]);
    assert!(texts["a"].contains("Exit code 3") && texts["a"].contains("30000\\nFATAL"), "{}", texts["a"]);
}

#[test]
fn results_that_fit_stay_whole_and_the_others_share_the_room() {
    let quiet = (0..20).map(|at| json!({"name": "bash", "args": {"command": "true"}, "id": format!("q{at}")}));
    let tools: Vec<Value> = (0..6).map(read).chain([noisy("n")]).chain(quiet).collect();
    let host = turn(json!([{"tools": tools}, {"text": "done"}]), |_| ());
    let texts = results(&host);
    assert_eq!(texts.len(), 27);
    for (id, text) in texts {
        let (large, end) = match &id[..1] {
            "q" => (false, ""),
            "n" => (true, "30000\\nFATAL"),
            _ => (true, "continue with offset 1001"),
        };
        assert_eq!(text.len() > 50_000, large, "{id}: {}", text.len());
        assert_eq!(text.contains("[shortened to make room: "), large, "{id}");
        assert!(serde_json::from_str::<Value>(&text).is_ok() && text.contains(end), "{id}");
    }
}

#[test]
fn one_turn_more_than_stays_is_summarised() {
    for sizes in [vec![199_000, 70_000], vec![98_000, 98_000], vec![199_000, 199_000]] {
        let says = |at: usize| format!("turn {at} {}", "x".repeat(sizes[usize::from(at > 0)]));
        let role = |at: usize| if at.is_multiple_of(2) { "user" } else { "assistant" };
        let history: Vec<Value> = (0..7).map(|at| json!({"role": role(at), "content": says(at)})).collect();
        let script = json!([{"task": "fast", "text": "SUMMARY"}, {"text": "done"}]);
        let host = turn(script, |payload| payload["history"] = json!(history));
        let asked: Vec<Value> = host.requests_of("llm_call").iter().map(|it| it.value["messages"].clone()).collect();
        assert_eq!(asked.len(), 2, "{sizes:?}");
        // Nothing is lost between the summary and what stays.
        let text = asked[1].to_string();
        for at in 0..7 {
            let turn = format!("turn {at} ");
            assert_ne!(asked[0].to_string().contains(&turn), text.contains(&turn), "{turn} of {sizes:?}");
        }
        assert!(text.contains("SUMMARY") && text.contains("turn 6 ") && !text.contains("Left out"), "{sizes:?}");
        let messages = asked[1].as_array().unwrap();
        let roles: Vec<&str> = messages.iter().skip(1).map(|it| it["role"].as_str().unwrap()).collect();
        let turns = &roles[..roles.len() - 1];
        assert!(turns.windows(2).all(|pair| pair[0] != pair[1]), "{turns:?}");
    }
}

#[test]
fn a_message_of_nothing_but_a_reference_is_not_nothing() {
    let file = json!({"type": "file", "fileId": "f", "mimeType": "application/pdf", "filename": "report.pdf"});
    let host = turn(json!([{"text": "done"}]), |payload| {
        payload["message"] = json!([file]);
        payload["history"] = json!([{"role": "user", "content": [file]}, {"role": "assistant", "content": "a"}]);
    });
    let messages = host.requests_of("llm_call")[0].value["messages"].clone();
    let note = |why: &str| format!("[Attachment left out: file report.pdf (application/pdf): {why}.]");
    assert_eq!(messages[1]["content"], json!(note("sent with an earlier message")));
    assert_eq!(messages[3]["content"], json!([{"type": "text", "text": note("the host could not find it")}]));
}
