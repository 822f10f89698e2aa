//! A host that is away, busy, or has closed the turn (CASES I05 e, I08; PROTOCOL §4.2).

use super::{Deed, answer, relayed, runner};
use crate::support::{BIN, LIMIT, bash_then_done, comes_true, lines, result, tools_then_done};
use ax_runner::devhost::{FakeHost, Fault, Point, Script, Signal};
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[test]
fn i05_e_what_changes_the_host_is_sent_once() {
    let add = json!([{"name": "scheduler", "args": {"type": "add_cron", "schedule": "* * * * *", "prompt": "p"}}]);
    let write = json!([{"name": "memory", "args": {"type": "write", "scope": "s", "content": "c"}}]);
    for (action, tool) in [("scheduler_add_cron", add), ("memory_write", write)] {
        for fault in [Fault::Reset(Point::Read), Fault::Close(Point::Reply(3)), Fault::Status(502, "<html>".into())] {
            let host = FakeHost::http(tools_then_done(tool.clone())).fault(action, 1, fault.clone()).start();
            let output = runner(&host).run();
            assert_eq!(answer(&host, &output), "done", "{}", output.stderr);
            assert_eq!(host.requests_of(action).len(), 1, "{action} {fault:?}: {}", result(&host));
            let told = result(&host);
            let wanted = "whether the call was carried out is unknown";
            assert!(told.contains(wanted), "{fault:?}: {told}");
        }
    }
}

#[test]
fn i08_a_host_that_comes_back_gets_the_answer() {
    // Back before the next call, back during its repetitions (of 3.5 s), back only in time for the answer.
    for away in [500, 2500, 5500] {
        let host = FakeHost::http(bash_then_done("echo x >>count; until [ -e go ]; do sleep 0.02; done")).start();
        let running = runner(&host).spawn().unwrap();
        let count = host.workspace().join("count");
        assert!(comes_true(|| count.exists()), "the command does not start");
        host.stop();
        let gone = Instant::now();
        std::fs::write(host.workspace().join("go"), "").unwrap();
        std::thread::sleep(Duration::from_millis(away));
        host.restart().unwrap();
        let back = gone.elapsed();
        let output = running.wait();
        let answer = answer(&host, &output);
        // A busy machine may have kept the host away, or the runner from asking, for longer than was meant.
        let late = back > Duration::from_secs(3) && answer.contains("could not be finished");
        assert!(answer == "done" || late, "away {back:?}: {answer}");
        assert_eq!((output.code, lines(&host, "count").len()), (Some(0), 1), "away {away}: {}", output.stderr);
    }
}

#[test]
fn i08_a_host_that_never_comes_back_ends_a_single_turn_with_a_failure() {
    let mark = format!("{}.25", 900_000 + std::process::id());
    let host = FakeHost::http(bash_then_done(&format!("sleep {mark} & echo x >>count; sleep 1"))).start();
    let running = runner(&host).spawn().unwrap();
    host.wait_request("sandbox_approve", 1, LIMIT).expect("an approval");
    std::thread::sleep(Duration::from_millis(300));
    host.stop();
    let output = running.wait();
    assert_eq!((output.code, output.timed_out), (Some(1), false), "{}", output.stderr);
    assert!(crate::pid1::none_living(&mark), "{:?}", crate::pid1::living(&mark));
}

#[test]
fn i08_a_host_behind_a_gateway_that_is_away() {
    let bad_gateway = || Fault::Status(502, "<html><h1>502 Bad Gateway</h1></html>".into());
    let mut builder = FakeHost::http(bash_then_done("echo x >>count"));
    for nth in 1..=3 {
        builder = builder.fault("/internal/work", nth, bad_gateway());
    }
    for action in ["llm_call", "sandbox_approve", "agent_response"] {
        builder = builder.fault(action, 1, bad_gateway());
    }
    let host = builder.start();
    let output = runner(&host).run();
    assert_eq!(answer(&host, &output), "done", "{}", output.stderr);
    assert_eq!((output.code, lines(&host, "count").len()), (Some(0), 1));
}

#[test]
fn i08_a_gateway_that_stays_away_is_named() {
    let mut builder = FakeHost::http(Script::text("never"));
    for nth in 1..=9 {
        builder = builder.fault("llm_call", nth, Fault::Status(503, "<html>upstream gone".into()));
    }
    let host = builder.start();
    let output = runner(&host).run();
    let answer = answer(&host, &output);
    assert!(answer.contains("HTTP 503") && answer.contains("upstream gone"), "{answer}");
    assert!((2..=4).contains(&host.requests_of("llm_call").len()));
}

#[test]
fn patience_is_asked_for_in_seconds_and_has_an_end() {
    fn soon(stream: &mut TcpStream) {
        let _ = stream.write_all(b"HTTP/1.1 429 Too Many\r\nRetry-After: 1\r\nContent-Length: 4\r\n\r\nbusy");
    }
    fn never(stream: &mut TcpStream) {
        let _ =
            stream.write_all(b"HTTP/1.1 429 Too Many\r\nRetry-After: 999999999999\r\nContent-Length: 4\r\n\r\nbusy");
    }
    fn nonsense(stream: &mut TcpStream) {
        let head = "HTTP/1.1 503 Gone\r\nRetry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\nContent-Length: 4\r\n\r\nbusy";
        let _ = stream.write_all(head.as_bytes());
    }
    // Of a connection that was idle for too long, by a gateway.
    fn idle(stream: &mut TcpStream) {
        let _ = stream.write_all(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    }
    for write in [soon as fn(&mut TcpStream), nonsense, idle] {
        let host = FakeHost::http(bash_then_done("echo x >>count")).start();
        let (relay, output) = relayed(&host, move |asked| match asked.nth <= 2 && asked.stage != "/internal/work" {
            true => match asked.stage.as_str() {
                // After a 5xx the host may have taken the report, so it is not repeated.
                "sandbox_result" => Deed::Pass,
                _ => Deed::Instead(Box::new(write)),
            },
            false => Deed::Pass,
        });
        assert_eq!(answer(&host, &output), "done", "{}", output.stderr);
        assert_eq!((relay.written("llm_call"), lines(&host, "count").len()), (3, 1));
    }
    // The model's time is 8 s here and the longest patience 30 s: said at once, not after the wait.
    let host = FakeHost::http(Script::text("never")).start();
    let (relay, output) = relayed(&host, move |asked| match asked.stage.as_str() {
        "llm_call" => Deed::Instead(Box::new(never)),
        _ => Deed::Pass,
    });
    assert!(answer(&host, &output).contains("HTTP 429"));
    assert_eq!(relay.written("llm_call"), 1);
    let told = output.stderr.lines().find(|line| line.contains("host_busy")).expect("nothing in the log");
    let told: serde_json::Value = serde_json::from_str(told).unwrap();
    assert_eq!((told["ms"].as_u64(), told["asked_seconds"].as_u64()), (Some(30_000), Some(999_999_999_999)));
}

#[test]
fn a_closed_turn_stops_what_it_has_started() {
    let mark = format!("{}.5", 700_000 + std::process::id());
    let script = json!([
        {"when": "^$", "tools": [
            {"name": "bash", "args": {"command": format!("sleep {mark}")}},
            {"name": "bash", "args": {"command": "sleep 1; echo x >>count"}}]},
        {"text": "never"}]);
    let host = FakeHost::http(Script::json(script)).start();
    let mut first = host.payload("first");
    first["singleTurn"] = json!(false);
    host.push_work(&first);
    let running = host.runner(BIN).deadline(LIMIT).spawn().unwrap();
    host.wait_request("sandbox_approve", 2, LIMIT).expect("two approvals");
    host.close_turn(first["ipcToken"].as_str().unwrap());
    // The report of the second call is refused, which is how the runner learns of it.
    host.wait_request("sandbox_result", 1, LIMIT).expect("a report");
    let begun = Instant::now();
    while !crate::pid1::living(&mark).is_empty() {
        assert!(begun.elapsed() < LIMIT, "the command of a closed turn runs on");
        std::thread::sleep(Duration::from_millis(50));
    }
    host.set_script(Script::text("second"));
    host.push_work(&host.payload("second"));
    let output = running.wait();
    assert_eq!(answer(&host, &output), "second", "{}", output.stderr);
    assert_eq!((output.code, host.requests_of("agent_response").len()), (Some(0), 1));
}

#[test]
fn a_name_that_cannot_be_resolved_is_waited_for_and_named() {
    let test = "a_name_that_cannot_be_resolved_is_waited_for_and_named";
    if !crate::pid1::may_unshare(test, "--net") {
        return;
    }
    let host = FakeHost::http(Script::text("never")).start();
    let log = host.directory().join("log");
    let script = format!("exec unshare --net \"$0\" \"$@\" 2>{}", log.display());
    let program = ["bash", "-c", &script, BIN].map(Into::into).to_vec();
    let running = host.command(program).env("AX_HOST_URL", "http://ax-host.invalid").deadline(LIMIT).spawn().unwrap();
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    assert!(comes_true(|| logged().contains("work_unreachable")), "{}", logged());
    std::thread::sleep(Duration::from_secs(3));
    assert!(!running.ended());
    // `unshare` without `--fork` has become the runner.
    running.signal(Signal::SIGTERM);
    let output = running.wait();
    assert_eq!(output.code, Some(143), "{}", logged());
    assert_eq!(logged().matches("work_unreachable").count(), 1, "{}", logged());
}
