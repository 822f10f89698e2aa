//! The fake host as a value: started in a test or by the command, asked what it has seen, told what to break.
//!
//! It lives on a thread of its own, so a test may block or be asynchronous as it likes.

use super::brain::{Brain, State};
use super::event::Listener;
use super::fault::Fault;
use super::http;
use super::payload;
use super::policy::Policy;
use super::runner::Runner;
use super::script::Script;
use super::socket::{self, Manners};
use super::validate::Transport;
use bytes::Bytes;
use serde_json::Value;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    /// Position among all requests, from 0.
    pub index: usize,
    /// Since the host's start.
    pub at: Duration,
    /// Which connection it came on, from 1.
    pub connection: usize,
    /// Its action; empty when it has none.
    pub action: String,
    /// Its bytes.
    pub raw: Bytes,
    /// Its JSON; `null` when it is none.
    pub value: Value,
    /// `false` when a fault dropped it first.
    pub carried_out: bool,
}

/// A rule the runner broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The request's action; empty when it has none.
    pub action: String,
    /// Which rule.
    pub message: String,
}

/// An answer that came by `agent_response`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its text.
    pub content: String,
    /// The turn it is for.
    pub request_id: Option<String>,
}

/// A host before its start.
pub struct Builder {
    transport: Transport,
    script: Script,
    policy: Policy,
    heartbeat: Duration,
    heartbeat_ids: bool,
    idle: Duration,
    listeners: Vec<Listener>,
    plan: Vec<(String, usize, Fault)>,
}

impl Builder {
    /// Approves by this policy instead of approving everything.
    pub fn policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// Sends a heartbeat so often while a reply is due; 15 seconds by default, as the host.
    pub fn heartbeat(self, pause: Duration) -> Self {
        Self { heartbeat: pause, ..self }
    }

    /// Leaves the call's id out of heartbeats.
    pub fn anonymous_heartbeats(self) -> Self {
        Self { heartbeat_ids: false, ..self }
    }

    /// HTTP: closes a connection that was idle for this time; 5 seconds by default, as the host.
    pub fn idle(self, idle: Duration) -> Self {
        Self { idle, ..self }
    }

    /// Breaks the `nth` (from 1) request of an action. `*` counts all requests; over HTTP a path (`/internal/work`)
    /// counts the requests to it.
    pub fn fault(mut self, action: &str, nth: usize, fault: Fault) -> Self {
        self.plan.push((action.to_owned(), nth, fault));
        self
    }

    /// Tells somebody what happens.
    pub fn listener(mut self, listener: Listener) -> Self {
        self.listeners.push(listener);
        self
    }

    /// Starts; panics when it cannot. For tests.
    #[allow(clippy::panic, reason = "a test cannot go on without its host")]
    pub fn start(self) -> FakeHost {
        self.try_start().unwrap_or_else(|error| panic!("the fake host does not start: {error}"))
    }

    /// Starts.
    pub fn try_start(self) -> io::Result<FakeHost> {
        let directory =
            tempfile::Builder::new().prefix("axd-").permissions(PermissionsExt::from_mode(0o700)).tempdir()?;
        let brain = Arc::new(Brain::new(self.script, self.policy, self.listeners));
        for (action, nth, fault) in self.plan {
            brain.state().plan.add(&action, nth, fault);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (handle, over) = (runtime.handle().clone(), CancellationToken::new());
        let ended = over.clone();
        let thread = std::thread::Builder::new()
            .name("fake host".to_owned())
            .spawn(move || runtime.block_on(ended.cancelled_owned()))?;
        let (reading, read) = watch::channel(true);
        let manners = Manners {
            transport: self.transport,
            heartbeat: self.heartbeat,
            heartbeat_ids: self.heartbeat_ids,
            reading: read,
        };
        let http = http::Manners {
            pod_token: format!("pod-{:016x}{:016x}", payload::random(), payload::random()),
            idle: self.idle,
        };
        let inside = Inside {
            brain,
            manners,
            http,
            address: OnceLock::new(),
            handle,
            directory,
            current: Mutex::new(CancellationToken::new()),
            listening: Mutex::new(None),
        };
        let host = FakeHost { inside: Arc::new(inside), reading, over, thread: Some(thread) };
        std::fs::create_dir_all(host.directory().join("bridges"))?;
        std::fs::set_permissions(host.directory(), PermissionsExt::from_mode(0o700))?;
        payload::seed(&host.workspace())?;
        host.inside.open()?;
        Ok(host)
    }
}

/// What outlives a borrow of the host: shared with the runners it starts.
pub(crate) struct Inside {
    pub(crate) brain: Arc<Brain>,
    pub(crate) manners: Manners,
    pub(crate) http: http::Manners,
    /// HTTP: where the host listens, kept over a restart.
    address: OnceLock<SocketAddr>,
    pub(crate) handle: Handle,
    directory: TempDir,
    /// Ends the listener and all connections.
    current: Mutex<CancellationToken>,
    /// Disconnected once the listener is closed.
    listening: Mutex<Option<mpsc::Receiver<()>>>,
}

impl Inside {
    pub(crate) fn socket_path(&self) -> PathBuf {
        self.ipc().join("proxy.sock")
    }

    /// The directory that a container sees, with the host's sockets.
    pub(crate) fn ipc(&self) -> PathBuf {
        self.directory.path().join("ipc")
    }

    /// Gives the socket and the workspace to a user, who may also pass through the directory they are in.
    pub(crate) fn hand_over(&self, user: u32) -> io::Result<()> {
        std::fs::set_permissions(self.directory.path(), PermissionsExt::from_mode(0o711))?;
        owned_by(&self.ipc(), user)?;
        owned_by(&self.directory.path().join("workspace"), user)
    }

    fn current(&self) -> CancellationToken {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts to listen, unless the runner is the one who does.
    fn open(&self) -> io::Result<()> {
        let _runtime = self.handle.enter();
        let (brain, stop) = (self.brain.clone(), self.current());
        let (closing, closed) = mpsc::channel::<()>();
        match self.manners.transport {
            Transport::Listen => {}
            Transport::Socket => {
                let listener = UnixListener::bind(self.socket_path())?;
                let serving = socket::serve(listener, brain, self.manners.clone(), stop);
                self.handle.spawn(async move {
                    serving.await;
                    drop(closing);
                });
            }
            Transport::Http => {
                let address = self.address.get().copied().unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
                let listener = std::net::TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                let _ = self.address.set(listener.local_addr()?);
                let listener = TcpListener::from_std(listener)?;
                let serving = http::serve(listener, brain, self.http.clone(), stop);
                self.handle.spawn(async move {
                    serving.await;
                    drop(closing);
                });
            }
        }
        *self.listening.lock().unwrap_or_else(PoisonError::into_inner) = Some(closed);
        Ok(())
    }

    /// HTTP: the host's URL.
    pub(crate) fn url(&self) -> String {
        self.address.get().map_or_else(String::new, |address| format!("http://{address}"))
    }

    /// Dials the runner's socket as the host does: up to 20 tries, 250 ms apart (PROTOCOL §3.9).
    pub(crate) async fn dial(&self, socket: &Path) -> io::Result<()> {
        let mut tries = 0;
        let stream = loop {
            tries += 1;
            match UnixStream::connect(socket).await {
                Ok(stream) => break stream,
                Err(error) if tries == 20 => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(250)).await,
            }
        };
        let gone = self.current().child_token();
        tokio::spawn(socket::connection(stream, self.brain.clone(), self.manners.clone(), gone));
        Ok(())
    }
}

/// A running host. It ends, with its socket and its directory, when it is dropped.
pub struct FakeHost {
    inside: Arc<Inside>,
    reading: watch::Sender<bool>,
    over: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl FakeHost {
    /// A host that listens on a Unix socket, as for docker.
    pub fn socket(script: Script) -> Builder {
        Self::builder(Transport::Socket, script)
    }

    /// A host that dials the runner's socket, as for Apple's containers.
    pub fn listen(script: Script) -> Builder {
        Self::builder(Transport::Listen, script)
    }

    /// A host that speaks HTTP, as for Kubernetes.
    pub fn http(script: Script) -> Builder {
        Self::builder(Transport::Http, script)
    }

    /// A host for any transport.
    pub fn builder(transport: Transport, script: Script) -> Builder {
        Builder {
            transport,
            script,
            policy: Policy::allow(),
            heartbeat: Duration::from_secs(15),
            heartbeat_ids: true,
            idle: Duration::from_secs(5),
            listeners: Vec::new(),
            plan: Vec::new(),
        }
    }

    /// The private directory (0700) of the sockets.
    pub fn directory(&self) -> PathBuf {
        self.inside.ipc()
    }

    /// The socket's path: the host's own, or where the runner has to listen.
    pub fn socket_path(&self) -> PathBuf {
        self.inside.socket_path()
    }

    /// HTTP: the host's URL.
    pub fn url(&self) -> String {
        self.inside.url()
    }

    /// HTTP: the token for `/internal/work`.
    pub fn pod_token(&self) -> &str {
        &self.inside.http.pod_token
    }

    /// HTTP: queues a work item and opens its turn.
    pub fn push_work(&self, payload: &Value) {
        self.push_raw_work(&payload.to_string());
    }

    /// HTTP: queues these bytes; without an `ipcToken` in them the turn's token is the pod's.
    pub fn push_raw_work(&self, item: &str) {
        self.inside.brain.push_work(item.to_owned(), self.pod_token());
    }

    /// HTTP: closes a turn, as the host does when it gives up waiting.
    pub fn close_turn(&self, token: &str) {
        self.inside.brain.close_turn(token);
    }

    /// Waits for the `nth` answer (from 1) by `agent_response`.
    pub fn wait_answer(&self, nth: usize, limit: Duration) -> Option<Answer> {
        self.inside.brain.wait(limit, |state| state.answers.len() >= nth);
        self.inside.brain.state().answers.get(nth - 1).cloned()
    }

    /// A workspace with its `.ax`, gone with the host.
    pub fn workspace(&self) -> PathBuf {
        self.inside.directory.path().join("workspace")
    }

    /// The host's runtime.
    pub(crate) fn handle(&self) -> Handle {
        self.inside.handle.clone()
    }

    /// The transport.
    pub fn transport(&self) -> Transport {
        self.inside.manners.transport
    }

    /// A payload as the host sends it, for this transport.
    pub fn payload(&self, message: &str) -> Value {
        payload::for_message(message, self.transport())
    }

    /// A runner to be started against this host: the program; the arguments are the provider's.
    pub fn runner(&self, program: impl Into<std::ffi::OsString>) -> Runner {
        self.command(vec![program.into()])
    }

    /// The same with arguments before the provider's.
    pub fn command(&self, program: Vec<std::ffi::OsString>) -> Runner {
        Runner::new(self.inside.clone(), program, self.workspace())
    }

    /// From now on the requests' metadata must be this payload's. A [`Runner`] does it by itself.
    pub fn expect(&self, payload: &Value) {
        self.inside.brain.expect(payload);
    }

    /// Every request so far, in order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.inside.brain.state().requests.clone()
    }

    /// The requests of one action.
    pub fn requests_of(&self, action: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.action == action).collect()
    }

    /// Every broken rule so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.inside.brain.state().violations.clone()
    }

    /// The answers that came by `agent_response`.
    pub fn answers(&self) -> Vec<Answer> {
        self.inside.brain.state().answers.clone()
    }

    /// The first of them: the one that counts.
    pub fn answer(&self) -> Option<String> {
        self.inside.brain.state().answers.first().map(|answer| answer.content.clone())
    }

    /// Connections so far, and those still open.
    pub fn connections(&self) -> (usize, usize) {
        let state = self.inside.brain.state();
        (state.connections, state.open)
    }

    /// How many requests of an action came, or over HTTP to a path, `/internal/work` say.
    pub fn count(&self, key: &str) -> usize {
        self.inside.brain.count(key)
    }

    /// Waits for the `nth` request (from 1) of an action.
    pub fn wait_request(&self, action: &str, nth: usize, limit: Duration) -> Option<Request> {
        let nth_of =
            |state: &State| state.requests.iter().filter(|request| request.action == action).nth(nth - 1).cloned();
        self.inside.brain.wait(limit, |state| nth_of(state).is_some());
        nth_of(&self.inside.brain.state())
    }

    /// Waits until so many connections were made.
    pub fn wait_connections(&self, count: usize, limit: Duration) -> bool {
        self.inside.brain.wait(limit, |state| state.connections >= count)
    }

    /// Replaces the rest of the script.
    pub fn set_script(&self, script: Script) {
        self.inside.brain.state().script = script;
    }

    /// Replaces the policy.
    pub fn set_policy(&self, policy: Policy) {
        self.inside.brain.state().policy = policy;
    }

    /// Answers a forwarded action with these fields from now on.
    pub fn set_reply(&self, action: &str, fields: Value) {
        self.inside.brain.state().script.actions.insert(action.to_owned(), fields);
    }

    /// As [`Builder::fault`], on a running host; counted from the host's start.
    pub fn fault(&self, action: &str, nth: usize, fault: Fault) {
        self.inside.brain.state().plan.add(action, nth, fault);
    }

    /// Stops or goes on reading requests.
    pub fn set_reading(&self, reading: bool) {
        self.reading.send_replace(reading);
    }

    /// Closes every open connection; new ones are accepted.
    pub fn cut(&self) -> io::Result<()> {
        self.stop();
        self.restart()
    }

    /// Goes away: no socket, no connection.
    pub fn stop(&self) {
        let mut current = self.inside.current.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, CancellationToken::new()).cancel();
        drop(current);
        let listening = self.inside.listening.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listening) = listening {
            let _ = listening.recv_timeout(Duration::from_secs(2));
        }
        if self.transport() == Transport::Socket {
            let _ = std::fs::remove_file(self.socket_path());
        }
    }

    /// Comes back on the same path.
    pub fn restart(&self) -> io::Result<()> {
        self.inside.open()
    }
}

impl Drop for FakeHost {
    fn drop(&mut self) {
        self.stop();
        self.over.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Changes the owner of a tree; links are not followed.
pub(super) fn owned_by(path: &Path, user: u32) -> io::Result<()> {
    std::os::unix::fs::lchown(path, Some(user), Some(user))?;
    if path.symlink_metadata()?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            owned_by(&entry?.path(), user)?;
        }
    }
    Ok(())
}
