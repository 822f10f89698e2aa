//! The fake host as a value: started in a test or by the command, asked what it has seen, told what to break.
//!
//! It lives on a thread of its own, so a test may block or be asynchronous as it likes.

use super::brain::State;
use super::builder::Builder;
use super::fault::Fault;
use super::inside::Inside;
use super::payload;
use super::policy::Policy;
use super::runner::Runner;
use super::script::Script;
use super::seen::{Answer, Request, Violation};
use super::validate::Transport;
use serde_json::Value;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A running host. It ends, with its socket and its directory, when it is dropped; a broken rule that nobody has asked for
/// by then is a panic, so that no test passes on requests a real host would refuse.
pub struct FakeHost {
    inside: Arc<Inside>,
    reading: watch::Sender<bool>,
    over: CancellationToken,
    thread: Option<JoinHandle<()>>,
    /// Broken rules that were asked for.
    told: AtomicUsize,
}

impl FakeHost {
    pub(crate) fn new(
        inside: Arc<Inside>,
        reading: watch::Sender<bool>,
        over: CancellationToken,
        thread: JoinHandle<()>,
    ) -> Self {
        Self { inside, reading, over, thread: Some(thread), told: AtomicUsize::new(0) }
    }

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
        Builder::new(transport, script)
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
        let violations = self.inside.brain.state().violations.clone();
        self.told.fetch_max(violations.len(), Ordering::Relaxed);
        violations
    }

    /// From now on rules may be broken unasked: for tests that break them themselves, by cutting a frame for instance.
    pub fn forgive(&self) {
        self.told.store(usize::MAX, Ordering::Relaxed);
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
        self.inside.brain.state().model.script = script;
    }

    /// Replaces the policy.
    pub fn set_policy(&self, policy: Policy) {
        self.inside.brain.state().policy = policy;
    }

    /// Answers a forwarded action with these fields from now on.
    pub fn set_reply(&self, action: &str, fields: Value) {
        self.inside.brain.state().model.script.actions.insert(action.to_owned(), fields);
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
        self.inside.close();
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
        let violations = self.inside.brain.state().violations.clone();
        // A frame that breaks off has no action: it is what a killed runner leaves.
        let told = self.told.load(Ordering::Relaxed);
        let untold: Vec<_> = violations.iter().skip(told).filter(|it| !it.action.is_empty()).collect();
        assert!(untold.is_empty() || std::thread::panicking(), "the runner broke rules of the host's: {untold:?}");
    }
}
