//! Commands and their processes, attacked: what outlives the shell, leaves its group, floods, dies or lies.

use ax_runner::gate::{Approved, Gate};
use ax_runner::link::{BoxFuture, CallContext, CallError, Host, HostLink};
use ax_runner::os::{self, ChildEnv, End, Shell};
use ax_runner::tools::{Finished, bash};
use ax_runner::wire::{Action, Reply};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

mod many;
mod output;
mod returning;
mod schedule;
mod stopping;
mod surroundings;
mod unprivileged;

/// Nothing here takes this long unless it hangs.
const HANG: Duration = Duration::from_secs(120);
const LONG: Duration = Duration::from_secs(200);
const NONE: [i32; 0] = [];

/// A host that agrees to everything.
struct Yes;

impl HostLink for Yes {
    fn call<'a>(&'a self, _: &'a Action, _: &'a CallContext) -> BoxFuture<'a, Result<Reply, CallError>> {
        Box::pin(async { Ok(Reply::new(&br#"{"ok":true,"approved":true}"#[..])) })
    }

    fn request_max_bytes(&self) -> usize {
        usize::MAX
    }
}

/// A session: a workspace, its shell, its environment.
struct Session {
    dir: TempDir,
    shell: Shell,
    env: ChildEnv,
    cancel: CancellationToken,
}

impl Session {
    fn new() -> Self {
        os::harden().expect("the tests need a kernel that can be hardened");
        let dir = tempfile::tempdir().unwrap();
        let env = ChildEnv::new(dir.path(), std::env::vars_os());
        Self { dir, shell: Shell::new(), env, cancel: CancellationToken::new() }
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    async fn bash(&self, command: &str) -> Answer {
        self.bash_for(command, None).await
    }

    async fn bash_for(&self, command: &str, timeout_ms: Option<u64>) -> Answer {
        let call = approved(command, timeout_ms).await;
        let place = bash::Place { shell: &self.shell, env: &self.env, workspace: self.root(), repair: None };
        let done = bash::run(call, place, &self.cancel);
        Answer::new(tokio::time::timeout(HANG, done).await.expect("the call hangs"))
    }

    /// Below the tool: the typed end and the output.
    async fn end(&self, command: &str, time: Duration) -> (End, String) {
        let ended = self.shell.run(command, &self.env, self.root(), time, &self.cancel).await.unwrap();
        assert_eq!(ended.left, 0);
        (ended.end, ended.output.finish())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // What a failed test leaves behind is ended by the keepers when the shell goes.
        self.cancel.cancel();
    }
}

async fn approved(command: &str, timeout_ms: Option<u64>) -> Approved<bash::Args> {
    let gate = Gate::new(
        Host::new(Arc::new(Yes), CallContext::default(), CancellationToken::new()),
        ax_runner::redact::Redactor::default(),
    );
    gate.approve(bash::Args { command: command.to_owned(), timeout_ms }).await.unwrap()
}

struct Answer {
    output: String,
    note: Option<String>,
    code: i32,
    reported: String,
    text: String,
}

impl Answer {
    fn new(done: Finished) -> Self {
        let value: Value = serde_json::from_str(&done.text).unwrap();
        let report = done.report.unwrap();
        Self {
            output: value["output"].as_str().unwrap().to_owned(),
            note: value["note"].as_str().map(str::to_owned),
            code: report.exit_code.unwrap(),
            reported: report.output.unwrap(),
            text: done.text,
        }
    }
}

/// Runs a test in a process of its own, on the runtime the runner uses. Hardening and adopting orphans are for a whole
/// process, and so are counts of descriptors and zombies: the other tests of this binary stay out of it.
fn alone(name: &str, test: impl Future<Output = ()>) {
    if std::env::var_os("TEST_ALONE").is_some_and(|alone| alone == *name) {
        return tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }
    let done = myself(name).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    // A wrong name would run no test and succeed.
    assert!(done.status.success() && text.contains("1 passed"), "{}\n{text}", done.status);
    crate::support::relay(&text);
}

/// This test binary, to run one test of this module.
fn myself(name: &str) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("processes::{name}"), "--nocapture", "--test-threads=1"]);
    command.env("TEST_ALONE", name).stdin(std::process::Stdio::null());
    command
}

/// The numbers of all processes whose command line holds `mark`.
fn marked(mark: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if line.windows(mark.len()).any(|part| part == mark.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

/// Waits until no process carries the mark.
async fn none_left(mark: &str) {
    let start = Instant::now();
    while !marked(mark).is_empty() {
        assert!(start.elapsed() < HANG, "still there: {:?}", marked(mark));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A mark no other test uses: an odd number of seconds for `sleep`.
fn mark() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}.{:05}{}", 300, std::process::id(), 1000 + NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Waits until it holds.
async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < HANG, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Zombies among this process's children.
fn zombies() -> usize {
    children(|state| state == "Z")
}

/// This process's children in such a state.
fn children(wanted: impl Fn(&str) -> bool) -> usize {
    let own = std::process::id().to_string();
    let mut count = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, fields)) = line.rsplit_once(") ") else { continue };
        let fields: Vec<&str> = fields.split(' ').collect();
        count += usize::from(wanted(fields[0]) && fields[1] == own);
    }
    count
}
