//! HTTP connections that are stale, cut, slow or full of something else (CASES I04, I15; PROTOCOL §4).

use crate::http::Message;
use crate::support::{BIN, Judge, LIMIT, bash_then_done, lines, result, runner, tools_then_done, turn};
use ax_runner::devhost::{FakeHost, Fault, Point, Script, Transport};
use serde_json::json;
use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn i04_a_connection_closed_while_a_tool_ran() {
    // The host closes what is idle for 300 ms; the tool takes just about that.
    let cases: Vec<u64> = (270..330).step_by(3).collect();
    for some in cases.chunks(10) {
        std::thread::scope(|scope| {
            for ms in some {
                scope.spawn(move || {
                    let command = format!("sleep 0.{ms:03}; echo x >>count");
                    let (host, output) =
                        turn(FakeHost::http(bash_then_done(&command)).idle(Duration::from_millis(300)));
                    assert_eq!(host.answer().as_deref(), Some("done"), "{ms}: {}", output.stderr);
                    assert_eq!((host.requests_of("sandbox_result").len(), lines(&host, "count").len()), (1, 1), "{ms}");
                    assert_eq!(host.violations(), []);
                });
            }
        });
    }
}

#[test]
fn i04_one_bad_connection_costs_nothing() {
    let faults = [
        Fault::StaleAfter,
        Fault::ResetAfter,
        Fault::Close(Point::Unread),
        Fault::Reset(Point::Unread),
        Fault::Close(Point::Read),
        Fault::Reset(Point::Read),
        Fault::Close(Point::Reply(0)),
        Fault::Close(Point::Reply(9)),
        Fault::Reset(Point::Reply(9)),
        Fault::DripMs(1),
        Fault::Pieces(1),
    ];
    for fault in faults {
        for (action, nth) in [("llm_call", 1), ("llm_call", 2), ("sandbox_approve", 1), ("agent_response", 1)] {
            let (host, output) =
                turn(FakeHost::http(bash_then_done("echo x >>count")).fault(action, nth, fault.clone()));
            assert_eq!(host.answer().as_deref(), Some("done"), "{action} {nth} {fault:?}: {}", output.stderr);
            assert_eq!((host.answers().len(), lines(&host, "count").len()), (1, 1), "{action} {nth} {fault:?}");
            let asked = host.requests_of("sandbox_approve").len();
            assert!(asked <= 2, "{fault:?}");
            assert_eq!(host.violations(), [], "{action} {nth} {fault:?}");
        }
        // What writes is sent once, whatever becomes of its reply.
        let script =
            tools_then_done(json!([{"name": "memory", "args": {"type": "write", "scope": "s", "content": "c"}}]));
        let (host, output) = turn(FakeHost::http(script).fault("memory_write", 1, fault.clone()));
        assert_eq!(host.answer().as_deref(), Some("done"), "{}", output.stderr);
        assert_eq!(host.requests_of("memory_write").len(), 1, "{fault:?}");
        let told = result(&host);
        match fault {
            Fault::Close(_) | Fault::Reset(_) => assert!(told.contains("unknown"), "{fault:?}: {told}"),
            _ => assert!(!told.starts_with("Error"), "{fault:?}: {told}"),
        }
    }
}

#[test]
fn i15_silence_and_endless_replies_end() {
    // No reply at all: the model's own limit.
    for point in [Point::Read, Point::Reply(0), Point::Reply(20)] {
        let host = FakeHost::http(Script::text("never")).fault("llm_call", 1, Fault::Silence(point)).start();
        let output = runner(&host).env("AX_LLM_TIMEOUT_MS", "1500").run();
        assert!(!output.timed_out, "{point:?}: {}", output.stderr);
        let answer = host.answer().unwrap_or_default();
        assert!(answer.contains("could not be finished"), "{point:?}: {answer}");
    }
    // A drip that would take minutes is under the same limit.
    let host = FakeHost::http(Script::text("slow")).fault("llm_call", 1, Fault::DripMs(500)).start();
    let output = runner(&host).env("AX_LLM_TIMEOUT_MS", "1500").run();
    assert!(!output.timed_out && host.answer().unwrap().contains("could not be finished"), "{}", output.stderr);
}

#[test]
fn a_turn_that_the_host_has_closed_ends_at_once() {
    let host = FakeHost::http(bash_then_done("while [ ! -e go ]; do sleep 0.02; done")).start();
    let payload = host.payload("go");
    let running = host.runner(BIN).deadline(LIMIT).payload(&payload).spawn().unwrap();
    assert!(host.wait_request("sandbox_approve", 1, LIMIT).is_some());
    host.close_turn(payload["ipcToken"].as_str().unwrap());
    std::fs::write(host.workspace().join("go"), "").unwrap();
    let output = running.wait();
    assert_eq!((output.code, output.timed_out), (Some(0), false), "{}", output.stderr);
    assert_eq!(host.answers().len(), 0);
    // One refused call is enough, and what runs beside it is stopped.
    let script = Script::json(json!([{"tools": [
        {"name": "bash", "args": {"command": "sleep 3; echo late >>count"}},
        {"name": "memory", "args": {"type": "list", "scope": "s"}}]}, {"text": "done"}]));
    let host = FakeHost::http(script).fault("memory_list", 1, Fault::Status(401, "{}".into())).start();
    let output = runner(&host).run();
    assert_eq!((output.code, output.timed_out), (Some(0), false), "{}", output.stderr);
    assert_eq!(host.requests_of("llm_call").len(), 1, "no question after the end");
    assert_eq!(lines(&host, "count").len(), 0);
}

/// Answers each connection with fixed bytes, in the way of a gateway and not of the host.
fn gateway(reply: Vec<u8>, judge: Arc<Judge>) -> (String, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let accepting = listener.try_clone().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = accepting.accept() {
            let (reply, judge) = (reply.clone(), judge.clone());
            std::thread::spawn(move || answer(&mut stream, &reply, &judge));
        }
    });
    (url, listener)
}

fn answer(stream: &mut TcpStream, reply: &[u8], judge: &Judge) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let Some(Message { head, body }) = Message::read(&mut BufReader::new(&*stream)) else { return };
    if !body.is_empty() {
        judge.hear(&body, Transport::Http);
    }
    if head.starts_with("GET /internal/work") {
        let item = r#"{"message":"go","requestId":"r-1","ipcToken":"t","singleTurn":true}"#;
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{item}", item.len());
    } else {
        let _ = stream.write_all(reply);
    }
}

#[test]
fn i15_gateways_that_answer_nonsense_cannot_hold_the_runner() {
    let body = |head: &str, body: &[u8]| {
        [format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len()).as_bytes(), body]
            .concat()
    };
    // A gzip body is never unpacked.
    let bomb = body("200 OK\r\nContent-Encoding: gzip", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3]);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("html", body("200 OK\r\nContent-Type: text/html", b"<html>login</html>")),
        ("code", body("200 OK", br#"{"code":500,"message":"x"}"#)),
        ("bomb", bomb),
        ("not HTTP", b"SSH-2.0-OpenSSH\r\n".to_vec()),
        ("half a head", b"HTTP/1.1 200 OK\r\nContent-".to_vec()),
        ("half a body", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"ok\":true".to_vec()),
        ("half a chunk", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{\"ok\":true".to_vec()),
        ("a lie", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}".to_vec()),
        ("redirect", body("302 Found\r\nLocation: http://127.0.0.1:1/", b"")),
        ("nothing", Vec::new()),
    ];
    std::thread::scope(|scope| {
        for (name, reply) in cases {
            scope.spawn(move || {
                let judge = Arc::new(Judge::default());
                let (url, _listener) = gateway(reply, judge.clone());
                let host = FakeHost::socket(Script::text("unused")).start();
                let environment =
                    [("AX_HOST_URL", url.as_str()), ("AX_IPC_TOKEN", "pod"), ("AX_LLM_TIMEOUT_MS", "3000")];
                let mut runner = host.runner(BIN).deadline(LIMIT);
                for (key, value) in environment {
                    runner = runner.env(key, value);
                }
                let output = runner.run();
                assert!(!output.timed_out, "{name} hangs: {}", output.stderr);
                // An answer that could not be delivered, and no turn to follow it.
                assert_eq!((output.code, output.text().as_str()), (Some(1), ""), "{name}: {}", output.stderr);
                assert!(output.stderr.contains("agent_response_failed"), "{name}: {}", output.stderr);
                judge.ask();
            });
        }
    });
}
