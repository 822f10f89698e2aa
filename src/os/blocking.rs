//! Work that may block, on threads beside the event loop; where none can be had, on the loop itself.

use crate::limits;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Such work panicked.
#[derive(Debug, thiserror::Error)]
#[error("the tool failed inside the runner; check what it did before you repeat it")]
pub struct WorkFailed;

/// Makes sure that there is a thread for blocking work, which lasts as long as the runtime: once commands have filled the
/// container with processes there would be none to be had. Costs a turn nothing before its first tool. False when there
/// is none.
pub fn keep_thread() -> bool {
    static KEPT: AtomicBool = AtomicBool::new(false);
    static TOLD: AtomicBool = AtomicBool::new(false);
    if KEPT.load(Ordering::Relaxed) {
        return true;
    }
    match first_thread() {
        Ok(()) => KEPT.store(true, Ordering::Relaxed),
        Err(error) if !TOLD.swap(true, Ordering::Relaxed) => {
            tracing::warn!(component = "runner", error = %error, "no_thread");
        }
        Err(_) => {}
    }
    KEPT.load(Ordering::Relaxed)
}

/// With one thread the runtime gets along; without its first it panics, so there is a trial before.
fn first_thread() -> io::Result<()> {
    let trial = std::thread::Builder::new().spawn(|| std::fs::read_link("/proc/thread-self"))?;
    let entry = trial.join().map_err(|_| io::Error::other("the first thread failed"))?;
    // Its place is free when the kernel has forgotten it, a moment after the join.
    if let Ok(entry) = entry.map(|entry| Path::new("/proc").join(entry)) {
        let forgotten = (0..limits::THREAD_TRIAL_LOOKS).any(|_| {
            std::thread::yield_now();
            !entry.exists()
        });
        if !forgotten {
            return Err(io::Error::other("the first thread does not end"));
        }
    }
    let first = catch_unwind(|| tokio::task::spawn_blocking(|| {}));
    first.map(drop).map_err(|_| io::Error::other("another process has taken the first thread's place"))
}

/// Runs `work` on such a thread.
///
/// Without one – a container full of processes, a seccomp profile that knows no `clone3` – it runs here. That is slower, and
/// all else waits meanwhile, but it works, and so do the tools. Such work waits for nothing but the disk: what could wait
/// for somebody (a pipe, a device) is not opened, and a search has its own time limit and looks for a signal to stop.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, WorkFailed> {
    if keep_thread() {
        return tokio::task::spawn_blocking(work).await.map_err(|_| WorkFailed);
    }
    // What the loop has ready comes first: a signal, a reply of the host's.
    tokio::task::yield_now().await;
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| WorkFailed)
}
