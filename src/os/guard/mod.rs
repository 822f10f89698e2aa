//! The host's socket is not for children (DESIGN §4.11).
//!
//! In connect mode the host's sockets serve anyone of our uid: a command that connects could call the model or report
//! results that never were. File permissions cannot tell the runner from its children, so system calls must. Every child
//! gets a seccomp filter before its exec; it cannot be taken off again.
//!
//! - **guard**: each `connect` of a child stops in the kernel and is shown to a supervisor in the runner. It takes a
//!   duplicate of the child's socket and a copy of the address, opens what the address names, and, unless that is a socket
//!   of the host's, makes the connection itself, *to what it has opened*. Nothing is looked at twice, so nothing can be
//!   exchanged in between. All other sockets work as before; TCP too goes this way, since the filter sees only a pointer
//!   to the address. What differs: the other side of a Unix socket sees the runner's process number, not the child's; a
//!   process that made itself unreadable, or took another user id, cannot connect to Unix sockets; of the connects that
//!   wait, those above a bound end with `EAGAIN`; and a signal whose handler does not ask for a restart can end a `connect`
//!   before it has begun, for the few microseconds until the supervisor has taken the call: no filter can prevent that.
//!   From then on a signal ends only a `connect` that waits, as without the guard, if a little later.
//! - **deny**: where the kernel or the engine does not allow that, children can make no Unix sockets, only pairs.
//! - **allow**: no filter.
//!
//! `sendto`, `sendmsg` and `sendmmsg` with an address need no supervision: the kernel refuses them for a stream socket,
//! and a stream socket is what the host listens on (`EPROTOTYPE`, `EISCONN`, `EOPNOTSUPP`; tests show each). `io_uring`,
//! which could connect past any filter, is refused in both modes, and so are the system calls of another architecture.
//! When the runner dies the kernel answers a guarded `connect` with `ENOSYS`: closed, not open.

mod connect;
mod crew;
mod filter;
mod install;
mod listener;
mod lost;
mod resolve;
mod supervisor;
mod trial;
mod waits;

pub use install::{ChildFilter, Installer, without_unix_sockets};

use super::lack::is_lack;
use filter::Program;
use resolve::Protected;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use supervisor::Supervisor;

/// `AX_UNIX_SOCKETS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Setting {
    /// `guard` where it works, else `deny`.
    #[default]
    Auto,
    /// `guard` or nothing: the runner does not start without.
    Guard,
    /// `deny`.
    Deny,
    /// No filter.
    Allow,
}

/// A value of `AX_UNIX_SOCKETS` that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("AX_UNIX_SOCKETS is none of auto, guard, deny and allow")]
pub struct UnknownSetting;

impl FromStr for Setting {
    type Err = UnknownSetting;

    fn from_str(text: &str) -> Result<Self, UnknownSetting> {
        match text.trim() {
            "" | "auto" => Ok(Self::Auto),
            "guard" => Ok(Self::Guard),
            "deny" => Ok(Self::Deny),
            "allow" => Ok(Self::Allow),
            _ => Err(UnknownSetting),
        }
    }
}

/// What holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Connects are supervised.
    Guard,
    /// No Unix sockets.
    Deny,
    /// Nothing.
    Allow,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Guard => "guard",
            Self::Deny => "deny",
            Self::Allow => "allow",
        })
    }
}

/// Why the sockets cannot be kept from children in the way that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// This kernel, or the engine's own filter, lacks a piece.
    #[error(
        "connects cannot be supervised here: {0}; use AX_UNIX_SOCKETS=auto, or an engine profile that allows pidfd_getfd"
    )]
    NoGuard(io::Error),
    /// Not even a plain filter.
    #[error("no seccomp filter can be installed here: {0}; AX_UNIX_SOCKETS=allow runs without")]
    NoFilter(io::Error),
}

/// Keeps the host's sockets from the children of this process. Lives as long as they do; dropped, it fails closed.
pub struct Guard {
    mode: Mode,
    program: Arc<Program>,
    supervisor: Option<Supervisor>,
    fallback: Option<io::Error>,
}

impl Guard {
    /// Sets up what `setting` asks for and tries it on a child. `sockets` are the host's. To be called before the first
    /// child, on a process that is already hardened: the trial tells what holds for the children to come.
    pub fn start(setting: Setting, sockets: Vec<PathBuf>) -> Result<Self, GuardError> {
        match setting {
            Setting::Allow => Ok(Self::plain(Mode::Allow, Program::none(), None)),
            Setting::Deny => Self::deny(None),
            Setting::Guard => Self::supervised(sockets).map_err(GuardError::NoGuard),
            Setting::Auto => match Self::supervised(sockets) {
                Ok(guard) => Ok(guard),
                Err(error) => Self::deny(Some(error)),
            },
        }
    }

    fn plain(mode: Mode, program: Program, fallback: Option<io::Error>) -> Self {
        Self { mode, program: Arc::new(program), supervisor: None, fallback }
    }

    fn deny(fallback: Option<io::Error>) -> Result<Self, GuardError> {
        let guard = Self::plain(Mode::Deny, Program::deny(), fallback);
        trial::deny(&guard.child()).map_err(GuardError::NoFilter)?;
        Ok(guard)
    }

    fn supervised(sockets: Vec<PathBuf>) -> io::Result<Self> {
        let supervisor = Supervisor::start(Protected::new(sockets)?)?;
        let program = Arc::new(Program::guard());
        let guard = Self { mode: Mode::Guard, program, supervisor: Some(supervisor), fallback: None };
        trial::guard(&guard.child())?;
        Ok(guard)
    }

    /// What holds.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Why `auto` fell back to `deny`.
    pub fn fallback(&self) -> Option<String> {
        self.fallback.as_ref().map(io::Error::to_string)
    }

    /// Is it one that `auto` fell back to for a lack of descriptors, say? Then the next child deserves another attempt.
    pub fn is_makeshift(&self) -> bool {
        self.fallback.as_ref().is_some_and(is_lack)
    }

    /// What a child gets that connects to the socket at `path`, 0 or an errno; found out with one.
    pub fn try_connect(&self, path: &Path) -> io::Result<i32> {
        trial::connect(&self.child(), &CString::new(path.as_os_str().as_bytes())?)
    }

    /// What a child needs; prepare it before the fork.
    pub fn child(&self) -> ChildFilter {
        ChildFilter::new(self.program.clone(), self.supervisor.as_ref().map(Supervisor::channel))
    }

    /// Connects to a host's socket that were refused so far.
    pub fn refused(&self) -> u64 {
        self.supervisor.as_ref().map_or(0, Supervisor::refused)
    }
}
