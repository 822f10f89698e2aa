//! Frames through the runner's link, beside a blocking client on a bare socket. Both talk to the same server.

use crate::host::{Wire, frame};
use crate::table::{Row, interleaved};
use crate::{Effort, Outcome};
use ax_runner::limits;
use ax_runner::link::{CallContext, HostLink, SocketLink};
use ax_runner::wire::{Action, Approve, Chunk, LlmCall, Message, Reply, Role};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const BATCH: u32 = 100;
const LARGE_BYTES: usize = 8_000_000;

pub(crate) fn rows(_: &crate::place::Programs, effort: &Effort) -> Outcome<Vec<Row>> {
    let dir = tempfile::Builder::new().prefix("ax-bench-").tempdir()?;
    let path = dir.path().join("frames.sock");
    let server = serve(UnixListener::bind(&path)?, 2);
    let rows = Clients::connect(&path).and_then(|mut clients| clients.rows(effort));
    // The clients are gone, so the server ends.
    server.join().map_err(|_| "the server panicked")?;
    rows
}

struct Clients {
    runtime: Runtime,
    link: SocketLink,
    raw: UnixStream,
    context: CallContext,
}

impl Clients {
    fn connect(path: &Path) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let link = runtime.block_on(SocketLink::connect(path, limits::LLM_TIMEOUT))?;
        Ok(Self { runtime, link, raw: UnixStream::connect(path)?, context: CallContext::default() })
    }

    fn rows(&mut self, effort: &Effort) -> Outcome<Vec<Row>> {
        let Self { runtime, link, raw, context } = self;
        let question = Action::SandboxApprove(Approve::command("cargo test --workspace"));
        let small = frame(&question.encode(Some("1"), &context.meta)?);
        let mut reply = Vec::new();
        let [ours, bare] = interleaved(
            effort.frame_batches,
            [
                &mut || {
                    timed(BATCH, || {
                        runtime.block_on(async {
                            for _ in 0..BATCH {
                                link.call(&question, context).await?;
                            }
                            Ok(())
                        })
                    })
                },
                &mut || timed(BATCH, || (0..BATCH).try_for_each(|_| exchange(raw, &small, &mut reply))),
            ],
        )?;
        let mut rows = vec![Row::times("frame round trip", ours, "ping-pong of the same bytes", bare, "<= 1.5x")];

        let ask = Action::LlmCall(llm_call("short"));
        let asked = frame(&ask.encode(Some("1"), &context.meta)?);
        let [ours, bare] = interleaved(
            effort.large_frames,
            [&mut || timed(1, || decoded(&runtime.block_on(link.call(&ask, context))?)), &mut || {
                timed(1, || {
                    exchange(raw, &asked, &mut reply)?;
                    Ok(serde_json::from_slice::<Value>(&reply)?)
                })
            }],
        )?;
        rows.push(Row::times("8 MB reply, to its chunks", ours, "read and parse as JSON", bare, "<= 1.3x"));

        let text = prose(LARGE_BYTES);
        let (send, plain) = (Action::LlmCall(llm_call(&text)), json!({"content": text}));
        let [ours, bare] = interleaved(
            effort.large_frames,
            [&mut || timed(1, || Ok(runtime.block_on(link.call(&send, context))?)), &mut || {
                timed(1, || {
                    // Room for the length, which is known last.
                    let mut frame = br#"    {"_msgId":"1","action":"ack","request":"#.to_vec();
                    serde_json::to_writer(&mut frame, &plain)?;
                    frame.push(b'}');
                    let length = u32::try_from(frame.len() - 4)?.to_be_bytes();
                    frame.splice(..4, length);
                    raw.write_all(&frame)?;
                    receive(raw, &mut reply)
                })
            }],
        )?;
        rows.push(Row::times("8 MB request", ours, "write as JSON and send", bare, "<= 1.3x"));
        Ok(rows)
    }
}

/// Wall time of one of `count` things.
fn timed<T>(count: u32, what: impl FnOnce() -> Outcome<T>) -> Outcome<Duration> {
    let start = Instant::now();
    std::hint::black_box(what()?);
    Ok(start.elapsed() / count)
}

/// What the turn does with a model's reply.
fn decoded(reply: &Reply) -> Outcome<Vec<Chunk>> {
    let chunks = reply.chunks()?;
    match chunks.iter().filter(|chunk| matches!(chunk, Chunk::Text(_))).count() {
        0 => Err("the large reply has no text".into()),
        _ => Ok(chunks),
    }
}

fn llm_call(text: &str) -> LlmCall {
    let messages = vec![Message::text(Role::User, text)];
    LlmCall { model: None, task_type: None, messages, tools: [].into(), max_tokens: None }
}

fn exchange(stream: &mut UnixStream, request: &[u8], reply: &mut Vec<u8>) -> Outcome<()> {
    stream.write_all(request)?;
    receive(stream, reply)
}

fn receive(stream: &mut UnixStream, reply: &mut Vec<u8>) -> Outcome<()> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    reply.resize(u32::from_be_bytes(header) as usize, 0);
    Ok(stream.read_exact(reply)?)
}

/// Answers `connections` clients until they have gone: a short `llm_call` with 8 MB, all else with a word.
fn serve(listener: UnixListener, connections: usize) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let large = large_fields();
        let threads: Vec<_> = listener
            .incoming()
            .take(connections)
            .flatten()
            .map(|stream| {
                let large = large.clone();
                std::thread::spawn(move || {
                    let Ok(mut wire) = Wire::over(stream) else { return };
                    while let Ok(request) = wire.receive() {
                        let wants_large = request.action == "llm_call" && wire.body().len() < LARGE_BYTES;
                        let fields = if wants_large { &large } else { r#""ok":true,"approved":true"# };
                        if wire.reply(&request.id, fields).is_err() {
                            return;
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| drop(thread.join()));
    })
}

/// A reply in the pieces a model streams: a few kilobytes each.
fn large_fields() -> String {
    let chunk = json!({"type": "text", "content": prose(4000)}).to_string();
    let chunks = vec![chunk.as_str(); LARGE_BYTES / chunk.len()].join(",");
    format!(r#""ok":true,"chunks":[{chunks},{{"type":"done"}}]"#)
}

/// Text with what JSON must escape and what it need not.
fn prose(bytes: usize) -> String {
    let line = "fn main() { println!(\"Grüße, 世界\\n\"); } // a line of code, and its end\n";
    let mut text = line.repeat(bytes / line.len());
    text.extend(std::iter::repeat_n(' ', bytes - text.len()));
    text
}
