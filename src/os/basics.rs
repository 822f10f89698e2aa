//! Small things that need `unsafe` and belong nowhere else.
#![allow(unsafe_code)]

use crate::limits;
use nix::sys::resource::{Resource, getrlimit};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Becomes another program, with this process's environment, one variable more, and its descriptors. Returns only when that
/// fails.
#[allow(clippy::disallowed_methods, reason = "no child is made: this process ends")]
pub fn replace(program: &Path, args: &[OsString], (name, value): (&str, &str)) -> io::Error {
    Command::new(program).args(args).env(name, value).exec()
}

/// An error when too few descriptors are free. Asked before a runtime is made, which panics without its own.
pub fn need_descriptors() -> io::Result<()> {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft >= limits::DESCRIPTORS_PLENTY {
        return Ok(());
    }
    (0..limits::DESCRIPTORS_MIN / 2).map(|_| io::pipe()).collect::<io::Result<Vec<_>>>().map(drop)
}

/// This process's number.
#[cfg(target_os = "linux")]
pub(super) fn own_pid() -> libc::pid_t {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getpid() }
}

/// Ends the process at once: no destructors, no buffered output, no handlers. For a second termination signal, where
/// running any more of our own code is the wrong thing to do.
#[cfg(target_os = "linux")]
pub(super) fn die_now(code: i32) -> ! {
    // SAFETY: `_exit` takes any value, touches no memory of ours and does not return.
    unsafe { libc::_exit(code) }
}
