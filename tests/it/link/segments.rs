//! A host that takes the requests of one read one after the other, with heartbeats only for the one in hand (PROTOCOL §3.7,
//! T22): a quick question read together with a long task must not run out of time behind it.

use crate::support::judged;
use ax_runner::devhost::Transport;
use ax_runner::limits;
use ax_runner::link::{CallContext, HostLink, SocketLink};
use ax_runner::wire::{Action, Approve, Forward};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const TICK: Duration = Duration::from_millis(100);

/// What one read has brought.
#[derive(Default)]
struct Batch {
    requests: VecDeque<Value>,
    /// When the first of them was taken in hand, and how many heartbeats it has had.
    hand: Option<(Instant, u32)>,
}

struct Host {
    stream: UnixStream,
    batches: Vec<Batch>,
    /// Actions in the order they were written.
    read: Vec<String>,
}

impl Host {
    /// Reads once, all that is there.
    fn read(&mut self) {
        let mut buffer = vec![0; 65_536];
        let Ok(length) = self.stream.read(&mut buffer) else { return };
        let (mut rest, mut batch) = (&buffer[..length], Batch::default());
        while let Some((header, body)) = rest.split_first_chunk::<4>() {
            let (body, after) = body.split_at(u32::from_be_bytes(*header) as usize);
            let request = judged(body, Transport::Listen);
            self.read.push(request["action"].as_str().unwrap().to_owned());
            batch.requests.push_back(request);
            rest = after;
        }
        self.batches.push(batch);
    }

    fn say(stream: &mut UnixStream, body: &Value) {
        let body = body.to_string();
        let bytes = [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], body.as_bytes()].concat();
        stream.write_all(&bytes).unwrap();
    }

    /// Goes on with the first request of each batch.
    fn work(&mut self) {
        for batch in &mut self.batches {
            while let Some(request) = batch.requests.front() {
                let (begun, beats) = batch.hand.get_or_insert((Instant::now(), 0));
                if begun.elapsed() >= Duration::from_secs(15) * (*beats + 1) {
                    *beats += 1;
                    Self::say(&mut self.stream, &json!({"_heartbeat": true, "ts": 1, "_msgId": request["_msgId"]}));
                }
                if begun.elapsed() < takes(request) {
                    break;
                }
                Self::say(&mut self.stream, &json!({"ok": true, "_msgId": request["_msgId"]}));
                batch.requests.pop_front();
                batch.hand = None;
            }
        }
    }
}

/// Each just before the next heartbeat would be due.
fn takes(request: &Value) -> Duration {
    Duration::from_millis(match request["action"].as_str() {
        Some("agent_delegate") => 89_900,
        Some("memory_query") => 14_900,
        _ => 0,
    })
}

fn action(name: &str) -> Action {
    let fields = |value: Value| value.as_object().cloned().unwrap();
    match name {
        "agent_delegate" => Action::Forward(
            Forward::new("agent_delegate", fields(json!({"task": "t"}))).with_timeout(limits::AGENT_TIMEOUT),
        ),
        "memory_query" => Action::Forward(Forward::new("memory_query", fields(json!({"scope": "s"}))).read_only()),
        _ => Action::SandboxApprove(Approve::command("ls")),
    }
}

/// Lets the runner take some steps; between two of them it looks at its sockets.
async fn steps() {
    for _ in 0..40 {
        tokio::task::yield_now().await;
    }
}

/// Makes the calls, at once or each when the one before is written, reads them in one go, and returns the order they came in.
async fn read_together(names: &[&'static str], at_once: bool) -> Vec<String> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.set_nonblocking(true).unwrap();
    let link = Arc::new(SocketLink::accepted(tokio::net::UnixStream::from_std(ours).unwrap(), limits::LLM_TIMEOUT));
    let mut host = Host { stream: theirs, batches: Vec::new(), read: Vec::new() };
    let mut calls = Vec::new();
    for name in names {
        let (link, action) = (link.clone(), action(name));
        calls.push((name, tokio::spawn(async move { link.call(&action, &CallContext::default()).await })));
        if !at_once {
            steps().await;
        }
    }
    steps().await;
    host.read();
    assert_eq!(host.read.len(), names.len(), "not written");
    for _ in 0..2_000 {
        host.work();
        steps().await;
        tokio::time::advance(TICK).await;
    }
    for (name, call) in calls {
        assert!(call.is_finished(), "{name} hangs");
        let reply = call.await.unwrap();
        assert!(reply.is_ok(), "{name} behind the others: {reply:?}");
    }
    host.read
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).event_interval(1).build();
    runtime.unwrap().block_on(work)
}

#[test]
fn a_question_behind_a_long_task_keeps_its_time() {
    let names = ["agent_delegate", "sandbox_approve", "memory_query", "memory_query", "sandbox_approve"];
    assert_eq!(run(read_together(&names, false)), names);
}

#[test]
fn of_the_calls_that_wait_the_longest_is_written_last() {
    let names = ["agent_delegate", "sandbox_approve", "memory_query", "sandbox_approve"];
    let wanted = ["sandbox_approve", "sandbox_approve", "memory_query", "agent_delegate"];
    assert_eq!(run(read_together(&names, true)), wanted);
}
