//! What the runner takes from itself before the first child exists and before a secret is read.
#![allow(unsafe_code)]

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::ptr;
use zeroize::Zeroize;

/// A protection the kernel would not give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot {what}: {errno}; start the runner on a Linux kernel or sandbox that allows it")]
pub struct HardenError {
    what: &'static str,
    errno: Errno,
}

/// Makes the process fit to hold secrets beside untrusted children of the same user.
///
/// - Not dumpable: a child of our uid can then not read our environment, memory or descriptors through `/proc`, and not
///   attach to us. Removing variables would not do: the kernel serves the block given at exec ([`hide_environment`]).
/// - No core files: they would hold the secrets.
/// - No new privileges: a set-uid program in the image is no way up.
/// - SIGXFSZ ignored: a file-size limit becomes a write error that can be reported, not our death.
/// - Subreaper: what outlives a killed keeper comes to us and can be ended, not to some process outside.
pub fn harden() -> Result<(), HardenError> {
    let step = |what: &'static str| move |errno: Errno| HardenError { what, errno };
    prctl::set_dumpable(false).map_err(step("make the process unreadable to others"))?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(step("switch off core files"))?;
    prctl::set_no_new_privs().map_err(step("give up new privileges"))?;
    // SAFETY: ignoring a signal installs no handler, so no code of ours runs in signal context.
    unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) }.map_err(step("ignore the file size signal"))?;
    prctl::set_child_subreaper(true).map_err(step("become the subreaper"))?;
    Ok(())
}

/// Takes the environment out of the block that the kernel serves as `/proc/PID/environ`, and keeps a copy in its place: some
/// sandboxes (gVisor of 2022) serve it to every process of our uid, dumpable or not. For the very start: no other thread may
/// run, and nobody may hold a pointer into the block.
pub fn hide_environment() {
    unsafe extern "C" {
        static mut environ: *mut *mut libc::c_char;
    }
    // SAFETY: the list ends in a null and its texts in a NUL each; all are writable memory of this process. With one thread
    // nobody reads them meanwhile. The new list and its texts are never freed, as the C library expects.
    unsafe {
        let mut at = environ;
        let mut copies = Vec::new();
        while !at.is_null() && !(*at).is_null() {
            copies.push(CStr::from_ptr(*at).to_owned().into_raw());
            std::slice::from_raw_parts_mut((*at).cast::<u8>(), CStr::from_ptr(*at).count_bytes()).zeroize();
            at = at.add(1);
        }
        copies.push(ptr::null_mut());
        environ = copies.leak().as_mut_ptr();
    }
}

/// Lets the end of a child be known. A parent that ignored SIGCHLD has left that to us, and the kernel then throws ends away.
pub fn hear_children() -> Result<(), HardenError> {
    // SAFETY: the default installs no handler, so no code of ours runs in signal context.
    let before = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) };
    before.map(drop).map_err(|errno| HardenError { what: "hear of the end of children", errno })
}

/// Marks every descriptor above the standard three close-on-exec. What our own parent leaked to us must not reach a
/// child; what we open ourselves carries the mark from the start.
pub fn close_inherited() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: the call takes three integers and changes flags of descriptors only.
    let marked =
        unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) } == 0;
    if !marked {
        mark_one_by_one();
    }
}

/// The same where the kernel or a seccomp profile has no `close_range`.
fn mark_one_by_one() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
    for fd in numbers.filter(|fd| *fd > 2) {
        // SAFETY: setting a flag on a number that is closed meanwhile fails with EBADF and does nothing.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    fn leaky() -> OwnedFd {
        let file = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: `dup` gives a new descriptor that nobody else owns.
        unsafe { OwnedFd::from_raw_fd(libc::dup(file.as_raw_fd())) }
    }

    fn marked(fd: &OwnedFd) -> bool {
        // SAFETY: reads a flag.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFD) == libc::FD_CLOEXEC }
    }

    #[test]
    fn both_ways_mark_what_a_parent_leaked() {
        let one = leaky();
        assert!(!marked(&one));
        mark_one_by_one();
        assert!(marked(&one));
        let two = leaky();
        close_inherited();
        assert!(marked(&two));
    }
}
