//! HTTP IPC (PROTOCOL §4): one POST a call, the turn's token on each.

use super::{BoxFuture, CallContext, CallError, HostLink};
use crate::http::innermost;
use crate::http::tcp::{self, ClientError, Reuse};
use crate::limits;
use crate::wire::{Action, Meta, Reply};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, StatusCode};
use std::future::Future;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// The link of the HTTP mode.
pub struct HttpLink {
    base: String,
    llm_timeout: Duration,
    clients: RwLock<Clients>,
}

/// One client for each way to use connections; clones share them.
#[derive(Clone)]
struct Clients {
    pooled: Client,
    fresh: Client,
}

impl Clients {
    fn new(authority: Option<&str>) -> Result<Self, ClientError> {
        Ok(Self { pooled: tcp::client(Reuse::Pooled, authority)?, fresh: tcp::client(Reuse::Fresh, authority)? })
    }
}

impl HttpLink {
    /// A link to the host at `base` (`AX_HOST_URL`). Connects with the first call.
    pub fn new(base: &str, llm_timeout: Duration) -> Result<Self, ClientError> {
        Ok(Self { base: base.trim_end_matches('/').to_owned(), llm_timeout, clients: RwLock::new(Clients::new(None)?) })
    }

    fn clients(&self) -> Clients {
        self.clients.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Repeats where it is safe: once after a lost connection, a few times when the host says it is busy.
    async fn exchange(&self, action: &Action, context: &CallContext) -> Result<Reply, CallError> {
        let body = encode(action, &context.meta)?;
        let (silence, patience) = times(action, self.llm_timeout);
        let deadline = Instant::now() + patience;
        let (mut unreached, mut lost, mut busy) = (0, false, 0);
        let clients = self.clients();
        loop {
            // A kept connection may be stale, so it is only for what can be repeated, and never for the repetition.
            let client = if action.repeatable() && !lost { &clients.pooled } else { &clients.fresh };
            let request = self.request(client, body.clone(), context);
            let Some(outcome) = in_time(deadline.min(Instant::now() + silence), attempt(request)).await else {
                return Err(CallError::NoReply(silence.as_millis()));
            };
            match outcome {
                Attempt::Reply(reply) => return Ok(reply),
                Attempt::Failed(error) => return Err(error),
                Attempt::Unreached(detail) => {
                    let Some(pause) = limits::RECONNECT_PAUSES.get(unreached) else {
                        return Err(match lost {
                            true => CallError::OutcomeUnknown,
                            false => CallError::NotSent(format!("IPC {} failed: {detail}", action.name())),
                        });
                    };
                    tokio::time::sleep(*pause).await;
                    unreached += 1;
                }
                Attempt::Lost if !lost && action.repeatable() => {
                    tokio::time::sleep(limits::HTTP_LOST_PAUSE).await;
                    lost = true;
                }
                Attempt::Lost => return Err(CallError::OutcomeUnknown),
                Attempt::Unsaid(status) => {
                    let error = CallError::BadAnswer(format!("the host answered {} without a reply", words(status)));
                    return Err(if action.repeatable() { error } else { in_doubt(error) });
                }
                Attempt::Busy { wait, seen, most, error } => {
                    let safe = !seen || action.repeatable();
                    let pause = tcp::pause(wait, busy);
                    let error = if safe { error } else { in_doubt(error) };
                    if !safe || busy >= most || Instant::now() + pause >= deadline {
                        return Err(error);
                    }
                    busy += 1;
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    fn request(&self, client: &Client, body: Vec<u8>, context: &CallContext) -> reqwest::RequestBuilder {
        client.post(format!("{}/internal/ipc", self.base)).headers(headers(context)).body(body)
    }

    /// A request to another of the host's paths, on a connection of its own.
    pub(super) fn post(&self, path: &str) -> reqwest::RequestBuilder {
        self.clients().fresh.post(format!("{}{path}", self.base))
    }
}

impl HostLink for HttpLink {
    fn call<'a>(&'a self, action: &'a Action, context: &'a CallContext) -> BoxFuture<'a, Result<Reply, CallError>> {
        Box::pin(self.exchange(action, context))
    }

    fn request_max_bytes(&self) -> usize {
        limits::HTTP_BODY_MAX_BYTES
    }

    fn trust(&self, authority: &str) {
        if !self.base.starts_with("https:") {
            return;
        }
        match Clients::new(Some(authority)) {
            Ok(clients) => *self.clients.write().unwrap_or_else(PoisonError::into_inner) = clients,
            Err(error) => {
                tracing::warn!(component = "http-ipc-client", error = %error, "certificate_authority_ignored")
            }
        }
    }
}

fn encode(action: &Action, meta: &Meta) -> Result<Vec<u8>, CallError> {
    // Always present over HTTP: an absent session id would be taken from the token (PROTOCOL §4.1).
    let meta = Meta { session_id: Some(meta.session_id.clone().unwrap_or_default()), ..meta.clone() };
    let body = action.encode(None, &meta).map_err(|_| CallError::Unencodable)?;
    let max = limits::HTTP_BODY_MAX_BYTES;
    if body.len() > max {
        return Err(CallError::TooLarge { bytes: body.len(), max });
    }
    Ok(body)
}

/// A server's error says nothing about what was done before it.
fn in_doubt(error: CallError) -> CallError {
    match error {
        CallError::BadAnswer(words) => CallError::InDoubt(words),
        other => other,
    }
}

/// `None` when the time is over. Found out late – the process was stopped, or the machine slept – the reply may be there
/// all the same, so it gets a moment to be read.
async fn in_time<T>(deadline: Instant, work: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(work);
    match tokio::time::timeout_at(deadline, &mut work).await {
        Ok(done) => Some(done),
        Err(_) if deadline.elapsed() < limits::LATE => None,
        Err(_) => tokio::time::timeout(limits::LINK_DRAIN, work).await.ok(),
    }
}

/// How long a silent host is waited for, and how long one that is away or busy. Nothing keeps a slow call alive here, so
/// only the model's limit is the configured one (PROTOCOL T20).
fn times(action: &Action, llm: Duration) -> (Duration, Duration) {
    match action {
        Action::LlmCall(_) => (llm, llm),
        Action::AgentResponse { .. } => (limits::ANSWER_TIMEOUT, limits::HTTP_ANSWER_PATIENCE),
        other => {
            let time = other.timeout(llm).max(limits::HTTP_CALL_TIMEOUT);
            (time, time)
        }
    }
}

fn headers(context: &CallContext) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let token = context.token.as_ref().map(|token| format!("Bearer {}", token.expose()));
    if let Some(mut value) = token.and_then(|value| HeaderValue::try_from(value).ok()) {
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    headers
}

enum Attempt {
    Reply(Reply),
    Failed(CallError),
    /// No connection: the host cannot have seen it.
    Unreached(String),
    /// The connection ended before the reply was whole.
    Lost,
    /// A success without a reply.
    Unsaid(StatusCode),
    /// The host, or something before it, asks for patience. `seen`: the action may have been carried out.
    Busy {
        wait: Option<Duration>,
        seen: bool,
        /// How often it may be repeated at most.
        most: u32,
        error: CallError,
    },
}

async fn attempt(request: reqwest::RequestBuilder) -> Attempt {
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) if error.is_connect() => return Attempt::Unreached(innermost(&error)),
        Err(_) => return Attempt::Lost,
    };
    let status = response.status();
    let wait = tcp::retry_after(response.headers(), SystemTime::now());
    let body = match read_body(response).await {
        Ok(body) => body,
        Err(attempt) => return attempt,
    };
    let busy = |seen, most| Attempt::Busy { wait, seen, most, error: refused(status, &body) };
    match status {
        StatusCode::UNAUTHORIZED => Attempt::Failed(CallError::TurnOver),
        // None of these has carried anything out.
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => {
            busy(false, limits::HTTP_BUSY_RETRIES)
        }
        StatusCode::SERVICE_UNAVAILABLE => busy(true, limits::HTTP_BUSY_RETRIES),
        // It may have been carried out, and is repeated once, as after a lost connection.
        _ if status.is_server_error() => busy(true, 1),
        // Whatever kind of success: the envelope decides.
        _ if status.is_success() && !body.is_empty() => Attempt::Reply(Reply::new(body)),
        _ if status.is_success() => Attempt::Unsaid(status),
        _ => Attempt::Failed(refused(status, &body)),
    }
}

/// The body, bounded in size and in silence. A gzip bomb stays a few bytes: nothing here decompresses.
async fn read_body(mut response: Response) -> Result<Vec<u8>, Attempt> {
    let mut body = Vec::new();
    loop {
        match tokio::time::timeout(limits::HTTP_BODY_SILENCE, response.chunk()).await {
            Ok(Ok(Some(chunk))) if body.len() + chunk.len() > limits::HTTP_REPLY_MAX_BYTES => {
                let error = format!("the host's reply is larger than {} bytes", limits::HTTP_REPLY_MAX_BYTES);
                return Err(Attempt::Failed(CallError::BadAnswer(error)));
            }
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
            Ok(Ok(None)) => return Ok(body),
            Ok(Err(_)) | Err(_) => return Err(Attempt::Lost),
        }
    }
}

fn refused(status: StatusCode, body: &[u8]) -> CallError {
    let text = String::from_utf8_lossy(body);
    let text = crate::text::cut_units(text.trim(), limits::HTTP_ERROR_BODY_UNITS);
    let colon = if text.is_empty() { "" } else { ": " };
    CallError::BadAnswer(format!("the host answered {}{colon}{text}", words(status)))
}

fn words(status: StatusCode) -> String {
    format!("HTTP {} {}", status.as_u16(), status.canonical_reason().unwrap_or_default()).trim_end().to_owned()
}
