//! Model calls over the Anthropic Messages API, which the host gives its credentials to (PROTOCOL §4.6, §11.2).
//!
//! A link in front of another: `llm_call` becomes a request to the Messages API and its stream becomes the reply the
//! host would have given, so the loop and everything above know nothing of it. All other actions go on to the host.

mod outcome;
mod request;
pub(crate) mod stream;
mod way;

use super::{BoxFuture, CallContext, CallError, HostLink, HttpLink};
use crate::http::PostError;
use crate::http::sse::{Events, SseError};
use crate::http::tcp;
use crate::http::unix::UnixClient;
use crate::limits;
use crate::text::cut_units;
use crate::wire::{Action, LlmCall, Reply};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::Response;
use outcome::Outcome;
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use stream::{Message, StreamError};
use way::{Body, Way};

/// The link. `inner` carries everything that is not a model call.
pub struct AnthropicLink {
    inner: Arc<dyn HostLink>,
    way: Way,
    timeout: Duration,
}

/// Why one attempt brought no message.
enum Failure {
    /// Another attempt may succeed, after this pause if one was asked for.
    Passing { error: CallError, wait: Option<Duration> },
    /// It would fail again.
    Lasting(CallError),
}

impl AnthropicLink {
    /// Model calls go to `socket`; `timeout` is the silence after which one is given up.
    pub fn new(inner: Arc<dyn HostLink>, socket: PathBuf, timeout: Duration) -> Self {
        Self { inner, way: Way::Socket(UnixClient::new(socket)), timeout }
    }

    /// Model calls go to the host's own proxy, with the turn's token.
    pub fn over_http(inner: Arc<HttpLink>, timeout: Duration) -> Self {
        Self { inner: inner.clone(), way: Way::Host(inner), timeout }
    }

    async fn llm_call(&self, call: &LlmCall, context: &CallContext) -> Result<Reply, CallError> {
        let max_tokens = call.max_tokens.unwrap_or(limits::MAX_TOKENS_DEFAULT);
        let mut body = request::body(call, max_tokens);
        let mut said = Outcome::new(max_tokens);
        for _ in 0..=limits::ANTHROPIC_PAUSES_MAX {
            let message = self.message(&body, context).await?;
            let paused = message.paused();
            if paused {
                request::go_on(&mut body, &message);
            }
            said.add(message);
            if !paused {
                break;
            }
        }
        said.reply()
    }

    /// One message of the API, asked for again while that may help. A model call changes nothing, so it may be repeated.
    async fn message(&self, body: &Value, context: &CallContext) -> Result<Message, CallError> {
        let body = Bytes::from(body.to_string());
        let max = self.way.max_bytes();
        if body.len() > max {
            return Err(CallError::TooLarge { bytes: body.len(), max });
        }
        let mut attempt = 0;
        loop {
            let (error, wait) = match self.attempt(body.clone(), context).await {
                Ok(message) => return Ok(message),
                Err(Failure::Lasting(error)) => return Err(error),
                Err(Failure::Passing { error, wait }) => (error, wait),
            };
            if attempt >= limits::ANTHROPIC_RETRIES {
                return Err(error);
            }
            tracing::warn!(component = "anthropic", error = %error, attempt, "model_call_repeated");
            tokio::time::sleep(wait.unwrap_or(limits::HTTP_BUSY_PAUSE * 2_u32.pow(attempt))).await;
            attempt += 1;
        }
    }

    async fn attempt(&self, body: Bytes, context: &CallContext) -> Result<Message, Failure> {
        let silence = || Failure::Lasting(CallError::NoReply(self.timeout.as_millis()));
        let response = match tokio::time::timeout(self.timeout, self.way.post(context, body)).await {
            Err(_) => return Err(silence()),
            Ok(Ok(response)) => response,
            Ok(Err(PostError::Request(error))) => return Err(Failure::Lasting(CallError::BadAnswer(error))),
            Ok(Err(error @ PostError::Unreachable(_))) => {
                let error = CallError::NotSent(format!("the model's proxy: {error}"));
                return Err(Failure::Passing { error, wait: None });
            }
            Ok(Err(error)) => {
                let error = CallError::BadAnswer(format!("the model's proxy: {error}"));
                return Err(Failure::Passing { error, wait: None });
            }
        };
        if response.status() != hyper::StatusCode::OK {
            return Err(self.refusal(response).await);
        }
        let mut events = Events::of_body(response.into_body());
        stream::read(&mut events, self.timeout).await.map_err(|error| match error {
            StreamError::Silent => silence(),
            StreamError::Refused { passing, words } => failure(passing, words, None),
            StreamError::TooLong | StreamError::Unreadable(SseError::TooLong) => {
                failure(false, error.to_string(), None)
            }
            error => failure(true, error.to_string(), None),
        })
    }

    /// What a response that is not 200 says.
    async fn refusal(&self, response: Response<Body>) -> Failure {
        let status = response.status();
        let wait = tcp::retry_after(response.headers(), SystemTime::now())
            .map(|asked| asked.min(limits::HTTP_RETRY_AFTER_MAX));
        let body = Limited::new(response.into_body(), limits::SIDECAR_REPLY_MAX_BYTES).collect();
        let body = match tokio::time::timeout(limits::HTTP_BODY_SILENCE.min(self.timeout), body).await {
            Ok(Ok(body)) => body.to_bytes(),
            _ => Bytes::new(),
        };
        let words = words(&body);
        if self.way.is_over(status.as_u16(), &words) {
            return Failure::Lasting(CallError::TurnOver);
        }
        let text = match status.as_u16() {
            401 | 403 => format!("the host has no valid credentials for the model ({words})"),
            404 => format!("the model's proxy does not know this model or this request ({words})"),
            413 => format!("the conversation is too large for the model ({words})"),
            429 => format!("the model's rate limit is reached ({words})"),
            529 => format!("the model is overloaded ({words})"),
            500.. => format!("the model's service failed with status {status} ({words})"),
            _ => format!("the model refused the request with status {status} ({words})"),
        };
        failure(status.is_server_error() || matches!(status.as_u16(), 408 | 429), text, wait)
    }
}

impl HostLink for AnthropicLink {
    fn call<'a>(&'a self, action: &'a Action, context: &'a CallContext) -> BoxFuture<'a, Result<Reply, CallError>> {
        match action {
            Action::LlmCall(call) => Box::pin(self.llm_call(call, context)),
            _ => self.inner.call(action, context),
        }
    }

    fn gone(&self) -> BoxFuture<'_, ()> {
        self.inner.gone()
    }

    fn request_max_bytes(&self) -> usize {
        self.way.max_bytes()
    }

    fn trust(&self, authority: &str) {
        self.inner.trust(authority);
    }
}

fn failure(passing: bool, words: String, wait: Option<Duration>) -> Failure {
    let error = CallError::BadAnswer(words);
    if passing { Failure::Passing { error, wait } } else { Failure::Lasting(error) }
}

/// The API's own words for an error.
fn words(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Envelope {
        error: Error,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Error {
        Typed {
            #[serde(rename = "type")]
            kind: String,
            message: String,
        },
        Plain(String),
    }
    let text = match serde_json::from_slice::<Envelope>(body) {
        Ok(Envelope { error: Error::Typed { kind, message } }) => format!("{kind}: {message}"),
        Ok(Envelope { error: Error::Plain(text) }) => text,
        Err(_) => String::from_utf8_lossy(body).trim().to_owned(),
    };
    let text = cut_units(&text, limits::HTTP_ERROR_BODY_UNITS).trim().to_owned();
    if text.is_empty() { "no reason given".to_owned() } else { text }
}
