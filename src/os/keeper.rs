//! One keeper per command: how it is started and what it says.
//!
//! A command can start processes that leave its process group, its session and, by a double fork, their parent. What
//! does not change is that an orphan goes to the nearest subreaper. So between the runner and each command stands a
//! *keeper*: a fork of the runner that is a subreaper, waits for everything below it, and tells the runner two things
//! through a pipe: how the shell ended, and that nothing is left. Thereby
//!
//! - whatever a command started is below its keeper, and below no other: which process belongs to which call is exact;
//! - the runner never waits for "any child", and never blocks: a status is bytes in a pipe;
//! - when the runner dies, by whatever signal, the keeper's control pipe hangs up and it ends everything below it.
//!
//! The keeper is a fork without exec: no helper program to find, no second start-up. It has a copy of the runner's
//! memory, and is as unreadable as the runner itself (`harden`). After the fork only calls that are safe in a signal
//! handler are made (`keeper_child`); all they need is prepared here.
#![allow(unsafe_code)]

use super::guard::ChildFilter;
use super::keeper_child::{self, Plan};
use super::known::Known;
use super::lack::is_lack;
use super::tree;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::pipe2;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::ptr;

/// Where the children were when something failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    /// The keeper could not become a subreaper.
    Subreaper = 1,
    /// The keeper could not fork the shell.
    Fork = 2,
    /// The shell could not enter the workspace.
    Directory = 3,
    /// No bash could be executed.
    Exec = 4,
    /// The filter that keeps the host's socket from the shell could not be installed.
    Filter = 5,
}

/// What a keeper says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    /// The command did not start.
    Failed(Stage, i32),
    /// The shell has ended with this wait status; `alone` when nothing else of the call is left.
    Exited { status: i32, alone: bool },
    /// Nothing is left; the keeper ends now.
    Clean,
}

impl Record {
    /// Bytes of every record. Pipes keep writes this small whole.
    pub(super) const BYTES: usize = 8;

    pub(super) fn encode(self) -> [u8; Self::BYTES] {
        let (kind, detail, value) = match self {
            Self::Failed(stage, errno) => (1, stage as u8, errno),
            Self::Exited { status, alone } => (2, u8::from(alone), status),
            Self::Clean => (3, 0, 0),
        };
        let [a, b, c, d] = value.to_ne_bytes();
        [kind, detail, 0, 0, a, b, c, d]
    }

    pub(super) fn decode(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let [kind, detail, _, _, a, b, c, d] = bytes;
        let value = i32::from_ne_bytes([a, b, c, d]);
        let stage = [Stage::Subreaper, Stage::Fork, Stage::Directory, Stage::Exec, Stage::Filter];
        match kind {
            1 => Some(Self::Failed(stage.into_iter().find(|stage| *stage as u8 == detail)?, value)),
            2 => Some(Self::Exited { status: value, alone: detail != 0 }),
            3 => Some(Self::Clean),
            _ => None,
        }
    }
}

/// A keeper that has been started, and the runner's ends of its pipes.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) keeper: Known,
    /// When the keeper started, in clock ticks since boot: nothing of the call is older.
    pub(super) since: u64,
    /// Records, then end of file when the keeper has ended.
    pub(super) status: OwnedFd,
    /// Output of the command.
    pub(super) output: OwnedFd,
    /// Closing it makes the keeper end everything below it.
    pub(super) control: OwnedFd,
}

/// Forks a keeper, which forks the command. The programs are tried in order until one exists.
pub(super) fn start(
    programs: &[CString],
    argv: &[CString],
    envp: &[CString],
    workspace: &Path,
    filter: &ChildFilter,
) -> Result<Started, StartFailure> {
    let directory = open(workspace, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(io::Error::from)
        .map_err(
            |error| if is_lack(&error) { StartFailure::Resources(error) } else { StartFailure::Workspace(error) },
        )?;
    let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty()).map_err(resources)?;
    let (status, status_keeper) = pipe2(OFlag::O_CLOEXEC).map_err(resources)?;
    let (control_keeper, control) = pipe2(OFlag::O_CLOEXEC).map_err(resources)?;
    let (output, output_shell) = pipe2(OFlag::O_CLOEXEC).map_err(resources)?;
    let (programs, argv, envp) = (pointers(programs), pointers(argv), pointers(envp));
    let plan = Plan {
        programs: &programs,
        argv: &argv,
        envp: &envp,
        null: null.as_raw_fd(),
        output: output_shell.as_raw_fd(),
        status: status_keeper.as_raw_fd(),
        control: control_keeper.as_raw_fd(),
        workspace: directory.as_raw_fd(),
        filter: filter.installer(),
        filter_channel: filter.descriptor().unwrap_or(-1),
    };
    let lowest = [plan.null, plan.output, plan.status, plan.control, plan.workspace].into_iter().min();
    if lowest <= Some(2) {
        // The standard library opens missing standard descriptors at start-up; children rely on it.
        return Err(StartFailure::Resources(io::Error::other("standard input, output or error is closed")));
    }
    let ((), keeper) = Known::start(|| Ok(((), fork_keeper(&plan)?))).map_err(StartFailure::Resources)?;
    let since = tree::stat(keeper.pid()).map_or(0, |stat| stat.start);
    Ok(Started { keeper, since, status, output, control })
}

/// Why no keeper could be started.
#[derive(Debug)]
pub(super) enum StartFailure {
    Workspace(io::Error),
    Resources(io::Error),
}

fn resources(errno: nix::errno::Errno) -> StartFailure {
    StartFailure::Resources(errno.into())
}

/// Forks with every signal blocked, so that no handler of ours can run in the child.
fn fork_keeper(plan: &Plan<'_>) -> io::Result<i32> {
    // SAFETY: the sets are plain memory filled in by the calls. In the child `keeper` does not return, and uses only the
    // plan, which its copy of our memory holds.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let pid = keeper_child::fork();
        if pid == 0 {
            keeper_child::keeper(plan);
        }
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
        if pid < 0 { Err(error) } else { Ok(pid) }
    }
}

/// The list as C wants it: pointers, and a null at the end.
fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(CString::as_c_str).map(CStr::as_ptr).chain([ptr::null()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_the_pipe() {
        let records = [
            Record::Failed(Stage::Exec, libc::ENOENT),
            Record::Failed(Stage::Subreaper, libc::EINVAL),
            Record::Exited { status: 0x700, alone: true },
            Record::Exited { status: 9, alone: false },
            Record::Clean,
        ];
        for record in records {
            assert_eq!(Record::decode(record.encode()), Some(record));
        }
        assert_eq!(Record::decode([0; 8]), None);
        assert_eq!(Record::decode([1, 9, 0, 0, 0, 0, 0, 0]), None);
    }
}
