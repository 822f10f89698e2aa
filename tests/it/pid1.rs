//! The end of a life (DESIGN §4.12): as a plain process and as PID 1 of its own namespace, in every phase.

use crate::http::in_parallel;
use crate::support::{BIN, LIMIT, bash_then_done, comes_true};
use ax_runner::devhost::{Builder, FakeHost, Fault, Output, Point, Runner, Running, Script, Signal, Transport};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::json;
use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, Instant};

const TRANSPORTS: [Transport; 3] = [Transport::Socket, Transport::Listen, Transport::Http];
const STOPPED: &str = "[The turn was stopped before it was finished.]";
/// The promise is two seconds; only a hang takes this long.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// Processes that have this word in their command line and are no zombies.
pub(crate) fn living(mark: &str) -> Vec<i32> {
    processes()
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let own = *pid == i32::try_from(std::process::id()).unwrap();
            !own && String::from_utf8_lossy(&line).contains(mark)
        })
        .collect()
}

/// Waits until there are none: on a busy machine the runner's time may be over first, and a keeper ends the rest.
pub(crate) fn none_living(mark: &str) -> bool {
    comes_true(|| living(mark).is_empty())
}

fn processes() -> impl Iterator<Item = i32> {
    std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Why only root can follow the phases.
const HIDDEN: &str = "the memory of a process that made itself unreadable is shown to root only";

/// Can a namespace of this kind be made here? Says that `test` is skipped if not.
pub(crate) fn may_unshare(test: &str, kind: &str) -> bool {
    let may = Command::new("unshare").args([kind, "--fork", "true"]).status().is_ok_and(|status| status.success());
    if !may {
        crate::support::skip(test, format!("unshare {kind} is not permitted here"));
    }
    may
}

/// How the runner is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum As {
    Process,
    Pid1,
}

impl As {
    /// The command line that starts these words so.
    pub(crate) fn words(self, words: &[OsString]) -> Vec<OsString> {
        let before = match self {
            As::Process => &[][..],
            As::Pid1 => &["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"],
        };
        before.iter().map(OsString::from).chain(words.iter().cloned()).collect()
    }
}

pub(crate) struct Life {
    running: Running,
    pid: i32,
}

impl Life {
    fn start(host: &FakeHost, how: As) -> Self {
        Self::of(host.command(how.words(&[BIN.into()])).payload(&host.payload("go")), how)
    }

    /// Returns once the runner can hear a signal. Before its first instruction nothing can: the kernel throws away what
    /// PID 1 neither blocks nor handles.
    pub(crate) fn of(runner: Runner, how: As) -> Self {
        let running = runner.deadline(LIMIT).spawn().unwrap();
        let begun = Instant::now();
        let pid = loop {
            assert!(begun.elapsed() < LIMIT, "the runner does not start");
            let pid = match how {
                As::Process => Some(running.pid()),
                As::Pid1 => child(running.pid()),
            };
            if let Some(pid) = pid.filter(|pid| hears(*pid)) {
                break pid;
            }
            std::thread::sleep(Duration::from_micros(200));
        };
        Self { running, pid }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        match kill(Pid::from_raw(self.pid), signal) {
            // It has just ended by itself, and its end is told by what `wait` returns.
            Ok(()) | Err(nix::errno::Errno::ESRCH) => {}
            Err(errno) => panic!("{signal}: {errno}"),
        }
    }

    /// The end, and how long it took.
    pub(crate) fn wait(self) -> (Output, Duration) {
        let begun = Instant::now();
        let output = self.running.wait();
        (output, begun.elapsed())
    }
}

/// Has the runner's program blocked SIGTERM, or a handler for it? Asked of what is shown of a process that made itself
/// unreadable too.
fn hears(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let has = |line: &str| {
        let set = line.strip_prefix("SigBlk:").or_else(|| line.strip_prefix("SigCgt:"))?;
        u64::from_str_radix(set.trim(), 16).ok().filter(|set| set & (1 << (15 - 1)) != 0)
    };
    status.starts_with("Name:\tax-runner\n") && status.lines().any(|line| has(line).is_some())
}

fn child(pid: i32) -> Option<i32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

pub(crate) fn ways(test: &str) -> Vec<As> {
    match may_unshare(test, "--pid") {
        true => vec![As::Process, As::Pid1],
        false => vec![As::Process],
    }
}

#[test]
fn sigterm_at_any_time_ends_the_runner() {
    if !nix::unistd::geteuid().is_root() {
        return crate::support::skip("sigterm_at_any_time_ends_the_runner", HIDDEN);
    }
    let mut cases = Vec::new();
    for how in ways("sigterm_at_any_time_ends_the_runner") {
        for transport in TRANSPORTS {
            for ms in [0, 0, 0, 1, 2, 5, 20, 50, 200, 500] {
                cases.push((how, transport, ms));
            }
        }
    }
    let rows = in_parallel(
        &cases,
        |_| 0,
        |&(how, transport, ms)| {
            let host = FakeHost::builder(transport, bash_then_done("sleep 60 & sleep 60")).start();
            // An answer before the payload was read names nobody, and a frame may be half written.
            host.forgive();
            let life = Life::start(&host, how);
            std::thread::sleep(Duration::from_millis(ms));
            life.signal(Signal::SIGTERM);
            let (output, took) = life.wait();
            let at = format!("{how:?} {transport:?} after {ms} ms");
            assert!(!output.timed_out && took < STOP_LIMIT, "{at}: lost, or {took:?}: {}", output.stderr);
            // Until its handlers are there a plain process dies of the signal itself, which is as good.
            let by_signal = how == As::Process && output.signal == Some(15);
            assert!(output.code == Some(143) || by_signal, "{at}: {output:?}");
            format!("{at}: {took:?}\n")
        },
    );
    println!("{}", rows.concat());
}

/// A stop that waits from before the program's first instruction, as one that comes during start-up does.
#[test]
fn a_stop_that_waits_since_the_start_is_heard() {
    let test = "a_stop_that_waits_since_the_start_is_heard";
    if !crate::everywhere::python(test) {
        return;
    }
    let program = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); \
        os.kill(os.getpid(), signal.SIGTERM); os.execv(sys.argv[1], sys.argv[1:])";
    for how in ways(test) {
        for transport in TRANSPORTS {
            let host = FakeHost::builder(transport, bash_then_done("sleep 60")).start();
            let mut words = vec!["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
            if how == As::Process {
                words.clear();
            }
            words.extend(["python3", "-c", program, BIN]);
            let runner = host.command(words.into_iter().map(Into::into).collect());
            let output = runner.payload(&host.payload("go")).deadline(LIMIT).run();
            assert_eq!((output.code, output.timed_out), (Some(143), false), "{how:?} {transport:?}: {}", output.stderr);
        }
    }
}

#[test]
fn every_signal_in_every_phase_has_its_code_and_leaves_nothing() {
    if !nix::unistd::geteuid().is_root() {
        return crate::support::skip("every_signal_in_every_phase_has_its_code_and_leaves_nothing", HIDDEN);
    }
    let signals = [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGHUP, 129), (Signal::SIGQUIT, 131)];
    let phases = ["work", "llm_call", "sandbox_approve", "running", "sandbox_result", "agent_response"];
    let mut cases = Vec::new();
    for how in ways("every_signal_in_every_phase_has_its_code_and_leaves_nothing") {
        for (at, transport) in TRANSPORTS.into_iter().enumerate() {
            for (number, phase) in phases.into_iter().enumerate() {
                if (phase == "work" && transport != Transport::Http)
                    || (phase == "agent_response" && transport == Transport::Socket)
                {
                    continue;
                }
                cases.push((how, transport, phase, signals[(at + number) % signals.len()]));
            }
        }
    }
    let rows = in_parallel(
        &cases,
        |_| 0,
        |&(how, transport, phase, (signal, code))| {
            let at = format!("{how:?} {transport:?} {phase} {signal}");
            let mark = format!(
                "{}.{}",
                300_000 + std::process::id(),
                cases
                    .iter()
                    .position(|case| { (case.0, case.1, case.2) == (how, transport, phase) })
                    .unwrap_or_default()
                    + 10
            );
            let (output, took, host) = phase_of(how, transport, phase, signal, &mark);
            assert!(!output.timed_out && took < STOP_LIMIT, "{at}: {took:?}: {}", output.stderr);
            assert_eq!(output.code, Some(code), "{at}: {}", output.stderr);
            assert!(none_living(&mark), "{at} leaves something behind: {:?}", living(&mark));
            // On a busy machine the time may be over before the answer has gone.
            let in_time = took < ax_runner::limits::SHUTDOWN;
            if transport != Transport::Socket && !["work", "agent_response"].contains(&phase) && in_time {
                assert_eq!(host.answers().len(), 1, "{at}: {}", output.stderr);
                let answer = host.answer().unwrap_or_default();
                assert!(answer.ends_with(STOPPED) || phase == "sandbox_result", "{at}: {answer}");
            }
            if phase == "running" && in_time {
                let report = host.requests_of("sandbox_result").pop().unwrap_or_else(|| panic!("{at}: no report"));
                assert_eq!(report.value["exitCode"], 130, "{at}");
            }
            format!("{at}: {took:?}\n")
        },
    );
    println!("{}", rows.concat());
}

/// Brings a runner into a phase, with a stubborn process in the background from `running` on, and signals it.
fn phase_of(how: As, transport: Transport, phase: &str, signal: Signal, mark: &str) -> (Output, Duration, FakeHost) {
    let background = format!("setsid bash -c \"trap '' TERM HUP INT; sleep {mark}; :\" & touch ready");
    let command = match phase {
        "running" => format!("{background}; trap '' TERM; sleep {mark}; sleep {mark}"),
        _ => background,
    };
    let mut builder: Builder = FakeHost::builder(transport, bash_then_done(&command));
    if !["work", "running"].contains(&phase) {
        builder = builder.fault(phase, 1, Fault::Silence(Point::Read));
    }
    let host = builder.start();
    let life = match phase {
        "work" => {
            let life = Life::start(&host, how);
            // The turn is over, and more work is waited for.
            let mut payload = host.payload("go");
            payload["singleTurn"] = json!(false);
            host.push_work(&payload);
            life
        }
        _ => Life::start(&host, how),
    };
    match phase {
        "work" => {
            host.wait_answer(1, LIMIT).expect("an answer");
        }
        "running" => {
            let begun = Instant::now();
            while !host.workspace().join("ready").exists() {
                assert!(begun.elapsed() < LIMIT, "the command does not start");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        phase => {
            host.wait_request(phase, 1, LIMIT).unwrap_or_else(|| panic!("no {phase}"));
        }
    }
    std::thread::sleep(Duration::from_millis(100));
    life.signal(signal);
    let (output, took) = life.wait();
    (output, took, host)
}

#[test]
fn a_second_signal_ends_the_runner_at_once() {
    for how in ways("a_second_signal_ends_the_runner_at_once") {
        // On a busy machine the first one's time may be over before the second comes: 143.
        let mut tries = (0..5).map(|_| signalled_twice(how));
        let output = tries.find(|output| output.code != Some(143)).expect("the second signal changes nothing");
        assert_eq!((output.code, output.timed_out), (Some(130), false), "{how:?}: {}", output.stderr);
    }
}

fn signalled_twice(how: As) -> Output {
    let host = FakeHost::http(bash_then_done("trap '' TERM; sleep 60"))
        .fault("agent_response", 1, Fault::Silence(Point::Read))
        .start();
    let life = Life::start(&host, how);
    host.wait_request("sandbox_approve", 1, LIMIT).expect("an approval");
    life.signal(Signal::SIGTERM);
    // Heard; both waiting at once would be taken in the order of their numbers.
    comes_true(|| life.running.ended() || !host.requests_of("agent_response").is_empty());
    if !life.running.ended() {
        life.signal(Signal::SIGINT);
    }
    life.wait().0
}

#[test]
fn as_pid_1_orphans_are_reaped_and_no_status_is_stolen() {
    let test = "as_pid_1_orphans_are_reaped_and_no_status_is_stolen";
    if !may_unshare(test, "--pid") {
        return;
    }
    let orphan = json!({"name": "bash", "args": {"command": "(sleep .05 & sleep .02 & setsid true &); exit 3"}});
    let count = json!({"name": "bash", "args": {"command":
        "for i in {1..300}; do left=$(cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | grep -c ^Z); [ $left = 0 ] && break; sleep .1; done; \
         echo $left; ls /proc/1/exe 2>&1 | tail -1; echo pid $$", "timeout_ms": 200_000}});
    let mut rounds = vec![json!({"tools": vec![orphan; 12]}); 4];
    rounds.push(json!({"tools": [count]}));
    rounds.push(json!({"text": "done"}));
    let host = FakeHost::http(Script::json(json!(rounds))).start();
    let (output, _) = Life::start(&host, As::Pid1).wait();
    assert_eq!((output.code, host.answer().as_deref()), (Some(0), Some("done")), "{}", output.stderr);
    let mut reports = host.requests_of("sandbox_result");
    let last = reports.pop().unwrap();
    assert_eq!(reports.len(), 48);
    for report in reports {
        assert_eq!(report.value["exitCode"], 3, "{}", report.value);
    }
    let told = last.value["output"].as_str().unwrap_or_default();
    assert!(told.starts_with("0\n"), "zombies: {told}");
}
