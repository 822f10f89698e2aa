//! Starts a runner against a host, as a child with a clean environment, and never lets it outlive its time.

use super::event::Event;
use super::host::Inside;
use super::validate::Transport;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
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
    program: OsString,
    arguments: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    workspace: PathBuf,
    payload: Vec<u8>,
    stdin_open: bool,
    deadline: Duration,
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
    pub(crate) fn new(inside: Arc<Inside>, program: OsString, workspace: PathBuf) -> Self {
        let arguments = [SCRIPT, "--agent", "pi-coding-agent", "--max-tokens", "8192"].map(OsString::from).to_vec();
        Self {
            inside,
            program,
            arguments,
            environment: BTreeMap::new(),
            workspace,
            payload: Vec::new(),
            stdin_open: false,
            deadline: Duration::from_secs(60),
        }
    }

    /// Replaces the provider's arguments.
    pub fn arguments<S: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds to or overrides the provider's environment; nothing else is inherited.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Works in this directory instead of [`super::FakeHost::workspace`].
    pub fn workspace(mut self, workspace: impl Into<PathBuf>) -> Self {
        self.workspace = workspace.into();
        self
    }

    /// The work, and the metadata that its requests must carry. Over HTTP it is queued, otherwise it goes to stdin.
    pub fn payload(mut self, payload: &Value) -> Self {
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
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(self.provided())
            .envs(&self.environment)
            .current_dir(&self.workspace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let _runtime = self.inside.handle.enter();
        let child = command.spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
        let (sender, done) = mpsc::sync_channel(1);
        let abandoned = CancellationToken::new();
        let over = Arc::new(AtomicBool::new(false));
        let drive = Drive {
            inside: self.inside.clone(),
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

    /// What the provider sets (PROTOCOL §1.7–1.9), with paths of this machine.
    fn provided(&self) -> BTreeMap<OsString, OsString> {
        let ipc = self.inside.socket_path();
        let scratch = ipc.with_file_name("scratch");
        let mut path = self.workspace.join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()));
        let mut environment: BTreeMap<OsString, OsString> = BTreeMap::from([
            ("AX_WORKSPACE".into(), self.workspace.clone().into()),
            ("PATH".into(), path),
            ("npm_config_cache".into(), scratch.join("npm-cache").into()),
            ("XDG_CACHE_HOME".into(), scratch.join("cache").into()),
            ("AX_HOME".into(), scratch.join("agent").into()),
        ]);
        let http = &self.inside.http;
        let more: Vec<(&str, OsString)> = match self.inside.manners.transport {
            Transport::Http => vec![
                ("AX_HOST_URL", self.inside.url().into()),
                ("AX_IPC_TOKEN", http.pod_token.clone().into()),
                ("LOG_LEVEL", "warn".into()),
                ("POD_NAME", "ax-sandbox-dev".into()),
            ],
            transport => {
                let socket = ("AX_IPC_SOCKET", ipc.clone().into());
                let proxy = ("AX_WEB_PROXY_SOCKET", ipc.with_file_name("web-proxy.sock").into());
                let listen = (transport == Transport::Listen).then(|| ("AX_IPC_LISTEN", "1".into()));
                [socket, proxy].into_iter().chain(listen).collect()
            }
        };
        environment.extend(more.into_iter().map(|(name, value)| (name.into(), value)));
        environment
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
            tokio::spawn(feed(inside, stdin, payload, open, is_ready))
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
    mut stdin: ChildStdin,
    payload: Vec<u8>,
    open: bool,
    mut ready: watch::Receiver<bool>,
) {
    if inside.manners.transport == Transport::Listen {
        let _ = tokio::time::timeout(Duration::from_secs(15), ready.wait_for(|ready| *ready)).await;
        if let Err(error) = inside.dial().await {
            return inside.brain.violation("", format!("the runner's socket does not answer: {error}"));
        }
    }
    let _ = stdin.write_all(&payload).await;
    let _ = stdin.flush().await;
    if open {
        std::future::pending::<()>().await;
    }
}
