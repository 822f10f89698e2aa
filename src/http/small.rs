//! One plain HTTP/1.1 exchange on a connection of its own: for the sidecar next door and for the host's verdict.
//!
//! Non-goals: TLS, redirects, reuse.

use super::dns::Names;
use crate::limits;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SmallError {
    /// Nobody listens there.
    #[error("{authority} cannot be reached: {cause}")]
    Unreachable {
        /// Host and port.
        authority: String,
        /// What the system says.
        cause: String,
    },
    /// The exchange broke off, or the answer is no HTTP or too long.
    #[error("{authority} gave no answer: {cause}")]
    Broken {
        /// Host and port.
        authority: String,
        /// What went wrong.
        cause: String,
    },
    /// It took too long.
    #[error("{authority} gave no answer within {seconds} s")]
    TooSlow {
        /// Host and port.
        authority: String,
        /// The time it had.
        seconds: u64,
    },
}

/// Posts `body` (JSON) to `authority`, a host with its port, and reads an answer of at most `max_bytes`, all within
/// `deadline`. Returns status and body.
pub async fn post(
    authority: &str,
    path: &str,
    body: Vec<u8>,
    max_bytes: usize,
    deadline: Duration,
) -> Result<(u16, Bytes), SmallError> {
    match tokio::time::timeout(deadline, exchange(authority, path, body, max_bytes)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(SmallError::TooSlow { authority: authority.to_owned(), seconds: deadline.as_secs() }),
    }
}

async fn exchange(authority: &str, path: &str, body: Vec<u8>, max_bytes: usize) -> Result<(u16, Bytes), SmallError> {
    let broken = |cause: String| SmallError::Broken { authority: authority.to_owned(), cause };
    let unreachable = |cause: String| SmallError::Unreachable { authority: authority.to_owned(), cause };
    let places = places(authority).await.map_err(unreachable)?;
    let stream = TcpStream::connect(&*places).await.map_err(|error| unreachable(error.to_string()))?;
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(HOST, authority)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| broken(error.to_string()))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(error.to_string()))?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|error| broken(error.to_string()))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), max_bytes).collect().await;
        Ok((status, body.map_err(|error| broken(error.to_string()))?.to_bytes()))
    };
    tokio::pin!(answer, connection);
    // Both on this task: when it is dropped the connection goes with it.
    tokio::select! {
        answer = &mut answer => answer,
        ended = &mut connection => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(broken(error.to_string())),
        },
    }
}

/// The addresses of a host with its port. A name is never left to the standard library, which asks the C library.
async fn places(authority: &str) -> Result<Vec<SocketAddr>, String> {
    if let Ok(place) = authority.parse() {
        return Ok(vec![place]);
    }
    let (name, port) = authority.rsplit_once(':').ok_or("it has no port")?;
    let port = port.parse().map_err(|_| "its port is not one")?;
    let found = Names::default().addresses(name, Instant::now() + limits::RESOLVE_DEADLINE).await;
    let found = found.map_err(|error| error.to_string())?;
    Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect())
}
