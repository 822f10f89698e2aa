//! Tools that take everything there is must not keep the runner from its host (CASES I07): on one processor, a small
//! command's way from approval to report is measured beside them, and a signal ends all of it in time.

use super::{full, program, row};
use crate::support::{LIMIT, tools_then_done};
use ax_runner::devhost::{FakeHost, Signal};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Commands of no work.
const SMALL: usize = 8;

fn heavy(seconds: u32) -> Vec<Value> {
    let bash = |command: String| json!({"name": "bash", "args": {"command": command}});
    vec![
        bash(format!("timeout {seconds} yes; true")),
        bash(format!("timeout {seconds} yes >&2; true")),
        json!({"name": "grep", "args": {"pattern": "(a|b|c)+[0-9]{3}x", "max_results": 10}}),
        json!({"name": "grep", "args": {"pattern": "nowhere at all", "max_results": 10}}),
        json!({"name": "write_file", "args": {"path": "big", "content": "y".repeat(400_000)}}),
        json!({"name": "memory", "args": {"type": "list", "scope": "s"}}),
    ]
}

/// A host, its workspace filled, and tools for a turn.
fn host(seconds: u32) -> FakeHost {
    let mut tools = heavy(seconds);
    tools.extend((0..SMALL).map(|number| json!({"name": "bash", "args": {"command": format!("echo small {number}")}})));
    let host = FakeHost::socket(tools_then_done(json!(tools))).heartbeat(Duration::from_millis(200)).start();
    // A host's reply may be of any size.
    host.set_reply("memory_list", json!({"entries": "z".repeat(20_000_000)}));
    let megabytes = if full() { 500 } else { 40 };
    let line = "abcabcabcabc12 and nothing that matches, over and over again\n".repeat(16_500);
    for number in 0..megabytes {
        std::fs::write(host.workspace().join(format!("f{number}")), &line).unwrap();
    }
    host
}

#[test]
fn i07_tools_that_take_everything_leave_the_link_alive() {
    let seconds = if full() { 60 } else { 4 };
    let host = host(seconds);
    let running = host.runner(program()).payload(&host.payload("go")).deadline(LIMIT * 4).spawn().unwrap();
    on_one_processor(running.pid());
    let output = running.wait();
    assert_eq!((output.code, output.text().as_str()), (Some(0), "done"), "{}", output.stderr);
    assert_eq!(host.violations(), []);
    let requests = host.requests();
    let ways: Vec<Duration> = (0..SMALL)
        .map(|number| {
            let command = format!("echo small {number}");
            let at = |action: &str| {
                let found =
                    requests.iter().find(|request| request.action == action && request.value["command"] == command);
                found.unwrap_or_else(|| panic!("no {action} of {command}")).at
            };
            at("sandbox_result") - at("sandbox_approve")
        })
        .collect();
    let longest = ways.iter().max().unwrap();
    row(
        "a small command beside busy tools, on one processor: longest way from approval to report",
        format!("{longest:?}"),
    );
    assert!(*longest < Duration::from_secs(60), "{ways:?}");
}

#[test]
fn i07_a_signal_is_heard_beside_busy_tools() {
    let host = host(60);
    let running = host.runner(program()).payload(&host.payload("go")).deadline(LIMIT).spawn().unwrap();
    on_one_processor(running.pid());
    host.wait_request("sandbox_result", SMALL, LIMIT).expect("reports");
    let begun = Instant::now();
    running.signal(Signal::SIGTERM);
    let output = running.wait();
    row("SIGTERM beside busy tools, on one processor: gone after", format!("{:?}", begun.elapsed()));
    assert_eq!((output.code, output.timed_out), (Some(143), false), "{}", output.stderr);
    // The commands go on for a minute.
    assert!(begun.elapsed() < Duration::from_secs(50));
}

/// A host that does not read, and a runner that is stopped for a while, are an interruption and no end.
#[test]
fn i07_silence_that_is_our_own_sleep_does_not_count() {
    let pause = if full() { 30 } else { 4 };
    let script = || tools_then_done(json!([{"name": "bash", "args": {"command": "echo x >>count; sleep 1"}}]));
    for http in [false, true] {
        let builder = if http { FakeHost::http(script()) } else { FakeHost::socket(script()) };
        let host = builder.fault("llm_call", 2, ax_runner::devhost::Fault::LateMs(700)).start();
        let runner = host.runner(program()).payload(&host.payload("go")).env("AX_LLM_TIMEOUT_MS", "2000");
        let running = runner.deadline(LIMIT).spawn().unwrap();
        host.wait_request("llm_call", 2, LIMIT).expect("a second model call");
        running.signal(Signal::SIGSTOP);
        std::thread::sleep(Duration::from_secs(pause));
        running.signal(Signal::SIGCONT);
        let output = running.wait();
        let answer = if http { host.answer().unwrap_or_default() } else { output.text() };
        assert_eq!((output.code, answer.as_str()), (Some(0), "done"), "http {http}: {}", output.stderr);
    }
}

fn on_one_processor(pid: i32) {
    let pid = Pid::from_raw(pid);
    // The first of those it may use, which need not be the machine's first.
    let allowed = sched_getaffinity(pid).unwrap();
    let mut set = CpuSet::new();
    set.set((0..CpuSet::count()).find(|&at| allowed.is_set(at).unwrap()).unwrap()).unwrap();
    sched_setaffinity(pid, &set).unwrap();
}
