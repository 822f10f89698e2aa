//! Termination signals as something to wait for.
//!
//! They are blocked from the first moment and read from a descriptor. A blocked signal is kept for PID 1 too, whom the
//! kernel otherwise protects from signals it has no handler for: a stop during set-up is then late, never lost.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Signals that ask for the end.
pub(crate) const TERMINATING: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

/// Blocked signals and the descriptor they arrive on.
#[derive(Debug)]
pub(crate) struct Signals {
    mask: SigSet,
    fd: SignalFd,
}

/// What a wait ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// A signal came.
    Signal(Signal),
    /// A descriptor can be read or has hung up.
    Ready,
    /// The time is over.
    Deadline,
}

impl Signals {
    /// Blocks the terminating signals and `more`.
    pub(crate) fn block(more: &[Signal]) -> Result<Self, Errno> {
        let mask: SigSet = TERMINATING.iter().chain(more).copied().collect();
        mask.thread_block()?;
        let fd = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { mask, fd })
    }

    /// Ends the blocking. Whatever is pending takes its effect now.
    pub(crate) fn unblock(self) -> Result<(), Errno> {
        self.mask.thread_unblock()
    }

    /// A signal that has come, if any.
    pub(crate) fn pending(&self) -> Result<Option<Signal>, Errno> {
        match self.fd.read_signal()? {
            Some(info) => Ok(Signal::try_from(info.ssi_signo as i32).ok()),
            None => Ok(None),
        }
    }

    /// Waits for a signal or one of `fds`.
    pub(crate) fn wait(&self, fds: &[BorrowedFd<'_>], deadline: Instant) -> Result<Woken, Errno> {
        loop {
            if let Some(signal) = self.pending()? {
                return Ok(Woken::Signal(signal));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Woken::Deadline);
            }
            let mut polled: Vec<_> = std::iter::once(self.fd.as_fd())
                .chain(fds.iter().copied())
                .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
                .collect();
            match poll(&mut polled, timeout(left)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
            if polled.iter().skip(1).any(|fd| fd.any().unwrap_or(true)) {
                return Ok(self.pending()?.map_or(Woken::Ready, Woken::Signal));
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Rounds up, so that a wait never spins on a remainder below a millisecond.
fn timeout(left: Duration) -> PollTimeout {
    PollTimeout::try_from(left + Duration::from_micros(999)).unwrap_or(PollTimeout::MAX)
}
