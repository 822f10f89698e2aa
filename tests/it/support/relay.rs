//! A relay between a runner and its host that cuts the connection at any byte.

use super::Judge;
use ax_runner::devhost::Transport;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Where the relay cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nothing of the request reaches the host.
    Before,
    /// So many bytes of the request do.
    Request(At),
    /// The host has the request and has replied; nothing of the reply reaches the runner.
    After,
    /// So many bytes of the reply do.
    Reply(At),
}

/// A byte of a frame, its length included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// Counted from the beginning.
    Byte(usize),
    /// The middle.
    Half,
    /// All but the last.
    Last,
}

impl At {
    pub(crate) fn of(self, length: usize) -> usize {
        match self {
            Self::Byte(at) => at.min(length - 1),
            Self::Half => length / 2,
            Self::Last => length - 1,
        }
    }
}

/// What the runner sees of the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// An end in good order.
    Eof,
    /// A reset. Only for places at which the host has not read the whole request: a Unix socket resets its peer if and only
    /// if something it sent was never read.
    Reset,
    /// Nothing, for ever.
    Silence,
}

/// One cut: at the first request of this [`stage`].
#[derive(Debug, Clone)]
pub(crate) struct Cut {
    pub(crate) stage: &'static str,
    pub(crate) place: Place,
    pub(crate) how: How,
}

/// What a relay has heard of the runner, whatever stands between them.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) judge: Judge,
    over: AtomicBool,
    /// Requests the runner has written, by [`stage`].
    written: Mutex<BTreeMap<String, usize>>,
}

impl Heard {
    /// Serves each connection on a thread of its own, until the end.
    pub(crate) fn serve<S: Send + 'static>(
        self: &Arc<Self>,
        accept: impl Fn() -> std::io::Result<S> + Send + 'static,
        serve: impl Fn(S) + Clone + Send + 'static,
    ) {
        let heard = self.clone();
        std::thread::spawn(move || {
            while let Ok(stream) = accept() {
                if heard.over.load(Ordering::Acquire) {
                    return;
                }
                let serve = serve.clone();
                std::thread::spawn(move || serve(stream));
            }
        });
    }

    /// The next connection is the last, and is not served.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Counts a request, and says how many of its stage have come.
    pub(crate) fn count(&self, stage: &str) -> usize {
        let mut written = self.written.lock().unwrap();
        let count = written.entry(stage.to_owned()).or_default();
        *count += 1;
        *count
    }

    pub(crate) fn written(&self, stage: &str) -> usize {
        self.written.lock().unwrap().get(stage).copied().unwrap_or(0)
    }
}

/// Stands between a runner and its host, frame by frame.
pub(crate) struct Relay {
    path: PathBuf,
    _directory: Option<tempfile::TempDir>,
    shared: Arc<Shared>,
}

struct Shared {
    /// Whom the relay dials.
    beyond: PathBuf,
    /// That is the runner, and the host dials the relay.
    turned: bool,
    cut: Cut,
    heard: Arc<Heard>,
    /// Connections that have gone silent stay open.
    silent: Mutex<Vec<Arc<UnixStream>>>,
}

impl Relay {
    pub(crate) fn start(host: &Path, cut: Cut) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("relay.sock");
        let mut relay = Self::at(path, host.to_owned(), false, cut);
        relay._directory = Some(directory);
        relay
    }

    /// For listen mode: the host dials `path`, and the runner listens at `runner`.
    pub(crate) fn before_runner(path: &Path, runner: &Path, cut: Cut) -> Self {
        Self::at(path.to_owned(), runner.to_owned(), true, cut)
    }

    fn at(path: PathBuf, beyond: PathBuf, turned: bool, cut: Cut) -> Self {
        let listener = UnixListener::bind(&path).unwrap();
        let shared = Arc::new(Shared { beyond, turned, cut, heard: Arc::default(), silent: Mutex::default() });
        let inner = shared.clone();
        shared.heard.serve(move || listener.accept().map(|(stream, _)| stream), move |stream| inner.serve(stream));
        Self { path, _directory: None, shared }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// How often the runner wrote a request of this [`stage`].
    pub(crate) fn written(&self, stage: &str) -> usize {
        self.shared.heard.written(stage)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.heard.end();
        let _ = UnixStream::connect(self.path());
        for stream in self.shared.silent.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.shared.heard.judge.ask();
    }
}

/// A request's action; `llm_call+` for a model call that brings results.
pub(crate) fn stage(request: &Value) -> String {
    let action = request["action"].as_str().unwrap_or_default();
    let results = request["messages"].to_string().contains("\"tool_result\"");
    if results { format!("{action}+") } else { action.to_owned() }
}

/// The reply to be cut, once its request has gone through.
type Armed = Arc<Mutex<Option<String>>>;

impl Shared {
    fn serve(&self, near: UnixStream) {
        let Ok(far) = UnixStream::connect(&self.beyond) else { return };
        let (runner, host) = if self.turned { (far, near) } else { (near, far) };
        let (runner, host) = (Arc::new(runner), Arc::new(host));
        let armed = Armed::default();
        let over = Arc::new(AtomicBool::new(false));
        std::thread::scope(|scope| {
            let (to, from, watch, ended) = (runner.clone(), host.clone(), armed.clone(), over.clone());
            let pump = scope.spawn(move || self.replies(&from, to, &watch, &ended));
            let held = self.requests(&runner, &host, &armed, &over);
            if held {
                // The cut is at the reply: the pump makes it, and a reset needs our own handle gone.
                drop(runner);
            } else {
                let _ = host.shutdown(Shutdown::Both);
                drop(runner);
            }
            let _ = pump.join();
        });
    }

    /// Passes requests on. `true` when a reply remains to be cut.
    fn requests(&self, mut runner: &UnixStream, mut host: &UnixStream, armed: &Armed, over: &AtomicBool) -> bool {
        loop {
            let mut frame = vec![0; 4];
            if runner.read_exact(&mut frame).is_err() {
                return false;
            }
            let length = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
            frame.resize(4 + length, b'}');
            // The last byte stays unread: a socket resets its peer only while it holds something unread.
            if runner.read_exact(&mut frame[4..3 + length]).is_err() {
                return false;
            }
            self.heard.judge.hear(&frame[4..], if self.turned { Transport::Listen } else { Transport::Socket });
            let request: Value = serde_json::from_slice(&frame[4..]).unwrap_or_default();
            let stage = stage(&request);
            let first = self.heard.count(&stage) == 1;
            let due = first && stage == self.cut.stage;
            if !due || self.cut.how != How::Reset {
                let mut last = [0];
                let _ = runner.read_exact(&mut last);
            }
            let passed = match self.cut.place {
                _ if !due => frame.len(),
                Place::Before => 0,
                Place::Request(at) => at.of(frame.len()),
                Place::After | Place::Reply(_) => frame.len(),
            };
            if due && passed == frame.len() {
                *armed.lock().unwrap() = request["_msgId"].as_str().map(str::to_owned);
            }
            if due && passed < frame.len() && self.cut.how == How::Silence {
                over.store(true, Ordering::Release);
                self.silence(runner);
            }
            let _ = host.write_all(&frame[..passed]);
            if due {
                return passed == frame.len() || self.cut.how == How::Silence;
            }
        }
    }

    fn silence(&self, stream: &UnixStream) {
        self.silent.lock().unwrap().push(Arc::new(stream.try_clone().unwrap()));
    }

    fn replies(&self, mut host: &UnixStream, runner: Arc<UnixStream>, armed: &Armed, over: &AtomicBool) {
        loop {
            let mut frame = vec![0; 4];
            if host.read_exact(&mut frame).is_err() {
                return;
            }
            frame.resize(4 + u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize, 0);
            if host.read_exact(&mut frame[4..]).is_err() {
                return;
            }
            if over.load(Ordering::Acquire) {
                continue;
            }
            let reply: Value = serde_json::from_slice(&frame[4..]).unwrap_or_default();
            let due = reply["_heartbeat"] != true
                // An answer's acknowledgement has no id where the host dials (PROTOCOL T5).
                && armed.lock().unwrap().as_deref().is_some_and(|id| {
                    reply["_msgId"] == *id || (self.turned && reply.get("_msgId").is_none())
                });
            let passed = match self.cut.place {
                Place::Reply(at) if due => at.of(frame.len()),
                _ if due => 0,
                _ => frame.len(),
            };
            let _ = (&*runner).write_all(&frame[..passed]);
            if !due {
                continue;
            }
            match self.cut.how {
                How::Silence => {
                    over.store(true, Ordering::Release);
                    self.silence(&runner);
                }
                How::Eof => {
                    let _ = runner.shutdown(Shutdown::Both);
                    return;
                }
                How::Reset => return,
            }
        }
    }
}
