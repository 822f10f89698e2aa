//! Small things that need `unsafe` and belong nowhere else.
#![allow(unsafe_code)]

use crate::limits;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// The limit of descriptors we were started with, once it has been raised; 0 before.
static GIVEN_DESCRIPTORS: AtomicU64 = AtomicU64::new(0);

/// Raises our own limit of descriptors as far as we may and need. It is often 1,024 for the sake of programs that use
/// `select`; tunnels and commands side by side can need more. Where it cannot be raised it stays.
pub fn raise_descriptors() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let wanted = hard.min(limits::DESCRIPTORS_MAX);
    if soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok() {
        GIVEN_DESCRIPTORS.store(soft, Ordering::Relaxed);
    }
}

/// Gives a command that is started by other means than the keeper the limit we were started with.
pub fn with_given_descriptors(command: &mut tokio::process::Command) {
    // SAFETY: between fork and exec the closure makes two system calls, on memory of its own.
    unsafe {
        command.pre_exec(|| {
            give_descriptors();
            Ok(())
        });
    }
}

/// The same for the calling process, which is about to exec: system calls only.
pub(super) fn give_descriptors() {
    let given = GIVEN_DESCRIPTORS.load(Ordering::Relaxed);
    if given > 0 {
        // SAFETY: both calls take a structure of this frame. The hard limit may have been lowered meanwhile.
        unsafe {
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
                limit.rlim_cur = given.min(limit.rlim_max);
                libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
            }
        }
    }
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
