//! A reply's body that comes in pieces, stops short or takes its time, whatever its length announced.

use super::http_io::{Busy, Cut};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;

/// What follows the last byte that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing special.
    Done,
    /// The connection ends.
    Cut { reset: bool },
    /// Nothing, for ever.
    Silence,
}

/// See the module.
pub(crate) struct Dribble {
    body: Bytes,
    announced: u64,
    /// Bytes that may still be sent.
    left: usize,
    piece: usize,
    pause: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
    then: Then,
    cut: Cut,
    _busy: Busy,
}

impl Dribble {
    pub(crate) fn new(body: Bytes, cut: Cut, busy: Busy) -> Self {
        let announced = body.len() as u64;
        let left = body.len();
        Self {
            body,
            announced,
            left,
            piece: usize::MAX,
            pause: Duration::ZERO,
            sleep: None,
            then: Then::Done,
            cut,
            _busy: busy,
        }
    }

    pub(crate) fn pieces(self, piece: usize, pause: Duration) -> Self {
        Self { piece, pause, ..self }
    }

    /// Sends at most `end` bytes.
    pub(crate) fn end(self, end: usize, then: Then) -> Self {
        Self { left: self.left.min(end), then, ..self }
    }
}

impl Body for Dribble {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(sleep) = &mut self.sleep {
            std::task::ready!(sleep.as_mut().poll(context));
            self.sleep = None;
        }
        if self.left > 0 {
            let piece = self.left.min(self.piece);
            let data = self.body.split_to(piece);
            self.left -= piece;
            // The last poll may not come once everything announced is there.
            if let (Then::Cut { reset }, true) = (self.then, self.body.is_empty()) {
                self.cut.soon(reset);
            }
            self.sleep = (!self.pause.is_zero()).then(|| Box::pin(tokio::time::sleep(self.pause)));
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        match self.then {
            Then::Done => Poll::Ready(None),
            Then::Silence => Poll::Pending,
            Then::Cut { reset } => {
                self.cut.soon(reset);
                if self.body.is_empty() { Poll::Ready(None) } else { Poll::Pending }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 && self.then == Then::Done
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.announced)
    }
}
