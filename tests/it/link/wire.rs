//! Frames under stress: pieces, heartbeats in between, hosts that do not read, runners that are stopped (CASES I01, I07;
//! PROTOCOL §3).

use crate::support::{LIMIT, bash_then_done, judged, lines, result, runner, tools_then_done, turn};
use ax_runner::devhost::{FakeHost, Fault, Script, Signal, Transport, broken_rules};
use ax_runner::link::{CallContext, CallError, HostLink, SocketLink};
use ax_runner::wire::{Action, Approve, LlmCall, Message, Report, Role};
use serde_json::{Value, json};
use std::os::unix::net::UnixStream as StdStream;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

async fn raw_frame(stream: &mut UnixStream) -> Vec<u8> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).await.unwrap();
    let mut body = vec![0; u32::from_be_bytes(header) as usize];
    stream.read_exact(&mut body).await.unwrap();
    body
}

async fn frame(stream: &mut UnixStream) -> Value {
    judged(&raw_frame(stream).await, Transport::Listen)
}

async fn send(stream: &mut UnixStream, body: Value) {
    let body = body.to_string();
    let bytes = [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], body.as_bytes()].concat();
    stream.write_all(&bytes).await.unwrap();
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, work).await.expect("hangs") })
}

#[test]
fn i01_frames_in_pieces_between_heartbeats() {
    for piece in [Fault::Pieces(1), Fault::Pieces(3)].into_iter().chain((0..12).map(Fault::SplitAt)) {
        let mut builder =
            FakeHost::socket(bash_then_done("sleep 0.1; echo x >>count")).heartbeat(Duration::from_millis(2));
        for nth in 1..=4 {
            builder = builder.fault("*", nth, piece.clone()).fault("*", nth, Fault::DelayMs(15));
        }
        let (host, output) = turn(builder);
        assert_eq!((output.text().as_str(), lines(&host, "count").len()), ("done", 1), "{piece:?} {}", output.stderr);
        assert_eq!(host.connections().0, 1, "{piece:?}");
        assert_eq!(host.violations(), []);
    }
}

#[test]
fn i01_many_calls_while_the_host_reads_in_fits() {
    let call = |n: usize| json!({"name": "bash", "args": {"command": format!("head -c 90000 /dev/zero | tr '\\0' x; echo {n} >>count")}});
    let round = |from: usize| json!({"tools": (from..from + 15).map(call).collect::<Vec<_>>()});
    let script = Script::json(json!([round(0), round(15), round(30), {"text": "done"}]));
    let host = FakeHost::socket(script).heartbeat(Duration::from_millis(5)).start();
    let running = runner(&host).spawn().unwrap();
    while !running.ended() {
        host.set_reading(false);
        std::thread::sleep(Duration::from_millis(60));
        host.set_reading(true);
        std::thread::sleep(Duration::from_millis(30));
    }
    let output = running.wait();
    assert_eq!(output.text(), "done", "{}", output.stderr);
    assert_eq!(lines(&host, "count").len(), 45);
    assert_eq!((host.requests_of("sandbox_approve").len(), host.requests_of("sandbox_result").len()), (45, 45));
    assert_eq!((host.connections().0, host.violations()), (1, vec![]));
    let ids: Vec<u64> =
        host.requests().iter().map(|it| it.value["_msgId"].as_str().unwrap().parse().unwrap()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
}

#[test]
fn i01_a_call_given_up_while_it_is_written_leaves_a_whole_frame() {
    run(async {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let link = SocketLink::accepted(ours, LIMIT);
        let context = CallContext::default();
        let large = Action::SandboxResult(Report::command("ls", "x".repeat(5_000_000), 0));
        let given_up = tokio::time::timeout(Duration::from_millis(100), link.call(&large, &context)).await;
        assert!(given_up.is_err());
        let small = Action::SandboxApprove(Approve::command("ls"));
        let never_written = Action::SandboxApprove(Approve::command("never"));
        assert!(tokio::time::timeout(Duration::from_millis(20), link.call(&never_written, &context)).await.is_err());
        let host = async {
            let large = raw_frame(&mut theirs).await;
            // On purpose: no report is that long, but a socket takes a while for it.
            assert_eq!(broken_rules(&large, Transport::Listen).len(), 1);
            assert_eq!(serde_json::from_slice::<Value>(&large).unwrap()["output"].as_str().unwrap().len(), 5_000_000);
            let request = frame(&mut theirs).await;
            assert_eq!(request["command"], "ls", "what was given up before it was begun is not sent");
            send(&mut theirs, json!({"ok": true, "_msgId": "1"})).await;
            send(&mut theirs, json!({"ok": true, "second": true, "_msgId": request["_msgId"]})).await;
        };
        let (reply, ()) = tokio::join!(link.call(&small, &context), host);
        assert!(reply.unwrap().fields().unwrap().get("second").unwrap().is(true));
    });
}

#[test]
fn a_late_reply_and_late_heartbeats_are_nobodys() {
    run(async {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let link = SocketLink::accepted(ours, Duration::from_millis(1000));
        let context = CallContext::default();
        let ask = Action::LlmCall(LlmCall {
            model: None,
            task_type: None,
            messages: vec![Message::text(Role::User, "a")],
            tools: [].into(),
            max_tokens: None,
        });
        let silent = async {
            let (reply, request) = tokio::join!(link.call(&ask, &context), frame(&mut theirs));
            assert_eq!(reply.unwrap_err(), CallError::TimedOut(1000));
            request
        };
        let request = silent.await;
        let host = async {
            let second = frame(&mut theirs).await;
            send(&mut theirs, json!({"ok": true, "late": true, "_msgId": request["_msgId"]})).await;
            for named in [json!(second["_msgId"]), json!("99"), Value::Null] {
                for _ in 0..4 {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    match &named {
                        Value::Null => send(&mut theirs, json!({"_heartbeat": true, "ts": 1})).await,
                        id => send(&mut theirs, json!({"_heartbeat": true, "ts": 1, "_msgId": id})).await,
                    }
                }
            }
            send(&mut theirs, json!({"ok": true, "late": false})).await;
        };
        // More than twice its limit, kept alive by heartbeats of each kind.
        let (reply, ()) = tokio::join!(link.call(&ask, &context), host);
        assert!(reply.unwrap().fields().unwrap().get("late").unwrap().is(false));
    });
}

#[test]
fn i07_a_host_that_stops_reading_and_a_runner_that_is_stopped() {
    let host = FakeHost::socket(bash_then_done("sleep 0.5; echo x >>count")).start();
    let running = runner(&host).spawn().unwrap();
    assert!(host.wait_request("sandbox_approve", 1, LIMIT).is_some());
    host.set_reading(false);
    running.signal(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(2));
    running.signal(Signal::SIGCONT);
    std::thread::sleep(Duration::from_secs(1));
    host.set_reading(true);
    let output = running.wait();
    assert_eq!((output.text().as_str(), lines(&host, "count").len()), ("done", 1), "{}", output.stderr);
    assert_eq!((host.connections().0, host.violations()), (1, vec![]));
}

#[test]
fn a_reply_too_large_or_unreadable_ends_the_wait() {
    // 4 GiB announced: the connection is of no use any more; the question is asked once more on another.
    let (host, output) =
        turn(FakeHost::socket(bash_then_done("echo x >>count")).fault("sandbox_approve", 1, Fault::Oversized));
    assert_eq!((output.text().as_str(), lines(&host, "count").len()), ("done", 1), "{}", output.stderr);
    assert_eq!(host.connections().0, 2);
    // Deep JSON is no reason to wait for ever.
    let deep =
        format!("{{\"ok\":true,\"result\":{}1{},\"_msgId\":\"{{{{msgId}}}}\"}}", "[".repeat(3000), "]".repeat(3000));
    let script = tools_then_done(json!([{"name": "memory", "args": {"type": "query", "scope": "s"}}]));
    let (host, output) = turn(FakeHost::socket(script).fault("memory_query", 1, Fault::Body(deep)));
    assert_eq!(output.text(), "done", "{}", output.stderr);
    assert!(result(&host).starts_with("Error:"), "{}", result(&host));
}

#[test]
fn an_answer_without_id_while_others_wait() {
    for fault in [Fault::NoId, Fault::Reorder, Fault::Duplicate] {
        let script = tools_then_done(json!([
            {"name": "bash", "args": {"command": "echo a >>count"}},
            {"name": "memory", "args": {"type": "list", "scope": "s"}},
            {"name": "bash", "args": {"command": "echo b >>count"}}]));
        let (host, output) = turn(FakeHost::socket(script).fault("llm_call", 1, fault.clone()).fault(
            "sandbox_result",
            1,
            fault.clone(),
        ));
        assert_eq!((output.text().as_str(), lines(&host, "count").len()), ("done", 2), "{fault:?} {}", output.stderr);
        assert_eq!(host.violations(), []);
    }
}

#[test]
fn listen_mode_binds_then_signals_and_takes_one_connection() {
    let host = FakeHost::listen(bash_then_done("echo >begun; while [ ! -e go ]; do sleep 0.02; done")).start();
    let running = runner(&host).spawn().unwrap();
    assert!(host.wait_request("sandbox_approve", 1, LIMIT).is_some());
    // The one connection is made; nobody else can come.
    assert!(!host.socket_path().exists());
    assert!(StdStream::connect(host.socket_path()).is_err());
    std::fs::write(host.workspace().join("go"), "").unwrap();
    let output = running.wait();
    assert_eq!((output.code, host.answer().as_deref()), (Some(0), Some("done")), "{}", output.stderr);
    assert_eq!(output.stderr.matches("[signal] ipc_ready\n").count(), 1);
    assert_eq!(output.text(), "");
    assert_eq!((host.connections().0, host.answers().len(), host.violations()), (1, 1, vec![]));
}

#[test]
fn listen_mode_the_bare_acknowledgement_is_the_answers() {
    // A report is still under way when the answer is sent; the acknowledgement without an id must not be taken for its.
    let (host, output) = turn(FakeHost::listen(bash_then_done("true")).fault("sandbox_result", 1, Fault::LateMs(6500)));
    assert_eq!((output.code, host.answer().as_deref()), (Some(0), Some("done")), "{}", output.stderr);
    assert!(!output.stderr.contains("agent_response_failed"), "{}", output.stderr);
    assert_eq!(host.violations(), []);
}
