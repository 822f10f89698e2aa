//! Tests that change the whole process (user, umask, limits, mounts) run in one of their own: this binary again, with one
//! ignored test.

use std::process::{Child, Command, Stdio};

/// Starts the ignored test `name` of this binary.
#[allow(clippy::disallowed_methods, reason = "a test's own process")]
pub(super) fn start(name: &str, env: &[(&str, &str)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs it; its assertions are ours, its skips are passed on.
#[track_caller]
pub(super) fn run(name: &str) {
    let output = start(name, &[]).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{name}: {:?}\n{text}", output.status);
    crate::support::relay(&text);
}

/// Becomes nobody; true when the process is not root afterwards.
pub(super) fn drop_root(name: &str) -> bool {
    let nobody = nix::unistd::Uid::from_raw(65534);
    let group = nix::unistd::Gid::from_raw(65534);
    if nix::unistd::geteuid().is_root() {
        let dropped = nix::unistd::setgroups(&[])
            .and_then(|()| nix::unistd::setresgid(group, group, group))
            .and_then(|()| nix::unistd::setresuid(nobody, nobody, nobody));
        if let Err(errno) = dropped {
            crate::support::skip(name, format!("cannot become an ordinary user: {errno}"));
            return false;
        }
    }
    true
}
