//! Kernels and profiles without the newest calls (CASES F06): the same tests of confinement, with `openat2` and Landlock gone, for
//! the runner and for all it starts.

use crate::support::{BIN, LIMIT, comes_true};
use ax_runner::devhost::{FakeHost, Runner, Script};
use nix::fcntl::{FcntlArg, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What must hold as before.
const SUITE: [&str; 5] = [
    "paths::f01_no_link_leads_out",
    "paths::f02_nothing_is_made_on_the_way_out",
    "paths::f05_magic_links_are_refused",
    "paths::f07_and_f17_links_to_files",
    "bash::b11_no_command_reaches_the_hosts_socket",
];

/// Refuses the calls with this error from now on, in this process and its children.
fn without_new_calls(errno: u32) {
    let calls = [
        libc::SYS_openat2,
        libc::SYS_landlock_create_ruleset,
        libc::SYS_landlock_add_rule,
        libc::SYS_landlock_restrict_self,
    ];
    refuse(calls.into_iter().map(|call| (call, Vec::new())).collect(), errno);
}

fn refuse(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: u32) {
    let arch: TargetArch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

#[test]
fn f06_confinement_is_the_same_without_the_newest_calls() {
    const NAME: &str = "old_kernels::f06_confinement_is_the_same_without_the_newest_calls";
    let myself = || Command::new(std::env::current_exe().unwrap());
    if let Ok(errno) = std::env::var("TEST_ERRNO") {
        without_new_calls(errno.parse().unwrap());
        let done = myself().arg("--exact").args(SUITE).args(["--nocapture"]).output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        let all = format!("{} passed", SUITE.len());
        assert!(done.status.success() && text.contains(&all), "with error {errno}: {text}");
        return;
    }
    for errno in [libc::ENOSYS, libc::EPERM, libc::EINVAL] {
        let done =
            myself().args(["--exact", NAME, "--nocapture"]).env("TEST_ERRNO", errno.to_string()).output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success() && text.contains("1 passed"), "{text}");
    }
}

/// Refuses new threads from now on, by either call, as the profiles of older engines refuse `clone3`.
fn refuse_threads(errno: u32) {
    let thread = libc::CLONE_THREAD as u64;
    let asks = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(thread), thread).unwrap();
    let rules = [(libc::SYS_clone3, Vec::new()), (libc::SYS_clone, vec![SeccompRule::new(vec![asks]).unwrap()])];
    refuse(rules.into_iter().collect(), errno);
}

/// A runner that can have no thread: this test binary becomes it. What that prints before goes to its stdout too, unless
/// `TEST_STDOUT` names another.
fn without_threads(host: &FakeHost, errno: i32) -> Runner {
    let itself = host.runner(std::env::current_exe().unwrap());
    let itself = itself.arguments(["--exact", "old_kernels::the_runner_without_threads", "--nocapture"]);
    itself.env("TEST_ERRNO", errno.to_string()).payload(&host.payload("go")).deadline(LIMIT)
}

/// Not a test of its own.
#[test]
fn the_runner_without_threads() {
    if let Ok(errno) = std::env::var("TEST_ERRNO") {
        refuse_threads(errno.parse().unwrap());
        let mut runner = Command::new(BIN);
        if let Some(stdout) = std::env::var_os("TEST_STDOUT") {
            runner.stdout(std::fs::File::options().write(true).open(stdout).unwrap());
        }
        panic!("{}", runner.exec());
    }
}

/// With nobody to read the answer, the loop that has to write it still hears a signal.
#[test]
fn a_signal_is_heard_though_the_loop_writes_the_answer() {
    let host = FakeHost::socket(Script::text(&"0123456789".repeat(10_000))).start();
    let stdout = host.workspace().join("stdout");
    nix::unistd::mkfifo(&stdout, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let reader = std::fs::File::options().read(true).write(true).open(&stdout).unwrap();
    fcntl(&reader, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    let running = without_threads(&host, libc::EPERM).env("TEST_STDOUT", &stdout).spawn().unwrap();
    // Something has come, so the rest finds no room.
    let has_come = || poll(&mut [PollFd::new(reader.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(1);
    assert!(comes_true(has_come));
    running.signal(Signal::SIGTERM);
    let output = running.wait();
    assert_eq!((output.code, output.timed_out), (Some(143), false), "{}", output.stderr);
}

#[test]
fn every_tool_works_without_threads() {
    let rounds = json!([
        {"tools": [
            {"name": "write_file", "args": {"path": "d/f", "content": "one two"}},
            {"name": "bash", "args": {"command": "sleep 50 & echo ran"}}]},
        {"tools": [
            {"name": "edit_file", "args": {"path": "d/f", "old_string": "two", "new_string": "three"}}]},
        {"tools": [
            {"name": "read_file", "args": {"path": "d/f"}},
            {"name": "read_file", "args": {"path": "pipe"}},
            {"name": "grep", "args": {"pattern": "thr.e"}},
            {"name": "glob", "args": {"pattern": "**/f"}}]},
        {"text": "done"}]);
    for errno in [libc::EPERM, libc::EAGAIN] {
        let host = FakeHost::socket(Script::json(rounds.clone())).start();
        nix::unistd::mkfifo(&host.workspace().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let output = without_threads(&host, errno).run();
        let told: Vec<String> = crate::support::results(&host).into_values().collect();
        let at = format!("with error {errno}: {told:#?}\n{}", output.stderr);
        assert!(output.text().ends_with("done") && output.code == Some(0), "{at}");
        for wanted in
            ["\"written\":true", "ran", "\"edited\":true", "one three", "d/f:1:one three", "[\"d/f\"]", "pipe"]
        {
            assert!(told.iter().any(|text| text.contains(wanted)), "{wanted} {at}");
        }
        assert_eq!(output.stderr.matches("\"no_thread\"").count(), 1, "{at}");
        assert!(!output.stderr.contains("\"panic\""), "{at}");
    }
}
