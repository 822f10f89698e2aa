//! Runs commands, and owns what they leave behind.
//!
//! A call returns when the *shell* has ended and what it wrote has been read, not when the last holder of its pipe goes:
//! `server &` is a normal thing to do. What a call leaves behind lives until the session ends. What a call that is
//! stopped has started – by its time limit, by cancellation, by a future that is dropped – dies, all of it.

use super::environment::ChildEnv;
use super::guard::{ChildFilter, Guard, GuardError, Mode, Setting};
use super::keeper::{self, Stage, StartFailure};
use super::lack::is_lack;
use super::output::Output;
use super::script;
use super::start_error::StartError;
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
use tokio::time::{Instant, sleep, sleep_until};
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
    /// Processes that earlier commands had left running and that were ended so that this one could start.
    pub room: usize,
}

impl Ended {
    pub(crate) fn new(end: End, output: HeadTail) -> Self {
        Self { end, output, background: 0, left: 0, room: 0 }
    }
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
    /// How often room was made for a command; held while it is made.
    room: tokio::sync::Mutex<u64>,
}

impl Inner {
    /// What a lack that may pass has brought about holds for one command and is not remembered.
    fn guard(&self) -> Result<Option<Arc<Guard>>, StartError> {
        let Some((setting, sockets)) = &self.secluded else { return Ok(None) };
        let mut known = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known {
            return known.clone().map(Some).map_err(StartError::Unguarded);
        }
        let made = match Guard::start(*setting, sockets.clone()) {
            Ok(guard) => Ok(Arc::new(guard)),
            Err(GuardError::NoGuard(error) | GuardError::NoFilter(error)) if is_lack(&error) => {
                return Err(StartError::resources(error));
            }
            Err(error) => Err(error.to_string()),
        };
        if let Ok(guard) = &made {
            let mode = guard.mode().to_string();
            tracing::info!(component = "runner", mode, why = guard.fallback().unwrap_or_default(), "unix_sockets");
        }
        if !made.as_ref().is_ok_and(|guard| guard.is_makeshift()) {
            *known = Some(made.clone());
        }
        made.map(Some).map_err(StartError::Unguarded)
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
    pub fn seclusion(&self) -> Result<Option<Mode>, StartError> {
        Ok(self.inner.guard()?.map(|guard| guard.mode()))
    }

    /// Runs one command to its end, its time limit or its cancellation. If no process can be had for it, what earlier commands
    /// have left running is ended until one can: with no command to be had, nobody else could end it.
    pub async fn run(
        &self,
        command: &str,
        env: &ChildEnv,
        workspace: &Path,
        time: Duration,
        cancel: &CancellationToken,
    ) -> Result<Ended, StartError> {
        let deadline = Instant::now() + time;
        let (mut room, mut paused) = (0, false);
        loop {
            let made = *self.inner.room.lock().await;
            match self.attempt(command, env, workspace, deadline, cancel).await {
                Ok(ended) => return Ok(Ended { room, ..ended }),
                Err(StartError::Exec(error)) if error.raw_os_error() == Some(Errno::E2BIG as i32) => {
                    return Err(StartError::too_large(command, env));
                }
                Err(lack) if lack.is_lack() && !paused => {
                    paused = true;
                    sleep(limits::ROOM_PAUSE).await;
                }
                Err(lack) if lack.is_lack() => match self.make_room(made).await {
                    Some(count) => room += count,
                    None => return Err(lack.after(room)),
                },
                Err(other) => return Err(other),
            }
        }
    }

    /// Ends what that earlier command has left running that has left the most, and returns how many processes that were; `None`
    /// if nothing is left to end. Those who have waited meanwhile try again first: the room may do for all.
    async fn make_room(&self, seen: u64) -> Option<usize> {
        let mut made = self.inner.room.lock().await;
        if *made != seen {
            return Some(0);
        }
        let left: Vec<Arc<Kept>> = self.inner.kept().values().filter(|kept| kept.is_left()).cloned().collect();
        let counted = left.iter().map(|kept| (kept.living(), kept));
        let (count, most) = counted.filter(|(count, _)| *count > 0).max_by_key(|(count, _)| *count)?;
        tracing::warn!(component = "runner", processes = count, "background_ended_for_room");
        // Once: what the kernel does not let go of must not be ended again and again.
        most.set_left(false);
        most.end().await;
        *made += 1;
        Some(count)
    }

    /// Starts a command and sees it to its end.
    async fn attempt(
        &self,
        command: &str,
        env: &ChildEnv,
        workspace: &Path,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> Result<Ended, StartError> {
        if cancel.is_cancelled() || self.inner.closing.is_cancelled() {
            return Ok(Ended::new(End::Cancelled, HeadTail::new(0, 0)));
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
        call.finish(end, output).await
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
        let filter = match self.inner.guard()? {
            Some(guard) => guard.child(),
            None => ChildFilter::none(),
        };
        let started =
            keeper::start(&programs, &argv, &env.block(), workspace, &filter).map_err(|failure| match failure {
                StartFailure::Workspace(error) => StartError::Workspace { path: workspace.to_owned(), error },
                StartFailure::Resources(error) => StartError::resources(error),
            })?;
        // From here on an early return closes the control pipe, which ends what was started; but something of it may have run, so
        // the error must not be one that is tried again.
        let unheard = |error: io::Error| StartError::resources(io::Error::other(error));
        let status = pipe::Receiver::from_owned_fd(started.status).map_err(unheard)?;
        let output = Output::new(started.output).map_err(unheard)?;
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
            return Ok(Ended::new(End::Lost, output.finish()));
        };
        let mut background = 0;
        if !alone {
            let until = Instant::now() + limits::DRAIN_GRACE;
            output.linger(until).await;
            // One that has closed the pipe is often just about to end: then there is nothing to tell.
            self.kept.gone_by(until).await;
            background = self.kept.living();
            self.leave = true;
            self.kept.set_left(true);
            self.forget_when_gone();
        }
        Ok(Ended { background, ..Ended::new(ended(status), output.finish()) })
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
        Ended { left, ..Ended::new(end, output.finish()) }
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
            Stage::Fork => StartError::resources(error),
            Stage::Exec | Stage::Filter if is_lack(&error) => StartError::resources(error),
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
