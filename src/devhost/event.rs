//! What happens on the host, for whoever shows or records it.

use serde_json::Value;

/// One thing that happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A runner connected, or was dialled.
    Connected,
    /// A connection ended.
    Disconnected,
    /// A request arrived.
    Request {
        /// Its action; empty when it has none.
        action: String,
        /// The whole request.
        value: Value,
    },
    /// The model answered.
    Model {
        /// Its text.
        text: String,
        /// The tools it calls.
        calls: Vec<String>,
    },
    /// A call was judged.
    Judged {
        /// The `sandbox_approve` request.
        request: Value,
        /// `allowed`, `denied: …`, `no answer` or `answered …`.
        verdict: String,
    },
    /// A call's outcome was reported.
    Reported {
        /// The `sandbox_result` request.
        request: Value,
    },
    /// A forwarded action was answered.
    Forwarded {
        /// The action.
        action: String,
        /// The reply.
        reply: String,
    },
    /// The turn's answer came by `agent_response`.
    Answer {
        /// Its text.
        content: String,
    },
    /// The runner broke a rule.
    Violation(String),
    /// A fault was carried out.
    Fault(String),
    /// A line of the runner's stderr.
    Stderr(String),
}

/// Who is told.
pub type Listener = Box<dyn Fn(&Event) + Send + Sync>;
