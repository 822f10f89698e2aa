//! Runs commands, and owns what they leave behind.
//!
//! A call returns when the *shell* has ended and what it wrote has been read, not when the last holder of its pipe goes:
//! `server &` is a normal thing to do. What a call leaves behind lives until the session ends. What a call that is
//! stopped has started – by its time limit, by cancellation, by a future that is dropped – dies, all of it.

use super::environment::ChildEnv;
use super::guard::{ChildFilter, Guard, GuardError, Mode, Setting};
use super::keeper::{self, Stage, StartFailure};
use super::output::Output;
use super::script;
use super::tree;
use super::watch::{Kept, Progress};
use crate::limits;
use crate::text::HeadTail;
use nix::errno::Errno;
use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The shell exited with this code.
    Exit(i32),
    /// A signal ended the shell.
    Signal(i32),
    /// Its time was over, and it was stopped.
    TimedOut,
    /// The turn was cancelled, or the runner ends; it was stopped.
    Cancelled,
    /// Its keeper was killed from outside, so how it ended is unknown; it was stopped.
    Lost,
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Why.
    pub end: End,
    /// What it printed, on both streams, in the order of arrival.
    pub output: HeadTail,
    /// Processes it started that still run.
    pub background: usize,
    /// Processes that were to be stopped and would not go.
    pub left: usize,
}

/// Why a command did not start. Nothing of it has run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot be passed to a program.
    #[error("the command holds a NUL character; remove it and try again")]
    Nul,
    /// The directory to run in is not there.
    #[error("the workspace {} cannot be entered: {}; restore it", path.display(), plain(error))]
    Workspace {
        /// The workspace.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// No process or descriptor could be had.
    #[error("no process could be started: {}; end processes that are no longer needed and try again", plain(.0))]
    Resources(io::Error),
    /// The image has none.
    #[error("bash was not found at /bin/bash, /usr/bin/bash or /usr/local/bin/bash; install it in the image")]
    NoBash,
    /// One variable alone is more than the system passes to a program.
    #[error(
        "no command can run: the variable {name} has {bytes} bytes, and the system passes at most {} in one; tell the \
         user to shorten that credential or to give it in a file",
        limits::VARIABLE_MAX_BYTES
    )]
    Variable {
        /// Its name.
        name: String,
        /// Its size, name included.
        bytes: usize,
    },
    /// Everything together is.
    #[error(
        "the command ({command} bytes) and its variables ({variables} bytes, the largest is {name}) are together more than \
         the system passes to a program; make the command shorter, or tell the user to give fewer or shorter credentials"
    )]
    TooLarge {
        /// Bytes of the command.
        command: usize,
        /// Bytes of all variables.
        variables: usize,
        /// The largest one.
        name: String,
    },
    /// It is there but cannot run.
    #[error("bash could not be executed: {}", plain(.0))]
    Exec(io::Error),
    /// The host's socket cannot be kept from it.
    #[error("the command was not run, since the host's socket cannot be kept from it: {0}")]
    Unguarded(String),
    /// The kernel lacks what the design rests on.
    #[error("this system cannot track the processes of a command: {}", plain(.0))]
    Unsupported(io::Error),
}

/// The system's words, without its number.
fn plain(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |errno| Errno::from_raw(errno).desc().to_owned())
}

/// Runs commands for one session of the runner.
#[derive(Clone, Default)]
pub struct Shell {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    kept: Mutex<HashMap<i32, Arc<Kept>>>,
    closing: CancellationToken,
    /// What is to be kept from commands.
    secluded: Option<(Setting, Vec<PathBuf>)>,
    /// Set up with the first command: a turn without one does not pay for it.
    guard: Mutex<Option<Result<Arc<Guard>, String>>>,
}

impl Inner {
    /// What a lack that may pass has brought about holds for one command and is not remembered.
    fn guard(&self) -> Result<Option<Arc<Guard>>, String> {
        let Some((setting, sockets)) = &self.secluded else { return Ok(None) };
        let mut known = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known {
            return known.clone().map(Some);
        }
        let made = Guard::start(*setting, sockets.clone()).map(Arc::new);
        if let Ok(guard) = &made {
            let mode = guard.mode().to_string();
            tracing::info!(component = "runner", mode, why = guard.fallback().unwrap_or_default(), "unix_sockets");
        }
        let passing = made.as_ref().map_or_else(GuardError::is_passing, |guard| guard.is_makeshift());
        let made = made.map_err(|error| error.to_string());
        if !passing {
            *known = Some(made.clone());
        }
        made.map(Some)
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<i32, Arc<Kept>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shell {
    /// A shell that has run nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, with these sockets of the host's kept from the commands in the way of `setting`.
    pub fn secluding(setting: Setting, sockets: Vec<PathBuf>) -> Self {
        Self { inner: Arc::new(Inner { secluded: Some((setting, sockets)), ..Inner::default() }) }
    }

    /// How the host's sockets are kept from commands. Sets it up if no command has done so.
    pub fn seclusion(&self) -> Result<Option<Mode>, String> {
        Ok(self.inner.guard()?.map(|guard| guard.mode()))
    }

    /// Runs one command to its end, its time limit or its cancellation.
    pub async fn run(
        &self,
        command: &str,
        env: &ChildEnv,
        workspace: &Path,
        time: Duration,
        cancel: &CancellationToken,
    ) -> Result<Ended, StartError> {
        let deadline = Instant::now() + time;
        if cancel.is_cancelled() || self.inner.closing.is_cancelled() {
            return Ok(Ended { end: End::Cancelled, output: HeadTail::new(0, 0), background: 0, left: 0 });
        }
        let (call, mut output) = self.start(command, env, workspace)?;
        let mut progress = call.kept.progress.clone();
        let end = loop {
            tokio::select! {
                biased;
                now = settled(&mut progress) => break now,
                () = cancel.cancelled() => return Ok(call.stop(End::Cancelled, output).await),
                () = self.inner.closing.cancelled() => return Ok(call.stop(End::Cancelled, output).await),
                () = sleep_until(deadline) => return Ok(call.stop(End::TimedOut, output).await),
                () = output.fill() => {}
            }
        };
        call.finish(end, output).await.map_err(|error| match error {
            StartError::Exec(error) if error.raw_os_error() == Some(Errno::E2BIG as i32) => too_large(command, env),
            other => other,
        })
    }

    /// Processes left behind by commands that have ended.
    pub fn background(&self) -> usize {
        let kept: Vec<Arc<Kept>> = self.inner.kept().values().cloned().collect();
        kept.iter().map(|kept| kept.living()).sum()
    }

    /// Ends every process any command has started, and starts no more. Returns how many would not go.
    pub async fn shutdown(&self) -> usize {
        self.inner.closing.cancel();
        let all: Vec<Arc<Kept>> = self.inner.kept().values().cloned().collect();
        let ends = TaskTracker::new();
        let tasks: Vec<_> = all.into_iter().map(|kept| ends.spawn(async move { kept.end().await })).collect();
        let mut left = 0;
        for task in tasks {
            left += task.await.unwrap_or(0);
        }
        left
    }

    fn start(&self, command: &str, env: &ChildEnv, workspace: &Path) -> Result<(Call, Output), StartError> {
        let argv = script::arguments(command).map_err(|_| StartError::Nul)?;
        if !tree::is_ours() {
            let fault = "/proc is missing, or shows another PID namespace; have it mounted";
            return Err(StartError::Unsupported(io::Error::other(fault)));
        }
        let programs = script::PROGRAMS.map(CString::from);
        let filter = match self.inner.guard().map_err(StartError::Unguarded)? {
            Some(guard) => guard.child(),
            None => ChildFilter::none(),
        };
        let started =
            keeper::start(&programs, &argv, &env.block(), workspace, &filter).map_err(|failure| match failure {
                StartFailure::Workspace(error) => StartError::Workspace { path: workspace.to_owned(), error },
                StartFailure::Resources(error) => StartError::Resources(error),
            })?;
        // From here on an early return closes the control pipe, which ends what was started.
        let status = pipe::Receiver::from_owned_fd(started.status).map_err(StartError::Resources)?;
        let output = Output::new(started.output).map_err(StartError::Resources)?;
        let kept = Arc::new(Kept::new(started.keeper, started.since, started.control, status));
        self.inner.kept().insert(kept.pid, kept.clone());
        Ok((Call { inner: self.inner.clone(), workspace: workspace.to_owned(), kept, leave: false }, output))
    }
}

/// A command under way. Dropped before its end, it ends what it started.
struct Call {
    inner: Arc<Inner>,
    workspace: PathBuf,
    kept: Arc<Kept>,
    /// What is left behind may live on.
    leave: bool,
}

impl Call {
    /// The shell has ended, or its keeper has.
    async fn finish(mut self, progress: Progress, mut output: Output) -> Result<Ended, StartError> {
        output.take_present();
        if let Some((stage, errno)) = progress.failed {
            return Err(self.failure(stage, io::Error::from_raw_os_error(errno)));
        }
        let Some((status, alone)) = progress.exited else {
            // The listener has already ended what the keeper kept.
            return Ok(Ended { end: End::Lost, output: output.finish(), background: 0, left: 0 });
        };
        let mut background = 0;
        if !alone {
            let until = Instant::now() + limits::DRAIN_GRACE;
            output.linger(until).await;
            // One that has closed the pipe is often just about to end: then there is nothing to tell.
            self.kept.gone_by(until).await;
            background = self.kept.living();
            self.leave = true;
            self.forget_when_gone();
        }
        Ok(Ended { end: ended(status), output: output.finish(), background, left: 0 })
    }

    /// Ends the call and everything it started, reading on meanwhile: what is asked to end may still have something to
    /// say, and must not be stuck saying it.
    async fn stop(self, end: End, mut output: Output) -> Ended {
        let ending = self.kept.end();
        tokio::pin!(ending);
        let left = loop {
            tokio::select! {
                biased;
                left = &mut ending => break left,
                () = output.fill() => {}
            }
        };
        output.take_present();
        Ended { end, output: output.finish(), background: 0, left }
    }

    /// Keeps the keeper until nothing is left below it.
    fn forget_when_gone(&self) {
        let (inner, pid, mut progress) = (Arc::downgrade(&self.inner), self.kept.pid, self.kept.progress.clone());
        tokio::spawn(async move {
            let _ = progress.wait_for(|progress| progress.gone).await;
            if let Some(inner) = inner.upgrade() {
                inner.kept().remove(&pid);
            }
        });
    }

    fn failure(&self, stage: Stage, error: io::Error) -> StartError {
        match stage {
            Stage::Subreaper => StartError::Unsupported(error),
            Stage::Fork => StartError::Resources(error),
            Stage::Directory => StartError::Workspace { path: self.workspace.clone(), error },
            Stage::Exec if error.raw_os_error() == Some(Errno::ENOENT as i32) => StartError::NoBash,
            Stage::Exec => StartError::Exec(error),
            Stage::Filter => StartError::Unguarded(error.to_string()),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.leave {
            self.inner.kept().remove(&self.kept.pid);
        }
    }
}

/// What the kernel does not say of a program's arguments and variables.
fn too_large(command: &str, env: &ChildEnv) -> StartError {
    let (name, bytes) = env.sizes().max_by_key(|(_, bytes)| *bytes).unwrap_or_default();
    let name = name.display().to_string();
    match bytes > limits::VARIABLE_MAX_BYTES {
        true => StartError::Variable { name, bytes },
        false => {
            let variables = env.sizes().map(|(_, bytes)| bytes).sum();
            StartError::TooLarge { command: command.len(), variables, name }
        }
    }
}

/// Waits until the shell has ended or its keeper has. Copies the value out of its guard, which must not live across an
/// await.
async fn settled(progress: &mut watch::Receiver<Progress>) -> Progress {
    let settled = progress.wait_for(|progress| progress.exited.is_some() || progress.gone).await;
    // An error means that the listener is gone, and so is the runtime.
    settled.map_or_else(|_| Progress::default(), |progress| *progress)
}

/// Reads a wait status.
fn ended(status: i32) -> End {
    if libc::WIFSIGNALED(status) { End::Signal(libc::WTERMSIG(status)) } else { End::Exit(libc::WEXITSTATUS(status)) }
}
