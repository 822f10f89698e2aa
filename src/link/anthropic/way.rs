//! The two ways to the Messages API: the credential proxy's socket (PROTOCOL §11.2), and the host over HTTP (§4.6).

use super::super::{CallContext, HttpLink};
use crate::http::unix::UnixClient;
use crate::http::{PostError, innermost};
use crate::limits;
use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::Response;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use std::io;
use std::sync::Arc;

/// A response's body, whichever way it came.
pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

pub(super) enum Way {
    Socket(UnixClient),
    Host(Arc<HttpLink>),
}

impl Way {
    /// Posts `body` and returns when the response's head is here.
    pub(super) async fn post(&self, context: &CallContext, body: Bytes) -> Result<Response<Body>, PostError> {
        match self {
            // The host puts the real key in its place.
            Self::Socket(client) => {
                let response = client.post("/v1/messages", headers("ax-proxy")?, body).await?;
                Ok(response.map(|body| body.map_err(io::Error::other).boxed_unsync()))
            }
            Self::Host(host) => {
                let token = context.token.as_ref().map_or("", |token| token.expose());
                let request = host.post("/internal/llm-proxy/v1/messages").headers(headers(token)?).body(body);
                let response = request.send().await.map_err(|error| match error.is_connect() {
                    true => PostError::Unreachable(innermost(&error)),
                    false => PostError::Broken(innermost(&error)),
                })?;
                Ok(Response::from(response).map(|body| body.map_err(io::Error::other).boxed_unsync()))
            }
        }
    }

    /// Is this what the host says when the turn's token is no longer one? The API's own words for a bad key are others.
    pub(super) fn is_over(&self, status: u16, words: &str) -> bool {
        matches!(self, Self::Host(_)) && status == 401 && words == "invalid token"
    }

    /// The largest body it takes.
    pub(super) fn max_bytes(&self) -> usize {
        match self {
            Self::Socket(_) => limits::ANTHROPIC_BODY_MAX_BYTES,
            Self::Host(_) => limits::ANTHROPIC_HTTP_BODY_MAX_BYTES,
        }
    }
}

fn headers(key: &str) -> Result<HeaderMap, PostError> {
    let mut key = HeaderValue::try_from(key).map_err(|error| PostError::Request(error.to_string()))?;
    key.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    headers.insert("x-api-key", key);
    Ok(headers)
}
