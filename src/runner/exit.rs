//! How the process ends, and what the host makes of it.
//!
//! In docker mode the host runs a failed turn again unless stderr says that this is pointless (PROTOCOL §1.6). The last
//! line is therefore worded for each kind of failure; everything else on stderr is kept free of those words
//! (`log::neutral`).
//!
//! | failure | exit | last line contains | the host |
//! |---|---|---|---|
//! | bad launch, unknown agent, unusable payload | 1 | `validation failed` | gives up |
//! | workspace cannot be opened, `AX_UNIX_SOCKETS` cannot be had | 1 | `validation failed` | gives up |
//! | the host's socket cannot be reached or listened on | 1 | `ECONNREFUSED` | tries again |
//! | link lost before any tool ran | 1 | `ECONNRESET` | tries again |
//! | link lost after a tool ran | 1, and the reason on stdout | – | takes what stdout has |
//! | the last answer, where it is an action, did not reach the host | 1 | `ECONNRESET` | learns nothing from it |
//! | repository cannot be prepared | 1 | `git` and the reason | tries again |
//! | stdout closed | 1 | `EPIPE` | tries again |
//! | SIGTERM, SIGINT, SIGHUP, SIGQUIT | 128 + signal | `timeout or shutdown` | gives up |
//! | panic outside a tool | 70 | – | tries again |

use crate::log::escaped;
use std::path::{Path, PathBuf};

/// A failure that ends the process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fatal {
    /// A setting the runner cannot do without.
    #[error("validation failed: {0} is not set")]
    MissingArgument(&'static str),
    /// `--agent` names nothing known.
    #[error("validation failed: unknown agent \"{}\"; use pi-coding-agent or claude-code", escaped(.0))]
    UnknownAgent(String),
    /// Stdin or a work item that cannot be used.
    #[error("validation failed: {0}")]
    Payload(String),
    /// `AX_WORKSPACE` is not a directory we can use.
    #[error("validation failed: workspace {} cannot be opened: {reason}", shown(.path))]
    Workspace {
        /// As given.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// `AX_UNIX_SOCKETS` is wrong or cannot be had.
    #[error("validation failed: {0}")]
    UnixSockets(String),
    /// The HTTP client could not be set up.
    #[error("validation failed: {0}")]
    Client(String),
    /// The socket of the host.
    #[error("ECONNREFUSED: cannot connect to the host at {}: {reason}", shown(.path))]
    Connect {
        /// The socket's path.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// Our own listening socket.
    #[error("ECONNREFUSED: cannot listen at {}: {reason}", shown(.path))]
    Listen {
        /// The socket's path.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// The host went away before anything had an effect.
    #[error("ECONNRESET: {0}")]
    LinkLost(String),
    /// The workspace's repository.
    #[error("git: {0}")]
    Git(String),
    /// Nobody reads our answer.
    #[error("EPIPE: the answer could not be written to stdout: {0}")]
    Stdout(String),
    /// Somebody wants us gone.
    #[error("stopped by {0} (timeout or shutdown by the host)")]
    Signal(Signal),
}

/// A path's name must not decide whether the host tries again: those of temporary directories are random.
fn shown(path: &Path) -> String {
    escaped(&path.display().to_string())
}

/// The signals that end the runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// 15
    Term,
    /// 2
    Int,
    /// 1
    Hup,
    /// 3
    Quit,
}

impl std::fmt::Display for Signal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Term => "SIGTERM",
            Self::Int => "SIGINT",
            Self::Hup => "SIGHUP",
            Self::Quit => "SIGQUIT",
        })
    }
}

impl Fatal {
    /// The process's exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Signal(Signal::Hup) => 129,
            Self::Signal(Signal::Int) => 130,
            Self::Signal(Signal::Quit) => 131,
            Self::Signal(Signal::Term) => 143,
            _ => 1,
        }
    }

    /// The event's name in the log (PROTOCOL §1.3).
    pub fn event(&self) -> &'static str {
        match self {
            Self::MissingArgument(_) => "missing_args",
            Self::UnknownAgent(_) => "unknown_agent",
            Self::Signal(_) => "stopped",
            _ => "main_error",
        }
    }
}
