//! A host that reads a request up to some byte and goes away: for each byte of the request, and for each byte of the reply.

use crate::support::judged;
use ax_runner::devhost::Transport;
use ax_runner::link::{CallContext, CallError, HostLink, SocketLink};
use ax_runner::wire::{Action, Approve, Forward, Report};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

const LIMIT: Duration = Duration::from_secs(60);

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, work).await.expect("hangs") })
}

fn action(name: &str) -> Action {
    match name {
        "sandbox_approve" => Action::SandboxApprove(Approve::command("ls")),
        "sandbox_result" => Action::SandboxResult(Report::command("ls", "a", 0)),
        "agent_response" => Action::AgentResponse { content: "a".to_owned() },
        _ => {
            let fields = json!({"scope": "s", "content": "c"}).as_object().cloned().unwrap();
            Action::Forward(Forward::new("memory_write", fields))
        }
    }
}

async fn frame(stream: &mut UnixStream) -> Option<Value> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).await.ok()?;
    let mut body = vec![0; u32::from_be_bytes(header) as usize];
    stream.read_exact(&mut body).await.ok()?;
    // It takes answers, as a host that dials does.
    Some(judged(&body, Transport::Listen))
}

fn reply(request: &Value) -> Vec<u8> {
    let body = json!({"ok": true, "approved": true, "_msgId": request["_msgId"]}).to_string();
    [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], body.as_bytes()].concat()
}

/// Lets the first connection break after `read` bytes of the request (all of them: `None`) and `sent` bytes of the reply;
/// serves the second one. Returns how often the request arrived whole.
async fn broken_once(listener: UnixListener, read: Option<usize>, sent: usize) -> usize {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut whole = 0;
    match read {
        Some(count) => drop(stream.read_exact(&mut vec![0; count]).await),
        None => {
            let request = frame(&mut stream).await.unwrap();
            whole += 1;
            stream.write_all(&reply(&request)[..sent]).await.unwrap();
        }
    }
    drop(stream);
    let Ok((mut stream, _)) = listener.accept().await else { return whole };
    while let Some(request) = frame(&mut stream).await {
        whole += 1;
        stream.write_all(&reply(&request)).await.unwrap();
    }
    whole
}

async fn attempt(directory: &Path, name: &str, read: Option<usize>, sent: usize) -> (usize, Option<CallError>) {
    let path = directory.join(format!("{name}-{read:?}-{sent}"));
    let host = tokio::spawn(broken_once(UnixListener::bind(&path).unwrap(), read, sent));
    let link = SocketLink::connect(&path, LIMIT).await.unwrap();
    let outcome = link.call(&action(name), &CallContext::default()).await;
    if outcome.is_err() {
        // Unblocks the second accept.
        let _ = UnixStream::connect(&path).await;
    }
    drop(link);
    (host.await.unwrap(), outcome.err())
}

const NAMES: [&str; 4] = ["sandbox_approve", "sandbox_result", "agent_response", "memory_write"];

fn length(name: &str) -> usize {
    4 + action(name).encode(Some("1"), &CallContext::default().meta).unwrap().len()
}

#[test]
fn i08_a_request_cut_at_any_byte_arrives_once() {
    // Until it has read the last byte the host cannot have acted, and the kernel says that it has not.
    let directory = tempfile::tempdir().unwrap();
    run(async {
        for name in NAMES {
            let cuts = (0..length(name)).map(|count| attempt(directory.path(), name, Some(count), 0));
            for (count, (whole, error)) in join_all(cuts).await.into_iter().enumerate() {
                assert_eq!((whole, error), (1, None), "{name} after {count} bytes");
            }
        }
    });
}

#[test]
fn i05_a_reply_cut_at_any_byte_repeats_only_what_may_be_repeated() {
    let directory = tempfile::tempdir().unwrap();
    run(async {
        for name in NAMES {
            let whole = reply(&json!({"_msgId": "1"})).len();
            let cuts = (0..whole).map(|sent| attempt(directory.path(), name, None, sent));
            let wanted = match name {
                "sandbox_approve" | "agent_response" => (2, None),
                _ => (1, Some(CallError::OutcomeUnknown)),
            };
            for (sent, seen) in join_all(cuts).await.into_iter().enumerate() {
                assert_eq!(seen, wanted, "{name} after {sent} bytes of the reply");
            }
        }
    });
}

#[test]
fn a_reply_that_came_before_the_loss_counts() {
    // The host answers the first call and goes; the second call is written into the closed socket first. The answer is
    // there all the same.
    run(async {
        for second in NAMES {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let link = SocketLink::accepted(ours, LIMIT);
            let context = CallContext::default();
            let write = action("memory_write");
            let first = link.call(&write, &context);
            tokio::pin!(first);
            let request = tokio::select! {
                biased;
                _ = &mut first => panic!("answered by nobody"),
                request = frame(&mut theirs) => request.unwrap(),
            };
            theirs.write_all(&reply(&request)).await.unwrap();
            drop(theirs);
            let second = action(second);
            let later = link.call(&second, &context);
            let (first, later) = tokio::join!(first, later);
            assert!(first.is_ok(), "{first:?}");
            assert!(matches!(later, Err(CallError::NotSent(_) | CallError::OutcomeUnknown)), "{later:?}");
        }
    });
}
