//! Arguments that are not what they should be (CASES I14, L01): no approval is asked, nothing runs, the call gets a result
//! that names the fault, and the loop goes on.

use crate::support::{lines, results, turn};
use ax_runner::devhost::{FakeHost, Script};
use serde_json::{Value, json};

/// Runs all calls in one reply and returns the results in order.
fn told(calls: &[(&str, &str)]) -> (FakeHost, Vec<String>) {
    let tools: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(at, (name, args))| json!({"name": name, "args_raw": args, "id": format!("c{at}")}))
        .collect();
    let (host, output) = turn(FakeHost::socket(Script::json(json!([{"tools": tools}, {"text": "done"}]))));
    assert_eq!((output.text().as_str(), output.code), ("done", Some(0)), "{}", output.stderr);
    let results = results(&host);
    let texts = (0..calls.len()).map(|at| results[&format!("c{at}")].clone()).collect();
    (host, texts)
}

#[test]
fn l01_malformed_arguments_run_nothing() {
    let deep = format!("{{\"command\":{}}}", "[".repeat(200) + &"]".repeat(200));
    let cases: [(&str, &str, &str); 40] = [
        ("bash", "null", "JSON object"),
        ("bash", "[]", "JSON object"),
        ("bash", "[\"touch evil\"]", "JSON object"),
        ("bash", "\"touch evil\"", "JSON object"),
        ("bash", "true", "JSON object"),
        ("bash", "7", "JSON object"),
        ("bash", "\"\"", "command"),
        ("bash", "{}", "command"),
        ("bash", "{\"command\":null}", "command"),
        ("bash", "{\"command\":7}", "command"),
        ("bash", "{\"command\":[\"touch evil\"]}", "command"),
        ("bash", "{\"command\":{\"a\":1}}", "command"),
        ("bash", "{\"cmd\":\"touch evil\"}", "cmd"),
        ("bash", "{\"Command\":\"touch evil\"}", "Command"),
        ("bash", "{\"command\":\"touch evil\",\"cmd\":\"x\"}", "cmd"),
        ("bash", "{\"command\":\"touch evil\",\"_msgId\":\"1\"}", "_msgId"),
        ("bash", "{\"command\":\"touch evil\",\"action\":\"llm_call\"}", "action"),
        ("bash", "{\"command\":\"echo\",\"command\":\"touch evil\"}", "twice"),
        ("bash", "{\"command\":\"echo\",\"\\u0063ommand\":\"touch evil\"}", "twice"),
        ("bash", "{\"command\":\"touch evil\",\"timeout_ms\":\"2\"}", "timeout_ms"),
        ("bash", "{\"command\":\"touch evil\",\"timeout_ms\":-1}", "timeout_ms"),
        ("bash", "{\"command\":\"touch evil\",\"timeout_ms\":0}", "timeout_ms"),
        ("bash", "{\"command\":\"touch evil\",\"timeout_ms\":1.5}", "timeout_ms"),
        ("bash", "{\"command\":\"touch evil\",\"timeout_ms\":1e300}", "timeout_ms"),
        ("bash", "{\"command\":\"touch evil\",\"timeout_ms\":18446744073709551616}", "timeout_ms"),
        ("bash", "{\"command\":\"touch evil\",\"timeout_ms\":1e309}", "out of range"),
        ("bash", &deep, "recursion"),
        ("bash", "\"{\\\"command\\\":\"", "JSON"),
        ("bash", "\"{\\\"command\\\":\\\"touch evil\\\"} x\"", "trailing"),
        ("bash", "\"{\\\"command\\\":\\\"a\\\",\\\"command\\\":\\\"touch evil\\\"}\"", "twice"),
        ("bash", "\"\\ufeff{\\\"command\\\":\\\"touch evil\\\"}\"", "JSON object"),
        ("bash", "{\"command\":\"touch evil\\u0000\"}", "NUL"),
        ("bash", "{\"command\":\"touch evil \\ud83d\"}", "JSON"),
        ("write_file", "{\"path\":\"evil\"}", "content"),
        ("write_file", "{\"path\":\"evil\",\"content\":7}", "content"),
        ("write_file", "{\"content\":\"x\"}", "path"),
        ("edit_file", "{\"path\":\"evil\",\"old_string\":\"a\"}", "new_string"),
        ("read_file", "{\"path\":[\"evil\"]}", "path"),
        ("memory", "{\"type\":\"write\",\"scope\":\"s\"}", "content"),
        ("nonesuch", "{\"command\":\"touch evil\"}", "not found"),
    ];
    for some in cases.chunks(14) {
        let calls: Vec<(&str, &str)> = some.iter().map(|(name, args, _)| (*name, *args)).collect();
        let (host, texts) = told(&calls);
        for ((name, args, wanted), text) in some.iter().zip(&texts) {
            assert!(text.contains(wanted), "{name} {args}: {text}");
        }
        let asked: Vec<String> = host.requests().into_iter().map(|request| request.action).collect();
        assert_eq!(asked, ["llm_call", "llm_call"], "{calls:?}");
        assert!(!host.workspace().join("evil").exists());
        assert_eq!(host.violations(), []);
    }
}

#[test]
fn i14_what_is_shown_is_what_runs() {
    let hidden = format!("echo safe;{}touch found", " ".repeat(12_000));
    let bidi = "echo 'safe\u{202e}\u{1b}[2K\r'; touch bidi";
    let text = "\"{\\\"command\\\": \\\"touch as-text\\\"}\"".to_owned();
    let escaped = "{\"\\u0063ommand\":\"touch esc\\u0061ped\"}".to_owned();
    let args = |command: &str| json!({"command": command}).to_string();
    let (long, bidirectional) = (args(&hidden), args(bidi));
    let cases = [
        (long.as_str(), hidden.as_str(), "found"),
        (bidirectional.as_str(), bidi, "bidi"),
        (&text, "touch as-text", "as-text"),
        (&escaped, "touch escaped", "escaped"),
    ];
    for (raw, shown, file) in cases {
        let (host, _) = told(&[("bash", raw)]);
        let asked = host.requests_of("sandbox_approve");
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].value["command"], shown, "uncut, whatever it hides behind");
        assert!(host.workspace().join(file).exists(), "{file}");
        let reports = host.requests_of("sandbox_result");
        assert_eq!((reports.len(), reports[0].value["command"].as_str()), (1, Some(shown)));
        assert_eq!(host.violations(), []);
    }
}

#[test]
fn too_large_arguments_are_said_to_be_and_not_asked() {
    let call = |length: usize| json!({"command": format!("touch evil; : {}", "x".repeat(length))}).to_string();
    let (long, write) = (call(100_001), json!({"path": "evil", "content": "\u{1f600}".repeat(250_001)}).to_string());
    let path = json!({"path": "e/".repeat(600), "content": ""}).to_string();
    let (host, texts) = told(&[("bash", &long), ("write_file", &write), ("write_file", &path)]);
    for (text, wanted) in texts.iter().zip(["100000", "500000", "1024"]) {
        assert!(text.contains(wanted), "{text}");
    }
    assert_eq!(host.requests_of("sandbox_approve").len(), 0);
    assert_eq!(host.violations(), []);
}

#[test]
fn forwarded_arguments_cannot_become_the_envelope() {
    let (host, texts) = told(&[
        ("audit", "{\"action\":\"llm_call\",\"sessionId\":\"other\",\"limit\":3}"),
        ("memory", "{\"type\":\"list\",\"scope\":\"s\",\"action\":\"llm_call\"}"),
        ("memory", "{\"type\":\"list\",\"scope\":\"s\",\"_sessionId\":\"other\"}"),
        ("call_tool", "{\"tool\":\"t\",\"args\":{\"_msgId\":\"1\",\"action\":\"llm_call\"}}"),
    ]);
    assert_eq!(host.requests_of("llm_call").len(), 2);
    let audit = &host.requests_of("audit_query")[0].value;
    assert_eq!(audit["filter"], json!({"action": "llm_call", "sessionId": "other", "limit": 3}));
    assert_eq!(host.requests_of("memory_list").len(), 0, "{texts:?}");
    assert_eq!(host.violations(), []);
    assert!(lines(&host, "count").is_empty());
}
