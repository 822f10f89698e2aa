//! The runner's side of a running keeper: hears what it says, reaps it, ends what is below it.

use super::keeper::{Record, Stage};
use super::known::{self, Known};
use super::tree;
use crate::limits;
use nix::sys::prctl;
use nix::unistd::getpid;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

/// What is known of a call so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Progress {
    /// Why the command did not start.
    pub(super) failed: Option<(Stage, i32)>,
    /// The shell's wait status, and whether nothing else of the call was left.
    pub(super) exited: Option<(i32, bool)>,
    /// The keeper has been reaped: its number may soon mean another process.
    reaped: bool,
    /// The keeper and everything below it are gone.
    pub(super) gone: bool,
}

/// A keeper the runner looks after. Dropping it makes the keeper end everything below it.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) pid: i32,
    since: u64,
    _control: OwnedFd,
    /// Its call has ended and left something behind that may be ended for the sake of others.
    left: AtomicBool,
    pub(super) progress: watch::Receiver<Progress>,
}

impl Kept {
    /// Starts to listen to a keeper; the task ends with it.
    pub(super) fn new(keeper: Known, since: u64, control: OwnedFd, status: pipe::Receiver) -> Self {
        let (sender, progress) = watch::channel(Progress::default());
        let pid = keeper.pid();
        tokio::spawn(listen(keeper, since, status, sender));
        Self { pid, since, _control: control, left: AtomicBool::new(false), progress }
    }

    /// What lives of the call from now on is what it has left behind, and may be ended for others' sake; or not any more.
    pub(super) fn set_left(&self, left: bool) {
        self.left.store(left, Ordering::Relaxed);
    }

    /// Is it?
    pub(super) fn is_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    /// Living processes of the call, without the keeper.
    pub(super) fn living(&self) -> usize {
        let mut count = 0;
        if self.is_current() {
            tree::each_descendant(self.pid, self.since, |process| count += usize::from(process.is_alive()));
        }
        count
    }

    /// Ends everything the call started: politely, then for certain. Returns how many processes the kernel would not let
    /// go of within [`limits::KILL_DEADLINE`].
    ///
    /// On a kernel without subreapers (gVisor before 2023) an orphan passes the keeper by and comes to the runner. Whose it
    /// was is then unknown, so all that started since the call are ended: one too many rather than one too few.
    pub(super) async fn end(&self) -> usize {
        let left = self.end_below_keeper().await;
        if !keepers_keep_orphans() {
            end_strays(self.since).await;
        }
        left
    }

    async fn end_below_keeper(&self) -> usize {
        let start = Instant::now();
        if self.is_current() {
            tree::signal_descendants(self.pid, self.since, libc::SIGTERM);
            // One that is stopped takes the signal only when it goes on.
            tree::signal_descendants(self.pid, self.since, libc::SIGCONT);
        }
        if self.gone_by(start + limits::KILL_GRACE).await {
            return 0;
        }
        let deadline = start + limits::KILL_DEADLINE;
        let [mut pause, longest] = limits::SWEEP_PAUSES;
        loop {
            let left = if self.is_current() { tree::sweep(self.pid, self.since, |_| true) } else { 0 };
            if left == 0 {
                return self.end_keeper(deadline).await;
            }
            if self.gone_by((Instant::now() + pause).min(deadline)).await {
                return 0;
            }
            if Instant::now() >= deadline {
                return left;
            }
            pause = (pause * 2).min(longest);
        }
    }

    /// Nothing is left below: the keeper goes by itself, unless a command has stopped it.
    async fn end_keeper(&self, deadline: Instant) -> usize {
        if !self.gone_by((Instant::now() + limits::KEEPER_GRACE).min(deadline)).await && self.is_current() {
            tree::send(self.pid, libc::SIGKILL);
            self.gone_by(deadline).await;
        }
        0
    }

    /// Waits until nothing is left of the call; false when that has not come about in time.
    pub(super) async fn gone_by(&self, deadline: Instant) -> bool {
        let mut progress = self.progress.clone();
        // An error means that the listener is gone, and with it the runtime.
        timeout_at(deadline, progress.wait_for(|progress| progress.gone)).await.is_ok()
    }

    /// The keeper's number still means the keeper.
    fn is_current(&self) -> bool {
        !self.progress.borrow().reaped
    }
}

/// Whether the kernel knows subreapers.
fn keepers_keep_orphans() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| prctl::get_child_subreaper().is_ok())
}

/// Passes on what a keeper says until it has ended, then reaps it.
async fn listen(keeper: Known, since: u64, mut status: pipe::Receiver, progress: watch::Sender<Progress>) {
    let mut clean = false;
    let mut bytes = [0; Record::BYTES];
    while status.read_exact(&mut bytes).await.is_ok() {
        match Record::decode(bytes) {
            Some(Record::Failed(stage, errno)) => {
                // In these two the keeper has nothing below it and ends without another word.
                clean |= matches!(stage, Stage::Subreaper | Stage::Fork);
                progress.send_modify(|progress| progress.failed = Some((stage, errno)));
            }
            Some(Record::Exited { status, alone }) => {
                progress.send_modify(|progress| progress.exited = Some((status, alone)));
            }
            Some(Record::Clean) => clean = true,
            None => break,
        }
    }
    let deadline = Instant::now() + limits::KILL_DEADLINE;
    while !known::reap(keeper.pid()) && Instant::now() < deadline {
        sleep(Duration::from_millis(1)).await;
    }
    progress.send_modify(|progress| progress.reaped = true);
    drop(keeper);
    if !clean {
        end_strays(since).await;
    }
    progress.send_modify(|progress| progress.gone = true);
}

/// Ends all that is below the runner, for an exit that waits no longer. A keeper would do the same a moment later; whoever has
/// waited for the runner would still find what it left.
pub fn end_everything() {
    let until = std::time::Instant::now() + limits::KEEPER_GRACE;
    while tree::sweep(getpid().as_raw(), 0, |_| true) > 0 && std::time::Instant::now() < until {
        std::thread::sleep(limits::REAP_PAUSE);
    }
}

/// A keeper was killed, and what it kept has come to the runner: ends every child nobody has named, and what is below
/// it. By design there are no others, save processes that were put into the container from outside.
async fn end_strays(since: u64) {
    let own = getpid().as_raw();
    let deadline = Instant::now() + limits::KILL_DEADLINE;
    loop {
        let left = tree::sweep(own, since, |process| !known::is_known(process.top));
        tree::each_descendant(own, since, |process| {
            if process.pid == process.top && !process.is_alive() {
                known::reap_stranger(process.pid);
            }
        });
        if left == 0 || Instant::now() >= deadline {
            return;
        }
        sleep(limits::REAP_PAUSE).await;
    }
}
