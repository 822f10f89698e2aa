//! `ax-runner enter`: closes the network, gives up every privilege, and starts the payload. Or does not start it.
//!
//! ```text
//! ax-runner enter [--policy FILE] [--env-file FILE]... [--print] [--insecure-keep-root] [--] [COMMAND...]
//! ```
//!
//! The order is the guarantee: policy → names → rules → read back → probe → drop → check → exec. Whatever fails ends the
//! process before the payload is read: 78 the policy is wrong, 77 it cannot be enforced, each with one line that names
//! the cause; 126 and 127 as a shell has them; 128 + n when signal n came during set-up. Rules are loaded in one
//! transaction and never removed, so a start that was cut off at any point leaves the network as it was, or closed.
//!
//! No shell is involved and standard input is not touched. As PID 1 the runner is executed in our place; for a command
//! that is not ours `init` stays as its parent, passes signals on and reaps.

mod cli;
mod command;
pub(crate) mod destination;
pub(crate) mod engine;
pub(crate) mod env_file;
pub(crate) mod environment;
mod home;
pub(crate) mod hosts;
mod init;
pub(crate) mod interfaces;
mod launch;
mod nft;
pub(crate) mod policy;
pub(crate) mod probe;
mod report;
pub(crate) mod resolve;
mod ruleset;
mod signals;
mod steps;
mod trust;
pub(crate) mod workdir;

use crate::log::escaped;
use std::ffi::OsString;

/// What ends the start before the payload. The host looks for words in its last line: only ours may be among them.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The policy or the command line is wrong. The first words keep the host from trying the same again (PROTOCOL §1.6).
    #[error("validation failed: {}", escaped(.0))]
    Policy(String),
    /// The policy is right and cannot be enforced here.
    #[error("cannot enforce the network policy: {}", escaped(.0))]
    Enforce(String),
    /// Privilege cannot be given up.
    #[error("cannot give up privilege: {}", escaped(.0))]
    Privilege(String),
    /// The command cannot be started.
    #[error("{}", escaped(.0))]
    Command(String, u8),
    /// We were asked to end.
    #[error("ended by {0} during set-up, before the payload was started")]
    Signal(nix::sys::signal::Signal),
}

impl Failure {
    fn policy(error: impl ToString) -> Self {
        Self::Policy(error.to_string())
    }

    /// The exit codes of DESIGN §5.
    fn code(&self) -> u8 {
        match self {
            Self::Policy(_) => 78,
            Self::Enforce(_) | Self::Privilege(_) => 77,
            Self::Command(_, code) => *code,
            Self::Signal(signal) => 128 + *signal as u8,
        }
    }
}

/// Runs the sub-command with the words after `enter`; returns the exit code, or does not return.
pub fn main(args: Vec<OsString>) -> u8 {
    match steps::run(args) {
        Ok(code) => code,
        Err(failure) => {
            report::failure(&failure.to_string());
            failure.code()
        }
    }
}
