//! Frames over a Unix socket (PROTOCOL §3): correlation, heartbeats, loss and reconnect.
//!
//! One task owns the connection. It writes frames whole, reads frames whole, and when it ends it fails what is pending,
//! telling for each call whether the host can have seen it: only if its frame had left complete, and not if the kernel says
//! that the end of what we sent was never read.

use super::{BoxFuture, CallContext, CallError, HostLink};
use crate::limits;
use crate::os;
use crate::wire::{Action, Envelope, FrameCodec, FrameError, Reply};
use bytes::Bytes;
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::codec::FramedRead;

/// The link of the connect and listen modes.
pub struct SocketLink {
    /// Where to connect again after a loss. `None` in listen mode: the host never dials twice (PROTOCOL §3.9).
    redial: Option<PathBuf>,
    llm_timeout: Duration,
    next_id: AtomicU64,
    state: tokio::sync::Mutex<State>,
}

struct State {
    connection: Connection,
    /// The last failed round of reconnecting: calls queued behind it share its result instead of repeating it.
    failed: Option<(Instant, CallError)>,
}

impl SocketLink {
    /// Connects to the host's socket. The first connection is not retried: a missing socket is a fault of the launch.
    pub async fn connect(path: &Path, llm_timeout: Duration) -> io::Result<Self> {
        let stream = dial(path).await?;
        Ok(Self::over(stream, Some(path.to_owned()), llm_timeout))
    }

    /// Uses a connection the host made to us.
    pub fn accepted(stream: UnixStream, llm_timeout: Duration) -> Self {
        Self::over(stream, None, llm_timeout)
    }

    fn over(stream: UnixStream, redial: Option<PathBuf>, llm_timeout: Duration) -> Self {
        let state = State { connection: Connection::open(stream), failed: None };
        Self { redial, llm_timeout, next_id: AtomicU64::new(1), state: tokio::sync::Mutex::new(state) }
    }

    /// The live connection, or a new one.
    async fn connection(&self) -> Result<Connection, CallError> {
        let mut state = self.state.lock().await;
        if !state.connection.frames.is_closed() {
            return Ok(state.connection.clone());
        }
        if let Some((at, error)) = &state.failed
            && at.elapsed() < limits::RECONNECT_COOLDOWN
        {
            return Err(error.clone());
        }
        let Some(path) = &self.redial else {
            return Err(CallError::NotSent("the host's bridge is gone and will not be opened again".to_owned()));
        };
        let mut last = String::new();
        for pause in limits::RECONNECT_PAUSES {
            tokio::time::sleep(pause).await;
            match redial(path).await {
                Ok(stream) => {
                    tracing::info!(component = "ipc-client", "ipc_reconnected");
                    state.connection = Connection::open(stream);
                    return Ok(state.connection.clone());
                }
                Err(error) => last = error.to_string(),
            }
        }
        let attempts = limits::RECONNECT_PAUSES.len();
        let error = CallError::NotSent(format!("IPC reconnect failed after {attempts} attempts: {last}"));
        state.failed = Some((Instant::now(), error.clone()));
        Err(error)
    }

    async fn exchange(&self, action: &Action, context: &CallContext) -> Result<Reply, CallError> {
        let timeout = action.timeout(self.llm_timeout);
        let mut repeated = false;
        loop {
            let connection = self.connection().await?;
            let id = self.next_id.fetch_add(1, Ordering::Relaxed);
            let body = action.encode(Some(&id.to_string()), &context.meta).map_err(|_| CallError::Unencodable)?;
            let max = limits::FRAME_SEND_MAX_BYTES;
            if body.len() > max {
                return Err(CallError::TooLarge { bytes: body.len(), max });
            }
            let answers = matches!(action, Action::AgentResponse { .. });
            match connection.call(id, body, timeout, answers).await {
                Ok(reply) => return Ok(reply),
                Err(Failure::Silence) => return Err(CallError::TimedOut(timeout.as_millis())),
                Err(Failure::Lost { complete }) => {
                    let safe = !complete || action.repeatable();
                    if !safe || repeated || self.redial.is_none() {
                        return Err(match complete {
                            true => CallError::OutcomeUnknown,
                            false => CallError::NotSent("the connection was lost".to_owned()),
                        });
                    }
                    tracing::warn!(component = "ipc-client", action = action.name(), "ipc_call_repeated");
                    repeated = true;
                }
            }
        }
    }
}

impl HostLink for SocketLink {
    fn call<'a>(&'a self, action: &'a Action, context: &'a CallContext) -> BoxFuture<'a, Result<Reply, CallError>> {
        Box::pin(self.exchange(action, context))
    }

    fn request_max_bytes(&self) -> usize {
        limits::FRAME_SEND_MAX_BYTES
    }
}

async fn dial(path: &Path) -> io::Result<UnixStream> {
    match tokio::time::timeout(limits::CONNECT_TIMEOUT, UnixStream::connect(path)).await {
        Ok(stream) => stream,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the host does not accept the connection")),
    }
}

/// Connects again. A command of ours may meanwhile have moved the host's socket away and put its own in its place; whoever
/// answers there would be asked for consent.
async fn redial(path: &Path) -> io::Result<UnixStream> {
    let stream = dial(path).await?;
    // A host outside of the container has no number in here.
    let peer = stream.peer_cred()?.pid().filter(|pid| *pid != 0);
    match peer {
        Some(pid) if !os::is_foreign(pid) => {
            tracing::error!(component = "ipc-client", "ipc_socket_replaced");
            Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "a process of this container has taken the host's place",
            ))
        }
        _ => Ok(stream),
    }
}

/// Why one attempt brought no reply.
enum Failure {
    /// Nothing was heard for the call's whole time.
    Silence,
    /// The connection ended; `complete` says whether the host can have seen the whole frame.
    Lost { complete: bool },
}

#[derive(Clone)]
struct Connection {
    frames: mpsc::Sender<(u64, Vec<u8>)>,
    pending: Arc<Pending>,
}

impl Connection {
    fn open(stream: UnixStream) -> Self {
        let (frames, queue) = mpsc::channel(limits::SEND_QUEUE_FRAMES);
        let pending = Arc::new(Pending::default());
        tokio::spawn(serve(stream, queue, pending.clone()));
        Self { frames, pending }
    }

    async fn call(&self, id: u64, body: Vec<u8>, timeout: Duration, answers: bool) -> Result<Reply, Failure> {
        let (waiting, reply) = Waiting::new(timeout, answers);
        let deadline = waiting.deadline.clone();
        let Some(_registered) = self.pending.register(id, waiting) else {
            return Err(Failure::Lost { complete: false });
        };
        let exchange = async {
            // A full queue means that the host does not read; the deadline covers that wait too.
            let _ = self.frames.send((id, body)).await;
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
async fn serve(stream: UnixStream, queue: mpsc::Receiver<(u64, Vec<u8>)>, pending: Arc<Pending>) {
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

async fn write_frames(mut writer: OwnedWriteHalf, mut queue: mpsc::Receiver<(u64, Vec<u8>)>, pending: &Pending) {
    while let Some((id, body)) = queue.recv().await {
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

/// A point in time that heartbeats push back.
#[derive(Clone)]
struct Deadline(Arc<Mutex<Instant>>);

impl Deadline {
    fn get(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn extend(&self, timeout: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + timeout;
    }
}

struct Waiting {
    reply: oneshot::Sender<Result<Reply, Failure>>,
    deadline: Deadline,
    timeout: Duration,
    /// The host can have seen it: the whole frame was handed to the kernel.
    complete: bool,
    /// Delivers the turn's answer, which some hosts acknowledge without an id (PROTOCOL T5).
    answers: bool,
}

impl Waiting {
    fn new(timeout: Duration, answers: bool) -> (Self, oneshot::Receiver<Result<Reply, Failure>>) {
        let (reply, receiver) = oneshot::channel();
        let deadline = Deadline(Arc::new(Mutex::new(Instant::now() + timeout)));
        (Self { reply, deadline, timeout, complete: false, answers }, receiver)
    }
}

/// The calls of one connection that wait for a reply, by `_msgId`, oldest first.
#[derive(Default)]
struct Pending {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    calls: BTreeMap<u64, Waiting>,
    /// The frame begun last.
    last: u64,
    closed: bool,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` when the connection has ended.
    fn register(self: &Arc<Self>, id: u64, waiting: Waiting) -> Option<Registered> {
        let mut table = self.lock();
        if table.closed {
            return None;
        }
        table.calls.insert(id, waiting);
        Some(Registered { pending: self.clone(), id })
    }

    /// A frame is about to be written; `false` when nobody waits for its reply any more.
    fn begin(&self, id: u64) -> bool {
        let mut table = self.lock();
        let wanted = table.calls.contains_key(&id);
        if wanted {
            table.last = id;
        }
        wanted
    }

    /// The whole frame was handed to the kernel.
    fn written(&self, id: u64) {
        if let Some(waiting) = self.lock().calls.get_mut(&id) {
            waiting.complete = true;
        }
    }

    /// Routes one frame (PROTOCOL §3.4, §3.5). What belongs to nobody is dropped: a late reply, an unknown id, noise.
    fn deliver(&self, frame: Bytes) {
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
            match id.and_then(|id| table.calls.get(&id)) {
                Some(waiting) => waiting.deadline.extend(waiting.timeout),
                None => table.calls.values().for_each(|waiting| waiting.deadline.extend(waiting.timeout)),
            }
            return;
        }
        let id = match envelope.msg_id {
            Some(_) => id,
            None => table.oldest(|waiting| waiting.answers).or_else(|| table.oldest(|_| true)),
        };
        if let Some(waiting) = id.and_then(|id| table.calls.remove(&id)) {
            let _ = waiting.reply.send(Ok(Reply::new(frame)));
        }
    }

    /// Fails what waits. A Unix socket is reset when its peer closes it with bytes unread, so `reset` says that the frame
    /// begun last was not read whole.
    fn fail_all(&self, reset: bool) {
        let mut table = self.lock();
        table.closed = true;
        let last = table.last;
        if let (true, Some(waiting)) = (reset, table.calls.get_mut(&last)) {
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
        self.calls.iter().find(|(_, waiting)| waiting.complete && wanted(waiting)).map(|(id, _)| *id)
    }
}

/// Takes the call out of the table when its caller gives up.
struct Registered {
    pending: Arc<Pending>,
    id: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.pending.lock().calls.remove(&self.id);
    }
}
