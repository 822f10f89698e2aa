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

/// Nothing here takes this long unless it hangs.
const HANG: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(100);
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
        let done = bash::run(call, &self.shell, &self.env, self.root(), &self.cancel);
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
    let gate = Gate::new(Host::new(Arc::new(Yes), CallContext::default(), CancellationToken::new()));
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
    assert!(done.status.success(), "{}\n{text}", done.status);
    // The test harness may have begun the line.
    for line in text.lines() {
        for word in ["SKIP ", "MEASURED "] {
            if let Some(at) = line.find(word) {
                println!("{}", &line[at..]);
            }
        }
    }
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
        assert!(start.elapsed() < Duration::from_secs(5), "still there: {:?}", marked(mark));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A mark no other test uses: an odd number of seconds for `sleep`.
fn mark() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}.{:05}{}", 300, std::process::id(), 1000 + NEXT.fetch_add(1, Ordering::Relaxed))
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

// --- the call returns when the shell has ended, and loses nothing -----------------------------------------------------

#[test]
fn a_background_process_that_holds_the_pipe_does_not_hold_the_call() {
    alone("a_background_process_that_holds_the_pipe_does_not_hold_the_call", async {
        let session = Session::new();
        let mark = mark();
        let commands = [
            format!("sleep {mark} & echo done"),
            format!("(while :; do echo x; sleep .1; done; : {mark}) & echo done"),
            format!("sleep {mark} >/dev/null & echo done"),
            format!("nohup setsid sleep {mark} & echo done"),
            format!("sleep {mark} 2>/dev/null & disown; echo done"),
            format!("coproc sleep {mark}; echo done"),
            format!("(yes & sleep {mark}) & echo done"),
        ];
        for command in &commands {
            let start = Instant::now();
            let answer = session.bash_for(command, Some(30_000)).await;
            assert!(start.elapsed() < Duration::from_secs(2), "{command}: {:?}", start.elapsed());
            assert_eq!(answer.code, 0, "{command}");
            assert!(answer.output.contains("done"), "{command}: {}", answer.output);
            assert!(answer.note.unwrap().contains("still running"), "{command}");
            let next = session.bash("echo ok").await;
            assert_eq!((next.output.as_str(), next.note), ("ok\n", None));
        }
        assert!(session.shell.background() >= commands.len());
        assert_eq!(session.shell.shutdown().await, 0);
        none_left(&mark).await;
        assert_eq!(session.shell.background(), 0);
    });
}

#[test]
fn what_is_waited_for_is_in_the_output() {
    alone("what_is_waited_for_is_in_the_output", async {
        let session = Session::new();
        let answer = session.bash("(sleep 0.2; echo late) & wait; echo done").await;
        assert_eq!(answer.output, "late\ndone\n");
        let answer = session.bash("echo through > >(sed s/^/p-/)").await;
        assert_eq!((answer.output.as_str(), answer.note), ("p-through\n", None));
    });
}

#[test]
fn the_tail_is_never_lost() {
    alone("the_tail_is_never_lost", async {
        let session = Session::new();
        for _ in 0..50 {
            let answer = session.bash("seq 1 200000").await;
            assert_eq!(answer.code, 0);
            assert!(answer.output.starts_with("1\n2\n") && answer.output.ends_with("\n200000\n"));
        }
    });
}

#[test]
fn a_background_writer_is_not_killed_by_the_missing_reader() {
    alone("a_background_writer_is_not_killed_by_the_missing_reader", async {
        let session = Session::new();
        let file = session.root().join("count");
        let command = "(for i in {1..40}; do echo 0123456789 | head -c 100000000; echo $i > count; sleep .02; done) &";
        assert_eq!(session.bash(command).await.code, 0);
        let start = Instant::now();
        while std::fs::read_to_string(&file).unwrap_or_default().trim() != "40" {
            assert!(start.elapsed() < Duration::from_secs(20));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

#[test]
fn both_streams_are_drained_together_and_keep_their_order() {
    alone("both_streams_are_drained_together_and_keep_their_order", async {
        let session = Session::new();
        for (first, second) in [("stderr", "stdout"), ("stdout", "stderr")] {
            let answer = session
                .bash(&format!(
                    "python3 -c 'import sys; sys.{first}.write(\"e\"*1048576); sys.{second}.write(\"o\"*1048576)'"
                ))
                .await;
            assert_eq!(answer.code, 0);
            assert!(answer.output.contains("eeee") && answer.output.contains("oooo"));
        }
        for _ in 0..100 {
            let answer = session.bash("echo o1; echo e1 >&2; echo o2; echo e2 >&2; exit 1").await;
            assert_eq!(answer.output, "Exit code 1\no1\ne1\no2\ne2\n");
        }
        assert_eq!(session.bash("echo only >&2").await.text, r#"{"output":"only\n"}"#);
        assert_eq!(session.bash(":").await.text, r#"{"output":"(no output)"}"#);
    });
}

// --- everything a stopped call started dies ---------------------------------------------------------------------------

/// Commands that do not end by themselves and leave processes in every way there is. `M` stands for the mark.
const CLINGING: [&str; 9] = [
    r#"setsid bash -c 'trap "" TERM HUP; while :; do date >>tick; sleep .2; : M; done' & sleep M"#,
    r#"python3 -c 'import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        "M"
        time.sleep(300)
    os._exit(0)
time.sleep(300)'"#,
    r#"(trap "" TERM; bash -c 'trap "" TERM INT HUP; sleep M & while :; do sleep .1; done; : M' & exit) ; sleep M"#,
    "mkfifo p; cat p & echo x > p; sleep M",
    "env -i setsid -f sleep M; sleep M",
    "sleep M & kill -STOP $!; kill -STOP $BASHPID",
    "trap '' TERM; while :; do setsid -f sleep M; sleep .05; done",
    "exec >/dev/null 2>&1; setsid -f sleep M; trap 'setsid -f sleep M' TERM; sleep M",
    "sleep M | sleep M | (exec -a '(x) S 1 1 (' sleep M)",
];

#[test]
fn a_time_limit_ends_all_of_it() {
    alone("a_time_limit_ends_all_of_it", async {
        for command in CLINGING {
            let session = Session::new();
            let mark = mark();
            let start = Instant::now();
            let answer = session.bash_for(&format!("echo started; {}", command.replace('M', &mark)), Some(700)).await;
            assert!(start.elapsed() < Duration::from_secs(4), "{command}: {:?}", start.elapsed());
            assert!(answer.output.starts_with("Timed out after 700 ms"), "{command}: {}", answer.output);
            assert!(answer.output.contains("\nstarted\n"));
            assert_eq!((answer.code, answer.note), (124, None), "{command}");
            assert_eq!(marked(&mark), NONE, "{command}");
            let size = || std::fs::metadata(session.root().join("tick")).map(|meta| meta.len()).unwrap_or(0);
            let before = size();
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(size(), before);
        }
    });
}

#[test]
fn a_cancellation_ends_all_of_it_and_is_no_time_limit() {
    alone("a_cancellation_ends_all_of_it_and_is_no_time_limit", async {
        for command in CLINGING {
            let session = Session::new();
            let mark = mark();
            let cancel = session.cancel.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(400)).await;
                cancel.cancel();
            });
            let answer = session.bash(&command.replace('M', &mark)).await;
            assert!(answer.output.starts_with("Cancelled"), "{command}: {}", answer.output);
            assert_eq!(answer.code, 130);
            assert_eq!(marked(&mark), NONE, "{command}");
            let after = session.bash("echo never").await;
            assert_eq!((after.code, after.output.contains("never")), (130, false));
        }
    });
}

#[test]
fn shutdown_ends_running_and_left_behind() {
    alone("shutdown_ends_running_and_left_behind", async {
        let session = Session::new();
        let mark = mark();
        for command in CLINGING {
            session.bash(&format!("({}) & echo", command.replace('M', &mark))).await;
        }
        let running = {
            let (shell, env, root) = (session.shell.clone(), session.env.clone(), session.root().to_owned());
            let command = format!("sleep {mark}");
            tokio::spawn(async move { shell.run(&command, &env, &root, LONG, &CancellationToken::new()).await })
        };
        tokio::time::sleep(Duration::from_millis(300)).await;
        let start = Instant::now();
        assert_eq!(session.shell.shutdown().await, 0);
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        assert_eq!(running.await.unwrap().unwrap().end, End::Cancelled);
        assert_eq!(marked(&mark), NONE);
        assert_eq!(session.end("echo", LONG).await.0, End::Cancelled);
    });
}

#[test]
fn a_dropped_call_ends_all_of_it() {
    alone("a_dropped_call_ends_all_of_it", async {
        let session = Session::new();
        let mark = mark();
        let command = format!("setsid -f sleep {mark}; trap '' TERM; sleep {mark}");
        let call = session.bash(&command);
        assert!(tokio::time::timeout(Duration::from_millis(300), call).await.is_err());
        none_left(&mark).await;
    });
}

#[test]
fn a_killed_runner_takes_everything_with_it() {
    alone("a_killed_runner_takes_everything_with_it", async {
        if let Ok(mark) = std::env::var("TEST_MARK") {
            let session = Session::new();
            for command in CLINGING {
                session.bash(&format!("({}) & echo", command.replace('M', &mark))).await;
            }
            session.bash(&format!("sleep {mark}")).await;
            unreachable!("this process is killed before");
        }
        let mark = mark();
        let mut runner = myself("a_killed_runner_takes_everything_with_it").env("TEST_MARK", &mark).spawn().unwrap();
        let start = Instant::now();
        while marked(&mark).len() < CLINGING.len() {
            assert!(start.elapsed() < HANG);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        runner.kill().unwrap();
        runner.wait().unwrap();
        none_left(&mark).await;
    });
}

#[test]
fn a_killed_keeper_is_noticed_and_nothing_survives_it() {
    alone("a_killed_keeper_is_noticed_and_nothing_survives_it", async {
        let session = Session::new();
        let mark = mark();
        let bystander = {
            let (shell, env, root) = (session.shell.clone(), session.env.clone(), session.root().to_owned());
            let command = format!("sleep 1; echo bystander; sleep {mark}1 & echo");
            tokio::spawn(async move { shell.run(&command, &env, &root, LONG, &CancellationToken::new()).await })
        };
        let start = Instant::now();
        let answer = session
            .bash(&format!("setsid -f sleep {mark}2; trap '' TERM; echo before; kill -9 $PPID; sleep {mark}2"))
            .await;
        assert!(start.elapsed() < Duration::from_secs(4));
        assert!(answer.output.starts_with("Command error: "), "{}", answer.output);
        assert!(answer.output.contains("before"));
        assert_eq!(answer.code, 1);
        none_left(&format!("{mark}2")).await;
        // The others are untouched.
        let bystander = bystander.await.unwrap().unwrap();
        assert_eq!((bystander.end, bystander.background), (End::Exit(0), 1));
        assert_eq!(marked(&format!("sleep\0{mark}1")).len(), 1);
        session.shell.shutdown().await;
        none_left(&mark).await;
        // A stopped keeper cannot tell; the time limit still holds.
        let answer = session_after(&mark).await;
        assert!(answer.output.starts_with("Timed out"), "{}", answer.output);
        none_left(&mark).await;
    });
}

async fn session_after(mark: &str) -> Answer {
    Session::new().bash_for(&format!("kill -STOP $PPID; setsid -f sleep {mark}; exit 0"), Some(500)).await
}

// --- output ------------------------------------------------------------------------------------------------------------

/// Peak memory of this process in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_flood_is_bounded() {
    alone("a_flood_is_bounded", async {
        let session = Session::new();
        let base = peak();
        let answer = session.bash("printf BEGIN; yes | head -c 200M; printf END").await;
        assert!(answer.output.starts_with("BEGINy\n") && answer.output.ends_with("y\nEND"));
        assert!(answer.output.contains(&(200 * 1024 * 1024 + 8 - 100_000).to_string()));
        let answer = session.bash("printf BEGIN; head -c 200M /dev/zero | tr '\\0' x; printf END; exit 5").await;
        assert!(answer.output.starts_with("Exit code 5\nBEGINxx") && answer.output.ends_with("xxEND"));
        let answer = session.bash_for("yes >&2", Some(1000)).await;
        assert!(answer.output.starts_with("Timed out after 1000 ms") && answer.output.ends_with("y\n"));
        assert!(answer.output.len() < 110_000);
        assert!(peak() - base < 100 * 1024, "grew by {} KiB", peak() - base);
    });
}

#[test]
fn characters_survive_the_edges_of_reads() {
    alone("characters_survive_the_edges_of_reads", async {
        let session = Session::new();
        assert_eq!(session.bash(r"printf '\xe2'; sleep .3; printf '\x80\x94'").await.output, "—");
        let script = "import sys;sys.stdout.buffer.write(b'a'*int(sys.argv[1])+'😀'.encode())";
        for length in (4093..=4099).chain(8189..=8195).chain(65533..=65539) {
            let answer = session.bash(&format!("python3 -c \"{script}\" {length}")).await;
            assert_eq!(answer.output, format!("{}😀", "a".repeat(length)), "{length}");
        }
        assert_eq!(session.bash(r"printf 'a\xffb'").await.output, "a\u{fffd}b");
        assert_eq!(session.bash(r"printf 'x\xe2\x80'").await.output, "x\u{fffd}");
        let nul = session.bash(r"printf 'a\0b'").await;
        assert_eq!((nul.output.as_str(), nul.reported.as_str()), ("a␀b", "a␀b"));
    });
}

#[test]
fn a_nul_in_the_command_is_refused_before_anybody_is_asked() {
    alone("a_nul_in_the_command_is_refused_before_anybody_is_asked", async {
        let session = Session::new();
        let gate = Gate::new(Host::new(Arc::new(Yes), CallContext::default(), CancellationToken::new()));
        let args: bash::Args = serde_json::from_str(r#"{"command":"echo a\u0000b"}"#).unwrap();
        let refusal = gate.approve(args).await.unwrap_err();
        assert!(refusal.to_string().contains("command holds a NUL"));
        assert!(session.shell.run("a\0b", &session.env, session.root(), LONG, &session.cancel).await.is_err());
        assert_eq!(session.bash("echo alive").await.output, "alive\n");
    });
}

// --- input, exit codes, environment ------------------------------------------------------------------------------------

#[test]
fn input_is_at_its_end() {
    alone("input_is_at_its_end", async {
        let session = Session::new();
        let start = Instant::now();
        assert_eq!(session.bash("cat").await.text, r#"{"output":"(no output)"}"#);
        assert!(session.bash("python3 -c 'print(repr(input()))'").await.output.contains("EOFError"));
        assert_eq!(session.bash("read x; echo $?").await.output, "1\n");
        assert_eq!(session.bash("readlink /proc/self/fd/0").await.output, "/dev/null\n");
        assert!(session.bash("cat </dev/tty").await.output.contains("/dev/tty"));
        assert!(start.elapsed() < Duration::from_secs(10));
    });
}

#[test]
fn every_end_has_its_own_report() {
    alone("every_end_has_its_own_report", async {
        let session = Session::new();
        std::fs::write(session.root().join("plain"), "x").unwrap();
        let cases = [
            ("kill -9 $$", 137, "Exit code 137 (killed by SIGKILL)\n"),
            ("kill -TERM $$", 143, "Exit code 143 (killed by SIGTERM)\n"),
            ("exit 7", 7, "Exit code 7\n"),
            ("exit 256", 0, "(no output)"),
            ("exit 137", 137, "Exit code 137\n"),
            ("bash -c 'kill -SEGV $$'", 139, "Exit code 139"),
            ("bash -c 'kill -SEGV $$'; exit $?", 139, "Exit code 139"),
            ("no-such-command", 127, "Exit code 127\n"),
            ("./plain", 126, "Exit code 126\n"),
            ("kill -34 $$", 162, "Exit code 162 (killed by signal 34)\n"),
            ("echo 'unfinished", 2, "Exit code 2\n"),
        ];
        for (command, code, words) in cases {
            let answer = session.bash(command).await;
            assert_eq!(answer.code, code, "{command}: {}", answer.output);
            assert!(answer.output.starts_with(words), "{command}: {}", answer.output);
            assert!(!answer.reported.starts_with("Exit code"));
        }
        assert_eq!(session.end("sleep 50", Duration::from_millis(50)).await.0, End::TimedOut);
        assert_eq!(session.end("kill -9 $$", LONG).await.0, End::Signal(9));
        assert_eq!(session.end("exit 137", LONG).await.0, End::Exit(137));
    });
}

#[test]
fn signals_start_at_their_defaults() {
    alone("signals_start_at_their_defaults", async {
        let session = Session::new();
        let answer = session.bash(r"sed -n '/^Sig\(Blk\|Ign\|Cgt\)/p' /proc/self/status; trap").await;
        assert_eq!(answer.output, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n");
        // SIGPIPE ends a writer, as everywhere else.
        assert_eq!(session.bash("yes | head -1; echo ${PIPESTATUS[0]}").await.output, "y\n141\n");
        assert_eq!(session.bash("ulimit -c; ulimit -Hc").await.output, "0\n0\n");
    });
}

#[test]
fn nothing_is_inherited() {
    alone("nothing_is_inherited", async {
        let session = Session::new();
        // One descriptor a careless parent would leak, and calls under way at the same time.
        let leak = std::fs::File::open("/dev/null").unwrap();
        nix::fcntl::fcntl(&leak, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
        os::close_inherited();
        let busy = [session.bash("sleep .5"), session.bash("sleep .5")];
        let list = session.bash("ls /proc/self/fd; ls /proc/$$/fd; :");
        let (_, answer) = tokio::join!(futures_util::future::join_all(busy), list);
        assert_eq!(answer.output, "0\n1\n2\n3\n0\n1\n2\n");
        // The keeper holds two pipes and /dev/null.
        let keeper =
            session.bash("ls -l /proc/$PPID/fd | sed 's/.*-> //; s/[0-9]//g' | sort; cat /proc/$PPID/comm").await;
        if nix::unistd::geteuid().is_root() {
            assert_eq!(keeper.output, "/dev/null\n/dev/null\n/dev/null\npipe:[]\npipe:[]\ntotal \nax-keeper\n");
        } else {
            assert!(keeper.output.contains("Permission denied"));
        }
    });
}

#[test]
fn the_environment_is_the_list_and_nothing_else() {
    alone("the_environment_is_the_list_and_nothing_else", async {
        let mut session = Session::new();
        let parent = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HTTP_PROXY", "http://u:canary@h"),
            ("MY_NEW_THING", "canary"),
            ("AX_IPC_TOKEN", "canary"),
            ("LD_PRELOAD", "/canary.so"),
            ("BASH_FUNC_x%%", "() { echo canary; }"),
            ("BASH_ENV", "/canary"),
            ("AX_PASS_ENV", "KEEP,AX_IPC_TOKEN,LD_PRELOAD"),
            ("KEEP", "kept"),
        ];
        let parent = parent.map(|(name, value)| (name.into(), value.into()));
        session.env = ChildEnv::new(session.root(), parent);
        session.env.with("TURN", "turn").unwrap();
        let answer = session.bash("env -0 | tr '\\0' '\\n' | cut -d= -f1 | sort | tr '\\n' ' '").await;
        assert_eq!(
            answer.output,
            "AX_WORKSPACE GIT_PAGER GIT_TERMINAL_PROMPT HOME KEEP PAGER PATH PWD SHELL SHLVL TERM TURN _ "
        );
        let answer = session.bash("env; declare -p; x; cat /proc/self/environ | tr '\\0' '\\n'").await;
        assert!(!answer.output.contains("canary"));
        std::fs::write(session.root().join(".bashrc"), "echo startup").unwrap();
        std::fs::write(session.root().join(".bash_profile"), "echo startup").unwrap();
        std::fs::write(session.root().join(".profile"), "echo startup").unwrap();
        assert_eq!(session.bash("echo quiet").await.output, "quiet\n");
    });
}

#[test]
fn home_is_the_workspace() {
    alone("home_is_the_workspace", async {
        let session = Session::new();
        let answer = session.bash("cd ~ && touch f && pwd && ls && id -u && git --version >/dev/null").await;
        assert_eq!(answer.code, 0, "{}", answer.output);
        assert!(answer.output.starts_with(&format!("{}\nf\n", session.root().display())));
        let answer = session
            .bash("git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git log | cat")
            .await;
        assert_eq!(answer.code, 0, "{}", answer.output);
        // A name that cannot be found is said, not hidden.
        let answer = session.bash("whoami").await;
        assert!(answer.code == 0 || answer.output.contains("cannot find name"));
    });
}

#[test]
fn a_directory_that_goes_away_does_not_stick() {
    alone("a_directory_that_goes_away_does_not_stick", async {
        let session = Session::new();
        let root = session.root().display().to_string();
        assert_eq!(session.bash("mkdir x && cd x && rm -rf ../x && pwd").await.code, 0);
        assert_eq!(session.bash("pwd").await.output, format!("{root}\n"));
        // The workspace itself is replaced; the next call is in the new one.
        assert_eq!(session.bash(&format!("cd / && rm -rf {root}")).await.code, 0);
        let answer = session.bash("pwd").await;
        assert!(answer.output.contains("the workspace") && answer.output.contains("cannot be entered"));
        assert_eq!(answer.code, 1);
        assert!(answer.reported.starts_with("Command error: "));
        std::fs::write(session.root(), "a file").unwrap();
        assert!(session.bash("pwd").await.output.contains("cannot be entered"));
        std::fs::remove_file(session.root()).unwrap();
        std::fs::create_dir(session.root()).unwrap();
        assert_eq!(session.bash("touch there && ls").await.output, "there\n");
    });
}

// --- commands of any shape --------------------------------------------------------------------------------------------

#[test]
fn a_command_of_any_length_is_the_same_command() {
    alone("a_command_of_any_length_is_the_same_command", async {
        let session = Session::new();
        let rest = "echo \"$0|$#|$-|${c-unset}|${p-unset}|$*\"; set | grep -c ^__ax; exit 9\n";
        let short = session.bash(rest).await;
        for filler in ["# plain\n", "# 'quote\" $dollar `tick` \\ \n", "# €😀é\n", ": 'a\nb'\n"] {
            let long = format!("{}{rest}\n\n\n", filler.repeat(300_000 / filler.len()));
            assert!(long.len() > 131_072);
            let answer = session.bash_raw(&long).await;
            assert_eq!(answer, (End::Exit(9), short.reported.clone()), "{filler}");
        }
        // Data comes through byte for byte, to the last newline.
        let data: String = (0..20_000).map(|at| format!("{at} '\"$`\\ €😀\t*\n")).collect();
        let command = format!("cat <<'END'\n{data}\n\n\nEND\n");
        let answer = session.bash_raw(&format!("{{ {command}\n}} | sha256sum; ls -A; ls /proc/self/fd")).await.1;
        let expected = session.bash_raw("cat data | sha256sum");
        std::fs::write(session.root().join("data"), format!("{data}\n\n\n")).unwrap();
        let expected = expected.await.1;
        std::fs::remove_file(session.root().join("data")).unwrap();
        assert_eq!(answer, format!("{expected}data\n0\n1\n2\n3\n").replace("data\n", ""));
        let unfinished = format!("{}echo 'unfinished", "# filler\n".repeat(20_000));
        assert!(matches!(session.bash_raw(&unfinished).await.0, End::Exit(code) if code != 0));
    });
}

impl Session {
    /// Past the gate, whose limit on commands is smaller than bash's.
    async fn bash_raw(&self, command: &str) -> (End, String) {
        tokio::time::timeout(HANG, self.end(command, LONG)).await.expect("the call hangs")
    }
}

#[test]
fn a_command_may_begin_with_anything() {
    alone("a_command_may_begin_with_anything", async {
        let session = Session::new();
        assert_eq!(session.bash("-x").await.code, 127);
        assert_eq!(session.bash("--help").await.code, 127);
        assert_eq!(session.bash("").await.text, r#"{"output":"(no output)"}"#);
        assert_eq!(session.bash("\n\n# only a comment").await.code, 0);
        assert_eq!(session.bash("echo $0 $#").await.output, "bash 0\n");
    });
}

// --- many calls ---------------------------------------------------------------------------------------------------------

/// Zombies among this process's children.
fn zombies() -> usize {
    let own = std::process::id().to_string();
    let mut count = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, fields)) = line.rsplit_once(") ") else { continue };
        let fields: Vec<&str> = fields.split(' ').collect();
        count += usize::from(fields[0] == "Z" && fields[1] == own);
    }
    count
}

async fn five_hundred_calls() {
    let session = Arc::new(Session::new());
    let stop = CancellationToken::new();
    let reaper = tokio::spawn(os::adopt_orphans(stop.clone()));
    for _ in 0..63 {
        let calls = (0..8).map(|_| session.bash("(sleep .05 &) ; exit 3"));
        for answer in futures_util::future::join_all(calls).await {
            assert_eq!(answer.code, 3);
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for step in 0..200_u64 {
        let cancel = CancellationToken::new();
        let call = session.shell.run("(sleep 300 &) ; sleep 300", &session.env, session.root(), LONG, &cancel);
        let later = async {
            tokio::time::sleep(Duration::from_micros(step * 37 % 4000)).await;
            cancel.cancel();
        };
        let (ended, ()) = tokio::join!(call, later);
        assert_eq!(ended.unwrap().end, End::Cancelled);
    }
    assert_eq!(session.shell.background(), 0);
    stop.cancel();
    reaper.await.unwrap().unwrap();
}

#[test]
fn many_calls_leave_no_zombies_and_no_descriptors() {
    alone("many_calls_leave_no_zombies_and_no_descriptors", async {
        let before = descriptors();
        five_hundred_calls().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(zombies(), 0);
        assert!(descriptors() <= before + 4, "{before} descriptors have become {}", descriptors());
    });
}

#[test]
fn many_calls_on_many_threads_beside_a_thief_of_statuses() {
    alone("many_calls_on_many_threads_beside_a_thief_of_statuses", async {
        // A thread that takes the status of whatever child it can get.
        std::thread::spawn(|| {
            loop {
                let _ = nix::sys::wait::waitpid(None, Some(nix::sys::wait::WaitPidFlag::WNOHANG));
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        let calls = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
            runtime.block_on(async { tokio::spawn(five_hundred_calls()).await.unwrap() });
        });
        calls.join().unwrap();
    });
}

// --- without privileges --------------------------------------------------------------------------------------------------

/// Becomes an ordinary user for good, if it is not one already.
fn drop_privileges(uid: u32) -> bool {
    use nix::unistd::{Gid, Uid, geteuid, setgid, setgroups, setuid};
    if !geteuid().is_root() {
        return true;
    }
    setgroups(&[]).is_ok() && setgid(Gid::from_raw(uid)).is_ok() && setuid(Uid::from_raw(uid)).is_ok()
}

#[test]
fn the_runner_cannot_be_read_by_its_commands() {
    const NAME: &str = "the_runner_cannot_be_read_by_its_commands";
    // In two halves, so that the word itself is in no command.
    const CANARY: [&str; 2] = ["CANARY_", "IN_MEMORY"];
    alone(NAME, async {
        let Ok(canary) = std::env::var("TEST_MARK") else {
            let done = myself(NAME).env("TEST_MARK", CANARY.concat()).output().unwrap();
            print!("{}", String::from_utf8_lossy(&done.stdout));
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            return;
        };
        if !drop_privileges(54_321) {
            return println!("SKIP {NAME}: neither an ordinary user nor able to become one");
        }
        let session = Session::new();
        std::fs::write(session.root().join("look.py"), LOOK).unwrap();
        let [first, second] = CANARY;
        let answer = session.bash(&format!("python3 look.py {first} {second}")).await;
        assert_eq!(answer.code, 0, "{}", answer.output);
        assert!(!answer.output.contains(&canary));
        // The control: of an ordinary process the same look finds everything.
        for way in ["environ", "cmdline", "mem", "vm_readv", "attach", "fd", "cwd"] {
            assert!(answer.output.contains(&format!("control {way} open")), "{way}: {}", answer.output);
        }
        for who in ["keeper", "runner"] {
            for way in ["environ", "mem", "vm_readv", "attach", "fd", "cwd", "root"] {
                assert!(answer.output.contains(&format!("{who} {way} refused")), "{who} {way}: {}", answer.output);
            }
            assert!(answer.output.contains(&format!("{who} cmdline clean")), "{}", answer.output);
        }
    });
}

/// Looks into the keeper and the runner in every way it knows, and for control into a process of its own.
const LOOK: &str = r#"
import ctypes, os, subprocess, sys
mark = (sys.argv[1] + sys.argv[2]).encode()
libc = ctypes.CDLL(None, use_errno=True)

def memory(pid):
    found = False
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            area, rights = line.split()[:2]
            start, end = (int(part, 16) for part in area.split("-"))
            if "r" in rights and end - start < 1 << 27 and start < 1 << 47:
                try:
                    mem.seek(start)
                    found |= mark in mem.read(end - start)
                except OSError:
                    pass
    return found

def vm_readv(pid):
    class Piece(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
    with open(f"/proc/{pid}/maps") as maps:
        start = int(maps.readline().split("-")[0], 16)
    buffer = ctypes.create_string_buffer(64)
    here, there = Piece(ctypes.addressof(buffer), 64), Piece(start, 64)
    if libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return True

def attach(pid):
    if libc.ptrace(16, pid, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    os.waitpid(pid, 0x40000000)
    libc.ptrace(17, pid, 0, 0)
    return True

ways = {
    "environ": lambda pid: mark in open(f"/proc/{pid}/environ", "rb").read(),
    "cmdline": lambda pid: mark in open(f"/proc/{pid}/cmdline", "rb").read(),
    "mem": memory,
    "vm_readv": vm_readv,
    "attach": attach,
    "fd": lambda pid: bool(os.listdir(f"/proc/{pid}/fd")),
    "cwd": lambda pid: bool(os.readlink(f"/proc/{pid}/cwd")),
    "root": lambda pid: bool(os.listdir(f"/proc/{pid}/root")),
}

def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])

child = subprocess.Popen(["sleep", "30", mark], env={"MARK": mark}, stderr=subprocess.DEVNULL) if False else     subprocess.Popen([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(30)", mark],
                     env={"MARK": mark}, stdout=subprocess.PIPE)
child.stdout.readline()
keeper = os.getppid()
if open(f"/proc/{keeper}/comm").read().strip() != "ax-keeper":
    keeper = parent(keeper)
for who, pid in (("control", child.pid), ("keeper", keeper), ("runner", parent(keeper))):
    for way, look in ways.items():
        try:
            print(who, way, "open" if look(pid) else "clean")
        except OSError:
            print(who, way, "refused")
child.kill()
"#;

#[test]
fn a_fork_bomb_is_put_out() {
    const NAME: &str = "a_fork_bomb_is_put_out";
    alone(NAME, async {
        use nix::sys::resource::{Resource, setrlimit};
        const UID: u32 = 54_322;
        if !nix::unistd::geteuid().is_root() || !drop_privileges(UID) {
            return println!("SKIP {NAME}: needs root to become a user of its own, whose processes are bounded");
        }
        setrlimit(Resource::RLIMIT_NPROC, 150, 150).unwrap();
        let session = Session::new();
        for bomb in [
            ":(){ :|:& };:; sleep 30",
            "f(){ trap '' TERM; while :; do f & done; }; f",
            "b(){ setsid -f bash -c \"$c\"; b; }; export c='while :; do setsid -f bash -c \"$c\"; done'; b",
        ] {
            let start = Instant::now();
            let answer = session.bash_for(bomb, Some(1500)).await;
            assert!(answer.output.starts_with("Timed out"), "{bomb}: {}", answer.output);
            assert_eq!(answer.note, None, "{bomb}");
            assert!(start.elapsed() < Duration::from_secs(20), "{bomb}: {:?}", start.elapsed());
            assert_eq!(session.bash("echo alive; ps -o pid= -u $(id -u) | wc -l").await.output, "alive\n5\n", "{bomb}");
        }
    });
}

#[test]
fn a_lack_of_processes_or_descriptors_is_an_answer() {
    const NAME: &str = "a_lack_of_processes_or_descriptors_is_an_answer";
    alone(NAME, async {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        if !nix::unistd::geteuid().is_root() || !drop_privileges(54_323) {
            return println!("SKIP {NAME}: needs root to become a user of its own, whose processes are bounded");
        }
        let session = Session::new();
        for (limit, up_to) in [(Resource::RLIMIT_NPROC, 6), (Resource::RLIMIT_NOFILE, 24)] {
            let (soft, hard) = getrlimit(limit).unwrap();
            let mut refused = 0;
            for few in 0..up_to {
                setrlimit(limit, few, hard).unwrap();
                let answer = session.bash(":").await;
                setrlimit(limit, soft, hard).unwrap();
                if answer.code == 0 {
                    continue;
                }
                refused += 1;
                let words =
                    ["no process could be started", "cannot be entered", "bash could not", "error while loading"];
                assert!(words.iter().any(|words| answer.output.contains(words)), "{few}: {}", answer.output);
                assert_eq!(session.bash("echo alive").await.output, "alive\n");
            }
            assert!(refused > 1, "{limit:?}");
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(zombies(), 0);
    });
}

#[test]
fn an_image_without_bash_is_an_answer() {
    const NAME: &str = "an_image_without_bash_is_an_answer";
    alone(NAME, async {
        let session = Session::new();
        std::fs::create_dir(session.root().join("dev")).unwrap();
        std::fs::write(session.root().join("dev/null"), "").unwrap();
        if nix::unistd::chroot(session.root()).is_err() {
            return println!("SKIP {NAME}: needs root for an empty root directory");
        }
        let run = |path| session.shell.run("echo", &session.env, Path::new(path), LONG, &session.cancel);
        for _ in 0..3 {
            let error = run("/").await.unwrap_err().to_string();
            assert_eq!(
                error,
                "bash was not found at /bin/bash, /usr/bin/bash or /usr/local/bin/bash; install it in the image"
            );
        }
        std::fs::create_dir("/bin").unwrap();
        std::fs::write("/bin/bash", "not a program").unwrap();
        assert!(run("/").await.unwrap_err().to_string().starts_with("bash could not be executed: Permission denied"));
        assert!(run("/nowhere").await.unwrap_err().to_string().starts_with("the workspace /nowhere cannot be entered"));
    });
}

// --- orphans that reach the runner itself ---------------------------------------------------------------------------------

#[test]
fn orphans_are_reaped_and_known_children_are_not() {
    alone("orphans_are_reaped_and_known_children_are_not", async {
        os::harden().unwrap();
        let stop = CancellationToken::new();
        let reaper = tokio::spawn(os::adopt_orphans(stop.clone()));
        let start = |script: &str| {
            let script = script.to_owned();
            os::Known::start(move || {
                let child = bare("/bin/bash").args(["-c", &script]).spawn()?;
                let pid = i32::try_from(child.id()).unwrap();
                Ok((child, pid))
            })
            .unwrap()
        };
        // Ends at once and stays a zombie in front of the others until its owner looks.
        let (mut first, known) = start("exit 9");
        for _ in 0..20 {
            let (mut parent, _known) = start("(sleep .05; kill -34 $BASHPID) & (sleep .05) & exit 4");
            assert_eq!(parent.wait().unwrap().code(), Some(4));
        }
        let begin = Instant::now();
        while zombies() > 1 || std::fs::read_to_string(children()).unwrap().split_whitespace().count() > 1 {
            assert!(begin.elapsed() < Duration::from_secs(10), "{} zombies", zombies());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(first.wait().unwrap().code(), Some(9));
        drop(known);
        stop.cancel();
        reaper.await.unwrap().unwrap();
    });
}

fn children() -> String {
    format!("/proc/self/task/{}/children", std::process::id())
}

fn bare(program: &str) -> std::process::Command {
    std::process::Command::new(program)
}

// --- cost --------------------------------------------------------------------------------------------------------------------

#[test]
fn the_cost_of_a_call_is_measured() {
    alone("the_cost_of_a_call_is_measured", async {
        let session = Session::new();
        let rounds = 100;
        let (mut own, mut plain) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..rounds {
            let start = Instant::now();
            bare("/bin/bash").args(["-c", "true"]).output().unwrap();
            plain += start.elapsed();
            let start = Instant::now();
            assert_eq!(session.end("true", LONG).await.0, End::Exit(0));
            own += start.elapsed();
        }
        println!("MEASURED bash -c true: {:?} a call, {:?} bare", own / rounds, plain / rounds);
    });
}
