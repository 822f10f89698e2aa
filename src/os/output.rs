//! What a command prints, read without ever waiting for the last holder of the pipe.
#![allow(unsafe_code)]

use crate::limits;
use crate::text::HeadTail;
use nix::errno::Errno;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep, timeout_at};

/// The read end of a command's output, and what is kept of it.
pub(super) struct Output {
    pipe: pipe::Receiver,
    /// The piece just read. Never filled in advance: most commands print less than a page.
    chunk: Vec<u8>,
    kept: HeadTail,
    ended: bool,
}

impl Output {
    pub(super) fn new(pipe: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            pipe: pipe::Receiver::from_owned_fd(pipe)?,
            chunk: Vec::with_capacity(limits::PIPE_CHUNK_BYTES),
            kept: HeadTail::new(limits::OUTPUT_HEAD_BYTES, limits::OUTPUT_TAIL_BYTES),
            ended: false,
        })
    }

    /// Takes the next piece when there is one; never returns after the end. Loses nothing when it is dropped.
    pub(super) async fn fill(&mut self) {
        if self.ended || self.pipe.readable().await.is_err() {
            self.ended = true;
            std::future::pending::<()>().await;
        }
        self.chunk.clear();
        match self.pipe.try_read_buf(&mut self.chunk) {
            Ok(0) => self.ended = true,
            Ok(_) => self.kept.push(&self.chunk),
            Err(error) => self.ended = error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    /// Takes what is in the pipe at this moment and at most one piece more: a writer that never ends cannot prolong it.
    pub(super) fn take_present(&mut self) {
        let mut present: libc::c_int = 0;
        // SAFETY: the request writes one integer, to this frame.
        unsafe { libc::ioctl(self.pipe.as_raw_fd(), libc::FIONREAD, &mut present) };
        let mut left = usize::try_from(present).unwrap_or(0);
        // By the system call: the runtime may not have noticed yet that there is something.
        while !self.ended {
            let want = if left == 0 { limits::PIPE_CHUNK_BYTES } else { left.min(limits::PIPE_CHUNK_BYTES) };
            match self.read_now(want) {
                Some(count) if left > 0 => left = left.saturating_sub(count),
                // The one piece more also tells whether anybody still holds the pipe.
                _ => return,
            }
        }
    }

    /// Takes what the others who still hold the pipe add until `deadline`.
    pub(super) async fn linger(&mut self, deadline: Instant) {
        while !self.ended && Instant::now() < deadline {
            if timeout_at(deadline, self.fill()).await.is_err() {
                return;
            }
        }
    }

    /// What was kept. If somebody still holds the pipe it goes on being read, so that they neither block nor die of
    /// SIGPIPE.
    pub(super) fn finish(self) -> HeadTail {
        if !self.ended {
            tokio::spawn(discard(self.pipe));
        }
        self.kept
    }

    /// One read that does not wait: `None` when there is nothing and the pipe is held.
    fn read_now(&mut self, want: usize) -> Option<usize> {
        self.chunk.clear();
        let room = self.chunk.spare_capacity_mut().get_mut(..want)?;
        let count = loop {
            // SAFETY: writes at most so many bytes, into the room that is lent to it.
            let read = unsafe { libc::read(self.pipe.as_raw_fd(), room.as_mut_ptr().cast(), room.len()) };
            match Errno::result(read) {
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return None,
                Err(_) => break 0,
                Ok(count) => break usize::try_from(count).unwrap_or(0),
            }
        };
        // SAFETY: the read has filled so many.
        unsafe { self.chunk.set_len(count) };
        self.ended |= count == 0;
        self.kept.push(&self.chunk);
        Some(count)
    }
}

/// Reads and throws away until nobody holds the pipe. Gently: one that prints without end must not keep us busy.
async fn discard(pipe: pipe::Receiver) {
    let mut chunk = vec![0; limits::PIPE_CHUNK_BYTES];
    while pipe.readable().await.is_ok() {
        match pipe.try_read(&mut chunk) {
            Ok(0) => return,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
            _ => sleep(limits::DISCARD_PAUSE).await,
        }
    }
}
