//! HTTP clients. The runner's own traffic never goes through a proxy and never follows a redirect.

pub mod dns;
pub mod small;
pub mod sse;
pub mod tcp;
pub mod unix;

/// The innermost cause of an error; the outer layers repeat the URL, or say only "client error".
pub(crate) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// Nobody listens there, or the queue is full.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// The exchange broke off.
    #[error("the connection broke off: {0}")]
    Broken(String),
    /// The request cannot be put into HTTP.
    #[error("the request cannot be sent: {0}")]
    Request(String),
}
