//! Log lines (PROTOCOL §13): one JSON object an event on stderr, and in `$AX_HOME/data/ax.log` where that can be made.
//!
//! Never stdout, never message contents or secrets. Writing happens on a thread of its own behind a bounded queue that
//! drops when full: a host that does not read our stderr must not stop the runner.

mod lines;
mod neutral;
mod writer;

pub use lines::set_request_id;
pub use neutral::{escaped, neutral};
pub(crate) use writer::panic_line;
pub use writer::{finish, last_words};

use std::path::PathBuf;

/// Where and how much to log. Taken from the environment by the command line, never read here.
#[derive(Debug, Clone, Default)]
pub struct LogConfig {
    /// `LOG_LEVEL`.
    pub level: Option<String>,
    /// `LOG_LEVEL_<COMPONENT>` by component, lower case with `-`.
    pub components: Vec<(String, String)>,
    /// `LOG_SYNC=1`: write in the caller's thread.
    pub sync: bool,
    /// `$AX_HOME/data/ax.log`.
    pub file: Option<PathBuf>,
}

/// Starts logging for the process. A second call has no effect.
pub fn start(config: LogConfig) {
    let lines = lines::JsonLines::new(&config);
    writer::configure(config.file, config.sync);
    let _ = tracing::subscriber::set_global_default(lines);
}
