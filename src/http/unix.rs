//! The client for HTTP over a Unix socket.

use super::PostError;
use crate::limits;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use hyperlocal::UnixConnector;
use std::path::PathBuf;

/// Posts to one socket, each request on a connection of its own: whether a kept one is still alive cannot be known, and
/// a model call is too dear to be sent twice by the client's own decision.
#[derive(Clone)]
pub struct UnixClient {
    client: Client<UnixConnector, Full<Bytes>>,
    socket: PathBuf,
}

impl UnixClient {
    /// A client for `socket`. Connects with each request.
    pub fn new(socket: PathBuf) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .retry_canceled_requests(false)
            .build(UnixConnector);
        Self { client, socket }
    }

    /// Posts `body` and returns when the response's head is here.
    pub async fn post(&self, path: &str, headers: HeaderMap, body: Bytes) -> Result<Response<Incoming>, PostError> {
        let request = |error: &dyn std::fmt::Display| PostError::Request(error.to_string());
        let mut message = Request::builder()
            .method(Method::POST)
            .uri(hyperlocal::Uri::new(&self.socket, path))
            .body(Full::new(body))
            .map_err(|error| request(&error))?;
        *message.headers_mut() = headers;
        // The client's own would be the socket's path in hexadecimal.
        message.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
        self.client.request(message).await.map_err(|error| match error.is_connect() {
            true => PostError::Unreachable(cause(&error)),
            false => PostError::Broken(cause(&error)),
        })
    }
}

fn cause(error: &hyper_util::client::legacy::Error) -> String {
    crate::text::cut_units(&super::innermost(error), limits::HTTP_ERROR_BODY_UNITS).to_owned()
}
