//! The file tools and the workspace, attacked through the library.

mod child;
mod confinement;
mod edits;
mod odd_files;
mod reads;
mod writes;

use ax_runner::gate::{Approved, Gate, Proposal};
use ax_runner::link::{BoxFuture, CallContext, CallError, Host, HostLink};
use ax_runner::tools::{Finished, edit_file, read_file, write_file};
use ax_runner::wire::{Action, Reply};
use ax_runner::workspace::Workspace;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A host that agrees to everything.
struct Agreeable;

impl HostLink for Agreeable {
    fn call<'a>(&'a self, _: &'a Action, _: &'a CallContext) -> BoxFuture<'a, Result<Reply, CallError>> {
        Box::pin(async { Ok(Reply::new(&br#"{"ok":true,"approved":true}"#[..])) })
    }

    fn request_max_bytes(&self) -> usize {
        usize::MAX
    }
}

thread_local! {
    static GATE: (tokio::runtime::Runtime, Gate) = (
        tokio::runtime::Builder::new_current_thread().build().unwrap(),
        Gate::new(Host::new(Arc::new(Agreeable), CallContext::default(), CancellationToken::new()), ax_runner::redact::Redactor::default()),
    );
}

pub(crate) fn approved<T: Proposal>(call: T) -> Approved<T> {
    GATE.with(|(runtime, gate)| runtime.block_on(gate.approve(call)).unwrap())
}

/// A workspace beside a directory that must stay as it is.
struct Place {
    base: TempDir,
    ws: Workspace,
}

const CANARY: &str = "CANARY-7f3a";

impl Place {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir(base.path().join("ws")).unwrap();
        std::fs::create_dir(base.path().join("out")).unwrap();
        std::fs::write(base.path().join("out/secret"), CANARY).unwrap();
        std::fs::write(base.path().join("out/f"), CANARY).unwrap();
        let ws = Workspace::open(&base.path().join("ws")).unwrap();
        Self { base, ws }
    }

    fn root(&self) -> &Path {
        self.ws.root()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    fn out(&self) -> PathBuf {
        self.base.path().join("out")
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn link(&self, path: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.at(path)).unwrap();
    }

    fn bytes(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.at(path)).unwrap()
    }

    /// The outside is untouched: the same two files with the same bytes.
    fn assert_outside_untouched(&self) {
        let mut names: Vec<_> =
            std::fs::read_dir(self.out()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["f", "secret"]);
        for name in names {
            assert_eq!(std::fs::read(self.out().join(name)).unwrap(), CANARY.as_bytes());
        }
    }

    fn assert_no_temp_left(&self, dir: &str) {
        for entry in std::fs::read_dir(self.at(dir)).unwrap() {
            let name = entry.unwrap().file_name();
            assert!(!name.to_string_lossy().starts_with(".ax-tmp-"), "{name:?} is left");
        }
    }

    fn read(&self, args: Value) -> Outcome {
        let call = serde_json::from_value(args).map_err(|error| error.to_string());
        let call = call.and_then(|args| read_file::Call::prepare(args, &self.ws));
        Outcome::of(call.map(|call| read_file::run(approved(call), &self.ws)))
    }

    fn write(&self, path: &str, content: &str) -> Outcome {
        let args = serde_json::from_value(json!({"path": path, "content": content})).unwrap();
        let call = write_file::Call::prepare(args, &self.ws);
        Outcome::of(call.map(|call| write_file::run(approved(call), &self.ws)))
    }

    fn edit(&self, args: Value) -> Outcome {
        let call = serde_json::from_value(args).map_err(|error| error.to_string());
        let call = call.and_then(|args| edit_file::Call::prepare(args, &self.ws));
        Outcome::of(call.map(|call| edit_file::run(approved(call), &self.ws)))
    }
}

/// How a call ended.
#[derive(Debug)]
struct Outcome {
    result: Value,
    /// Refused before the host was asked.
    unasked: bool,
}

impl Outcome {
    fn of(ended: Result<Finished, String>) -> Self {
        match ended {
            Err(error) => Self { result: json!({ "error": error }), unasked: true },
            Ok(Finished { text, report }) => {
                assert!(ax_runner::text::units(&text) <= ax_runner::limits::TOOL_RESULT_MAX_UNITS);
                let result: Value = serde_json::from_str(&text).unwrap();
                let report = report.expect("what was approved is reported");
                assert_eq!(report.success, Some(result.get("error").is_none()));
                assert_eq!(report.error.as_deref(), result.get("error").map(|error| error.as_str().unwrap()));
                Self { result, unasked: false }
            }
        }
    }

    fn error(&self) -> Option<&str> {
        self.result.get("error").and_then(Value::as_str)
    }

    #[track_caller]
    fn fails_with(&self, words: &str) {
        assert!(self.error().is_some_and(|error| error.contains(words)), "wanted {words:?}, got {}", self.result);
    }

    #[track_caller]
    fn succeeds(&self) -> &Value {
        assert!(self.error().is_none(), "{}", self.result);
        &self.result
    }
}
