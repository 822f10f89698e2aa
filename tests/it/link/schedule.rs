//! The socket link under thousands of schedules: calls, replies, heartbeats, cuts, a host that goes and comes back, callers that
//! give up, and time, in an order drawn from a seed.
//!
//! The clock stands still unless the schedule moves it, the host is driven by hand between the runner's steps, and the event
//! loop has one thread, as in the runner: a seed is one schedule, each time. `AX_SEEDS=FROM-TO` tries others than the usual.

use crate::support::judged;
use ax_runner::devhost::Transport;
use ax_runner::limits;
use ax_runner::link::{CallContext, CallError, HostLink, SocketLink};
use ax_runner::wire::{Action, Approve, Forward, LlmCall, Message, Reply, Report, Role};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const LLM: Duration = Duration::from_secs(60);

/// Small, and the same everywhere.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn index(&mut self, length: usize) -> Option<usize> {
        (length > 0).then(|| usize::try_from(self.below(length as u64)).unwrap())
    }
}

/// The host's end of one connection.
struct Wire {
    stream: UnixStream,
    read: Vec<u8>,
    /// What of a reply is still to be sent.
    unsent: Vec<u8>,
    /// Ids of requests read whole, with the call they belong to.
    asked: Vec<(String, usize)>,
}

struct Host {
    path: PathBuf,
    listener: Option<UnixListener>,
    wires: Vec<Wire>,
    /// How often each call's request was read whole.
    seen: BTreeMap<usize, usize>,
    /// Calls whose reply was sent whole on a connection that stood.
    answered: Vec<usize>,
}

impl Host {
    fn listen(&mut self) {
        if self.listener.is_none() {
            let _ = std::fs::remove_file(&self.path);
            let listener = UnixListener::bind(&self.path).unwrap();
            listener.set_nonblocking(true).unwrap();
            self.listener = Some(listener);
        }
    }

    fn accept(&mut self) {
        while let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) {
            stream.set_nonblocking(true).unwrap();
            self.wires.push(Wire { stream, read: Vec::new(), unsent: Vec::new(), asked: Vec::new() });
        }
    }

    /// Reads what is there, at most so much; forgets connections that have ended.
    fn read(&mut self, most: usize) {
        let seen = &mut self.seen;
        self.wires.retain_mut(|wire| {
            let mut buffer = vec![0; most];
            match wire.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(read) => wire.read.extend_from_slice(&buffer[..read]),
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
            while let Some(header) = wire.read.first_chunk::<4>() {
                let end = 4 + u32::from_be_bytes(*header) as usize;
                if wire.read.len() < end {
                    break;
                }
                // It takes answers, as a host that dials does.
                let request = judged(&wire.read[4..end], Transport::Listen);
                wire.read.drain(..end);
                let call = tag(&request);
                *seen.entry(call).or_default() += 1;
                wire.asked.push((request["_msgId"].as_str().unwrap().to_owned(), call));
            }
            true
        });
    }
}

impl Wire {
    /// Queues a frame.
    fn say(&mut self, body: &Value) {
        let body = body.to_string();
        self.unsent.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
        self.unsent.extend_from_slice(body.as_bytes());
    }

    /// Sends at most so many of the queued bytes.
    fn send(&mut self, most: usize) {
        let most = most.min(self.unsent.len());
        if let Ok(sent) = self.stream.write(&self.unsent[..most]) {
            self.unsent.drain(..sent);
        }
    }
}

/// The number of the call that a request carries, wherever its action has room for it.
fn tag(request: &Value) -> usize {
    let text = ["command", "content", "query"].iter().find_map(|key| request[*key].as_str());
    let text = text.or_else(|| request["messages"][0]["content"].as_str()).expect("a tag");
    text.parse().unwrap()
}

fn action(kind: u64, call: usize) -> Action {
    let text = call.to_string();
    let fields = |key: &str| json!({"scope": "s", key: text}).as_object().cloned().unwrap();
    match kind {
        0 => Action::SandboxApprove(Approve::command(&text)),
        1 => Action::SandboxResult(Report::command(&text, "", 0)),
        2 => Action::AgentResponse { content: text },
        3 => Action::Forward(Forward::new("memory_write", fields("content"))),
        4 => Action::Forward(Forward::new("memory_query", fields("query")).read_only()),
        _ => Action::LlmCall(LlmCall {
            model: None,
            task_type: None,
            messages: vec![Message::text(Role::User, &text)],
            tools: [].into(),
            max_tokens: None,
        }),
    }
}

struct Call {
    action: Action,
    begun: Instant,
    task: JoinHandle<Result<Reply, CallError>>,
    given_up: bool,
}

/// Lets the runner take some steps; between two of them it looks at its sockets.
async fn steps(count: u64) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

async fn schedule(seed: u64, path: &Path) {
    let mut draw = Draw(seed);
    let mut host =
        Host { path: path.to_owned(), listener: None, wires: Vec::new(), seen: BTreeMap::new(), answered: Vec::new() };
    host.listen();
    let redials = draw.below(4) > 0;
    let link = if redials {
        Arc::new(SocketLink::connect(path, LLM).await.unwrap())
    } else {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        host.wires.push(Wire { stream: theirs, read: Vec::new(), unsent: Vec::new(), asked: Vec::new() });
        Arc::new(SocketLink::accepted(tokio::net::UnixStream::from_std(ours).unwrap(), LLM))
    };
    let mut calls: Vec<Call> = Vec::new();
    for _ in 0..draw.below(60) {
        let wire = draw.index(host.wires.len());
        match draw.below(20) {
            0..=4 if calls.len() < 16 => {
                let (link, action) = (link.clone(), action(draw.below(6), calls.len()));
                let asked = action.clone();
                let task = tokio::spawn(async move { link.call(&asked, &CallContext::default()).await });
                calls.push(Call { action, begun: Instant::now(), task, given_up: false });
            }
            5..=7 => {
                host.accept();
                let most = [3, 64, 65_536][draw.index(3).unwrap()];
                host.read(most);
            }
            8..=11 => {
                let Some(wire) = wire.map(|at| &mut host.wires[at]) else { continue };
                let Some(at) = draw.index(wire.asked.len()) else { continue };
                // Sometimes it stays in the list, and is answered twice.
                let keep = draw.below(6) == 0;
                let (id, call) = wire.asked[at].clone();
                if !keep {
                    wire.asked.remove(at);
                }
                wire.say(&json!({"ok": true, "tag": call, "_msgId": id}));
                let most = if draw.below(3) == 0 { 5 } else { usize::MAX };
                wire.send(most);
                if wire.unsent.is_empty() {
                    host.answered.push(call);
                }
            }
            12 | 13 => {
                let Some(wire) = wire.map(|at| &mut host.wires[at]) else { continue };
                let mut beat = json!({"_heartbeat": true, "ts": 1});
                if let Some(at) = draw.index(wire.asked.len())
                    && draw.below(2) == 0
                {
                    beat["_msgId"] = json!(wire.asked[at].0);
                }
                wire.say(&beat);
                wire.send(usize::MAX);
            }
            14 => {
                let Some(wire) = wire.map(|at| &mut host.wires[at]) else { continue };
                // Nobody's: an id of the past or the future.
                let id = draw.below(40) + 1_000;
                wire.say(&json!({"ok": true, "tag": 999, "_msgId": id.to_string()}));
                wire.send(usize::MAX);
            }
            15 => {
                if let Some(at) = wire {
                    // With bytes unread it is a reset.
                    host.wires.swap_remove(at);
                }
            }
            16 => {
                host.listener = None;
                let _ = std::fs::remove_file(&host.path);
            }
            17 => host.listen(),
            18 => {
                if let Some(at) = draw.index(calls.len()) {
                    calls[at].task.abort();
                    calls[at].given_up = true;
                }
            }
            _ => {
                let ms = [1, 400, 2_000, 6_000, 31_000][draw.index(5).unwrap()];
                tokio::time::advance(Duration::from_millis(ms)).await;
            }
        }
        let count = draw.below(12);
        steps(count).await;
    }
    // From here on nobody answers: whatever still waits must come to its end by itself.
    for _ in 0..300 {
        steps(8).await;
        if calls.iter().all(|call| call.task.is_finished()) {
            break;
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    host.accept();
    host.read(1 << 20);
    for (number, call) in calls.into_iter().enumerate() {
        assert!(call.task.is_finished(), "call {number} hangs: {:?}", call.action);
        let seen = host.seen.get(&number).copied().unwrap_or(0);
        let most = if call.action.repeatable() { 2 } else { 1 };
        assert!(seen <= most, "call {number} was sent {seen} times: {:?}", call.action);
        let waited = call.begun.elapsed();
        match call.task.await {
            Err(error) => assert!(error.is_cancelled() && call.given_up, "{error}"),
            Ok(Ok(reply)) => {
                let told = reply.fields().unwrap().get("tag").map(ToString::to_string);
                assert_eq!(told, Some(number.to_string()), "the reply of another call");
            }
            Ok(Err(CallError::TimedOut(ms))) => {
                assert!(ms >= limits::ANSWER_TIMEOUT.as_millis() && waited.as_millis() >= ms, "too early");
            }
            Ok(Err(CallError::NotSent(why))) => {
                assert!(seen == 0, "call {number} was read by the host, and is said not to have been sent: {why}");
            }
            Ok(Err(CallError::OutcomeUnknown)) => {}
            Ok(Err(error)) => panic!("call {number}: {error}"),
        }
    }
    // Nothing is left of the link: no task keeps a connection.
    drop(link);
    steps(20).await;
    host.accept();
    for _ in 0..20 {
        host.read(1 << 20);
        steps(4).await;
    }
    assert!(host.wires.is_empty(), "{} connections outlive the link", host.wires.len());
}

#[test]
fn every_call_has_one_outcome_under_every_schedule() {
    let range = std::env::var("AX_SEEDS").unwrap_or_else(|_| "0-500".to_owned());
    let (from, to) = range.split_once('-').expect("AX_SEEDS is FROM-TO");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("host.sock");
    for seed in from.parse().unwrap()..to.parse().unwrap() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            // A look at the sockets after each step of a task.
            .event_interval(1)
            .build()
            .unwrap();
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(schedule(seed, &path))));
        if let Err(panic) = played {
            println!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
