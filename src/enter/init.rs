//! PID 1 for a command that is not ours: passes signals on, reaps what is left to it, and ends when the command ends.
//!
//! Our own runner needs none of this: it is executed in our place and does the same for itself.

use super::signals::{Signals, TERMINATING, Woken};
use crate::limits;
use crate::os::privileges;
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, tcsetpgrp};
use std::io::{self, IsTerminal as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

/// Passed on besides the terminating ones; the last two must not stop us when we give the terminal away.
const MORE: [Signal; 6] =
    [Signal::SIGCHLD, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGWINCH, Signal::SIGTTOU, Signal::SIGTTIN];
/// A wait without an end in sight is looked at again after this time, should a signal ever be missed.
const LOOK: Duration = Duration::from_secs(60);

/// Starts the command and stays until it has ended; returns its exit code, 128 + n for signal n.
pub(crate) fn run(mut command: Command) -> io::Result<u8> {
    // Of the same user, the command could take out of us what we were started with.
    prctl::set_dumpable(false)?;
    let signals = Signals::block(&MORE)?;
    privileges::unblock_signals_in_child(&mut command);
    let child = Pid::from_raw(command.process_group(0).spawn()?.id() as i32);
    if io::stdin().is_terminal() {
        // Without the terminal an interactive shell would stop at its first read.
        let _ = tcsetpgrp(io::stdin(), child);
    }
    let mut kill_at: Option<Instant> = None;
    loop {
        if let Some(code) = reap(child)? {
            return Ok(code);
        }
        match signals.wait(&[], kill_at.unwrap_or_else(|| Instant::now() + LOOK))? {
            Woken::Signal(Signal::SIGCHLD | Signal::SIGTTOU | Signal::SIGTTIN) | Woken::Ready => {}
            Woken::Signal(signal) => {
                // A second request means at once.
                let last = TERMINATING.contains(&signal) && kill_at.is_some();
                let _ = kill(child, if last { Signal::SIGKILL } else { signal });
                if TERMINATING.contains(&signal) {
                    kill_at = kill_at.or_else(|| Some(Instant::now() + limits::INIT_GRACE));
                }
            }
            Woken::Deadline if kill_at.is_some() => {
                let _ = kill(child, Signal::SIGKILL);
                kill_at = Some(Instant::now() + limits::INIT_GRACE);
            }
            Woken::Deadline => {}
        }
    }
}

/// Takes every status there is. Any child may be waited for here: one is the command, all others were left to us.
fn reap(child: Pid) -> io::Result<Option<u8>> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == child => return Ok(Some(code as u8)),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => return Ok(Some(128 + signal as u8)),
            Ok(WaitStatus::StillAlive) => return Ok(None),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
