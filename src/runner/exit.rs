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
//! | the host's socket cannot be reached or listened on | 1 | the error: `ECONNREFUSED`, `ENOENT`, `EACCES` … | tries again |
//! | listen mode: nobody has connected for two minutes | 1 | `nobody has connected` | learns nothing from it |
//! | too few descriptors are free at the start | 1 | `cannot start` and the reason | tries again |
//! | link lost, or no credential proxy, before any tool ran or anything was said | 1 | `ECONNRESET` | tries again |
//! | link lost later, also when noticed while a command runs | 1, and the reason on stdout | – | takes what stdout has |
//! | the last answer, where it is an action, did not reach the host | 1 | `ECONNRESET` | learns nothing from it |
//! | repository cannot be prepared | 1 | `git` and the reason | tries again |
//! | stdout closed or full | 1 | `EPIPE` | tries again |
//! | SIGTERM, SIGINT, SIGHUP, SIGQUIT | 128 + signal | `timeout or shutdown` | gives up |
//! | the same from a command | – | – | the turn goes on |
//! | SIGUSR1, SIGUSR2, SIGALRM and others that would end a process | – | – | the turn goes on |
//! | panic outside a tool | 70 | – | tries again |

use crate::limits;
use crate::log::escaped;
use nix::errno::Errno;
use std::io;
use std::path::{Path, PathBuf};

/// A failure that ends the process. Only its own words may be ones the host looks for: what others said is escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fatal {
    /// A setting the runner cannot do without.
    #[error("validation failed: {0} is not set")]
    MissingArgument(&'static str),
    /// `AX_HOST_URL` names no host, or more than where it is.
    #[error(
        "validation failed: AX_HOST_URL is not a URL like http://host or https://host:port, without user name, query and fragment"
    )]
    HostUrl,
    /// `AX_IPC_TOKEN` cannot be sent.
    #[error("validation failed: AX_IPC_TOKEN holds characters that no HTTP header carries")]
    Token,
    /// A socket's path that no system call takes.
    #[error("validation failed: {name} is longer than {max} bytes", max = limits::SOCKET_PATH_MAX_BYTES)]
    SocketPath {
        /// The setting.
        name: &'static str,
    },
    /// `--agent` names nothing known.
    #[error("validation failed: unknown agent \"{}\"; use pi-coding-agent or claude-code", escaped(.0))]
    UnknownAgent(String),
    /// Stdin or a work item that cannot be used.
    #[error("validation failed: {}", escaped(.0))]
    Payload(String),
    /// `AX_WORKSPACE` is not a directory we can use.
    #[error("validation failed: workspace {} cannot be opened: {}", shown(.path), escaped(.reason))]
    Workspace {
        /// As given.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// `AX_UNIX_SOCKETS` is wrong or cannot be had.
    #[error("validation failed: {}", escaped(.0))]
    UnixSockets(String),
    /// No process, thread or descriptor could be had at the start.
    #[error("the runner cannot start: {}; raise the container's limits of processes and open files", escaped(.0))]
    Resources(String),
    /// The HTTP client could not be set up.
    #[error("validation failed: {}", escaped(.0))]
    Client(String),
    /// The socket of the host.
    #[error("{}cannot connect to the host at {}: {}", named(.errno), shown(.path), escaped(.reason))]
    Connect {
        /// The socket's path.
        path: PathBuf,
        /// What the system refused it with, if it was the system.
        errno: Option<i32>,
        /// The words for it.
        reason: String,
    },
    /// Our own listening socket.
    #[error("{}cannot listen at {}: {}", named(.errno), shown(.path), escaped(.reason))]
    Listen {
        /// The socket's path.
        path: PathBuf,
        /// What the system refused it with, if it was the system.
        errno: Option<i32>,
        /// The words for it.
        reason: String,
    },
    /// The host went away before anything had an effect.
    #[error("ECONNRESET: {}", escaped(.0))]
    LinkLost(String),
    /// The workspace's repository.
    #[error("git: {}", escaped(.0))]
    Git(String),
    /// Nobody reads our answer.
    #[error("EPIPE: the answer could not be written to stdout: {}", escaped(.0))]
    Stdout(String),
    /// Somebody wants us gone.
    #[error("stopped by {0} (timeout or shutdown by the host)")]
    Signal(Signal),
}

/// A path's name must not decide whether the host tries again: those of temporary directories are random.
fn shown(path: &Path) -> String {
    escaped(&path.display().to_string())
}

/// The system's number, if it is the system's, and the words.
fn told(error: &io::Error) -> (Option<i32>, String) {
    match error.raw_os_error() {
        Some(number) => (Some(number), Errno::from_raw(number).desc().to_lowercase()),
        None => (None, error.to_string()),
    }
}

/// The error's name before its words: the host's rule and its diagnosis look for `ECONNREFUSED`, people for `ENOENT`. None of
/// these names makes a failure final but `EPERM`, and that only beside a word of the host's own.
fn named(errno: &Option<i32>) -> String {
    errno.map(|number| format!("{:?}: ", Errno::from_raw(number))).unwrap_or_default()
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
    /// The host's socket cannot be reached.
    pub(super) fn connect(path: &Path, error: &io::Error) -> Self {
        let (errno, reason) = told(error);
        Self::Connect { path: path.to_owned(), errno, reason }
    }

    /// Our socket cannot be had, or nobody comes to it.
    pub(super) fn listen(path: &Path, error: &io::Error) -> Self {
        let (errno, reason) = told(error);
        Self::Listen { path: path.to_owned(), errno, reason }
    }

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
