//! A host before its start: how it behaves, what it breaks, whom it tells.

use super::brain::Brain;
use super::event::Listener;
use super::fault::Fault;
use super::host::FakeHost;
use super::http;
use super::inside::Inside;
use super::payload;
use super::policy::Policy;
use super::script::Script;
use super::socket::Manners;
use super::validate::Transport;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

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
    pub(crate) fn new(transport: Transport, script: Script) -> Self {
        Self {
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
        let thread = std::thread::Builder::new().name("fake host".to_owned()).spawn(move || {
            runtime.block_on(ended.cancelled_owned());
            // Somebody may still be asked at the terminal; that must not hold up the end.
            runtime.shutdown_background();
        })?;
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
        let host = FakeHost::new(Arc::new(inside), reading, over, thread);
        std::fs::create_dir_all(host.directory().join("bridges"))?;
        std::fs::set_permissions(host.directory(), PermissionsExt::from_mode(0o700))?;
        payload::seed(&host.workspace())?;
        host.restart()?;
        Ok(host)
    }
}
