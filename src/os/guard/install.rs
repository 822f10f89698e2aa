//! The child's part, between fork and exec: put the filter on, hand the supervisor its end.
#![allow(unsafe_code)]

use super::filter::Program;
use libc::{c_int, c_long, c_ulong};
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::Arc;
use tokio::process::Command;

/// What a child needs, made before the fork. Keep it until the fork is done.
#[derive(Clone)]
pub struct ChildFilter {
    program: Arc<Program>,
    channel: Option<Arc<OwnedFd>>,
}

/// A [`ChildFilter`] in plain numbers, for code after a fork. Valid while the filter it came from lives, and in the copy
/// of its memory that a fork makes.
#[derive(Debug, Clone, Copy)]
pub struct Installer {
    code: *const libc::sock_filter,
    length: u16,
    channel: c_int,
}

impl ChildFilter {
    pub(super) fn new(program: Arc<Program>, channel: Option<Arc<OwnedFd>>) -> Self {
        Self { program, channel }
    }

    /// No filter.
    pub fn none() -> Self {
        Self::new(Arc::new(Program::none()), None)
    }

    /// A descriptor that must still be open when the filter is installed. It is close-on-exec.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.channel.as_ref().map(|channel| channel.as_raw_fd())
    }

    /// The part for after the fork.
    pub fn installer(&self) -> Installer {
        Installer {
            code: self.program.code.as_ptr(),
            length: u16::try_from(self.program.code.len()).unwrap_or(0),
            channel: self.descriptor().filter(|_| self.program.notifies).unwrap_or(-1),
        }
    }

    /// Puts the filter on a command that is started by other means than the keeper.
    pub fn confine(self, command: &mut Command) {
        // SAFETY: the closure makes system calls only (see `install`), and owns what they read.
        unsafe {
            command.pre_exec(move || match self.installer().install() {
                0 => Ok(()),
                errno => Err(std::io::Error::from_raw_os_error(errno)),
            });
        }
    }
}

/// Denies a command of our own (git) what it never needs. Where no filter can be installed it runs without: it is not
/// the agent's, and this is a second line.
pub fn without_unix_sockets(command: &mut Command) {
    let filter = ChildFilter::new(Arc::new(Program::deny()), None);
    // SAFETY: as in `confine`.
    unsafe {
        command.pre_exec(move || {
            filter.installer().install();
            Ok(())
        });
    }
}

impl Installer {
    /// Installs the filter in the calling process and hands its listener over. Returns 0 or an errno; after an errno the
    /// child must not exec. Makes system calls only: safe between fork and exec.
    pub fn install(&self) -> c_int {
        if self.length == 0 {
            return 0;
        }
        // SAFETY: `prctl` and `seccomp` take numbers and a pointer to a program that outlives the call.
        unsafe {
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1 as c_ulong, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong) != 0 {
                return errno();
            }
            let program = libc::sock_fprog { len: self.length, filter: self.code.cast_mut() };
            let set = |flags: c_ulong| {
                libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER as c_long, flags, &raw const program)
            };
            if self.channel < 0 {
                return if set(0) == 0 { 0 } else { errno() };
            }
            // Once the supervisor has taken a call, only a deadly signal may break it off: it might be made twice otherwise,
            // and most take less time than a signal is worth. Of those that wait the supervisor gives it back itself.
            // Kernels before 5.19 do not know that flag.
            let wanted = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
            let mut listener = set(wanted | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
            if listener < 0 && errno() == libc::EINVAL {
                listener = set(wanted);
            }
            if listener < 0 {
                return errno();
            }
            let listener = listener as c_int;
            let sent = send(self.channel, listener);
            // With it the child could answer its own calls.
            libc::close(listener);
            sent
        }
    }
}

// SAFETY: the pointer is to memory that nobody changes; see the type.
unsafe impl Send for Installer {}
// SAFETY: as above.
unsafe impl Sync for Installer {}

/// Sends one descriptor. Returns 0 or an errno.
///
/// # Safety
/// Both numbers must be open descriptors of this process.
unsafe fn send(channel: c_int, descriptor: c_int) -> c_int {
    #[repr(align(8))]
    struct Control([u8; 64]);
    let mut byte = 1_u8;
    let mut control = Control([0; 64]);
    // SAFETY: every pointer is to this frame; the control buffer is aligned and larger than `CMSG_SPACE` of one number.
    unsafe {
        let mut data = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut data;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(mem::size_of::<c_int>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(mem::size_of::<c_int>() as u32) as _;
        ptr::write_unaligned(libc::CMSG_DATA(header).cast::<c_int>(), descriptor);
        loop {
            if libc::sendmsg(channel, &raw const message, libc::MSG_NOSIGNAL) == 1 {
                return 0;
            }
            if errno() != libc::EINTR {
                return errno();
            }
        }
    }
}

fn errno() -> c_int {
    // SAFETY: the C library's own variable of this thread.
    unsafe { *libc::__errno_location() }
}
