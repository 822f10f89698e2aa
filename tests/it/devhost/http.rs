//! The HTTP side, by hand.

use super::LIMIT;
use ax_runner::devhost::{FakeHost, Fault, Point, Script};
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// One HTTP request on a kept connection; the status and the body that came.
fn http(stream: &mut TcpStream, head: &str, token: &str, body: &str) -> std::io::Result<(u16, String)> {
    let request = format!(
        "{head} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes())?;
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        got.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&got).to_ascii_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    let mut have = 0;
    while have < length {
        match stream.read(&mut body[have..])? {
            0 => return Ok((status, format!("cut:{}", String::from_utf8_lossy(&body[..have])))),
            count => have += count,
        }
    }
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// Waits until the host has closed the connection, which takes nothing from it.
fn cut(stream: &TcpStream) {
    match stream.peek(&mut [0]) {
        Ok(count) => assert_eq!(count, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

fn dial(host: &FakeHost) -> TcpStream {
    let stream = TcpStream::connect(host.url().strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

const WORK: &str = "GET /internal/work";
const CALL: &str = "POST /internal/ipc";
const LIST: &str = r#"{"action":"scheduler_list_jobs","_sessionId":""}"#;

#[test]
fn http_tokens_and_work() {
    let host = FakeHost::http(Script::text("x")).start();
    let pod = host.pod_token().to_owned();
    let mut stream = dial(&host);
    assert_eq!(http(&mut stream, WORK, &pod, "").unwrap(), (404, r#"{"error":"no pending work for token"}"#.into()));
    assert_eq!(http(&mut stream, WORK, "", "").unwrap().0, 401);
    host.push_work(&json!({"message": "m", "ipcToken": "turn-1"}));
    assert_eq!(http(&mut stream, WORK, "other", "").unwrap().0, 404);
    assert!(http(&mut stream, WORK, &pod, "").unwrap().1.contains("turn-1"));
    assert_eq!(http(&mut stream, WORK, &pod, "").unwrap().0, 404);
    assert_eq!(http(&mut stream, CALL, &pod, LIST).unwrap(), (401, r#"{"error":"invalid token"}"#.into()));
    assert_eq!(http(&mut stream, CALL, "turn-1", LIST).unwrap(), (200, r#"{"jobs":[],"ok":true}"#.into()));
    assert_eq!(host.violations(), []);
    let answer = r#"{"action":"agent_response","content":"hi","error":true,"_sessionId":""}"#;
    assert_eq!(http(&mut stream, CALL, "turn-1", answer).unwrap(), (200, r#"{"ok":true}"#.into()));
    assert_eq!(host.wait_answer(1, LIMIT).unwrap().content, "hi");
    assert_eq!(http(&mut stream, CALL, "turn-1", LIST).unwrap().0, 401);
    assert!(!host.requests().last().unwrap().carried_out);
    assert_eq!((host.count("/internal/work"), host.count("scheduler_list_jobs")), (5, 1));
    assert_eq!(http(&mut stream, "GET /elsewhere", &pod, "").unwrap().0, 404);
    assert_eq!(host.violations().len(), 1);
    assert_eq!(host.connections().0, 1);
}

#[test]
fn http_body_limit_and_missing_session() {
    let host = FakeHost::http(Script::text("x")).start();
    host.push_work(&json!({"message": "m", "ipcToken": "t"}));
    assert_eq!(http(&mut dial(&host), CALL, "t", r#"{"action":"scheduler_list_jobs"}"#).unwrap().0, 200);
    assert!(host.violations()[0].message.contains("_sessionId is missing"));
    let large = format!(r#"{{"action":"sandbox_bash","command":"{}"}}"#, "x".repeat(1_048_576));
    let (status, body) = http(&mut dial(&host), CALL, "t", &large).unwrap();
    assert_eq!((status, body.contains("IPC request failed")), (500, true));
    assert!(host.violations()[1].message.contains("length limit"));
}

#[test]
fn http_faults() {
    let list = |fault: Fault, key: &str| {
        let host = FakeHost::http(Script::text("x")).fault(key, 1, fault).start();
        host.push_work(&json!({"message": "m", "ipcToken": "t"}));
        let mut stream = dial(&host);
        let first = http(&mut stream, CALL, "t", LIST);
        let again = http(&mut stream, CALL, "t", LIST);
        let carried_out = host.requests().first().is_some_and(|request| request.carried_out);
        (first.map_err(|error| error.kind()), again.is_ok(), carried_out)
    };
    let whole = (200, r#"{"jobs":[],"ok":true}"#.to_owned());
    let (path, action) = ("/internal/ipc", "scheduler_list_jobs");
    assert_eq!(list(Fault::Status(502, "<html>".into()), path), (Ok((502, "<html>".into())), true, true));
    assert_eq!(list(Fault::Status(429, "{}".into()), action), (Ok((429, "{}".into())), true, false));
    assert_eq!(list(Fault::Reset(Point::Unread), path), (Err(ErrorKind::ConnectionReset), false, false));
    assert_eq!(list(Fault::Reset(Point::Unread), action), (Err(ErrorKind::ConnectionReset), false, false));
    assert_eq!(list(Fault::Reset(Point::Read), action), (Err(ErrorKind::ConnectionReset), false, true));
    assert_eq!(list(Fault::Close(Point::Read), action), (Err(ErrorKind::UnexpectedEof), false, true));
    assert_eq!(list(Fault::Close(Point::Reply(5)), action), (Ok((200, r#"cut:{"job"#.into())), false, true));
    assert_eq!(list(Fault::DripMs(2), action), (Ok(whole.clone()), true, true));
    assert_eq!(list(Fault::Pieces(3), action), (Ok(whole.clone()), true, true));
    assert_eq!(list(Fault::LateMs(30), action), (Ok(whole.clone()), true, true));

    for fault in [Fault::StaleAfter, Fault::ResetAfter] {
        let host = FakeHost::http(Script::text("x")).fault("/internal/ipc", 1, fault).start();
        host.push_work(&json!({"message": "m", "ipcToken": "t"}));
        let mut stream = dial(&host);
        assert_eq!(http(&mut stream, CALL, "t", LIST).unwrap(), whole);
        cut(&stream);
        assert!(http(&mut stream, CALL, "t", LIST).is_err());
    }
    let host = FakeHost::http(Script::text("x")).idle(Duration::from_millis(50)).start();
    let mut stream = dial(&host);
    http(&mut stream, WORK, host.pod_token(), "").unwrap();
    cut(&stream);
    assert!(http(&mut stream, WORK, host.pod_token(), "").is_err());
    host.fault("/internal/work", 2, Fault::DuplicateWork);
    host.push_work(&json!({"message": "m", "ipcToken": "t"}));
    for status in [200, 200, 404] {
        assert_eq!(http(&mut dial(&host), WORK, host.pod_token(), "").unwrap().0, status);
    }
    host.stop();
    host.restart().unwrap();
    assert_eq!(http(&mut dial(&host), WORK, host.pod_token(), "").unwrap().0, 404);
}
