//! Replies in any order, with ids missing, unknown, repeated or spelled otherwise, and heartbeats in between.

use ax_runner::link::{CallContext, CallError, HostLink, SocketLink};
use ax_runner::wire::{Action, Approve};
use futures_util::future::join_all;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// One frame of the host.
#[derive(Debug, Clone)]
enum Sent {
    Reply(usize),
    NoId,
    Unknown,
    /// An id that a lenient reader might take for this one.
    Spelled(usize, usize),
    Beat(Option<usize>),
    Noise(usize),
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![
        6 => (0usize..6).prop_map(Sent::Reply),
        3 => Just(Sent::NoId),
        1 => Just(Sent::Unknown),
        1 => (0usize..6, 0usize..5).prop_map(|(call, how)| Sent::Spelled(call, how)),
        2 => prop::option::of(0usize..9).prop_map(Sent::Beat),
        1 => (0usize..6).prop_map(Sent::Noise),
    ]
}

impl Sent {
    fn body(&self, tag: usize) -> String {
        let reply = |id: &str| format!(r#"{{"ok":true,"tag":{tag},"_msgId":{id}}}"#);
        match self {
            Self::Reply(call) => reply(&format!("\"{}\"", call + 1)),
            Self::NoId => json!({"ok": true, "tag": tag}).to_string(),
            Self::Unknown => reply("\"4711\""),
            Self::Spelled(call, how) => {
                let id = call + 1;
                reply(
                    &[
                        format!("\"0{id}\""),
                        format!("\"+{id}\""),
                        format!("\" {id}\""),
                        format!("\"{id}.0\""),
                        format!("\"{id}\",\"_msgId\":\"{id}\""),
                    ][*how],
                )
            }
            Self::Beat(None) => json!({"_heartbeat": true, "ts": 1}).to_string(),
            Self::Beat(Some(call)) => {
                json!({"_heartbeat": true, "ts": 1, "_msgId": (call + 1).to_string()}).to_string()
            }
            Self::Noise(which) => {
                ["", "null", "[]", "{\"_msgId\":\"1", "{\"_msgId\":\"1\"", "\u{feff}{}"][*which].to_owned()
            }
        }
    }
}

/// Which frame each call should get: an id names its call, a frame without one goes to a waiting answer first and to the
/// oldest call otherwise (PROTOCOL §3.4, T5).
fn model(answers: &[bool], frames: &[Sent]) -> BTreeMap<usize, usize> {
    let mut got = BTreeMap::new();
    for (tag, frame) in frames.iter().enumerate() {
        let free = |call: &usize| !got.contains_key(call);
        let call = match frame {
            Sent::Reply(call) | Sent::Spelled(call, 4) => Some(*call).filter(|call| *call < answers.len()).filter(free),
            // Its reply has come, though nobody can read it.
            Sent::Noise(4) => Some(0).filter(free),
            Sent::NoId => {
                let waiting = (0..answers.len()).filter(free).collect::<Vec<_>>();
                waiting.iter().find(|call| answers[**call]).or(waiting.first()).copied()
            }
            _ => None,
        };
        if let Some(call) = call {
            got.insert(call, tag);
        }
    }
    got
}

async fn case(answers: &[bool], frames: &[Sent]) -> Result<(), TestCaseError> {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let link = SocketLink::accepted(ours, Duration::from_secs(60));
    let context = CallContext::default();
    let actions: Vec<Action> = answers
        .iter()
        .map(|answer| match answer {
            true => Action::AgentResponse { content: "a".to_owned() },
            false => Action::SandboxApprove(Approve::command("ls")),
        })
        .collect();
    let calls = join_all(actions.iter().map(|action| link.call(action, &context)));
    let host = async {
        for _ in answers {
            let mut header = [0; 4];
            theirs.read_exact(&mut header).await.unwrap();
            let mut body = vec![0; u32::from_be_bytes(header) as usize];
            theirs.read_exact(&mut body).await.unwrap();
            crate::support::judged(&body, ax_runner::devhost::Transport::Listen);
        }
        for (tag, frame) in frames.iter().enumerate() {
            let body = frame.body(tag);
            theirs.write_all(&u32::try_from(body.len()).unwrap().to_be_bytes()).await.unwrap();
            theirs.write_all(body.as_bytes()).await.unwrap();
        }
        drop(theirs);
    };
    let (outcomes, ()) = tokio::join!(calls, host);
    let wanted = model(answers, frames);
    for (call, outcome) in outcomes.into_iter().enumerate() {
        match (wanted.get(&call), outcome) {
            (Some(tag), Ok(reply)) => {
                let seen = reply.fields().map(|fields| fields.get("tag").map(ToString::to_string));
                let wanted = match frames[*tag] {
                    Sent::Spelled(..) | Sent::Noise(_) => None,
                    _ => Some(Some(tag.to_string())),
                };
                prop_assert_eq!(seen, wanted, "call {}", call);
            }
            (None, Err(CallError::OutcomeUnknown)) => {}
            (wanted, outcome) => prop_assert!(false, "call {}: wanted {:?}, got {:?}", call, wanted, outcome),
        }
    }
    Ok(())
}

#[test]
fn any_order_of_replies_reaches_the_right_calls() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 10_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let input = (prop::collection::vec(any::<bool>(), 1..6), prop::collection::vec(sent(), 0..12));
    runner.run(&input, |(answers, frames)| runtime.block_on(case(&answers, &frames))).unwrap();
}
