//! Work that may block, on threads beside the event loop.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why such work gave no result.
#[derive(Debug, thiserror::Error)]
pub enum BlockingError {
    /// The container is full.
    #[error("no thread could be started: {0}; end processes that are no longer needed and try again")]
    NoThread(#[from] io::Error),
    /// It panicked.
    #[error("the tool failed inside the runner; check what it did before you repeat it")]
    Failed,
}

/// Makes sure that there is a thread for blocking work, which lasts as long as the runtime: once commands have filled the
/// container with processes there would be none to be had. Costs a turn nothing before its first tool.
pub fn keep_thread() -> io::Result<()> {
    static KEPT: AtomicBool = AtomicBool::new(false);
    if !KEPT.load(Ordering::Relaxed) {
        // A trial, since the runtime panics without its first thread. Without further ones it gets along.
        let trial = std::thread::Builder::new().spawn(|| {})?;
        trial.join().map_err(|_| io::Error::other("the first thread failed"))?;
        tokio::task::spawn_blocking(|| {});
        KEPT.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Runs `work` on such a thread.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, BlockingError> {
    keep_thread()?;
    tokio::task::spawn_blocking(work).await.map_err(|_| BlockingError::Failed)
}
