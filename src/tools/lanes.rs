//! Calls of one reply run side by side, but two that write the same file run one after the other, in call order: each
//! looks at the file before it asks for approval, and the second must see what the first has made of it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use tokio::sync::OwnedMutexGuard;

/// A lane for each file that is written in the turn.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
    /// Which file a call means takes a look at the disk: meanwhile the next call must not get ahead.
    entrance: tokio::sync::Mutex<()>,
}

impl Lanes {
    /// Waits until no other call holds the lane of this file. A call that names none needs no lane: it is refused later.
    pub(super) async fn enter(&self, file: impl Future<Output = Option<PathBuf>>) -> Option<OwnedMutexGuard<()>> {
        let entrance = self.entrance.lock().await;
        let file = file.await?;
        let lane = self.lanes.lock().unwrap_or_else(PoisonError::into_inner).entry(file).or_default().clone();
        let held = lane.lock_owned();
        tokio::pin!(held);
        // Once it has been asked, its place is kept.
        let asked = futures_util::poll!(&mut held);
        drop(entrance);
        match asked {
            Poll::Ready(held) => Some(held),
            Poll::Pending => Some(held.await),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    fn file(name: &str) -> impl Future<Output = Option<PathBuf>> {
        ready(Some(PathBuf::from(name)))
    }

    #[tokio::test(flavor = "current_thread")]
    async fn one_file_has_one_lane_and_nobody_gets_ahead() {
        let lanes = Lanes::default();
        let held = lanes.enter(file("b")).await;
        assert!(held.is_some());
        let second = lanes.enter(file("b"));
        tokio::pin!(second);
        assert!(futures_util::poll!(&mut second).is_pending());
        assert!(futures_util::poll!(Box::pin(lanes.enter(file("c")))).is_ready());
        assert!(lanes.enter(ready(None)).await.is_none());
        let mut third = Box::pin(lanes.enter(file("b")));
        assert!(futures_util::poll!(&mut third).is_pending());
        drop(held);
        let held = second.await;
        assert!(held.is_some() && futures_util::poll!(&mut third).is_pending());
        drop(held);
        assert!(third.await.is_some());
        let mut slow = Box::pin(lanes.enter(pending()));
        assert!(futures_util::poll!(&mut slow).is_pending());
        assert!(futures_util::poll!(Box::pin(lanes.enter(file("d")))).is_pending());
    }
}
