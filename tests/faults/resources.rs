//! What the system runs out of, or does not allow.

use super::{Fault, NOBODY, Played, Row, can, on, play, root, said};
use crate::rows::{at_once, bash, bash_for, one_by_one, read, write};
use ax_runner::devhost::FakeHost;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

pub(super) const FAULTS: [Fault; 12] = [
    Fault("workspace full (1 MB)", true, workspace_full),
    Fault("file size limit (100 kB)", true, file_size),
    Fault("temporary directory full", false, temporary_full),
    Fault("log full (stderr is /dev/full)", true, log_full),
    Fault("stdout full (/dev/full)", true, stdout_full),
    Fault("16 descriptors, 16 calls at once", true, descriptors),
    Fault("12 processes for the user, 16 calls at once", false, user_processes),
    Fault("12 processes in the group, 16 calls at once", false, group_processes),
    Fault("64 MB of memory, a command that wants 200 MB", false, memory),
    Fault("everything read-only", true, read_only),
    Fault("clock far ahead (time namespace)", true, clock),
    Fault("stopped for longer than a call may take", false, stopped),
];

const OLD: &str = "head -c 600000 /dev/zero | tr '\\0' o > f; sha256sum f";
const STILL: &str = "sha256sum f; ls -A | grep -v -e '^f$' -e '^.ax$' -e '^bin$' || echo nothing else";

/// A write that cannot be finished: `f` is as before, and nothing lies beside it.
fn failed_write(played: &Played, why: &str) -> Row {
    let told = played.told();
    let (before, after) = (said(&told[0]), said(&told[2]));
    let error = said(&told[1]);
    assert!(error.contains(why), "{error}");
    assert_eq!(after.trim(), format!("{}\nnothing else", before.trim()));
    Row::new(played, "nothing: the file has its old bytes, no temporary file is left", format!("write_file: {error}"))
}

fn written() -> Vec<Value> {
    vec![bash(OLD), write("f", &"é".repeat(400_000)), bash(STILL)]
}

fn workspace_full() -> Result<Row, String> {
    root()?;
    can("unshare -m mount -t tmpfs none /mnt")?;
    let prefix = "[ \"$AX_IN\" ] || { export AX_IN=1; exec unshare -m bash -c \
                  'mount -t tmpfs -o size=1m none \"$AX_WORKSPACE\" && cd \"$AX_WORKSPACE\" && exec \"$0\" \"$@\"' \
                  \"$0\" \"$@\"; }";
    Ok(failed_write(&play(one_by_one(&written()), prefix, |runner| runner), "no space left"))
}

fn file_size() -> Result<Row, String> {
    let mut calls = written();
    calls[0] = bash("head -c 60000 /dev/zero | tr '\\0' o > f; sha256sum f");
    Ok(failed_write(&play(one_by_one(&calls), "ulimit -f 100", |runner| runner), "file too large"))
}

fn temporary_full() -> Result<Row, String> {
    root()?;
    can("unshare -m mount -t tmpfs none /tmp")?;
    let place = tempfile::tempdir().unwrap();
    let prefix = "[ \"$AX_IN\" ] || { export AX_IN=1; exec unshare -m bash -c \
                  'mount -t tmpfs -o size=64k none \"$TMPDIR\" && { cat /dev/zero > \"$TMPDIR\"/full; exec \"$0\" \"$@\"; }' \
                  \"$0\" \"$@\"; }";
    let calls = [
        bash("echo more > \"$TMPDIR\"/more"),
        bash("x=$(head -c 200000 /dev/zero | tr '\\0' x); wc -c <<< \"$x\""),
        bash(format!("echo {}", "x".repeat(90_000))),
        write("f", "content"),
        read("f"),
    ];
    let played =
        play(one_by_one(&calls), prefix, |runner| runner.env("TMPDIR", place.path()).env("AX_PASS_ENV", "TMPDIR"));
    let told = played.told();
    assert!(said(&told[0]).contains("No space left"), "{}", told[0]);
    assert!(said(&told[1]).contains("No space left"), "{}", told[1]);
    assert!(said(&told[2]).starts_with("xxx"), "{}", &told[2][..100]);
    assert!(told[4].contains("content"), "{}", told[4]);
    Ok(Row::new(&played, "nothing", "commands that need a temporary file say so; files and long commands need none"))
}

fn log_full() -> Result<Row, String> {
    let played = play(one_by_one(&[bash("echo ok")]), "exec 2>/dev/full", |runner| runner);
    assert_eq!(said(&played.told()[0]).trim(), "ok");
    Ok(Row::new(&played, "the log", "answered"))
}

fn stdout_full() -> Result<Row, String> {
    let played = play(one_by_one(&[bash("echo ok")]), "exec >/dev/full", |runner| runner);
    let last = played.output.stderr.lines().last().unwrap_or_default().to_owned();
    Ok(Row::new(&played, "the answer, which has nowhere to go", last))
}

/// All calls are answered: those that could not start say so, the turn ends, and the runner is whole again.
fn short_of(prefix: &str, configure: impl FnOnce(ax_runner::devhost::Runner) -> ax_runner::devhost::Runner) -> Row {
    let many: Vec<Value> = (0..16).map(|at| bash(format!("echo {at}; sleep .2 | sleep .2"))).collect();
    let host = FakeHost::socket(at_once(&many)).start();
    let played = on(host, prefix, configure);
    let told = played.told();
    assert_eq!(told.len(), 16, "{}", played.output.stderr);
    let refused =
        told.iter().map(|told| said(told)).filter(|text| text.contains("started") || text.contains("fork")).count();
    // How many, and on a busy machine whether any, depends on how many ran at once.
    assert!(refused < 16 && (refused > 0 || std::env::var_os("AX_FAULTS").is_none()), "{told:?}");
    Row::new(&played, "calls that could not be started, each told so", "answered")
}

fn descriptors() -> Result<Row, String> {
    Ok(short_of("ulimit -n 16", |runner| runner))
}

fn user_processes() -> Result<Row, String> {
    root()?;
    Ok(short_of("ulimit -u 12", |runner| runner.user(NOBODY)))
}

/// A control group of our own below the one we are in, removed with this.
struct Group(PathBuf);

impl Group {
    fn new(controller: &str, file: &str, limit: &str) -> Result<Self, String> {
        root()?;
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut lines = own.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
        let own = lines.find(|parts| parts.get(1) == Some(&controller));
        let own = own.and_then(|parts| parts.get(2).map(|path| path.trim_start_matches('/').to_owned()));
        let place = own.map(|own| PathBuf::from("/sys/fs/cgroup").join(controller).join(own));
        let place = place.ok_or_else(|| format!("no control group of version 1 for {controller}"))?;
        let group = Self(place.join(format!("ax-faults-{}", std::process::id())));
        let made = fs::create_dir(&group.0).and_then(|()| fs::write(group.0.join(file), limit));
        made.map_err(|error| format!("{}: {error}", group.0.display()))?;
        Ok(group)
    }

    fn prefix(&self) -> String {
        format!("echo $$ > {}/cgroup.procs", self.0.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let start = std::time::Instant::now();
        while fs::remove_dir(&self.0).is_err() && start.elapsed() < std::time::Duration::from_secs(10) {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

fn group_processes() -> Result<Row, String> {
    let group = Group::new("pids", "pids.max", "12")?;
    Ok(short_of(&group.prefix(), |runner| runner))
}

fn memory() -> Result<Row, String> {
    let group = Group::new("memory", "memory.limit_in_bytes", "67108864")?;
    // Without swap the limit is the end; what is in the page cache counts too and can be given back.
    let hog = "head -c 200M /dev/zero | tail -c 150M | wc -c; echo ${PIPESTATUS[1]}";
    let calls =
        [bash_for(hog, 60_000), bash("echo fine"), bash("head -c 300M /dev/zero | tr '\\0' x"), write("f", "x")];
    let played = play(one_by_one(&calls), &group.prefix(), |runner| runner);
    let told = played.told();
    assert!(said(&told[0]).contains("137"), "{}", said(&told[0]));
    assert_eq!(said(&told[1]).trim(), "fine");
    Ok(Row::new(&played, "the command, killed by the kernel (137)", "answered; 300 MB of output fit as well"))
}

fn read_only() -> Result<Row, String> {
    root()?;
    can("unshare -m mount -o remount,bind,ro /")?;
    let prefix = "[ \"$AX_IN\" ] || { export AX_IN=1; exec unshare -m bash -c \
                  'mount --bind \"$AX_WORKSPACE\" \"$AX_WORKSPACE\" && mount -o remount,bind,ro \"$AX_WORKSPACE\" && \
                  mount -o remount,bind,ro / && { mount -o remount,bind,ro /tmp || true; } && cd \"$AX_WORKSPACE\" && \
                  exec \"$0\" \"$@\"' \"$0\" \"$@\"; }";
    let calls = [
        bash("echo ok"),
        bash(format!("echo {}", "x".repeat(90_000))),
        write("f", "x"),
        read("missing"),
        bash("touch g; echo $?"),
    ];
    let played = play(one_by_one(&calls), prefix, |runner| runner);
    let told = played.told();
    assert_eq!(said(&told[0]).trim(), "ok");
    assert!(said(&told[1]).starts_with("xxx"), "{}", told[1]);
    let error = said(&told[2]);
    assert!(error.contains("read-only file system"), "{error}");
    Ok(Row::new(&played, "nothing", format!("write_file: {error}")))
}

fn clock() -> Result<Row, String> {
    root()?;
    can("unshare --time --monotonic 100000000 --boottime 100000000 true")?;
    let prefix = "[ \"$AX_IN\" ] || { export AX_IN=1; \
                  exec unshare --time --monotonic 100000000 --boottime 100000000 \"$0\" \"$@\"; }";
    let calls = [bash("echo ok"), bash_for("sleep 30", 300), bash("(sleep 100 &) ; exit 3")];
    let played = play(one_by_one(&calls), prefix, |runner| runner);
    assert_eq!(said(&played.told()[0]).trim(), "ok");
    Ok(Row::new(&played, "nothing", "answered; time limits hold"))
}

fn stopped() -> Result<Row, String> {
    let script = serde_json::json!([{"tools": [{"name": "bash", "args": {"command": "echo ok"}}], "delay_ms": 1000},
        {"repeat": true, "text": "done"}]);
    let host = FakeHost::socket(ax_runner::devhost::Script::json(script)).start();
    let running = super::start(&host, "").env("AX_LLM_TIMEOUT_MS", "2000").spawn().expect("the runner starts");
    assert!(host.wait_request("llm_call", 1, crate::support::LIMIT).is_some());
    running.signal(nix::sys::signal::Signal::SIGSTOP);
    std::thread::sleep(std::time::Duration::from_secs(4));
    running.signal(nix::sys::signal::Signal::SIGCONT);
    let played = Played { output: running.wait(), host, peak: 0 };
    Ok(Row::new(&played, "nothing", "answered: the reply that came meanwhile is read"))
}
