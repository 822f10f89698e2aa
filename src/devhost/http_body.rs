//! A reply's body that comes in pieces, stops short or takes its time, whatever its length announced.

use super::brain::Brain;
use super::http_io::{Busy, Cut};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
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
    /// The first piece and those after it.
    piece: (usize, usize),
    pause: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
    then: Then,
    delivers: Option<(usize, Arc<Brain>)>,
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
            piece: (usize::MAX, usize::MAX),
            pause: Duration::ZERO,
            sleep: None,
            then: Then::Done,
            delivers: None,
            cut,
            _busy: busy,
        }
    }

    pub(crate) fn pieces(self, first: usize, others: usize, pause: Duration) -> Self {
        Self { piece: (first.max(1), others.max(1)), pause, ..self }
    }

    /// Tells the host's mind when the last byte is handed over.
    pub(crate) fn delivers(self, round: Option<usize>, brain: Arc<Brain>) -> Self {
        Self { delivers: round.map(|round| (round, brain)), ..self }
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
            let piece = self.left.min(self.piece.0);
            self.piece.0 = self.piece.1;
            let data = self.body.split_to(piece);
            self.left -= piece;
            if let (true, Some((round, brain))) = (self.body.is_empty(), &self.delivers) {
                brain.delivered(*round);
            }
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
