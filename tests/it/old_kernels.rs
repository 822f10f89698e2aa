//! Kernels and profiles without the newest calls (CASES F06): the same tests of confinement, with `openat2` and Landlock gone, for
//! the runner and for all it starts.

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
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
    let rules = calls.into_iter().map(|call| (call, Vec::new())).collect();
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
