//! The tools: a verb a file; arguments in, result out. They know neither the model nor the socket.

pub mod arguments;
pub mod bash;
mod breaker;
pub mod catalog;
pub mod edit_file;
mod fields;
mod file_result;
pub mod forward;
pub mod glob;
pub mod grep;
mod lanes;
mod plain;
pub mod read_file;
mod schema;
pub(crate) mod search;
pub mod skill;
pub mod skill_write;
mod toolbox;
pub mod write_file;

pub use toolbox::{Toolbox, Turn};

use crate::wire::Report;

/// The fifteen tools in the order in which they are offered (PROTOCOL §7).
pub const TOOL_NAMES: [&str; 15] = [
    "memory",
    "web",
    "scheduler",
    "save_artifact",
    "audit",
    "agent",
    "bash",
    "read_file",
    "write_file",
    "edit_file",
    "skill_write",
    "grep",
    "glob",
    "describe_tools",
    "call_tool",
];

/// How a local tool ended: what the model reads and, unless nothing is to be said (PROTOCOL §8.4), what the host hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Compact JSON for the model, within `limits::TOOL_RESULT_MAX_UNITS`.
    pub text: String,
    /// For the host's audit log.
    pub report: Option<Report>,
}

/// Text on one line, for messages that must not break out of theirs.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
