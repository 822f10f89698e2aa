//! The link over a Unix socket (PROTOCOL §3): which connection a call goes out on, and what happens after a loss.

use super::connection::{Connection, Failure, Request};
use super::{BoxFuture, CallContext, CallError, HostLink};
use crate::limits;
use crate::os;
use crate::wire::{Action, Reply};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::Instant;

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
        if !state.connection.is_closed() {
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

    /// Waits for the end of the connection, and for this long without another one. What a call does after a
    /// loss is its own affair; this is for the time in which only tools run, and nobody would notice.
    async fn until_gone(&self, patience: Duration) {
        loop {
            let connection = self.state.lock().await.connection.clone();
            connection.closed().await;
            let Some(path) = &self.redial else { return };
            tracing::warn!(component = "ipc-client", "ipc_connection_lost");
            let until = Instant::now() + patience;
            if !self.regained(path, until).await {
                return;
            }
        }
    }

    /// Connects again, unless a call has done so already; false when that has not worked out in time.
    async fn regained(&self, path: &Path, until: Instant) -> bool {
        let [first, .., longest] = limits::RECONNECT_PAUSES;
        let mut pause = first;
        while Instant::now() < until {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
            let mut state = self.state.lock().await;
            if !state.connection.is_closed() {
                return true;
            }
            if let Ok(stream) = redial(path).await {
                tracing::info!(component = "ipc-client", "ipc_reconnected");
                *state = State { connection: Connection::open(stream), failed: None };
                return true;
            }
        }
        false
    }

    async fn exchange(&self, action: &Action, context: &CallContext) -> Result<Reply, CallError> {
        let timeout = action.timeout(self.llm_timeout);
        let mut repeated = false;
        // The host can have carried it out, whatever becomes of the repetition.
        let mut seen = false;
        loop {
            let connection = match self.connection().await {
                Ok(connection) => connection,
                Err(error) if seen => {
                    tracing::warn!(component = "ipc-client", error = %error, "ipc_call_not_repeated");
                    return Err(CallError::OutcomeUnknown);
                }
                Err(error) => return Err(error),
            };
            let id = self.next_id.fetch_add(1, Ordering::Relaxed);
            let body = action.encode(Some(&id.to_string()), &context.meta).map_err(|_| CallError::Unencodable)?;
            let max = limits::FRAME_SEND_MAX_BYTES;
            if body.len() > max {
                return Err(CallError::TooLarge { bytes: body.len(), max });
            }
            let answers = matches!(action, Action::AgentResponse { .. });
            match connection.call(Request { id, body, timeout, answers, work: work(action, timeout) }).await {
                Ok(reply) => return Ok(reply),
                Err(Failure::Silence) => return Err(CallError::TimedOut(timeout.as_millis())),
                Err(Failure::Lost { complete }) => {
                    seen |= complete;
                    let safe = !complete || action.repeatable();
                    if !safe || repeated || self.redial.is_none() {
                        return Err(match seen {
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

    fn gone(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.until_gone(limits::HOST_AWAY_MAX))
    }

    fn request_max_bytes(&self) -> usize {
        limits::FRAME_SEND_MAX_BYTES
    }
}

/// The host's own questions and reports are quick; what it does for the model takes up to as long as it is waited for.
fn work(action: &Action, timeout: Duration) -> Duration {
    match action {
        Action::LlmCall(_) | Action::Forward(_) => timeout,
        _ => Duration::ZERO,
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::UnixListener;

    /// An ample limit against a hang.
    async fn soon<T>(work: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(60), work).await.expect("hangs")
    }

    #[tokio::test]
    async fn a_host_that_comes_back_is_not_gone_and_one_that_stays_away_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("host.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let link = SocketLink::connect(&path, Duration::from_secs(60)).await.unwrap();
        let (first, _) = listener.accept().await.unwrap();
        let host = async {
            drop(first);
            let (second, _) = listener.accept().await.unwrap();
            drop(listener);
            std::fs::remove_file(&path).unwrap();
            let back = Instant::now();
            drop(second);
            back
        };
        let ((), back) = soon(async { tokio::join!(link.until_gone(Duration::from_millis(700)), host) }).await;
        assert!(back.elapsed() >= Duration::from_millis(700), "given up too soon");
    }

    #[tokio::test]
    async fn who_never_dials_twice_is_gone_at_once() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let link = SocketLink::accepted(ours, Duration::from_secs(60));
        let gone = link.until_gone(limits::HOST_AWAY_MAX);
        tokio::pin!(gone);
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut gone).await.is_err());
        drop(theirs);
        soon(gone).await;
    }
}
