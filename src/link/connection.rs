//! One connection: frames out, frames in.
//!
//! One task owns it. It writes frames whole, reads frames whole, and when it ends it fails what is pending, telling for each
//! call whether the host can have seen it: only if its frame had left complete, and not if the kernel says that the end of
//! what we sent was never read.

use super::pending::{Pending, Waiting};
use crate::limits;
use crate::wire::{FrameCodec, FrameError, Reply};
use futures_util::StreamExt;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio_util::codec::FramedRead;

/// Why one attempt brought no reply.
pub(super) enum Failure {
    /// Nothing was heard for the call's whole time.
    Silence,
    /// The connection ended; `complete` says whether the host can have seen the whole frame.
    Lost { complete: bool },
}

/// A request on its way out.
pub(super) struct Request {
    pub(super) id: u64,
    pub(super) body: Vec<u8>,
    /// How long to wait for a sign of life.
    pub(super) timeout: Duration,
    /// It delivers the turn's answer.
    pub(super) answers: bool,
    /// How long the host may work on it, as far as that tells one request from another.
    pub(super) work: Duration,
}

/// What the writer is given of it.
struct Frame {
    id: u64,
    body: Vec<u8>,
    work: Duration,
}

/// The sending side; the task ends when all of these are gone.
#[derive(Clone)]
pub(super) struct Connection {
    frames: mpsc::Sender<Frame>,
    pending: Arc<Pending>,
}

impl Connection {
    pub(super) fn open(stream: UnixStream) -> Self {
        let (frames, queue) = mpsc::channel(limits::SEND_QUEUE_FRAMES);
        let pending = Arc::new(Pending::default());
        tokio::spawn(serve(stream, queue, pending.clone()));
        Self { frames, pending }
    }

    /// Has it ended?
    pub(super) fn is_closed(&self) -> bool {
        self.frames.is_closed()
    }

    /// Waits for its end.
    pub(super) async fn closed(&self) {
        self.frames.closed().await;
    }

    /// Sends one request and waits for its reply.
    pub(super) async fn call(&self, request: Request) -> Result<Reply, Failure> {
        let Request { id, body, timeout, answers, work } = request;
        let (waiting, reply) = Waiting::new(timeout, answers);
        let deadline = waiting.deadline.clone();
        let Some(_registered) = self.pending.register(id, waiting) else {
            return Err(Failure::Lost { complete: false });
        };
        let exchange = async {
            // A full queue means that the host does not read; the deadline covers that wait too.
            let _ = self.frames.send(Frame { id, body, work }).await;
            reply.await.unwrap_or(Err(Failure::Lost { complete: true }))
        };
        tokio::pin!(exchange);
        loop {
            let until = deadline.get();
            tokio::select! {
                biased;
                reply = &mut exchange => return reply,
                () = tokio::time::sleep_until(until) => {
                    if deadline.get() > until {
                        continue;
                    }
                    if until.elapsed() < limits::LATE {
                        return Err(Failure::Silence);
                    }
                    // The process was stopped, or the machine slept: what came meanwhile is still to be read.
                    deadline.extend(limits::LINK_DRAIN);
                }
            }
        }
    }
}

/// Runs one connection to its end.
async fn serve(stream: UnixStream, queue: mpsc::Receiver<Frame>, pending: Arc<Pending>) {
    let (reader, writer) = stream.into_split();
    let reading = read_frames(reader, &pending);
    tokio::pin!(reading);
    // The end of either side ends the connection. A frame half written has no use any more, but replies that came before
    // the end are still there to be read.
    let reset = tokio::select! {
        reset = &mut reading => reset,
        () = write_frames(writer, queue, &pending) => {
            tokio::time::timeout(limits::LINK_DRAIN, reading).await.unwrap_or(false)
        }
    };
    pending.fail_all(reset);
}

/// Reads to the end; `true` when it was a reset.
async fn read_frames(reader: OwnedReadHalf, pending: &Pending) -> bool {
    let mut frames = FramedRead::new(reader, FrameCodec::runner());
    loop {
        match frames.next().await {
            Some(Ok(frame)) => pending.deliver(frame),
            Some(Err(FrameError::Io(error))) => return error.kind() == io::ErrorKind::ConnectionReset,
            // After a wrong length the next bytes mean nothing.
            Some(Err(_)) | None => return false,
        }
    }
}

/// Of the frames that wait, those with long work go last: a host that reads several at once takes them one by one
/// (PROTOCOL §3.7), and a quick question would stand for minutes behind a delegated task.
async fn write_frames(mut writer: OwnedWriteHalf, mut queue: mpsc::Receiver<Frame>, pending: &Pending) {
    let mut waiting = Vec::new();
    while queue.recv_many(&mut waiting, limits::SEND_QUEUE_FRAMES).await > 0 {
        waiting.sort_by_key(|frame| frame.work);
        for Frame { id, body, .. } in waiting.drain(..) {
            // Given up while it waited: the host need not see it.
            if !pending.begin(id) {
                continue;
            }
            if write_frame(&mut writer, &body).await.is_err() {
                return;
            }
            pending.written(id);
        }
    }
}

/// Header and body in one write where the kernel takes them, so that each request is a segment of its own
/// (PROTOCOL §3.7) and large bodies are not copied.
async fn write_frame<W: AsyncWrite + Unpin>(writer: &mut W, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).map_err(io::Error::other)?.to_be_bytes();
    let mut slices = [IoSlice::new(&length), IoSlice::new(body)];
    let mut slices = &mut slices[..];
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match writer.write_vectored(slices).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => IoSlice::advance_slices(&mut slices, written),
        }
    }
    Ok(())
}
