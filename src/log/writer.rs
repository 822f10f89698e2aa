//! Lines to their places, without ever holding up the caller.

use super::neutral;
use crate::limits;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};

static CONFIG: OnceLock<(Option<PathBuf>, bool)> = OnceLock::new();
static QUEUE: OnceLock<NonBlocking> = OnceLock::new();
static GUARD: Mutex<Option<WorkerGuard>> = Mutex::new(None);

pub(super) fn configure(file: Option<PathBuf>, sync: bool) {
    let _ = CONFIG.set((file, sync));
}

pub(super) fn write(line: Vec<u8>) {
    if let Some((_, true)) = CONFIG.get() {
        let _ = Places::open().write_all(&line);
        return;
    }
    match queue() {
        Some(queue) => drop(queue.clone().write_all(&line)),
        None => last_words(String::from_utf8_lossy(&line).trim_end()),
    }
}

/// The thread starts with the first line: a turn that logs nothing pays nothing. `None` when no thread can be had, which
/// the builder would make a panic of.
fn queue() -> Option<&'static NonBlocking> {
    if let Some(queue) = QUEUE.get() {
        return Some(queue);
    }
    spare_thread()?;
    // In between another process may have taken its place.
    let started = catch_unwind(|| {
        QUEUE.get_or_init(|| {
            let (queue, guard) = NonBlockingBuilder::default()
                .lossy(true)
                .buffered_lines_limit(limits::LOG_QUEUE_LINES)
                .thread_name("log")
                .finish(Places::open());
            *GUARD.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
            queue
        })
    });
    started.ok()
}

/// Tries whether a thread can be had, and waits until the kernel has forgotten it: only then is its place free again.
fn spare_thread() -> Option<()> {
    let trial = std::thread::Builder::new().spawn(|| std::fs::read_link("/proc/thread-self")).ok()?;
    let Ok(entry) = trial.join().ok()? else { return Some(()) };
    let entry = Path::new("/proc").join(entry);
    let forgotten = |_| {
        std::thread::yield_now();
        !entry.exists()
    };
    (0..limits::THREAD_TRIAL_LOOKS).any(forgotten).then_some(())
}

/// Waits, bounded, until what was logged is written. Lines after it may be lost.
pub fn finish() {
    drop(GUARD.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// Writes one line for people to stderr, past the queue. Gives up when nobody reads: the process is about to end.
pub fn last_words(line: &str) {
    let stderr = io::stderr();
    let mut waiting = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    let timeout = PollTimeout::try_from(limits::LAST_WORDS).unwrap_or(PollTimeout::ZERO);
    if matches!(poll(&mut waiting, timeout), Ok(1)) {
        let _ = stderr.lock().write_all(format!("{line}\n").as_bytes());
    }
}

/// Both places. The file is best effort: a read-only or full disk must not cost a line on stderr.
struct Places {
    file: Option<File>,
}

impl Places {
    fn open() -> Self {
        Self { file: CONFIG.get().and_then(|(file, _)| open_file(file.as_ref()?)) }
    }
}

/// Commands can reach the place: opening a pipe planted there would wait for its other end, and a link leads elsewhere.
fn open_file(path: &Path) -> Option<File> {
    std::fs::create_dir_all(path.parent()?).ok()?;
    let mut options = OpenOptions::new();
    options.create(true).append(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    options.open(path).ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))
}

impl Write for Places {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(file) = &mut self.file
            && file.write_all(line).is_err()
        {
            self.file = None;
        }
        // A closed stderr loses lines, not turns.
        let _ = io::stderr().lock().write_all(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The panic hook's line: the same shape as a log line, written at once.
pub(crate) fn panic_line(message: &str) {
    let line = serde_json::json!({"level": 60, "component": "runner", "panic": message, "msg": "panic"}).to_string();
    last_words(&neutral(&line));
}
