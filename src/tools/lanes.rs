//! Calls of one reply run side by side, but two that write the same file run one after the other, in call order: each
//! looks at the file before it asks for approval, and the second must see what the first has made of it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OwnedMutexGuard;

/// A lane for each file that is written in the turn.
#[derive(Debug, Default)]
pub(super) struct Lanes(Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>);

impl Lanes {
    /// Waits until no other call holds the lane of the file that these arguments name. Arguments that name none need no
    /// lane: they are refused later.
    pub(super) async fn enter(&self, args: &str) -> Option<OwnedMutexGuard<()>> {
        let fields = super::arguments::object("", Some(args)).ok()?;
        // A skill's file is told by its name.
        let name = fields.get("path").or_else(|| fields.get("name"))?.as_str()?;
        let key = path_clean::clean(name);
        let lane = self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
        Some(lane.lock_owned().await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn one_file_has_one_lane_whatever_it_is_called() {
        let lanes = Lanes::default();
        let held = lanes.enter(r#"{"path":"a/../b"}"#).await;
        assert!(held.is_some());
        let second = lanes.enter(r#"{"path":"./b"}"#);
        tokio::pin!(second);
        assert!(futures_util::poll!(&mut second).is_pending());
        assert!(futures_util::poll!(Box::pin(lanes.enter(r#"{"path":"c"}"#))).is_ready());
        assert!(lanes.enter("[]").await.is_none());
        drop(held);
        assert!(second.await.is_some());
    }
}
