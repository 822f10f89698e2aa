//! Standard input, read with a bound on size and on time.
#![allow(unsafe_code)]

use crate::limits;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

/// Why standard input gave no payload.
#[derive(Debug, thiserror::Error)]
pub enum StdinError {
    /// A person would have to type it.
    #[error("standard input is a terminal; pipe the payload in")]
    Terminal,
    /// More than a payload can be.
    #[error("standard input holds more than {max} bytes; send a smaller payload")]
    TooLarge {
        /// The limit.
        max: usize,
    },
    /// The sender neither finished nor closed it.
    #[error("standard input was not complete within {seconds} s; close it after the payload")]
    TimedOut {
        /// The limit.
        seconds: u64,
    },
    /// The caller no longer wants it.
    #[error("reading standard input was cancelled")]
    Cancelled,
    /// The kernel refused.
    #[error("standard input cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Reads standard input to its end.
///
/// A closed standard input counts as empty. After `quiet` without new bytes `complete` is asked whether they are a whole
/// payload although the input was not closed. The bytes may hold tokens: they are wiped when dropped, and so is each
/// smaller buffer they outgrew.
pub async fn read_stdin(
    cancel: &CancellationToken,
    max_bytes: usize,
    deadline: Duration,
    complete: impl Fn(&[u8]) -> bool,
    quiet: Duration,
) -> Result<Zeroizing<Vec<u8>>, StdinError> {
    read(io::stdin().as_fd(), cancel, max_bytes, deadline, complete, quiet).await
}

async fn read(
    input: BorrowedFd<'_>,
    cancel: &CancellationToken,
    max_bytes: usize,
    deadline: Duration,
    complete: impl Fn(&[u8]) -> bool,
    quiet: Duration,
) -> Result<Zeroizing<Vec<u8>>, StdinError> {
    if nix::unistd::isatty(input).unwrap_or(false) {
        return Err(StdinError::Terminal);
    }
    // What cannot be waited for, such as a file, is always readable.
    // SAFETY: a borrowed descriptor stays open, and the same, for as long as the borrow, which outlives the registration.
    let mut arrivals = unsafe { AsyncFd::register_with_interest(input, Interest::READABLE) }.ok();
    let start = Instant::now();
    let mut buffer = Buffer::new(max_bytes);
    let mut last_byte = start;
    let mut shown = 0;
    loop {
        if cancel.is_cancelled() {
            return Err(StdinError::Cancelled);
        }
        if start.elapsed() >= deadline {
            return Err(StdinError::TimedOut { seconds: deadline.as_secs() });
        }
        if buffer.len > shown && last_byte.elapsed() >= quiet {
            shown = buffer.len;
            if complete(buffer.bytes()) {
                return Ok(buffer.finish());
            }
        }
        if !readable(input)? {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = arrival(arrivals.as_mut()) => {}
                () = tokio::time::sleep(limits::STDIN_POLL) => {}
            }
            continue;
        }
        match nix::unistd::read(input, buffer.free()) {
            Ok(0) | Err(Errno::EBADF) => return Ok(buffer.finish()),
            Ok(count) => {
                buffer.len += count;
                last_byte = Instant::now();
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(io::Error::from(errno).into()),
        }
        if buffer.len > max_bytes {
            return Err(StdinError::TooLarge { max: max_bytes });
        }
        // A sender that never pauses must not keep a signal from being noticed.
        tokio::task::yield_now().await;
    }
}

/// Can something be read, or the end, without waiting? Asked before each read: the descriptor is not ours alone, so it must
/// not be made non-blocking. A closed one is left to `read`, which names it.
fn readable(input: BorrowedFd<'_>) -> io::Result<bool> {
    match poll(&mut [PollFd::new(input, PollFlags::POLLIN)], PollTimeout::ZERO) {
        Ok(count) => Ok(count > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Waits until the kernel says that something has come.
async fn arrival(input: Option<&mut AsyncFd<BorrowedFd<'_>>>) {
    match input {
        Some(input) => {
            if let Ok(mut ready) = input.readable().await {
                ready.clear_ready();
            }
        }
        None => std::future::pending().await,
    }
}

/// Grows by doubling into fresh memory and wipes the old, which `Vec`'s own growth would leave behind.
struct Buffer {
    bytes: Zeroizing<Vec<u8>>,
    len: usize,
    max: usize,
}

impl Buffer {
    fn new(max: usize) -> Self {
        Self { bytes: Zeroizing::new(vec![0; 8 * 1024]), len: 0, max }
    }

    /// Room for the next read, never empty: one byte more than the limit can be noticed.
    fn free(&mut self) -> &mut [u8] {
        if self.len == self.bytes.len() {
            let size = (self.len * 2).min(self.max.saturating_add(1)).max(self.len + 1);
            let mut larger = Zeroizing::new(vec![0; size]);
            for (to, from) in larger.iter_mut().zip(self.bytes.iter()) {
                *to = *from;
            }
            self.bytes = larger;
        }
        self.bytes.get_mut(self.len..).unwrap_or_default()
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn finish(mut self) -> Zeroizing<Vec<u8>> {
        self.bytes.truncate(self.len);
        self.bytes
    }
}

#[cfg(test)]
#[path = "stdin_tests.rs"]
mod tests;
