//! Connects of commands that wait: whom they hold up, and what a signal does to them. Through the built runner, which makes
//! each for its command (`AX_UNIX_SOCKETS`).

use crate::everywhere::python;
use crate::support::{bash_then_done, result, runner, skip};
use ax_runner::devhost::FakeHost;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use serde_json::Value;
use std::process::Command;

/// What the program beside this file saw as a command's, line by line. None where no guard can be had.
fn seen(test: &str, setting: &str, part: &str) -> Option<Vec<String>> {
    let host = FakeHost::socket(bash_then_done(&format!("python3 waits.py {part} 2>&1"))).start();
    std::fs::write(host.workspace().join("waits.py"), include_str!("waits.py")).unwrap();
    let ended = runner(&host).env("AX_UNIX_SOCKETS", setting).run();
    if ended.code != Some(0) && ended.stderr.contains("connects cannot be supervised here") {
        skip(test, ended.stderr);
        return None;
    }
    assert!(!ended.timed_out && ended.code == Some(0), "{}", ended.stderr);
    let told: Value = serde_json::from_str(&result(&host)).unwrap();
    let output = told["output"].as_str().unwrap();
    Some(output.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// However many wait, others are served; those above the bound are told so; and when they are killed nothing of them stays,
/// neither a thread nor a connection that comes late.
#[test]
fn a_waiting_connect_holds_up_its_own_caller_only() {
    const NAME: &str = "a_waiting_connect_holds_up_its_own_caller_only";
    if !python(NAME) {
        return;
    }
    let others = "others 0 ECONNREFUSED";
    for (part, turned_away, arrived) in [("crowd 30", "set()", 1), ("tcp_crowd 30", "set()", 0), ("crowd 80", "{7}", 1)]
    {
        let Some(lines) = seen(NAME, "guard", part) else { return };
        let away = format!("turned away True {turned_away}");
        let wanted = [others, &away, others, "threads left True", &format!("arrived {arrived}")];
        assert_eq!(lines, wanted, "{part}");
    }
}

#[test]
fn a_signal_ends_a_waiting_connect_as_it_does_without_the_guard() {
    const NAME: &str = "a_signal_ends_a_waiting_connect_as_it_does_without_the_guard";
    if !python(NAME) {
        return;
    }
    let Some(guarded) = seen(NAME, "guard", "signals") else { return };
    assert_eq!(Some(&guarded), seen(NAME, "allow", "signals").as_ref());
    assert_eq!(guarded[..2], ["AF_UNIX ended EINTR 0", "AF_UNIX taken up again 0"], "{guarded:?}");
}

/// Nor does one that a signal has ended leave anything; with kernels before 5.19 too, where the signal ends the caller's wait
/// and the guard is not asked.
#[test]
fn a_connect_that_a_signal_has_ended_leaves_nothing_behind() {
    const NAME: &str = "connects::a_connect_that_a_signal_has_ended_leaves_nothing_behind";
    if !python(NAME) {
        return;
    }
    let old_kernel = std::env::var_os("TEST_OLD_KERNEL").is_some();
    if old_kernel {
        without_waiting_for_the_killed_only();
    }
    let Some(lines) = seen(NAME, "guard", "abandoned") else { return };
    assert_eq!(lines, ["EINTR EINTR EINTR EINTR EINTR EINTR ", "threads left True", "arrived 1"]);
    if old_kernel {
        return;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    let done = again.args(["--exact", NAME, "--nocapture"]).env("TEST_OLD_KERNEL", "1").output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    crate::support::relay(&text);
    assert!(done.status.success() && text.contains("1 passed"), "{text}");
}

/// Refuses that flag of `seccomp` from now on, to this thread and what it starts.
fn without_waiting_for_the_killed_only() {
    let flag = libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let has_it = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flag), flag).unwrap();
    let rules = [(libc::SYS_seccomp, vec![SeccompRule::new(vec![has_it]).unwrap()])].into_iter().collect();
    let refuse = SeccompAction::Errno(libc::EINVAL as u32);
    let arch: TargetArch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}
