//! The kernel's end of a filter: calls that wait, and the answers to them.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// One call that waits. Its arguments are the kernel's copy: nobody can change them any more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    id: u64,
    /// The thread that made it.
    pub(super) thread: i32,
    pub(super) arguments: [u64; 6],
}

impl Call {
    /// Did the same thread make this one after that? The kernel numbers the calls of a listener one by one.
    pub(super) fn follows(&self, other: &Self) -> bool {
        self.thread == other.thread && self.id.wrapping_sub(other.id).cast_signed() > 0
    }
}

/// Do kernel and we mean the same structures?
pub(super) fn sizes_agree() -> bool {
    // SAFETY: the kernel fills in three numbers.
    unsafe {
        let mut sizes: libc::seccomp_notif_sizes = mem::zeroed();
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0, &raw mut sizes) == 0
            && usize::from(sizes.seccomp_notif) == mem::size_of::<libc::seccomp_notif>()
            && usize::from(sizes.seccomp_notif_resp) == mem::size_of::<libc::seccomp_notif_resp>()
    }
}

/// Has the kernel hand the processor from the caller to the supervisor and back at once: without it a call takes half as
/// long again (measured: 76 against 49 µs). Kernels before 6.6 do not know this.
pub(super) fn hand_over_directly(listener: BorrowedFd<'_>) {
    const SYNC_WAKE_UP: u64 = 1;
    // SAFETY: a number.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
}

/// Takes the next call. An error when the one that was announced is gone again.
pub(super) fn receive(listener: BorrowedFd<'_>) -> io::Result<Call> {
    // SAFETY: all-zero is what the kernel wants to find there before it fills it in.
    unsafe {
        let mut notice: libc::seccomp_notif = mem::zeroed();
        if libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notice) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Call { id: notice.id, thread: notice.pid as i32, arguments: notice.data.args })
    }
}

/// Does the call still wait? Asked after its process was looked up by number: only then was it that process.
pub(super) fn waits(listener: BorrowedFd<'_>, call: &Call) -> bool {
    // SAFETY: the kernel reads one number.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const call.id) == 0 }
}

/// Answers with 0 or an errno. False when nobody waits for it any more.
pub(super) fn answer(listener: BorrowedFd<'_>, call: &Call, errno: i32) -> bool {
    let response = libc::seccomp_notif_resp { id: call.id, val: 0, error: -errno, flags: 0 };
    // SAFETY: the kernel reads the structure.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const response) == 0 }
}

/// The caller's descriptor, duplicated: the same open socket, whatever the caller does to its own number meanwhile.
pub(super) fn duplicate(call: &Call, number: i32) -> io::Result<OwnedFd> {
    let process = process(call.thread)?;
    // SAFETY: numbers only; a result that is not negative is a new descriptor, and ours.
    unsafe {
        let found = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0);
        if found < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(found as i32))
    }
}

/// A handle on the thread (kernels from 6.9 on), or on its process.
fn process(thread: i32) -> io::Result<OwnedFd> {
    open_process(thread, libc::PIDFD_THREAD)
        .or_else(|_| open_process(thread, 0))
        .or_else(|_| open_process(leader(thread)?, 0))
}

fn open_process(pid: i32, flags: libc::c_uint) -> io::Result<OwnedFd> {
    // SAFETY: as in `duplicate`.
    unsafe {
        let found = libc::syscall(libc::SYS_pidfd_open, pid, flags);
        if found < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(found as i32))
    }
}

/// The process a thread belongs to.
fn leader(thread: i32) -> io::Result<i32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|number| number.trim().parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Reads the caller's memory once.
pub(super) fn read_memory(call: &Call, address: u64, buffer: &mut [u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
    // SAFETY: the kernel writes at most the buffer's length to it; the other pointer is the caller's and only the kernel
    // follows it.
    let read = unsafe { libc::process_vm_readv(call.thread, &raw const local, 1, &raw const remote, 1, 0) };
    match usize::try_from(read) {
        Ok(read) if read == buffer.len() => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
