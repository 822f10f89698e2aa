//! The tools: a verb a file; arguments in, result out. They know neither the model nor the socket.

#[cfg(target_os = "linux")]
pub mod bash;

use crate::wire::Report;

/// How a local tool ended: what the model reads and, unless nothing is to be said (PROTOCOL §8.4), what the host hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Compact JSON for the model, within `limits::TOOL_RESULT_MAX_UNITS`.
    pub text: String,
    /// For the host's audit log.
    pub report: Option<Report>,
}
