//! SIGTERM in every phase of a life, on each transport, as an ordinary process and as PID 1: how long until it is gone
//! (DESIGN §4.12: two seconds), with which code, and that nothing is left. Without `AX_SOAK` only the phases that no other
//! test looks at, as a plain process.

use super::{full, program, row};
use crate::pid1::{As, Life, living, none_living, ways};
use crate::support::{LIMIT, bash_then_done};
use ax_runner::devhost::{FakeHost, Fault, Point, Runner, Script, Signal, Transport};
use serde_json::json;
use std::ffi::OsString;
use std::time::{Duration, Instant};

const PROMISE: Duration = Duration::from_secs(2);
/// A hang; a busy machine takes longer than the promise.
const HANG: Duration = Duration::from_secs(60);

/// Where the signal meets the runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// So many milliseconds after it can hear.
    After(u64),
    Payload,
    /// Nobody dials in.
    Dialling,
    Workspace,
    /// A request the host does not answer.
    Asking(&'static str),
    Command,
    /// Nobody reads its stdout.
    Stdout,
    /// The turn is over, the next one is waited for.
    Idle,
}

const PHASES: [Phase; 14] = [
    Phase::After(0),
    Phase::After(50),
    Phase::After(200),
    Phase::After(500),
    Phase::Payload,
    Phase::Dialling,
    Phase::Workspace,
    Phase::Asking("llm_call"),
    Phase::Asking("sandbox_approve"),
    Phase::Command,
    Phase::Asking("sandbox_result"),
    Phase::Asking("agent_response"),
    Phase::Stdout,
    Phase::Idle,
];

impl Phase {
    fn name(self) -> String {
        match self {
            Self::After(ms) => format!("{ms} ms after its start"),
            Self::Payload => "waiting for its payload".to_owned(),
            Self::Dialling => "waiting for the host to dial in".to_owned(),
            Self::Workspace => "waiting for the workspace".to_owned(),
            Self::Asking(action) => format!("waiting for the reply to {action}"),
            Self::Command => "in a command that ignores it".to_owned(),
            Self::Stdout => "answering to a full pipe".to_owned(),
            Self::Idle => "waiting for more work".to_owned(),
        }
    }

    fn exists(self, transport: Transport) -> bool {
        match self {
            Self::Payload => transport != Transport::Http,
            Self::Dialling => transport == Transport::Listen,
            Self::Stdout => transport == Transport::Socket,
            Self::Asking("agent_response") => transport != Transport::Socket,
            Self::Idle => transport == Transport::Http,
            _ => true,
        }
    }

    /// The phases that the tests of `pid1` do not have.
    fn short(self) -> bool {
        matches!(self, Self::Dialling | Self::Workspace | Self::Stdout)
    }

    fn host(self, transport: Transport, mark: &str) -> FakeHost {
        // `ready` once both are stubborn.
        let background =
            format!("trap '' TERM; setsid -f bash -c \"trap '' TERM HUP INT; touch ready; sleep {mark}; :\"");
        let script = match self {
            Self::Command | Self::After(_) => bash_then_done(&format!("{background}; sleep {mark}; sleep {mark}")),
            Self::Stdout => Script::text(&"a long answer ".repeat(30_000)),
            _ => bash_then_done(&background),
        };
        let host = FakeHost::builder(transport, script);
        let host = match self {
            Self::Asking(action) => host.fault(action, 1, Fault::Silence(Point::Read)),
            _ => host,
        };
        host.start()
    }

    fn runner(self, host: &FakeHost, how: As) -> Runner {
        let mut words = vec![program()];
        if self == Self::Stdout {
            // The pipe's other end is open, in the runner itself, and is not read.
            let script = "mkfifo full && exec 9<>full && exec \"$@\" >full";
            words = ["bash", "-c", script, "bash"].map(OsString::from).into_iter().chain(words).collect();
        }
        let runner = host.command(how.words(&words));
        let mut payload = host.payload("go");
        payload["singleTurn"] = json!(self != Self::Idle);
        match self {
            Self::Payload => runner.stdin("{\"mess").keep_stdin_open(),
            Self::Dialling => runner.payload(&payload).env("AX_IPC_SOCKET", host.directory().join("other.sock")),
            Self::Workspace => {
                let _ = std::fs::remove_dir_all(host.workspace().join(".ax"));
                runner.payload(&payload)
            }
            _ => {
                if self == Self::Idle {
                    host.push_work(&payload);
                }
                runner.payload(&payload)
            }
        }
    }

    /// Waits until the runner is there.
    fn reach(self, host: &FakeHost) {
        let settle = || std::thread::sleep(Duration::from_millis(300));
        match self {
            Self::After(ms) => std::thread::sleep(Duration::from_millis(ms)),
            Self::Payload | Self::Dialling | Self::Workspace => settle(),
            Self::Asking(action) => {
                host.wait_request(action, 1, LIMIT).unwrap_or_else(|| panic!("no {action}"));
            }
            Self::Command => {
                let begun = Instant::now();
                while !host.workspace().join("ready").exists() {
                    assert!(begun.elapsed() < LIMIT, "the command does not start");
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
            Self::Stdout => {
                host.wait_request("llm_call", 1, LIMIT).expect("a model call");
                settle();
            }
            Self::Idle => {
                host.wait_answer(1, LIMIT).expect("an answer");
                settle();
            }
        }
    }
}

#[test]
fn sigterm_in_every_phase() {
    if !nix::unistd::geteuid().is_root() {
        println!(
            "SKIP sigterm_in_every_phase: whether a process that made itself unreadable hears signals is shown to root only"
        );
        return;
    }
    let ways = if full() { ways("sigterm_in_every_phase") } else { vec![As::Process] };
    let mut number = 0;
    for phase in PHASES.into_iter().filter(|phase| full() || phase.short()) {
        for &how in &ways {
            let mut cells = Vec::new();
            for transport in [Transport::Socket, Transport::Listen, Transport::Http] {
                if !phase.exists(transport) {
                    continue;
                }
                number += 1;
                let mark = format!("{}.{:03}", 940_000 + std::process::id(), number);
                let host = phase.host(transport, &mark);
                let life = Life::of(phase.runner(&host, how), how);
                phase.reach(&host);
                life.signal(Signal::SIGTERM);
                let (output, took) = life.wait();
                let at = format!("{} {how:?} {transport:?}", phase.name());
                assert!(!output.timed_out && took < HANG, "{at}: {took:?}: {}", output.stderr);
                // Until its handlers are there a plain process dies of the signal itself, which is as good.
                let by_signal = how == As::Process && phase == Phase::After(0) && output.signal == Some(15);
                assert!(output.code == Some(143) || by_signal, "{at}: {output:?}");
                assert!(none_living(&mark), "{at}: something is left: {:?}", living(&mark));
                let over = if took < PROMISE { "" } else { " (too long)" };
                cells.push(format!("{transport:?} {:.2} s{over}", took.as_secs_f64()));
            }
            let kind = if how == As::Pid1 { ", as PID 1" } else { "" };
            row(&format!("SIGTERM {}{kind}: exit 143 after", phase.name()), cells.join(", "));
        }
    }
}
