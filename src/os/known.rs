//! The children this process has started, and the orphans it has not.
//!
//! As PID 1 and as subreaper the runner becomes the parent of processes it never started. They must be reaped, or the
//! process table fills with zombies. Waiting for *any* child would do that and would also steal the status of children
//! that others are waiting for; so whoever starts a child says so here, and only the rest is reaped, each by number.

#![allow(unsafe_code)]

use super::tree;
use crate::limits;
use nix::errno::Errno;
use nix::unistd::getpid;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Children belong to the whole process, and so does the table.
static TABLE: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// How many there are, for those who cannot wait for the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn table() -> MutexGuard<'static, BTreeSet<i32>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child somebody waits for. Nobody else reaps or kills it while this lives; drop it after the child's status has been
/// taken.
#[derive(Debug)]
#[must_use = "dropping it hands the child to the reaper of orphans"]
pub struct Known(i32);

impl Known {
    /// Names a child that was started on this thread with no `.await` in between.
    pub fn register(pid: i32) -> Self {
        table().insert(pid);
        Self::new(pid)
    }

    /// Starts a child and names it before any reaper can look.
    pub fn start<T>(spawn: impl FnOnce() -> io::Result<(T, i32)>) -> io::Result<(T, Self)> {
        let mut table = table();
        let (child, pid) = spawn()?;
        table.insert(pid);
        Ok((child, Self::new(pid)))
    }

    fn new(pid: i32) -> Self {
        COUNT.fetch_add(1, Ordering::Relaxed);
        Self(pid)
    }

    /// The child's number.
    pub fn pid(&self) -> i32 {
        self.0
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        table().remove(&self.0);
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Is there any child that somebody waits for? Safe in a signal handler.
pub(super) fn any() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// Whether somebody waits for this child.
pub(super) fn is_known(pid: i32) -> bool {
    table().contains(&pid)
}

/// Takes the status of a child that nobody waits for, if it has ended. True when it is gone.
pub(super) fn reap_stranger(pid: i32) -> bool {
    // Held until the child is reaped: its number cannot be given to a known child in between.
    let table = table();
    !table.contains(&pid) && reap(pid)
}

/// Takes the status of one child, if it has ended; true when it is gone, by us or by anyone. Not through `nix`, which
/// makes an error of a death by a real-time signal.
pub(super) fn reap(pid: i32) -> bool {
    // SAFETY: no status is asked for, so nothing is written. A positive number names one child.
    match unsafe { libc::waitpid(pid.max(1), std::ptr::null_mut(), libc::WNOHANG) } {
        0 => false,
        -1 => Errno::last() == Errno::ECHILD,
        _ => true,
    }
}

/// Reaps orphans until cancelled.
pub async fn adopt_orphans(cancel: CancellationToken) -> io::Result<()> {
    let mut ended = signal(SignalKind::child())?;
    loop {
        reap_orphans().await;
        tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            next = ended.recv() => if next.is_none() { return Ok(()) },
        }
    }
}

/// Reaps what has ended. The kernel shows one ended child at a time without giving it up; a known one hides those behind
/// it, so its owner gets a moment to take it before `/proc` is searched.
async fn reap_orphans() {
    let mut waited = 0;
    while let Some(pid) = ended_child() {
        if !is_known(pid) {
            if !reap_stranger(pid) {
                return;
            }
        } else if waited < limits::REAP_CHECKS {
            waited += 1;
            tokio::time::sleep(limits::REAP_PAUSE).await;
        } else {
            tree::each_descendant(getpid().as_raw(), 0, |process| {
                if process.pid == process.top && !process.is_alive() {
                    reap_stranger(process.pid);
                }
            });
            return;
        }
    }
}

/// A child that has ended and has not been reaped.
fn ended_child() -> Option<i32> {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: all-zero is a valid `siginfo_t`; the kernel fills it in or leaves it.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let found = libc::waitid(libc::P_ALL, 0, &mut info, flags) == 0;
        Some(info.si_pid()).filter(|pid| found && *pid > 0)
    }
}
