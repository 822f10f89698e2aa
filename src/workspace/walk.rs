//! Lists the files below a directory, with threads of our own over directory handles.
//!
//! Regular files only; links are not followed, `.git` is left out, hidden files are not. Directories deeper than
//! `limits::WALK_DEPTH_MAX` and more paths than `limits::WALK_PATHS_MAX_BYTES` holds are not listed, and that is said.

use super::cursor::Cursor;
use super::passed::{Passed, Sample};
use super::rules::Rules;
use super::{Dir, Kind, RelPath, Workspace};
use crate::limits;
use nix::errno::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// Does a walk want this entry?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// No.
    Leave,
    /// Unless the ignore rules hide it.
    Take,
    /// Even then: the caller named it literally.
    Named,
}

/// What a walk looks for. Paths are relative to the workspace.
pub(crate) trait Select: Sync {
    /// Could there be something below this directory?
    fn directory(&self, path: &[u8]) -> Choice;
    /// Is this file one?
    fn file(&self, path: &[u8]) -> Choice;
}

/// When to stop before the end.
#[derive(Clone, Copy)]
pub(crate) struct Stop<'a> {
    /// The caller lost interest.
    pub(crate) cancel: &'a CancellationToken,
    /// Time is over.
    pub(crate) deadline: Instant,
    /// The process is to end. On the event loop, where a search runs if no thread can be had, nobody could set `cancel`.
    pub(crate) ending: fn() -> bool,
}

impl Stop<'_> {
    /// Now?
    pub(crate) fn now(&self) -> bool {
        self.cancel.is_cancelled() || (self.ending)() || Instant::now() >= self.deadline
    }
}

/// Where a walk starts.
#[derive(Debug, Clone)]
pub(crate) struct Base {
    dir: Dir,
    /// Relative to the workspace, empty for its root.
    path: Vec<u8>,
    rules: Option<Arc<Rules>>,
    /// Ignore files above whose rules do not all count.
    short: Sample,
}

impl Base {
    /// The directory at `path` with the rules of those above it. A directory that the rules hide was named literally, so
    /// they do not count below it.
    pub(crate) fn new(workspace: &Workspace, path: &RelPath, dir: Dir) -> Self {
        let full = path.as_path().as_os_str().as_bytes();
        let (mut rules, mut short) = (None, Sample::default());
        let mut above = Cursor::new(workspace.root_dir().clone());
        for end in ends(full) {
            let start = &full[..end.saturating_sub(1)];
            // Above a link there is another tree, whose rules do not concern this one.
            let Ok(parent) = above.open(start) else { break };
            rules = Rules::within(parent, start, rules, &mut short);
            let name = full[end..].iter().position(|&byte| byte == b'/').map_or(full.len(), |length| end + length);
            if rules.as_ref().is_some_and(|rules| rules.hide(&full[..name], true)) {
                rules = None;
            }
        }
        Self { dir, path: full.to_vec(), rules, short }
    }

    /// A cursor for paths that [`Self::below`] makes relative.
    pub(crate) fn cursor(&self) -> Cursor {
        Cursor::new(self.dir.clone())
    }

    /// A path relative to the workspace as a path relative to this directory.
    pub(crate) fn below<'a>(&self, path: &'a [u8]) -> &'a [u8] {
        match self.path.len() {
            0 => path,
            length => path.get(length + 1..).unwrap_or_default(),
        }
    }
}

/// Where each component of a path begins.
fn ends(path: &[u8]) -> Vec<usize> {
    let mut starts: Vec<usize> = if path.is_empty() { Vec::new() } else { vec![0] };
    starts.extend(path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1));
    starts
}

/// The files found, in the order of their paths' bytes.
#[derive(Debug, Default)]
pub(crate) struct Found {
    text: Vec<u8>,
    files: Vec<(u32, u32)>,
    /// What is not among them.
    pub(crate) passed: Passed,
    /// Memory for paths ran out.
    pub(crate) full: bool,
    /// It was stopped before the end.
    pub(crate) stopped: bool,
}

impl Found {
    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// The path of one, relative to the workspace.
    pub(crate) fn path(&self, at: usize) -> &[u8] {
        let (start, length) = self.files[at];
        &self.text[start as usize..][..length as usize]
    }

    fn add(&mut self, path: &[u8]) {
        // Offsets fit: the arena is limited far below 4 GiB.
        self.files.push((self.text.len() as u32, path.len() as u32));
        self.text.extend_from_slice(path);
    }

    fn merge(&mut self, other: Self) {
        let shift = self.text.len() as u32;
        self.text.extend_from_slice(&other.text);
        self.files.extend(other.files.iter().map(|(start, length)| (start + shift, *length)));
        self.passed.merge(other.passed);
    }
}

/// Does the same work on several threads, this one among them. More than two help while one waits for the disk, more than
/// four only crowd the machine; where no thread can be started, one does all.
pub(crate) fn together<T: Send>(work: impl Fn() -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4);
    std::thread::scope(|scope| {
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, &work).ok();
        let others: Vec<_> = (1..threads).filter_map(start).collect();
        let mut parts = vec![work()];
        for other in others {
            match other.join() {
                Ok(part) => parts.push(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        parts
    })
}

/// Lists what `select` wants below `base`.
pub(crate) fn walk(base: &Base, select: &dyn Select, stop: Stop<'_>) -> Found {
    let first = Job { path: Vec::new(), depth: 0, rules: base.rules.clone() };
    let queue = Queue { state: Mutex::new(State { jobs: vec![first], busy: 0, waiting: 0 }), ready: Condvar::new() };
    let shared = Shared { base, select, stop, queue, bytes: AtomicUsize::new(0), ended: AtomicBool::new(false) };
    let mut found = Found::default();
    found.passed.short = base.short.clone();
    together(|| shared.work()).into_iter().for_each(|part| found.merge(part));
    let Found { text, files, .. } = &mut found;
    // Nobody is left to whom the order matters, and half a million paths take their time.
    if !stop.cancel.is_cancelled() {
        files.sort_unstable_by(|a, b| slice(text, *a).cmp(slice(text, *b)));
    }
    found.full = shared.bytes.load(Ordering::Relaxed) > limits::WALK_PATHS_MAX_BYTES;
    found.stopped = shared.ended.load(Ordering::Relaxed);
    found
}

fn slice(text: &[u8], (start, length): (u32, u32)) -> &[u8] {
    &text[start as usize..][..length as usize]
}

/// A directory to be listed, relative to the base.
struct Job {
    path: Vec<u8>,
    depth: usize,
    rules: Option<Arc<Rules>>,
}

struct State {
    jobs: Vec<Job>,
    busy: usize,
    /// Threads that wait for a job. Without any nobody is woken: a system call for each directory is what a walk cannot afford.
    waiting: usize,
}

/// Directories waiting, last in first out: neighbours stay together, and the list stays short.
struct Queue {
    state: Mutex<State>,
    ready: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job; `None` when there is none and nobody can add one. The job is under way until the guard is dropped, by
    /// a panic too: the others must not wait for ever.
    fn next(&self) -> Option<(Job, Busy<'_>)> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop() {
                state.busy += 1;
                return Some((job, Busy(self)));
            }
            if state.busy == 0 {
                return None;
            }
            state.waiting += 1;
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    fn add(&self, jobs: &mut Vec<Job>) {
        let mut state = self.lock();
        state.jobs.append(jobs);
        if state.waiting > 0 && !state.jobs.is_empty() {
            self.ready.notify_all();
        }
    }

    fn clear(&self) {
        self.lock().jobs.clear();
    }
}

/// A job under way.
struct Busy<'a>(&'a Queue);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.busy -= 1;
        if state.busy == 0 && state.waiting > 0 {
            self.0.ready.notify_all();
        }
    }
}

struct Shared<'a> {
    base: &'a Base,
    select: &'a dyn Select,
    stop: Stop<'a>,
    queue: Queue,
    bytes: AtomicUsize,
    ended: AtomicBool,
}

impl Shared<'_> {
    fn work(&self) -> Found {
        let mut found = Found::default();
        let mut cursor = self.base.cursor();
        let mut jobs = Vec::new();
        while let Some((job, _busy)) = self.queue.next() {
            let unwanted = self.bytes.load(Ordering::Relaxed) > limits::WALK_PATHS_MAX_BYTES;
            if unwanted || self.stop.now() {
                self.ended.fetch_or(!unwanted, Ordering::Relaxed);
                self.queue.clear();
            } else {
                let mut listing = Listing { shared: self, found: &mut found, jobs: &mut jobs };
                let path = listing.shared.full(&job.path);
                if listing.list(&job, path.clone(), &mut cursor).is_err() {
                    found.passed.unreadable.add(&path);
                }
            }
            self.queue.add(&mut jobs);
        }
        found
    }

    /// A path below the base, relative to the workspace.
    fn full(&self, below: &[u8]) -> Vec<u8> {
        let mut path = self.base.path.clone();
        if !path.is_empty() && !below.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(below);
        path
    }
}

struct Listing<'a, 'b> {
    shared: &'a Shared<'b>,
    found: &'a mut Found,
    jobs: &'a mut Vec<Job>,
}

impl Listing<'_, '_> {
    fn list(&mut self, job: &Job, mut path: Vec<u8>, cursor: &mut Cursor) -> Result<(), Errno> {
        let dir = cursor.open(&job.path)?;
        let rules = Rules::within(dir, &path, job.rules.clone(), &mut self.found.passed.short);
        let entries = dir.entries()?;
        if !path.is_empty() {
            path.push(b'/');
        }
        let length = path.len();
        for (count, entry) in entries.enumerate() {
            // A single directory can hold millions of names.
            if count % 1024 == 1023 && self.shared.stop.now() {
                self.shared.ended.store(true, Ordering::Relaxed);
                break;
            }
            let entry = entry?;
            if entry.name == ".git" {
                continue;
            }
            path.truncate(length);
            path.extend_from_slice(entry.name.as_bytes());
            let hidden = |directory| rules.as_ref().is_some_and(|rules| rules.hide(&path, directory));
            match entry.kind {
                Kind::File => match self.shared.select.file(&path) {
                    Choice::Leave => {}
                    Choice::Take if hidden(false) => self.found.passed.ignored.add(&path),
                    Choice::Take | Choice::Named => {
                        self.found.add(&path);
                        self.shared.bytes.fetch_add(path.len() + size_of::<(u32, u32)>(), Ordering::Relaxed);
                    }
                },
                Kind::Directory => {
                    let rules = match self.shared.select.directory(&path) {
                        Choice::Leave => continue,
                        choice if hidden(true) => {
                            if choice == Choice::Take {
                                path.push(b'/');
                                self.found.passed.ignored.add(&path);
                                continue;
                            }
                            None
                        }
                        _ => rules.clone(),
                    };
                    self.enter(job, entry.name.as_bytes(), &path, rules);
                }
                Kind::Link => self.found.passed.links.add(&path),
                Kind::Fifo | Kind::Socket | Kind::Device => self.found.passed.special.add(&path),
                Kind::Unknown => {}
            }
        }
        Ok(())
    }

    fn enter(&mut self, job: &Job, name: &[u8], full: &[u8], rules: Option<Arc<Rules>>) {
        if job.depth + 1 >= limits::WALK_DEPTH_MAX {
            self.found.passed.deep.add(full);
            return;
        }
        let mut path = job.path.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        self.jobs.push(Job { path, depth: job.depth + 1, rules });
    }
}

/// The name of a path and the directory it is in.
pub(crate) fn split(path: &[u8]) -> (&[u8], &OsStr) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], OsStr::from_bytes(&path[at + 1..])),
        None => (b"", OsStr::from_bytes(path)),
    }
}
