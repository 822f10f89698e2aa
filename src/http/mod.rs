//! HTTP clients. The runner's own traffic never goes through a proxy and never follows a redirect.

pub mod dns;
pub mod small;
pub mod sse;
pub mod tcp;
pub mod unix;

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
