//! Starts a runner against a host, as a child with a clean environment, and never lets it outlive its time.

use super::event::Event;
use super::inside::Inside;
use super::payload;
use super::provider::{Launch, Provider, Vector};
use super::validate::Transport;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The script path that arrives as an argument of the image's entrypoint (PROTOCOL §1.1).
pub(crate) const SCRIPT: &str = "/opt/ax/dist/agent/runner.js";
/// The readiness signal of listen mode (PROTOCOL §1.5).
const READY: &str = "[signal] ipc_ready";

/// A runner before its start. Without a payload its stdin is empty.
pub struct Runner {
    inside: Arc<Inside>,
    program: Vec<OsString>,
    launch: Launch,
    /// Instead of the provider's.
    arguments: Option<Vec<OsString>>,
    added: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    payload: Vec<u8>,
    stdin_open: bool,
    deadline: Duration,
    user: Option<u32>,
}

/// How a runner ended.
#[derive(Debug)]
pub struct Output {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What it wrote on stdout: in socket mode the answer.
    pub stdout: Vec<u8>,
    /// What it wrote on stderr.
    pub stderr: String,
    /// It was ended by its deadline.
    pub timed_out: bool,
    /// From the start to the end.
    pub elapsed: Duration,
}

impl Output {
    /// Stdout as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

impl Runner {
    pub(crate) fn new(inside: Arc<Inside>, program: Vec<OsString>, workspace: PathBuf) -> Self {
        let launch = Launch {
            provider: Provider::Process,
            transport: inside.manners.transport,
            ipc: inside.ipc(),
            workspace,
            request_id: None,
            verbose: false,
            http: (inside.url(), inside.http.pod_token.clone()),
            image: String::new(),
            name: format!("ax-agent-{:08x}", payload::random() >> 32),
        };
        Self {
            inside,
            program,
            launch,
            arguments: None,
            added: Vec::new(),
            environment: BTreeMap::new(),
            payload: Vec::new(),
            stdin_open: false,
            deadline: Duration::from_secs(60),
            user: None,
        }
    }

    /// Starts it as this user and group, who get the host's directories. The host must be root's.
    pub fn user(self, user: u32) -> Self {
        Self { user: Some(user), ..self }
    }

    /// Starts it through a provider, in this image.
    pub fn provider(mut self, provider: Provider, image: impl Into<String>) -> Self {
        self.launch.provider = provider;
        if provider == Provider::K8s {
            // Seen from a pod, the host is a service of its cluster.
            "http://ax-host.default.svc".clone_into(&mut self.launch.http.0);
        }
        self.launch.image = image.into();
        self
    }

    /// Has it say more on stderr.
    pub fn verbose(mut self, verbose: bool) -> Self {
        self.launch.verbose = verbose;
        self
    }

    /// Replaces the provider's arguments.
    pub fn arguments<S: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments = Some(arguments.into_iter().map(Into::into).collect());
        self
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.added.push(argument.into());
        self
    }

    /// Adds to or overrides a process's environment; nothing else is inherited.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Works in this directory instead of [`super::FakeHost::workspace`].
    pub fn workspace(mut self, workspace: impl Into<PathBuf>) -> Self {
        self.launch.workspace = workspace.into();
        self
    }

    /// The work, and the metadata that its requests must carry. Over HTTP it is queued, otherwise it goes to stdin.
    pub fn payload(mut self, payload: &Value) -> Self {
        self.launch.request_id = payload["requestId"].as_str().map(str::to_owned);
        match self.inside.manners.transport {
            Transport::Http => self.inside.brain.push_work(payload.to_string(), &self.inside.http.pod_token),
            _ => {
                self.inside.brain.expect(payload);
                self.payload = payload.to_string().into_bytes();
            }
        }
        self
    }

    /// Exactly these bytes on stdin.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.payload = bytes.into();
        self
    }

    /// Never closes stdin.
    pub fn keep_stdin_open(self) -> Self {
        Self { stdin_open: true, ..self }
    }

    /// Ends the runner after this time; a minute by default.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Runs to the end. Panics when the program cannot be started. For tests.
    #[allow(clippy::panic, reason = "a test cannot go on without its runner")]
    pub fn run(self) -> Output {
        self.spawn().unwrap_or_else(|error| panic!("the runner does not start: {error}")).wait()
    }

    /// Starts.
    pub fn spawn(self) -> io::Result<Running> {
        let vector = self.vector();
        // A child changes its directory first; a relative path is meant from here.
        let program = Path::new(&vector.program);
        let relative = program.is_relative() && program.components().count() > 1;
        let mut command = if relative { Command::new(std::path::absolute(program)?) } else { Command::new(program) };
        command.args(&vector.arguments);
        if self.launch.provider == Provider::Process {
            command.env_clear().current_dir(&self.launch.workspace);
        }
        command
            .envs(vector.environment)
            .envs(&self.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(user) = self.user {
            self.inside.hand_over(user)?;
            command.uid(user).gid(user);
        }
        let _runtime = self.inside.handle.enter();
        let child = command.spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
        let (sender, done) = mpsc::sync_channel(1);
        let abandoned = CancellationToken::new();
        let over = Arc::new(AtomicBool::new(false));
        let drive = Drive {
            inside: self.inside.clone(),
            socket: self.launch.socket(),
            payload: self.payload,
            stdin_open: self.stdin_open,
            deadline: self.deadline,
            abandoned: abandoned.clone(),
            over: over.clone(),
        };
        self.inside.handle.spawn(async move {
            let _ = sender.send(drive.run(child, pid).await);
        });
        Ok(Running { pid, done, abandoned, over })
    }

    /// The command line as one would type it.
    pub fn shell(&self) -> String {
        self.vector().shell()
    }

    /// The pod that would be created, as JSON.
    pub fn pod(&self) -> Value {
        self.launch.pod()
    }

    fn vector(&self) -> Vector {
        let mut vector = self.launch.vector(&self.program);
        if let Some(arguments) = &self.arguments {
            vector.arguments.clone_from(arguments);
        }
        vector.arguments.extend(self.added.iter().cloned());
        vector
    }
}

/// A runner that was started. Dropped without [`Running::wait`] it is killed.
pub struct Running {
    pid: Option<Pid>,
    done: mpsc::Receiver<Output>,
    abandoned: CancellationToken,
    over: Arc<AtomicBool>,
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid.map_or(0, Pid::as_raw)
    }

    /// What ends it from elsewhere.
    pub(crate) fn stopper(&self) -> CancellationToken {
        self.abandoned.clone()
    }

    /// Has it ended?
    pub fn ended(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Sends it a signal, unless it has ended.
    pub fn signal(&self, signal: Signal) {
        if let (Some(pid), false) = (self.pid, self.ended()) {
            let _ = kill(pid, signal);
        }
    }

    /// Waits for its end: exit, and the end of both outputs.
    pub fn wait(self) -> Output {
        self.done.recv().unwrap_or_else(|_| Output {
            code: None,
            signal: None,
            stdout: Vec::new(),
            stderr: "the host ended before the runner".to_owned(),
            timed_out: true,
            elapsed: Duration::ZERO,
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.abandoned.cancel();
    }
}

/// Everything about a running child.
struct Drive {
    inside: Arc<Inside>,
    /// Where a runner that listens is found.
    socket: PathBuf,
    payload: Vec<u8>,
    stdin_open: bool,
    deadline: Duration,
    abandoned: CancellationToken,
    over: Arc<AtomicBool>,
}

impl Drive {
    async fn run(self, mut child: Child, pid: Option<Pid>) -> Output {
        let started = Instant::now();
        let (ready, is_ready) = watch::channel(false);
        let stdout = child.stdout.take().map(|pipe| tokio::spawn(collect(pipe, |_| {})));
        let brain = self.inside.brain.clone();
        let stderr = child.stderr.take().map(|pipe| {
            tokio::spawn(collect(pipe, move |chunk| {
                let text = String::from_utf8_lossy(chunk);
                if text.contains(READY) {
                    ready.send_replace(true);
                }
                text.lines().for_each(|line| brain.emit(&Event::Stderr(line.to_owned())));
            }))
        });
        let feeding = child.stdin.take().map(|stdin| {
            let (inside, payload, open) = (self.inside.clone(), self.payload.clone(), self.stdin_open);
            tokio::spawn(feed(inside, self.socket.clone(), stdin, payload, open, is_ready))
        });
        let (status, timed_out) = self.wait(&mut child, pid).await;
        self.over.store(true, Ordering::Release);
        let output = Output {
            code: status.and_then(|status| status.code()),
            signal: status.and_then(|status| status.signal()),
            stdout: drained(stdout).await,
            stderr: String::from_utf8_lossy(&drained(stderr).await).into_owned(),
            timed_out,
            elapsed: started.elapsed(),
        };
        if let Some(feeding) = feeding {
            feeding.abort();
        }
        output
    }

    async fn wait(&self, child: &mut Child, pid: Option<Pid>) -> (Option<ExitStatus>, bool) {
        tokio::select! {
            status = child.wait() => return (status.ok(), false),
            () = tokio::time::sleep(self.deadline) => {}
            () = self.abandoned.cancelled() => {}
        }
        if let Some(pid) = pid {
            let _ = kill(pid, Signal::SIGTERM);
            if tokio::time::timeout(Duration::from_secs(3), child.wait()).await.is_err() {
                let _ = killpg(pid, Signal::SIGKILL);
            }
        }
        (child.wait().await.ok(), true)
    }
}

/// Reads a pipe to its end, telling each chunk on the way.
async fn collect(mut pipe: impl AsyncReadExt + Unpin, mut told: impl FnMut(&[u8])) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        told(&buffer[..count]);
        all.extend_from_slice(&buffer[..count]);
    }
    all
}

/// What a pipe held. A process the runner left behind may keep it open; that must not hang the caller.
async fn drained(reading: Option<JoinHandle<Vec<u8>>>) -> Vec<u8> {
    let Some(reading) = reading else { return Vec::new() };
    let abort = reading.abort_handle();
    match tokio::time::timeout(Duration::from_secs(5), reading).await {
        Ok(Ok(bytes)) => bytes,
        _ => {
            abort.abort();
            b"[a process that the runner left behind holds this pipe]".to_vec()
        }
    }
}

/// Writes the payload and closes stdin; in listen mode only after the runner has accepted (PROTOCOL §3.9).
async fn feed(
    inside: Arc<Inside>,
    socket: PathBuf,
    mut stdin: ChildStdin,
    payload: Vec<u8>,
    open: bool,
    mut ready: watch::Receiver<bool>,
) {
    if inside.manners.transport == Transport::Listen {
        let _ = tokio::time::timeout(Duration::from_secs(15), ready.wait_for(|ready| *ready)).await;
        if let Err(error) = inside.dial(&socket).await {
            return inside.brain.violation("", format!("the runner's socket does not answer: {error}"));
        }
    }
    let _ = stdin.write_all(&payload).await;
    let _ = stdin.flush().await;
    if open {
        std::future::pending::<()>().await;
    }
}
