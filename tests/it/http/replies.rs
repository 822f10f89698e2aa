//! Replies that are none (CASES I15), requests that are too large, redirects and proxies.

use super::{Deed, answer, relayed, runner};
use crate::support::{BIN, LIMIT, bash_then_done, result, tools_then_done};
use ax_runner::devhost::{FakeHost, Script};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

fn say(stream: &mut TcpStream, bytes: &[u8]) {
    let _ = stream.write_all(bytes);
    let _ = stream.flush();
}

/// Until the runner is gone.
fn wait(stream: &mut TcpStream) {
    let _ = stream.set_read_timeout(Some(LIMIT));
    while matches!(stream.read(&mut [0; 64]), Ok(1..)) {}
}

fn only_headers(stream: &mut TcpStream) {
    say(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n");
    wait(stream);
}

fn half_a_body(stream: &mut TcpStream) {
    say(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"ok\":true,");
}

fn a_cut_chunk(stream: &mut TcpStream) {
    say(stream, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{\"ok\":true,");
}

fn events_without_end(stream: &mut TcpStream) {
    say(stream, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"ok\":true}\n\n");
}

fn an_error_in_a_success(stream: &mut TcpStream) {
    say(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"code\":500}");
}

fn html(stream: &mut TcpStream) {
    say(stream, b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>");
}

fn nothing(stream: &mut TcpStream) {
    say(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

fn not_http(stream: &mut TcpStream) {
    say(stream, b"SSH-2.0-OpenSSH_9.6\r\n");
}

fn a_bomb(stream: &mut TcpStream) {
    say(stream, b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 10000000\r\n\r\n");
    // A deflate stream of zeroes is nearly all zeroes itself.
    for _ in 0..1000 {
        say(stream, &[0x1f; 10_000]);
    }
}

fn endless(stream: &mut TcpStream) {
    say(stream, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 65_536], b"\r\n"].concat();
    while stream.write_all(&chunk).is_ok() {}
}

fn a_drip(stream: &mut TcpStream) {
    say(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n");
    while stream.write_all(b" ").is_ok() {
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn endless_headers(stream: &mut TcpStream) {
    say(stream, b"HTTP/1.1 200 OK\r\n");
    while stream.write_all(b"X-Filler: 0123456789012345678901234567890123456789\r\n").is_ok() {}
}

type Wild = (&'static str, fn(&mut TcpStream), &'static str);

const WILD: [Wild; 12] = [
    ("only headers", only_headers, "timed out"),
    ("half a body", half_a_body, "lost"),
    ("a cut chunk", a_cut_chunk, "lost"),
    ("events without end", events_without_end, ""),
    ("an error in a success", an_error_in_a_success, ""),
    ("html", html, ""),
    ("nothing", nothing, ""),
    ("not http", not_http, "lost"),
    ("a bomb", a_bomb, ""),
    ("endless", endless, "larger than"),
    ("a drip", a_drip, "timed out"),
    ("endless headers", endless_headers, "lost"),
];

#[test]
fn i15_a_model_call_without_a_reply_ends_and_names_the_cause() {
    let seen = super::in_parallel(
        &WILD,
        |_| 0,
        |(name, write, cause)| {
            let write = *write;
            let host = FakeHost::http(bash_then_done("true")).start();
            let (relay, output) = relayed(&host, move |asked| match asked.stage.as_str() {
                "llm_call" => Deed::Instead(Box::new(write)),
                _ => Deed::Pass,
            });
            let answer = answer(&host, &output);
            assert!(answer.starts_with("[The turn could not be finished: the model call failed: "), "{name}: {answer}");
            assert!(answer.contains(cause), "{name}: {answer}");
            assert_eq!(output.code, Some(0), "{name}");
            let asked = relay.written("llm_call");
            assert!((1..=4).contains(&asked), "{name}: asked {asked} times");
            format!("{name}: asked {asked} times: {answer}\n")
        },
    );
    println!("{}", seen.concat());
}

#[test]
fn i15_every_kind_of_success_is_judged_by_its_envelope() {
    let memory = json!({"name": "memory", "args": {"type": "write", "scope": "s", "content": "c"}});
    for status in ["201 Created", "202 Accepted", "203 Other", "206 Partial Content"] {
        for (body, done) in
            [("{\"ok\":true,\"approved\":true,\"id\":\"1\"}", true), ("{\"ok\":true,\"appro", false), ("", false)]
        {
            let reply = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            let tools = json!([{"name": "bash", "args": {"command": "echo x >>count"}}, memory]);
            let host = FakeHost::http(tools_then_done(tools)).start();
            // It knows nothing of the consent that was given in its place.
            host.forgive();
            let (relay, output) = relayed(&host, move |asked| match asked.stage.as_str() {
                "sandbox_approve" | "memory_write" => {
                    let reply = reply.clone();
                    Deed::Instead(Box::new(move |stream| say(stream, reply.as_bytes())))
                }
                _ => Deed::Pass,
            });
            assert_eq!(answer(&host, &output), "done", "{}", output.stderr);
            let results = crate::support::results(&host);
            let told: Vec<&str> = results.values().map(String::as_str).collect();
            assert_eq!(crate::support::lines(&host, "count").len(), usize::from(done), "{status} {body}: {told:?}");
            assert_eq!(told.iter().filter(|text| text.contains("rror")).count(), if done { 0 } else { 2 }, "{told:?}");
            assert_eq!((relay.written("sandbox_approve"), relay.written("memory_write")), (1, 1), "{status} {body}");
        }
    }
}

#[test]
fn i15_one_bad_reply_is_survived_where_a_question_may_be_repeated() {
    super::in_parallel(
        &[("half a body", half_a_body as fn(&mut TcpStream)), ("not http", not_http)],
        |_| 0,
        |(name, write)| {
            let write = *write;
            let host = FakeHost::http(bash_then_done("true")).start();
            let (_, output) = relayed(&host, move |asked| match (asked.stage.as_str(), asked.nth) {
                ("llm_call", 1) => Deed::Instead(Box::new(write)),
                _ => Deed::Pass,
            });
            assert_eq!(answer(&host, &output), "done", "{name}: {}", output.stderr);
        },
    );
}

#[test]
fn i15_work_that_is_no_work_is_bounded_too() {
    for write in [half_a_body, endless_headers, not_http] {
        let host = FakeHost::http(Script::text("done")).start();
        let (_, output) = relayed(&host, move |asked| match (asked.stage.as_str(), asked.nth) {
            ("/internal/work", 1) => Deed::Instead(Box::new(write)),
            _ => Deed::Pass,
        });
        assert_eq!(answer(&host, &output), "done", "{}", output.stderr);
    }
}

#[test]
fn what_is_larger_than_the_host_takes_is_not_sent_and_the_model_is_told() {
    let content = "\u{1}".repeat(300_000);
    let tools = json!([{"name": "write_file", "args": {"path": "f", "content": content}}]);
    let host = FakeHost::http(tools_then_done(tools)).start();
    let output = runner(&host).run();
    assert_eq!(answer(&host, &output), "done", "{}", output.stderr);
    let told = result(&host);
    assert!(told.contains("1048576") && told.contains("split it"), "{told}");
    assert_eq!(host.violations(), []);
    assert_eq!(host.requests_of("sandbox_approve").len(), 0);
    assert!(!host.workspace().join("f").exists());
}

#[test]
fn a_conversation_larger_than_the_host_takes_is_cut() {
    let command = "head -c 90000 /dev/zero | tr '\\0' x";
    let mut rounds = vec![json!({"tools": [{"name": "bash", "args": {"command": command}}]}); 20];
    rounds.push(json!({"text": "done"}));
    let host = FakeHost::http(Script::json(json!(rounds))).start();
    let output = runner(&host).run();
    assert_eq!(answer(&host, &output), "done", "{}", output.stderr);
    assert_eq!(host.violations(), []);
    let largest = host.requests_of("llm_call").iter().map(|request| request.raw.len()).max().unwrap();
    assert!(largest <= 1_048_576, "{largest}");
}

#[test]
fn redirects_are_not_followed_and_proxies_not_used() {
    let trap = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    trap.set_nonblocking(true).unwrap();
    let address = trap.local_addr().unwrap();
    let text = format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{address}/\r\nContent-Length: 0\r\n\r\n");
    let host = FakeHost::http(Script::text("never")).start();
    let (_, output) = relayed(&host, move |asked| match asked.stage.as_str() {
        "llm_call" => {
            let text = text.clone();
            Deed::Instead(Box::new(move |stream| say(stream, text.as_bytes())))
        }
        _ => Deed::Pass,
    });
    assert!(answer(&host, &output).contains("HTTP 307"));

    let host = FakeHost::http(Script::text("done")).start();
    let mut runner = host.runner(BIN).deadline(LIMIT).payload(&host.payload("go"));
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"] {
        runner = runner.env(name, format!("http://{address}"));
    }
    let output = runner.run();
    assert_eq!(answer(&host, &output), "done");
    assert!(trap.accept().is_err(), "somebody has followed the redirect or used the proxy");
}
