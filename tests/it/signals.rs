//! Signals that are not the host's wish to stop: those a command sends, and those that mean nothing here.

use crate::pid1::{living, may_unshare, none_living};
use crate::support::{BIN, LIMIT, bash_then_done, result};
use ax_runner::devhost::{FakeHost, Output, Running, Signal, Transport};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// Sets R to the runner's number: the shell's parent is its keeper, and the keeper's parent is the runner.
const RUNNER: &str = "while read -r k v; do [ $k = PPid: ] && R=$v; done </proc/$PPID/status";

fn run(host: &FakeHost) -> Output {
    host.runner(BIN).payload(&host.payload("go")).deadline(LIMIT).run()
}

fn wait_file(host: &FakeHost, running: &Running, name: &str) {
    let begun = Instant::now();
    while !host.workspace().join(name).exists() {
        assert!(begun.elapsed() < LIMIT && !running.ended(), "{name} does not appear");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_command_does_not_stop_the_runner() {
    for transport in [Transport::Socket, Transport::Listen, Transport::Http] {
        // The sender must be there when the runner looks for it, and a busy machine delivers late.
        let waits = "while read -r k v; do [ $k = ShdPnd: ] && [ $((16#$v)) != 0 ] && break; done </proc/$R/status";
        let command = format!(
            "{RUNNER}; for s in TERM INT HUP QUIT; do kill -$s $R; sleep 0.05; done; while {waits}; do sleep 0.05; done; sleep 1; echo on"
        );
        let host = FakeHost::builder(transport, bash_then_done(&command)).start();
        let output = run(&host);
        let answer = host.answer().unwrap_or_else(|| output.text());
        assert_eq!((answer.as_str(), output.code), ("done", Some(0)), "{transport:?}: {}", output.stderr);
        assert!(result(&host).contains("on"), "{}", result(&host));
        assert!(output.stderr.contains("signal_of_a_command_ignored"), "{}", output.stderr);
    }
}

#[test]
fn as_pid_1_a_command_does_not_stop_the_runner_either() {
    let test = "as_pid_1_a_command_does_not_stop_the_runner_either";
    if !may_unshare(test, "--pid") {
        return;
    }
    let host = FakeHost::socket(bash_then_done(
        "kill -TERM 1; kill -KILL 1; for i in 1 2 3; do (kill -TERM 1); done; sleep 0.1; echo on",
    ))
    .start();
    let words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", BIN];
    let runner = host.command(words.map(Into::into).to_vec());
    let output = runner.payload(&host.payload("go")).deadline(LIMIT).run();
    assert_eq!((output.text().as_str(), output.code), ("done", Some(0)), "{}", output.stderr);
    assert!(result(&host).contains("on"), "{}", result(&host));
}

/// In a flood the host's own signal could be lost, so the flood itself is obeyed.
#[test]
fn a_command_that_goes_on_and_on_does_stop_it() {
    let command = format!("{RUNNER}; while sleep 0.01; do kill -TERM $R; done");
    let host = FakeHost::socket(bash_then_done(&command)).start();
    let output = run(&host);
    assert_eq!((output.code, output.timed_out), (Some(143), false), "{}", output.stderr);
}

#[test]
fn the_hosts_signal_counts_after_a_commands() {
    let mark = format!("{}.35", 920_000 + std::process::id());
    // While one waits a second one is lost, whoever it is from.
    let taken = "until [ $((0x$(sed -n 's/^ShdPnd:\\t//p' /proc/$R/status) & 0x4000)) = 0 ]; do sleep 0.02; done";
    let command = format!("{RUNNER}; kill -TERM $R; {taken}; sleep 0.1; echo >ready; exec sleep {mark}");
    let host = FakeHost::socket(bash_then_done(&command)).start();
    let running = host.runner(BIN).payload(&host.payload("go")).deadline(LIMIT).spawn().unwrap();
    wait_file(&host, &running, "ready");
    running.signal(Signal::SIGTERM);
    let output = running.wait();
    assert_eq!((output.code, output.timed_out), (Some(143), false), "{}", output.stderr);
    assert!(none_living(&mark), "{:?}", living(&mark));
}

/// The kernel keeps PID 1 from these; elsewhere the runner does so itself.
#[test]
fn signals_that_mean_nothing_here_change_nothing() {
    for transport in [Transport::Socket, Transport::Http] {
        let command =
            "trap 'echo caught' USR1; echo >ready; while [ ! -e go ]; do sleep 0.02; done; kill -USR1 $$; echo on";
        let host = FakeHost::builder(transport, bash_then_done(command)).start();
        let running = host.runner(BIN).payload(&host.payload("go")).deadline(LIMIT).spawn().unwrap();
        wait_file(&host, &running, "ready");
        for signal in [
            Signal::SIGUSR1,
            Signal::SIGUSR2,
            Signal::SIGALRM,
            Signal::SIGVTALRM,
            Signal::SIGPROF,
            Signal::SIGIO,
            Signal::SIGPWR,
            Signal::SIGPIPE,
            Signal::SIGXFSZ,
            Signal::SIGCHLD,
            Signal::SIGWINCH,
            Signal::SIGURG,
            Signal::SIGCONT,
        ] {
            running.signal(signal);
        }
        std::thread::sleep(Duration::from_millis(50));
        std::fs::write(host.workspace().join("go"), "").unwrap();
        let output = running.wait();
        let answer = host.answer().unwrap_or_else(|| output.text());
        assert_eq!((answer.as_str(), output.code), ("done", Some(0)), "{transport:?}: {}", output.stderr);
        // And a command can still use them.
        assert!(result(&host).contains("caught\\non"), "{}", result(&host));
    }
}

/// Children of a process, by their parents' numbers.
fn children(parent: i32) -> Vec<i32> {
    let numbers =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_child = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        rest.split(' ').nth(1) == Some(&parent.to_string())
    };
    numbers.filter(is_child).collect()
}

/// Whoever kills runner and keeper in one stroke leaves nobody to clear up; the command itself goes all the same.
#[test]
fn a_command_ends_with_runner_and_keeper_together() {
    let mark = format!("{}.45", 930_000 + std::process::id());
    let host = FakeHost::socket(bash_then_done(&format!("echo >ready; exec sleep {mark}"))).start();
    let running = host.runner(BIN).payload(&host.payload("go")).deadline(LIMIT).spawn().unwrap();
    wait_file(&host, &running, "ready");
    let keepers = children(running.pid());
    assert_eq!(keepers.len(), 1, "{keepers:?}");
    kill(Pid::from_raw(keepers[0]), Signal::SIGSTOP).unwrap();
    running.signal(Signal::SIGKILL);
    kill(Pid::from_raw(keepers[0]), Signal::SIGKILL).unwrap();
    running.wait();
    assert!(none_living(&mark), "{:?}", living(&mark));
}
