//! What a host has seen.

use bytes::Bytes;
use serde_json::Value;
use std::time::Duration;

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    /// Position among all requests, from 0.
    pub index: usize,
    /// Since the host's start.
    pub at: Duration,
    /// Which connection it came on, from 1.
    pub connection: usize,
    /// Its action; empty when it has none.
    pub action: String,
    /// Its bytes.
    pub raw: Bytes,
    /// Its JSON; `null` when it is none.
    pub value: Value,
    /// `false` when a fault dropped it first.
    pub carried_out: bool,
}

/// A rule the runner broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The request's action; empty when it has none.
    pub action: String,
    /// Which rule.
    pub message: String,
}

/// An answer that came by `agent_response`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its text.
    pub content: String,
    /// The turn it is for.
    pub request_id: Option<String>,
}
