//! Model calls over a strict fake of the Messages API on a Unix socket.

use ax_runner::link::{AnthropicLink, BoxFuture, CallContext, CallError, HostLink};
use ax_runner::wire::{Action, Block, Chunk, LlmCall, Message, Reply, Role, ToolSpec, Usage};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

mod over_http;
mod tour;

/// The host behind it: answers everything with its name.
struct Inner;

impl HostLink for Inner {
    fn call<'a>(&'a self, action: &'a Action, _: &'a CallContext) -> BoxFuture<'a, Result<Reply, CallError>> {
        let body = json!({"ok": true, "inner": action.name()}).to_string();
        Box::pin(async move { Ok(Reply::new(body.into_bytes())) })
    }

    fn request_max_bytes(&self) -> usize {
        10_000_000
    }
}

/// The service: `answer` gets each request's body and its number, from 0, among the requests with the same last text.
struct Service {
    directory: TempDir,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Service {
    fn start(answer: impl Fn(&Value, usize) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("anthropic.sock")).unwrap();
        let requests: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (kept, answer) = (requests.clone(), Arc::new(answer));
        let counts: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (kept, answer, counts) = (kept.clone(), answer.clone(), counts.clone());
                tokio::spawn(async move {
                    let Some(body) = request(&mut stream).await else { return };
                    let reply = match objection(&body) {
                        Some(words) => error(400, "invalid_request_error", &words),
                        None => {
                            let key = body["messages"][0]["content"][0]["text"].as_str().unwrap_or("").to_owned();
                            let number = {
                                let mut counts = counts.lock().unwrap();
                                let count = counts.entry(key).or_insert(0);
                                *count += 1;
                                *count - 1
                            };
                            answer(&body, number)
                        }
                    };
                    kept.lock().unwrap().push(body);
                    let stalls = reply.ends_with(b"STALL");
                    let _ = stream.write_all(reply.strip_suffix(b"STALL").unwrap_or(&reply)).await;
                    if stalls {
                        std::future::pending::<()>().await;
                    }
                });
            }
        });
        Self { directory, requests }
    }

    fn link(&self) -> AnthropicLink {
        self.link_with(Duration::from_secs(20))
    }

    fn link_with(&self, timeout: Duration) -> AnthropicLink {
        AnthropicLink::new(Arc::new(Inner), self.socket(), timeout)
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("anthropic.sock")
    }

    fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

async fn request(stream: &mut UnixStream) -> Option<Value> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 65536];
    loop {
        let read = stream.read(&mut buffer).await.ok()?;
        bytes.extend_from_slice(&buffer[..read]);
        if let Some(cut) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..cut]).to_lowercase();
            let header =
                |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).map(str::to_owned);
            let length: usize = header("content-length:")?.parse().ok()?;
            if bytes.len() >= cut + 4 + length {
                assert!(head.starts_with("post /v1/messages http/1.1"), "{head}");
                assert_eq!(header("host:").as_deref(), Some("localhost"));
                assert_eq!(header("x-api-key:").as_deref(), Some("ax-proxy"));
                assert_eq!(header("anthropic-version:").as_deref(), Some("2023-06-01"));
                return serde_json::from_slice(&bytes[cut + 4..]).ok();
            }
        }
        if read == 0 {
            return None;
        }
    }
}

/// What the API would object to.
fn objection(body: &Value) -> Option<String> {
    let known = ["model", "max_tokens", "stream", "messages", "system", "tools"];
    let unknown = body.as_object()?.keys().find(|key| !known.contains(&key.as_str()));
    if let Some(key) = unknown {
        return Some(format!("{key}: Extra inputs are not permitted"));
    }
    if body["stream"] != true || !body["max_tokens"].is_u64() || !body["model"].is_string() {
        return Some("stream, max_tokens or model".to_owned());
    }
    let messages = body["messages"].as_array()?;
    let mut open: HashSet<String> = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        let wanted = if at % 2 == 0 { "user" } else { "assistant" };
        if message["role"] != wanted {
            return Some(format!("messages.{at}: roles must alternate"));
        }
        let content = message["content"].as_array()?;
        if content.is_empty() {
            return Some(format!("messages.{at}: content must not be empty"));
        }
        let mut uses = HashSet::new();
        for block in content {
            match block["type"].as_str()? {
                "text" if block["text"].as_str()?.trim().is_empty() => {
                    return Some("text must be non-empty".to_owned());
                }
                "tool_use" => drop(uses.insert(block["id"].as_str()?.to_owned())),
                "tool_result" if !open.remove(block["tool_use_id"].as_str()?) => {
                    return Some("unexpected tool_use_id".to_owned());
                }
                _ => {}
            }
        }
        if !open.is_empty() {
            return Some("tool_use ids were found without tool_result blocks".to_owned());
        }
        open = uses;
    }
    None
}

fn error(status: u16, kind: &str, words: &str) -> Vec<u8> {
    let body = json!({"type": "error", "error": {"type": kind, "message": words}}).to_string();
    let wait = if status == 429 { "retry-after: 0\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{wait}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A stream of events after a head; its end is the connection's.
fn stream(events: &[Value]) -> Vec<u8> {
    let mut text = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_owned();
    for event in events {
        text.push_str(&format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
    }
    text.into_bytes()
}

fn text(index: u32, pieces: &[&str]) -> Vec<Value> {
    let mut events =
        vec![json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}})];
    events.extend(pieces.iter().map(
        |piece| json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": piece}}),
    ));
    events.push(json!({"type": "content_block_stop", "index": index}));
    events
}

fn call(index: u32, id: &str, pieces: &[&str]) -> Vec<Value> {
    let block = json!({"type": "tool_use", "id": id, "name": "bash", "input": {}});
    let mut events = vec![json!({"type": "content_block_start", "index": index, "content_block": block})];
    events.extend(pieces.iter().map(
        |piece| json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": piece}}),
    ));
    events.push(json!({"type": "content_block_stop", "index": index}));
    events
}

fn message(parts: Vec<Vec<Value>>, stop: &str) -> Vec<Value> {
    let usage = json!({"input_tokens": 10, "cache_creation_input_tokens": 200, "cache_read_input_tokens": 3000, "output_tokens": 1});
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "m", "role": "assistant", "usage": usage}}),
        json!({"type": "ping"}),
    ];
    events.extend(parts.into_iter().flatten());
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 42}}));
    events.push(json!({"type": "message_stop"}));
    events
}

fn ask(words: &str) -> Action {
    let tool = ToolSpec::new("bash", "d", &json!({"type": "object"}));
    Action::LlmCall(LlmCall {
        model: Some("m".into()),
        task_type: None,
        messages: vec![Message::text(Role::System, "s"), Message::text(Role::User, words)],
        tools: [tool].into(),
        max_tokens: Some(100),
    })
}

async fn send(link: &AnthropicLink, action: &Action) -> Result<Reply, CallError> {
    let context = CallContext::default();
    tokio::time::timeout(Duration::from_secs(60), link.call(action, &context)).await.expect("hangs")
}

fn said(reply: &Reply) -> (String, Vec<(String, String)>, Usage) {
    reply.accepted().unwrap();
    let (mut text, mut calls, mut usage) = (String::new(), Vec::new(), Usage::default());
    for chunk in reply.chunks().unwrap() {
        match chunk {
            Chunk::Text(piece) => text.push_str(&piece),
            Chunk::ToolUse(call) => {
                calls.push((call.id, call.args.map_or_else(String::new, |raw| raw.get().to_owned())))
            }
            Chunk::Done(done) => usage = done,
            Chunk::Cut | Chunk::Other => {}
        }
    }
    (text, calls, usage)
}

fn full() -> Vec<u8> {
    let thinking = vec![
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
        json!({"type": "content_block_stop", "index": 0}),
    ];
    let parts = vec![
        thinking,
        text(1, &["Hel", "lo \u{1f600}"]),
        call(2, "tu_1", &["{\"comm", "and\":\"ls\"}"]),
        call(3, "tu_2", &[]),
    ];
    stream(&message(parts, "tool_use"))
}

fn check_full(reply: &Reply) {
    let (text, calls, usage) = said(reply);
    assert_eq!(text, "Hello \u{1f600}");
    let wanted = [("tu_1", r#"{"command":"ls"}"#), ("tu_2", "{}")].map(|(id, args)| (id.to_owned(), args.to_owned()));
    assert_eq!(calls, wanted);
    assert_eq!(usage, Usage { input_tokens: 3210, output_tokens: 42 });
}

#[tokio::test]
async fn text_calls_and_usage() {
    let service = Service::start(|_, _| full());
    let link = service.link();
    check_full(&send(&link, &ask("x")).await.unwrap());
    assert_eq!(link.request_max_bytes(), 4_194_304);
    let reply = send(&link, &Action::FetchWork {}).await.unwrap();
    assert_eq!(reply.read::<Value>().unwrap()["inner"], "fetch_work", "the rest goes to the host");
}

#[tokio::test]
async fn results_are_accepted_by_a_strict_service() {
    let service = Service::start(|_, _| full());
    let uses = ["a", "b"].map(|id| Block::ToolUse { id: id.into(), name: "bash".into(), input: json!({}) }).to_vec();
    let result =
        |id: &str| Message::blocks(Role::User, vec![Block::ToolResult { tool_use_id: id.into(), content: "r".into() }]);
    let mut action = ask("go");
    let Action::LlmCall(call) = &mut action else { unreachable!() };
    call.messages.extend([Message::blocks(Role::Assistant, uses), result("a"), result("b")]);
    check_full(&send(&service.link(), &action).await.unwrap());
}

/// Wherever the stream is cut, the call is made again and its reply is whole.
#[tokio::test]
async fn a_reply_cut_at_any_byte_is_asked_for_again() {
    let whole = full();
    let service = Service::start(move |body, number| {
        let at: usize = body["messages"][0]["content"][0]["text"].as_str().unwrap().parse().unwrap();
        if number == 0 { full()[..at].to_vec() } else { full() }
    });
    let link = Arc::new(service.link());
    let cuts: Vec<usize> = (0..whole.len()).collect();
    for batch in cuts.chunks(250) {
        let mut tasks = tokio::task::JoinSet::new();
        for at in batch.iter().copied() {
            let link = link.clone();
            tasks.spawn(async move { (at, send(&link, &ask(&at.to_string())).await) });
        }
        while let Some(done) = tasks.join_next().await {
            let (at, reply) = done.unwrap();
            check_full(&reply.unwrap_or_else(|error| panic!("cut at {at}: {error}")));
        }
    }
    assert_eq!(service.count(), 2 * whole.len());
}

#[tokio::test]
async fn what_passes_is_repeated_and_what_lasts_is_not() {
    let service = Service::start(|body, number| match body["messages"][0]["content"][0]["text"].as_str().unwrap() {
        "401" => error(401, "authentication_error", "no credentials"),
        "400" => error(400, "invalid_request_error", "bad"),
        "413" => error(413, "request_too_large", "big"),
        "429" if number < 2 => error(429, "rate_limit_error", "slow down"),
        "500" if number < 1 => error(500, "api_error", "oops"),
        "529" => error(529, "overloaded_error", "busy"),
        "event" if number < 1 => {
            let complaint = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
            stream(&[text(0, &["half an ans"]), vec![complaint]].concat())
        }
        "event_lasting" => {
            stream(&[json!({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}})])
        }
        "rubbish" => b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\ndata: {\"type\":\n\n".to_vec(),
        "html" => b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 14\r\n\r\n<html>no</html".to_vec(),
        _ => full(),
    });
    let link = service.link();
    for (case, requests, wanted) in [
        ("401", 1, Some("the host has no valid credentials for the model (authentication_error: no credentials)")),
        ("400", 1, Some("the model refused the request with status 400 X (invalid_request_error: bad)")),
        ("413", 1, Some("the conversation is too large for the model (request_too_large: big)")),
        ("429", 3, None),
        ("500", 2, None),
        ("529", 3, Some("the model is overloaded (overloaded_error: busy)")),
        ("event", 2, None),
        ("event_lasting", 1, Some("the model's service failed (invalid_request_error: no)")),
        ("rubbish", 3, Some("the model's reply holds an event that cannot be read ()")),
        ("html", 3, Some("the model's service failed with status 502 Bad Gateway (<html>no</html)")),
    ] {
        let before = service.count();
        match (send(&link, &ask(case)).await, wanted) {
            (Ok(reply), None) => check_full(&reply),
            (Err(CallError::BadAnswer(words)), Some(wanted)) => {
                assert_eq!(words.replace("400 Bad Request", "400 X"), wanted)
            }
            (outcome, _) => panic!("{case}: {outcome:?}"),
        }
        assert_eq!(service.count() - before, requests, "{case}");
    }
}

#[tokio::test]
async fn limits_hold() {
    let service = Service::start(|body, _| match body["messages"][0]["content"][0]["text"].as_str().unwrap() {
        "stall" => [&full()[..400], b"STALL"].concat(),
        "silent" => b"STALL".to_vec(),
        "endless" => [stream(&[]), b"data: ".to_vec(), vec![b'x'; 9 << 20]].concat(),
        _ => full(),
    });
    // Long enough for a busy machine to connect and answer in.
    let link = service.link_with(Duration::from_millis(1_500));
    for case in ["stall", "silent"] {
        assert_eq!(send(&link, &ask(case)).await.unwrap_err(), CallError::NoReply(1_500), "{case}");
    }
    let link = service.link();
    let before = service.count();
    let large = "x".repeat(4_200_000);
    assert!(matches!(send(&link, &ask(&large)).await, Err(CallError::TooLarge { max: 4_194_304, .. })));
    assert_eq!(service.count(), before, "nothing was sent");
    assert!(matches!(send(&link, &ask("endless")).await, Err(CallError::BadAnswer(_))));
    assert_eq!(service.count(), before + 1, "asked once");
    let nowhere = AnthropicLink::new(Arc::new(Inner), service.directory.path().join("none"), Duration::from_secs(5));
    assert!(matches!(send(&nowhere, &ask("x")).await, Err(CallError::NotSent(_))));
}

#[tokio::test]
async fn a_pause_is_continued_and_other_ends_are_told() {
    let service = Service::start(|body, number| match body["messages"][0]["content"][0]["text"].as_str().unwrap() {
        "pause" if number < 2 => stream(&message(vec![text(0, &[&format!("part {number}. ")])], "pause_turn")),
        "pause" => stream(&message(vec![text(0, &["the end"])], "end_turn")),
        "always" => stream(&message(vec![text(0, &["."])], "pause_turn")),
        "cut" => stream(&message(vec![text(0, &["half"])], "max_tokens")),
        "no" => stream(&message(vec![], "refusal")),
        _ => full(),
    });
    let link = service.link();
    let (text, _, usage) = said(&send(&link, &ask("pause")).await.unwrap());
    assert_eq!((text.as_str(), usage.output_tokens), ("part 0. part 1. the end", 126));
    let last = service.requests.lock().unwrap()[2].clone();
    assert_eq!(last["messages"][1]["role"], "assistant");
    assert_eq!(last["messages"][1]["content"].as_array().unwrap().len(), 2);
    assert!(said(&send(&link, &ask("always")).await.unwrap()).0.contains("[The model paused more than 3 times"));
    assert_eq!(service.count(), 3 + 4);
    // That it was cut is the loop's to say, and the figure stays the provider's.
    let cut = send(&link, &ask("cut")).await.unwrap();
    assert!(cut.chunks().unwrap().iter().any(|chunk| matches!(chunk, Chunk::Cut)));
    let (text, _, usage) = said(&cut);
    assert_eq!((text.as_str(), usage.output_tokens), ("half", 42));
    let words = send(&link, &ask("no")).await.unwrap().accepted().unwrap_err();
    assert!(words.contains("declined"), "{words}");
}
