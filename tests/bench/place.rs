//! Where a runner runs, and how one is started: the environment of PROTOCOL §1.7, a private directory, no leftovers.

use crate::Outcome;
use crate::host::{Listener, Wire};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The programs that are compared.
pub(crate) struct Programs {
    pub(crate) runner: PathBuf,
    pub(crate) minimal: PathBuf,
}

/// A directory with a workspace, a socket and what runners write on stderr.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Outcome<Self> {
        let place = Self(tempfile::Builder::new().prefix("ax-bench-").tempdir()?);
        fs::create_dir_all(place.workspace().join(".ax"))?;
        Ok(place)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.0.path().join("workspace")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.path().join("proxy.sock")
    }

    fn stderr(&self) -> PathBuf {
        self.0.path().join("stderr")
    }

    /// The error together with what the runners last said.
    pub(crate) fn explain(&self, error: &dyn std::fmt::Display) -> String {
        let said = fs::read_to_string(self.stderr()).unwrap_or_default();
        let from = said.len().saturating_sub(2000);
        format!("{error}\n{}", said.get(from..).unwrap_or(&said))
    }

    /// The runner as docker starts it.
    pub(crate) fn runner(&self, programs: &Programs) -> Outcome<Command> {
        let home = self.0.path();
        let mut command = self.prepared(&programs.runner)?;
        command
            .args(["/opt/ax/dist/agent/runner.js", "--agent", "pi-coding-agent", "--max-tokens", "8192"])
            .env("AX_IPC_SOCKET", self.socket())
            .env("AX_WORKSPACE", self.workspace())
            .env("PATH", "/workspace/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("npm_config_cache", home.join("npm-cache"))
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("AX_HOME", home.join("home"))
            .env("AX_WEB_PROXY_SOCKET", home.join("web-proxy.sock"))
            .env("AX_REQUEST_ID", "chatcmpl-bench");
        Ok(command)
    }

    /// The minimal program.
    pub(crate) fn minimal(&self, programs: &Programs) -> Outcome<Command> {
        let mut command = self.prepared(&programs.minimal)?;
        command.arg(self.socket());
        Ok(command)
    }

    fn prepared(&self, program: &Path) -> Outcome<Command> {
        let stderr = File::options().create(true).append(true).open(self.stderr())?;
        let mut command = command(program);
        command.env_clear().current_dir(self.workspace()).stdout(Stdio::null()).stderr(stderr);
        Ok(command)
    }
}

/// Any program; the benchmarks compare with such.
#[allow(clippy::disallowed_methods, reason = "starts the programs that are measured, not tools of an agent")]
pub(crate) fn command(program: &Path) -> Command {
    Command::new(program)
}

/// A payload as the host sends it, with a request id of its own: the runner drops repeats.
pub(crate) fn payload(sandbox_type: &str) -> Outcome<String> {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/payload-docker.json");
    let mut payload: Value = serde_json::from_slice(&fs::read(fixture)?)?;
    payload["sandboxType"] = sandbox_type.into();
    payload["requestId"] = format!("chatcmpl-{:08}", NEXT.fetch_add(1, Ordering::Relaxed)).into();
    Ok(payload.to_string())
}

/// A process that does not outlive its handle.
pub(crate) struct Process(Child);

impl Process {
    /// Starts it with `input` on its standard input, which ends after that.
    pub(crate) fn start(mut command: Command, input: &str) -> Outcome<Self> {
        let (read, mut write) = std::io::pipe()?;
        // A payload fits the pipe, so nobody needs to read yet.
        write.write_all(input.as_bytes())?;
        drop(write);
        Ok(Self(command.stdin(read).spawn()?))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that has sent its first frame.
pub(crate) struct Connected {
    pub(crate) process: Process,
    /// From before its start to the whole frame.
    pub(crate) after: Duration,
    /// Held: a runner whose host is gone ends.
    pub(crate) _wire: Wire,
}

impl Connected {
    pub(crate) fn start(command: Command, input: &str, listener: &Listener) -> Outcome<Self> {
        let start = Instant::now();
        let process = Process::start(command, input)?;
        let mut wire = listener.accept()?;
        let after = wire.receive()?.at - start;
        Ok(Self { process, after, _wire: wire })
    }
}
