//! Answers that did not arrive.
//!
//! Kernels before 5.19 let any signal end the caller's wait. The connection was made all the same, and when the caller makes
//! its call again, as it does for a handler with `SA_RESTART`, that socket is connected already. Then it is told what it
//! should have been told first. What stays, on some later kernels too, is a signal in the very moment of the answer, which
//! looks like one that arrived.

use crate::limits;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// By thread, the socket's cookie and the answer. Cookies are never used twice, so what is out of date does no harm.
#[derive(Default)]
pub(super) struct Lost(Mutex<BTreeMap<i32, (u64, i32)>>);

impl Lost {
    /// This answer to a connect that was made, or begun, did not reach the thread.
    pub(super) fn keep(&self, thread: i32, cookie: Option<u64>, errno: i32) {
        let Some(cookie) = cookie.filter(|_| [0, libc::EINPROGRESS].contains(&errno)) else { return };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= limits::GUARD_LOST_MAX {
            kept.pop_first();
        }
        kept.insert(thread, (cookie, errno));
    }

    /// What is still to be told to this thread about the socket it connects. Asked before the connect: one on a Unix socket
    /// that is connected already first waits for room in the queue, and may be what fills it.
    pub(super) fn take(&self, thread: i32, cookie: impl FnOnce() -> Option<u64>) -> Option<i32> {
        let (socket, errno) = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&thread)?;
        (cookie() == Some(socket)).then_some(errno)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_thread_and_socket_get_it_and_once() {
        let lost = Lost::default();
        lost.keep(7, Some(70), 0);
        lost.keep(8, Some(80), libc::EINPROGRESS);
        lost.keep(9, Some(90), libc::ECONNREFUSED);
        assert_eq!(lost.take(7, || Some(70)), Some(0));
        assert_eq!(lost.take(7, || Some(70)), None);
        assert_eq!(lost.take(8, || Some(81)), None);
        assert_eq!(lost.take(8, || Some(80)), None, "its next connect was on another socket");
        assert_eq!(lost.take(9, || Some(90)), None, "nothing was made");
        for thread in 0..1_000 {
            lost.keep(thread, Some(1), 0);
        }
        assert!(lost.0.lock().unwrap().len() <= limits::GUARD_LOST_MAX);
    }
}
