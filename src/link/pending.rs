//! Which reply belongs to which call: correlation, heartbeats, deadlines (PROTOCOL §3.4–3.6).

use super::connection::Failure;
use crate::wire::{Envelope, Reply};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A point in time that heartbeats push back.
#[derive(Clone)]
pub(super) struct Deadline(Arc<Mutex<Instant>>);

impl Deadline {
    pub(super) fn get(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn extend(&self, timeout: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + timeout;
    }
}

/// A call that waits.
pub(super) struct Waiting {
    reply: oneshot::Sender<Result<Reply, Failure>>,
    pub(super) deadline: Deadline,
    timeout: Duration,
    /// Its frame's place among those written; behind them all until it has been begun.
    place: u64,
    /// The host can have seen it: the whole frame was handed to the kernel.
    complete: bool,
    /// Delivers the turn's answer, which some hosts acknowledge without an id (PROTOCOL T5).
    answers: bool,
}

impl Waiting {
    pub(super) fn new(timeout: Duration, answers: bool) -> (Self, oneshot::Receiver<Result<Reply, Failure>>) {
        let (reply, receiver) = oneshot::channel();
        let deadline = Deadline(Arc::new(Mutex::new(Instant::now() + timeout)));
        (Self { reply, deadline, timeout, place: u64::MAX, complete: false, answers }, receiver)
    }
}

/// The calls of one connection that wait for a reply, by `_msgId`, oldest first.
#[derive(Default)]
pub(super) struct Pending {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    calls: BTreeMap<u64, Waiting>,
    /// Frames begun.
    begun: u64,
    closed: bool,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` when the connection has ended.
    pub(super) fn register(self: &Arc<Self>, id: u64, waiting: Waiting) -> Option<Registered> {
        let mut table = self.lock();
        if table.closed {
            return None;
        }
        table.calls.insert(id, waiting);
        Some(Registered { pending: self.clone(), id })
    }

    /// A frame is about to be written; `false` when nobody waits for its reply any more.
    pub(super) fn begin(&self, id: u64) -> bool {
        let mut table = self.lock();
        let place = table.begun + 1;
        let Some(waiting) = table.calls.get_mut(&id) else { return false };
        waiting.place = place;
        table.begun = place;
        true
    }

    /// The whole frame was handed to the kernel.
    pub(super) fn written(&self, id: u64) {
        if let Some(waiting) = self.lock().calls.get_mut(&id) {
            waiting.complete = true;
        }
    }

    /// Routes one frame (PROTOCOL §3.4, §3.5). What belongs to nobody is dropped: a late reply, an unknown id, noise.
    pub(super) fn deliver(&self, frame: Bytes) {
        let Some(envelope) = Envelope::read(&frame) else {
            tracing::warn!(component = "ipc-client", bytes = frame.len(), "ipc_frame_unreadable");
            let id = Envelope::guess_id(&frame);
            if let Some(waiting) = id.and_then(|id| self.lock().calls.remove(&id)) {
                let _ = waiting.reply.send(Ok(Reply::new(frame)));
            }
            return;
        };
        let id = envelope.msg_id.as_deref().and_then(own_id);
        let mut table = self.lock();
        if envelope.heartbeat {
            // Of no call: for all of them.
            let place = id.and_then(|id| table.calls.get(&id)).map_or(0, |waiting| waiting.place);
            table.extend_from(place);
            return;
        }
        let id = match envelope.msg_id {
            Some(_) => id,
            None => table.oldest(|waiting| waiting.answers).or_else(|| table.oldest(|_| true)),
        };
        if let Some(waiting) = id.and_then(|id| table.calls.remove(&id)) {
            table.extend_from(waiting.place);
            let _ = waiting.reply.send(Ok(Reply::new(frame)));
        }
    }

    /// Fails what waits. A Unix socket is reset when its peer closes it with bytes unread, so `reset` says that the frame
    /// begun last was not read whole.
    pub(super) fn fail_all(&self, reset: bool) {
        let mut table = self.lock();
        table.closed = true;
        let last = table.begun;
        for waiting in table.calls.values_mut().filter(|waiting| reset && waiting.place == last) {
            waiting.complete = false;
        }
        for (_, waiting) in std::mem::take(&mut table.calls) {
            let _ = waiting.reply.send(Err(Failure::Lost { complete: waiting.complete }));
        }
    }
}

/// An id as we write it; other spellings of the number are nobody's.
fn own_id(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().filter(|id| id.to_string() == text)
}

impl Table {
    fn oldest(&self, wanted: impl Fn(&Waiting) -> bool) -> Option<u64> {
        let seen = self.calls.iter().filter(|(_, waiting)| waiting.complete && wanted(waiting));
        seen.min_by_key(|(_, waiting)| waiting.place).map(|(id, _)| *id)
    }

    /// A sign of life for the call at this place. A host that read several frames at once takes them one by one and sends
    /// heartbeats only for the one in hand (PROTOCOL §3.7), so the time of those written after it begins anew too.
    fn extend_from(&self, place: u64) {
        let behind = self.calls.values().filter(|waiting| waiting.place >= place);
        behind.for_each(|waiting| waiting.deadline.extend(waiting.timeout));
    }
}

/// Takes the call out of the table when its caller gives up.
pub(super) struct Registered {
    pending: Arc<Pending>,
    id: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.pending.lock().calls.remove(&self.id);
    }
}
