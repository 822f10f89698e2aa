//! Standard input in every shape (CASES I16, B07; PROTOCOL §2).

use crate::support::{BIN, Judgement, LIMIT, bash_then_done, judge, result, tools_then_done};
use ax_runner::devhost::{FakeHost, Output, Runner, Script, Signal, Transport};
use serde_json::{Value, json};
use std::time::Duration;

fn start(host: &FakeHost) -> Runner {
    host.runner(BIN).deadline(LIMIT)
}

/// What the model was told as the user's message; `None` when it was not asked.
fn heard(host: &FakeHost) -> Option<String> {
    let calls = host.requests_of("llm_call");
    assert!(calls.len() <= 1);
    let message = calls.first()?.value["messages"].as_array()?.last()?.clone();
    match &message["content"] {
        Value::String(text) => Some(text.clone()),
        blocks => blocks[0]["text"].as_str().map(str::to_owned),
    }
}

fn system(host: &FakeHost) -> String {
    host.requests_of("llm_call")[0].value["messages"][0]["content"].as_str().unwrap().to_owned()
}

fn with(bytes: impl Into<Vec<u8>>) -> (FakeHost, Output) {
    let host = FakeHost::socket(Script::text("done")).start();
    let output = start(&host).stdin(bytes).run();
    assert!(!output.timed_out, "{}", output.stderr);
    assert_eq!(host.violations(), []);
    (host, output)
}

#[test]
fn i16_b2_what_is_understood() {
    let pretty = serde_json::to_string_pretty(&json!({"message": "hi", "history": []})).unwrap();
    let cases: [(&[u8], &str); 26] = [
        (b"just text\n", "just text\n"),
        (b"{}", "{}"),
        (br#"{"foo":1}"#, r#"{"foo":1}"#),
        (br#"{"message":5}"#, r#"{"message":5}"#),
        (b"[1]", "[1]"),
        (b"null", "null"),
        (b"NaN", "NaN"),
        (b"{\"foo\":NaN}", "{\"foo\":NaN}"),
        (br#"{"message":"m","history":[null]}"#, r#"{"message":"m","history":[null]}"#),
        (br#"{"message":"hi"}"#, "hi"),
        (b"\xef\xbb\xbf{\"message\":\"hi\"}", "hi"),
        (b"\xef\xbb\xbf\xef\xbb\xbf{\"message\":\"hi\"}", "hi"),
        (b"\r\n\xef\xbb\xbf {\"message\":\"hi\"}", "hi"),
        (br#"{"message":"hi","history":[null],"taintRatio":0}"#, "hi"),
        (b"\n \t{\"message\":\"hi\"}\n\n", "hi"),
        (pretty.as_bytes(), "hi"),
        (br#"{"message":"hi","unknown":{"deep":[1,2]}}"#, "hi"),
        (br#"{"message":"first","message":"hi"}"#, "hi"),
        (br#"{"message":"a\ud83db"}"#, "a\u{fffd}b"),
        (br#"{"message":"a\ud83d\ude00b"}"#, "a\u{1f600}b"),
        (br#"{"message":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#, "a\nb"),
        (br#"{"message":"hi","history":7,"identity":[],"skills":"x","catalog":{},"tool_dispatch":5,"userId":9}"#, "hi"),
        (br#"{"message":"hi","sessionId":null,"requestId":null,"credentialEnv":null}"#, "hi"),
        ("{\"message\":\"\u{1f469}\u{200d}\u{1f4bb} \u{202e}\"}".as_bytes(), "\u{1f469}\u{200d}\u{1f4bb} \u{202e}"),
        // No blank to the host, but one to providers.
        ("{\"message\":\"\u{85}\"}".as_bytes(), "."),
        (br#"{"message":"hi","credentialEnv":{"A":1,"B":null,"PATH":"/evil"}}"#, "hi"),
    ];
    for (bytes, wanted) in cases {
        let shown = String::from_utf8_lossy(bytes).into_owned();
        let (host, output) = with(bytes);
        assert_eq!((output.text().as_str(), output.code), ("done", Some(0)), "{shown}: {}", output.stderr);
        assert_eq!(heard(&host).as_deref(), Some(wanted), "{shown}");
    }
}

#[test]
fn i16_what_is_refused_says_so_and_shows_nothing() {
    let secret = "hunter2-hunter2";
    let deep = format!("{{\"message\":\"{secret}\",\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let cases: [Vec<u8>; 9] = [
        format!("{{\"message\":\"m\",\"ipcToken\":\"{secret}\"").into(),
        format!("{{\"message\":\"m\",\"ipcToken\":\"{secret}\"}} x").into(),
        format!("{{\"message\":\"m\"}}{{\"message\":\"{secret}\"}}").into(),
        format!("{{\"message\":\"m\",\"taintRatio\":NaN,\"ipcToken\":\"{secret}\"}}").into(),
        format!("{{\"message\":\"{secret}\",}}").into(),
        format!("{{'message':'x',\"message\":\"{secret}\"}}").into(),
        [b"{\"message\":\"".as_slice(), secret.as_bytes(), b"\xff\"}"].concat(),
        "{\"message\":\"hunter2-hunter2\"}".encode_utf16().flat_map(u16::to_le_bytes).collect(),
        deep.into(),
    ];
    for bytes in cases {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        let (host, output) = with(bytes);
        assert_eq!((output.text().as_str(), output.code), ("", Some(1)), "{shown}");
        assert_eq!(host.requests().len(), 0, "{shown}");
        assert!(output.stderr.lines().last().unwrap().starts_with("Agent runner error: validation failed"), "{shown}");
        assert!(!output.stderr.contains("hunter2"), "{}", output.stderr);
        assert_eq!(judge(1, "", &output.stderr), Judgement::GivesUp);
    }
}

/// A host's payload after something was done to it on the way.
fn damaged(whole: &str) -> Vec<Vec<u8>> {
    let swapped = |from: &str, to: &str| whole.replace(from, to).into_bytes();
    let around = |open: &str, close: &str| format!("{open}{whole}{close}").into_bytes();
    vec![
        swapped("\"hello\"", "null"),
        swapped("\"hello\"", "5"),
        swapped("\"hello\"", "{\"text\":\"x\"}"),
        swapped("\"message\"", "\"Message\""),
        swapped("\"", "'"),
        swapped("\"", "\\\""),
        swapped("\"ipcToken\"", "ipcToken"),
        around("// by the host\n", ""),
        around("/* by the host */", ""),
        around("# by the host\n", ""),
        around("\0", ""),
        around("\u{200b}", ""),
        around("starting\n", ""),
        around("{}\n", ""),
        around("[", "]"),
        around("[null,", "]"),
        around("{\"payload\":", "}"),
        around("go(", ")"),
        around("", "\u{feff}"),
        around("", whole),
        serde_json::to_vec(whole).unwrap(),
        whole.as_bytes()[whole.find("\"credentialEnv").unwrap()..].to_vec(),
        whole.as_bytes()[whole.rfind("canary").unwrap() + 2..].to_vec(),
        whole.as_bytes()[..whole.len() - 1].to_vec(),
        whole.encode_utf16().flat_map(u16::to_le_bytes).collect(),
    ]
}

#[test]
fn i16_what_was_meant_as_a_payload_is_no_message() {
    let canary = "canary-7f3a";
    for (transport, step) in [(Transport::Socket, 1), (Transport::Listen, 4), (Transport::Http, 3)] {
        let host = FakeHost::builder(transport, Script::text("done")).start();
        let mut payload = host.payload("hello");
        payload["ipcToken"] = canary.into();
        payload["credentialEnv"] = json!({"KEY": canary});
        for item in damaged(&payload.to_string()).into_iter().step_by(step) {
            let shown = String::from_utf8_lossy(&item[..40]).into_owned();
            let host = FakeHost::builder(transport, Script::text("done")).start();
            let runner = start(&host);
            let output = match transport {
                Transport::Http => {
                    host.push_raw_work(&String::from_utf8_lossy(&item));
                    let running = runner.spawn().unwrap();
                    host.wait_answer(1, LIMIT).expect(&shown);
                    running.signal(Signal::SIGTERM);
                    running.wait()
                }
                _ => runner.stdin(item).run(),
            };
            assert!(!output.timed_out, "{shown}: {}", output.stderr);
            assert_eq!(host.requests_of("llm_call").len(), 0, "{shown}");
            let told = format!("{}{:?}", output.stderr, host.answers());
            assert!(!told.contains(canary), "{shown}: {told}");
            match transport {
                Transport::Http => assert_eq!(output.code, Some(143), "{shown}: {told}"),
                _ => assert_eq!((output.code, output.text().as_str()), (Some(1), ""), "{shown}: {told}"),
            }
            let answers = usize::from(transport != Transport::Socket);
            assert_eq!(host.answers().len(), answers, "{shown}: {told}");
        }
    }
}

#[test]
fn i16_nothing_to_do_is_done_in_silence() {
    for bytes in [
        "",
        " \n\t\r\n",
        r#"{"message":""}"#,
        r#"{"message":" \n"}"#,
        "{\"message\":\"\u{feff}\u{2003}\u{a0}\"}",
        r#"{"message":[]}"#,
        r#"{"message":[{"type":"text","text":" "}]}"#,
    ] {
        let (host, output) = with(bytes);
        assert_eq!((output.text().as_str(), output.code), ("", Some(0)), "{bytes}: {}", output.stderr);
        assert_eq!(host.connections().0, 0, "{bytes}");
    }
    let host = FakeHost::socket(Script::text("done")).start();
    for closed in ["exec \"$0\" \"$@\" <&-", "exec \"$0\" \"$@\" </dev/null"] {
        let output = host.runner("/bin/bash").arguments(["-c", closed, BIN]).deadline(LIMIT).run();
        assert_eq!((output.text().as_str(), output.code, output.timed_out), ("", Some(0), false), "{}", output.stderr);
    }
}

#[test]
fn i16_a_policy_that_cannot_be_read_is_not_the_widest() {
    for (key, value) in
        [("taintThreshold", json!("0.1")), ("taintThreshold", json!([0.1])), ("taintRatio", json!("0.9"))]
    {
        let host = FakeHost::socket(Script::text("done")).start();
        let mut payload = host.payload("hi");
        payload["taintRatio"] = 0.5.into();
        payload["taintThreshold"] = 0.6.into();
        payload[key] = value;
        let output = start(&host).payload(&payload).run();
        assert_eq!(output.text(), "done", "{}", output.stderr);
        assert!(system(&host).contains("ELEVATED"), "{key}");
        assert!(output.stderr.contains("payload_fields_ignored") && output.stderr.contains(key), "{}", output.stderr);
    }
    let host = FakeHost::socket(Script::text("done")).start();
    let mut payload = host.payload("hi");
    payload["profile"] = json!({"name": "paranoid"});
    start(&host).payload(&payload).run();
    assert!(system(&host).contains("paranoid"));
}

#[test]
fn i16_more_than_a_payload_can_be() {
    let huge = format!("{{\"message\":\"{}\"}}", "x".repeat(70 << 20));
    let (host, output) = with(huge);
    assert_eq!((output.text().as_str(), output.code), ("", Some(1)));
    assert!(output.stderr.contains("validation failed"), "{}", output.stderr);
    assert_eq!(host.requests().len(), 0);
    // A long prompt is cut for the model, not refused.
    let (host, output) = with(json!({"message": format!("{} What is this?", "y".repeat(300_000))}).to_string());
    assert_eq!(output.text(), "done", "{}", output.stderr);
    let heard = heard(&host).unwrap();
    assert!(heard.contains("of 300014 characters left out here]") && heard.ends_with("y What is this?"));
}

#[test]
fn b07_a_host_that_keeps_stdin_open_is_served() {
    for prefix in ["", "\u{feff}", "\n  ", "\u{feff}\u{feff}\n"] {
        let host = FakeHost::socket(Script::text("done")).start();
        let stdin = format!("{prefix}{}", host.payload("hi"));
        let output = start(&host).stdin(stdin).keep_stdin_open().run();
        assert_eq!((output.text().as_str(), output.timed_out), ("done", false), "{prefix:?} {}", output.stderr);
        assert!(output.elapsed < Duration::from_secs(20), "{prefix:?} {:?}", output.elapsed);
    }
}

#[test]
fn b07_commands_have_no_stdin() {
    for command in [
        "cat",
        "read x; echo \"read $?\"",
        "head -c1 | wc -c",
        "cat /dev/stdin",
        "cat <&0 | wc -c",
        "bash -s",
        "(sleep 0.1; cat) & wait",
        "exec 3</dev/stdin; cat <&3",
    ] {
        let host = FakeHost::socket(bash_then_done(command)).start();
        let payload = host.payload("hi").to_string() + "\n";
        let output = start(&host).stdin(payload).keep_stdin_open().run();
        assert_eq!((output.text().as_str(), output.timed_out), ("done", false), "{command}: {}", output.stderr);
        assert!(!result(&host).contains("message"), "{command} read the payload: {}", result(&host));
    }
    let all = json!([{"name": "bash", "args": {"command": "cat"}}, {"name": "bash", "args": {"command": "cat"}}]);
    let host = FakeHost::socket(tools_then_done(all)).start();
    let output = start(&host).payload(&host.payload("hi")).run();
    assert_eq!(output.text(), "done", "{}", output.stderr);
}

#[test]
fn a_payload_in_pieces_is_one_payload() {
    let host = FakeHost::socket(Script::text("done")).start();
    let text = host.payload("hi").to_string();
    // One object may be complete for a while in the middle of the stream: `{"a":1}` and then the rest of the text.
    let feed = "exec 3>&1; head -c 20; sleep 0.3; head -c 100; sleep 0.3; cat";
    let pipe = format!("bash -c '{feed}' | \"$0\" \"$@\"");
    let output = host.runner("/bin/bash").arguments(["-c", &pipe, BIN]).stdin(text).deadline(LIMIT).run();
    assert_eq!((output.text().as_str(), output.timed_out), ("done", false), "{}", output.stderr);
    assert_eq!(heard(&host).as_deref(), Some("hi"));
}
