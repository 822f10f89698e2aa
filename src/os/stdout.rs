//! Standard output as it was handed over.
//!
//! The standard library puts `/dev/null` in the place of a closed descriptor before `main`, and counts a refusal to write as
//! written: an answer would be lost and the turn a success. A descriptor set to non-blocking by whoever shares it would cut
//! the answer off.
#![allow(unsafe_code)]

use crate::limits;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// It was closed when the process began.
static CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: the loader calls what stands in this section once, before `main` and while there is one thread.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

#[cfg(target_os = "linux")]
extern "C" fn look() {
    // SAFETY: reads a flag of a number; nothing of the standard library is needed, which has not begun yet.
    if unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1 {
        CLOSED.store(true, Ordering::Relaxed);
    }
}

/// Can an answer be written at all?
pub fn stdout_open() -> io::Result<()> {
    let mode = fcntl(io::stdout(), FcntlArg::F_GETFL)? & OFlag::O_ACCMODE.bits();
    match CLOSED.load(Ordering::Relaxed) || mode == OFlag::O_RDONLY.bits() {
        true => Err(io::Error::other("it is closed")),
        false => Ok(()),
    }
}

/// The same on the event loop, for lack of a thread: in pieces that a pipe takes at once, and given up when a signal to stop
/// has come, which the loop could not notice.
pub fn write_stdout_here(bytes: &[u8]) -> io::Result<()> {
    stdout_open()?;
    let patience = PollTimeout::try_from(limits::STDOUT_POLL).unwrap_or(PollTimeout::ZERO);
    for piece in bytes.chunks(libc::PIPE_BUF) {
        while !matches!(poll(&mut [PollFd::new(io::stdout().as_fd(), PollFlags::POLLOUT)], patience), Ok(1)) {
            if super::stopping() {
                return Err(io::Error::other("nobody reads it"));
            }
        }
        write_stdout(piece)?;
    }
    Ok(())
}

/// Writes all of it, however long that takes.
pub fn write_stdout(bytes: &[u8]) -> io::Result<()> {
    stdout_open()?;
    let stdout = io::stdout();
    let mut rest = bytes;
    while !rest.is_empty() {
        match nix::unistd::write(stdout.as_fd(), rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let _ = poll(&mut [PollFd::new(stdout.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
