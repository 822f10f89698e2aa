//! The fake host itself, against a small client that does what a runner does.

use crate::everywhere;
use ax_runner::devhost::{FakeHost, Fault, Point, Policy, Script, Signal};
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

mod cli;
mod http;

const LIMIT: Duration = Duration::from_secs(120);

/// A client that frames, and nothing else.
struct Client(UnixStream);

impl Client {
    fn connect(host: &FakeHost) -> Self {
        let stream = UnixStream::connect(host.socket_path()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Self(stream)
    }

    fn send(&mut self, body: &str) {
        let mut frame = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        frame.extend_from_slice(body.as_bytes());
        self.0.write_all(&frame).unwrap();
    }

    fn receive(&mut self) -> std::io::Result<Value> {
        let mut header = [0; 4];
        self.0.read_exact(&mut header)?;
        let mut body = vec![0; u32::from_be_bytes(header) as usize];
        self.0.read_exact(&mut body)?;
        Ok(serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into()))
    }

    fn ask(&mut self, body: &str) -> Value {
        self.send(body);
        self.receive().unwrap()
    }
}

fn approve(id: u32) -> String {
    format!(r#"{{"_msgId":"{id}","action":"sandbox_approve","operation":"bash","command":"ls"}}"#)
}

fn llm(id: u32, messages: &Value) -> String {
    format!(r#"{{"_msgId":"{id}","action":"llm_call","messages":{messages}}}"#)
}

#[test]
fn a_turn_by_hand() {
    let script = Script::json(json!([
        {"text": ["Look", "ing"], "tools": [{"name": "bash", "args": {"command": "ls"}, "id": "tu_1"}]},
        {"when": "never", "text": "no"},
        {"when": "a\\.txt", "text": "One file", "usage": {"inputTokens": 1, "outputTokens": 2}}]));
    let host = FakeHost::socket(script).start();
    let mode = std::fs::metadata(host.directory()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let mut client = Client::connect(&host);
    let reply = client.ask(&llm(1, &json!([{"role": "user", "content": "list"}])));
    assert_eq!(reply["_msgId"], "1");
    assert_eq!(reply["chunks"][1]["content"], "ing");
    assert_eq!(reply["chunks"][2]["toolCall"], json!({"id": "tu_1", "name": "bash", "args": {"command": "ls"}}));
    assert_eq!(client.ask(&approve(2)), json!({"ok": true, "approved": true, "_msgId": "2"}));
    let report =
        r#"{"_msgId":"3","action":"sandbox_result","operation":"bash","command":"ls","output":"a.txt","exitCode":0}"#;
    assert_eq!(client.ask(report), json!({"ok": true, "_msgId": "3"}));
    let talk = json!([{"role": "user", "content": "list"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "tu_1", "name": "bash", "input": {"command": "ls"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "tu_1", "content": "{\"output\":\"a.txt\"}"}]}]);
    let reply = client.ask(&llm(4, &talk));
    assert_eq!(reply["chunks"][0]["content"], "One file");
    assert_eq!(reply["chunks"][1]["usage"]["outputTokens"], 2);
    let actions: Vec<String> = host.requests().into_iter().map(|request| request.action).collect();
    assert_eq!(actions, ["llm_call", "sandbox_approve", "sandbox_result", "llm_call"]);
    assert_eq!(&host.requests()[1].raw[..], approve(2).as_bytes());
    assert_eq!(host.violations(), []);
}

#[test]
fn a_broken_rule_is_refused_and_remembered() {
    let host = FakeHost::socket(Script::text("x")).start();
    let mut client = Client::connect(&host);
    assert_eq!(client.ask("nonsense"), json!({"ok": false, "error": "Invalid JSON"}));
    let reply = client.ask(r#"{"_msgId":"1","action":"web_search","query":"q","x":1}"#);
    assert_eq!(
        reply,
        json!({"ok": false, "error": "Validation failed for action \"web_search\": x: unrecognized key", "_msgId": "1"})
    );
    let reply = client.ask(r#"{"_msgId":"2","action":"agent_response","content":"a"}"#);
    assert_eq!(reply["error"], "No handler for action \"agent_response\"");
    assert_eq!(host.violations().len(), 3);
    assert_eq!(client.ask(&approve(3))["approved"], true);
}

#[test]
fn the_metadata_must_be_the_payloads() {
    let host = FakeHost::socket(Script::text("x")).start();
    host.expect(&json!({"message": "m", "sessionId": "s", "requestId": "r"}));
    let mut client = Client::connect(&host);
    let with = |id: u32, meta: &str| format!(r#"{{"_msgId":"{id}","action":"scheduler_list_jobs"{meta}}}"#);
    client.ask(&with(1, r#","_sessionId":"s","_requestId":"r""#));
    assert_eq!(host.violations(), []);
    client.ask(&with(2, r#","_sessionId":"other","_requestId":"r""#));
    client.ask(&with(3, r#","_sessionId":"s""#));
    client.ask(&with(4, r#","_sessionId":"s","_requestId":"r","_userId":"u""#));
    assert_eq!(host.violations().len(), 3);
}

#[test]
fn a_frame_over_the_limit_ends_the_connection_without_a_reply() {
    let host = FakeHost::socket(Script::text("x")).start();
    let mut client = Client::connect(&host);
    client.0.write_all(&10_000_001u32.to_be_bytes()).unwrap();
    assert_eq!(client.receive().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert!(host.violations()[0].message.contains("10000001"));
}

#[test]
fn verdicts() {
    let policy = Policy::json(json!([
        {"command": "^rm", "verdict": "deny", "reason": "no"},
        {"command": "^odd", "reply": {"ok": false, "approved": 1}},
        {"command": "^silent", "verdict": "no_answer"},
        {"command": "^ask", "verdict": "ask"}]));
    let host = FakeHost::socket(Script::text("x")).policy(policy).start();
    let mut client = Client::connect(&host);
    let mut ask = |id: u32, command: &str| {
        client.send(&format!(
            r#"{{"_msgId":"{id}","action":"sandbox_approve","operation":"bash","command":"{command}"}}"#
        ));
        if command.starts_with("silent") { Value::Null } else { client.receive().unwrap() }
    };
    assert_eq!(ask(1, "rm x"), json!({"ok": true, "approved": false, "reason": "no", "_msgId": "1"}));
    assert_eq!(ask(2, "odd"), json!({"ok": false, "approved": 1, "_msgId": "2"}));
    ask(3, "silent");
    assert_eq!(ask(4, "ls")["_msgId"], "4");
}

#[test]
fn faults_on_the_wire() {
    let reply = json!({"ok": true, "approved": true});
    for (fault, wanted) in [
        (Fault::NoId, reply.clone()),
        (Fault::WrongId, json!({"ok": true, "approved": true, "_msgId": "999999999"})),
        (Fault::Pieces(1), json!({"ok": true, "approved": true, "_msgId": "1"})),
        (Fault::SplitAt(3), json!({"ok": true, "approved": true, "_msgId": "1"})),
        (Fault::LateMs(50), json!({"ok": true, "approved": true, "_msgId": "1"})),
        (Fault::Body(r#"{"a":"{{msgId}}"}"#.into()), json!({"a": "1"})),
        (Fault::Body("<html>".into()), json!("<html>")),
    ] {
        let host = FakeHost::socket(Script::text("x")).fault("sandbox_approve", 1, fault.clone()).start();
        assert_eq!(Client::connect(&host).ask(&approve(1)), wanted, "{fault:?}");
    }
    let host = FakeHost::socket(Script::text("x")).fault("*", 2, Fault::Duplicate).start();
    let mut client = Client::connect(&host);
    client.ask(&approve(1));
    assert_eq!(client.ask(&approve(2)), client.receive().unwrap());
    let host = FakeHost::socket(Script::text("x")).fault("*", 1, Fault::Reorder).start();
    let mut client = Client::connect(&host);
    client.send(&approve(1));
    assert_eq!(client.ask(&approve(2))["_msgId"], "2");
    assert_eq!(client.receive().unwrap()["_msgId"], "1");
    let host = FakeHost::socket(Script::text("x")).fault("*", 1, Fault::Oversized).start();
    let mut client = Client::connect(&host);
    client.send(&approve(1));
    let mut header = [0; 4];
    client.0.read_exact(&mut header).unwrap();
    assert_eq!(header, [0xff; 4]);
}

#[test]
fn connections_break_where_they_are_told_to() {
    for point in [Point::Unread, Point::Read, Point::Reply(0), Point::Reply(3), Point::Reply(9)] {
        for reset in [false, true] {
            let fault = if reset { Fault::Reset(point) } else { Fault::Close(point) };
            let host = FakeHost::socket(Script::text("x")).fault("sandbox_approve", 1, fault).start();
            let mut client = Client::connect(&host);
            client.send(&approve(1));
            let mut got = Vec::new();
            let end = client.0.read_to_end(&mut got);
            match reset {
                true => assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset, "{point:?}"),
                false => assert!(end.is_ok(), "{point:?}"),
            }
            assert_eq!(got.len(), if let Point::Reply(sent) = point { sent } else { 0 }, "{point:?} reset {reset}");
            assert_eq!(host.requests()[0].carried_out, point != Point::Unread);
            assert_eq!(Client::connect(&host).ask(&approve(2))["approved"], true);
            assert_eq!(host.violations(), []);
        }
    }
}

#[test]
fn heartbeats_while_a_reply_is_due() {
    for named in [true, false] {
        let mut builder = FakeHost::socket(Script::json(json!([{"text": "x", "delay_ms": 1500}])));
        if !named {
            builder = builder.anonymous_heartbeats();
        }
        let host = builder.heartbeat(Duration::from_millis(40)).start();
        let mut client = Client::connect(&host);
        let beat = client.ask(&llm(7, &json!([{"role": "user", "content": "a"}])));
        assert_eq!(beat["_heartbeat"], true);
        assert_eq!(beat.get("_msgId").is_some(), named);
        assert!(beat["ts"].as_u64().is_some_and(|ts| ts > 1_600_000_000_000));
        let last =
            std::iter::repeat_with(|| client.receive().unwrap()).find(|frame| frame.get("ok").is_some()).unwrap();
        assert_eq!(last["_msgId"], "7");
    }
}

#[test]
fn goes_away_and_comes_back_on_the_same_path() {
    let host = FakeHost::socket(Script::text("x")).start();
    let mut client = Client::connect(&host);
    client.ask(&approve(1));
    host.stop();
    assert_eq!(client.receive().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert!(UnixStream::connect(host.socket_path()).is_err());
    host.restart().unwrap();
    assert_eq!(Client::connect(&host).ask(&approve(2))["approved"], true);
    assert!(host.wait_request("sandbox_approve", 2, LIMIT).is_some());
    assert_eq!(host.connections().0, 2);
    let directory = host.directory().to_owned();
    drop(host);
    assert!(!directory.exists());
}

#[test]
fn a_child_gets_the_providers_environment_and_never_outlives_its_time() {
    let host = FakeHost::socket(Script::text("x")).start();
    let payload = host.payload("hello");
    let program = "cat; echo; env | cut -d= -f1 | sort; echo oops >&2; exit 3";
    let output = host.runner("/bin/bash").arguments(["-c", program]).env("EXTRA", "1").payload(&payload).run();
    let text = output.text();
    assert!(text.starts_with(&payload.to_string()), "{text}");
    for name in ["AX_HOME", "AX_IPC_SOCKET", "AX_WEB_PROXY_SOCKET", "AX_WORKSPACE", "EXTRA", "PATH", "XDG_CACHE_HOME"] {
        assert!(text.contains(&format!("{name}\n")), "{name}: {text}");
    }
    assert!(!text.contains("\nHOME\n") && !text.contains("CARGO"));
    assert_eq!((output.code, output.stderr.as_str(), output.timed_out), (Some(3), "oops\n", false));

    let hanging = host.runner("/bin/bash").arguments(["-c", "trap '' TERM; sleep 300 & sleep 300"]);
    let output = hanging.deadline(Duration::from_millis(200)).run();
    assert!(output.timed_out && output.code.is_none());

    let running = host.runner("/bin/sleep").arguments(["300"]).spawn().unwrap();
    running.signal(Signal::SIGINT);
    assert_eq!(running.wait().signal, Some(2));
}

#[test]
fn dials_a_runner_that_listens() {
    let host = FakeHost::listen(Script::text("x")).start();
    let program = r#"
import os, socket, struct, sys
path = os.environ["AX_IPC_SOCKET"]
server = socket.socket(socket.AF_UNIX); server.bind(path); server.listen(1)
sys.stderr.write("[signal] ipc_ready\n"); sys.stderr.flush()
peer, _ = server.accept(); server.close(); os.unlink(path)
payload = sys.stdin.read()
assert "hello" in payload
body = b'{"_msgId":"1","action":"agent_response","content":"hi"}'
peer.sendall(struct.pack(">I", len(body)) + body)
print(peer.recv(100)[4:].decode(), end="")
"#;
    if !everywhere::python("dials_a_runner_that_listens") {
        return;
    }
    let output = host.runner("python3").arguments(["-c", program]).stdin(host.payload("hello").to_string()).run();
    assert_eq!((output.text().as_str(), output.code), (r#"{"ok":true}"#, Some(0)), "{}", output.stderr);
    assert_eq!(host.answer().as_deref(), Some("hi"));
    assert_eq!(host.violations(), []);
}

#[test]
fn only_what_was_allowed_is_reported_and_ids_are_new() {
    let policy = Policy::json(json!([{"command": "^rm", "verdict": "deny"}]));
    let host = FakeHost::socket(Script::text("x")).policy(policy).start();
    let mut client = Client::connect(&host);
    let of = |id: u32, command: &str| {
        format!(
            r#"{{"_msgId":"{id}","action":"sandbox_result","operation":"bash","command":"{command}","exitCode":0}}"#
        )
    };
    client.ask(&approve(1));
    client.ask(&of(2, "ls"));
    assert_eq!(host.violations(), []);
    client.ask(&of(3, "ls"));
    client.ask(r#"{"_msgId":"4","action":"sandbox_approve","operation":"bash","command":"rm x"}"#);
    client.ask(&of(5, "rm x"));
    assert_eq!(host.violations().len(), 2);
    client.ask(&approve(5));
    assert!(host.violations()[2].message.contains("second time"));
}

#[test]
fn a_lost_reply_of_the_model_is_given_again() {
    let script = Script::json(json!([{"text": "first"}, {"text": "second"}]));
    let host = FakeHost::socket(script).fault("llm_call", 1, Fault::Close(Point::Reply(7))).start();
    let question = json!([{"role": "user", "content": "a"}]);
    let mut client = Client::connect(&host);
    client.send(&llm(1, &question));
    assert!(client.receive().is_err());
    let mut client = Client::connect(&host);
    assert_eq!(client.ask(&llm(2, &question))["chunks"][0]["content"], "first");
    assert_eq!(client.ask(&llm(3, &question))["chunks"][0]["content"], "second");
}

#[test]
fn the_runner_end_to_end() {
    let script = json!([
        {"text": "Looking.", "tools": [{"name": "bash", "args": {"command": "echo hi"}}]},
        {"when": "hi", "text": "done"}]);
    everywhere::everywhere(&script, |host, answer| {
        assert_eq!(answer, "Looking.\n\ndone");
        assert_eq!(host.requests_of("sandbox_result").len(), 1);
    });
}
