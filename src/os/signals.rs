//! Signals, and who sent them.
//!
//! A command has the runner's uid and may signal it: `pkill -f agent`, `kill -TERM -1`. That is not the host's wish to stop,
//! so each signal's sender is looked up. The look is taken in the handler: a moment later the sender may be gone.
#![allow(unsafe_code)]

use super::{basics, known, tree};
use crate::limits;
use libc::{c_int, c_void, siginfo_t};
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::unistd::pipe2;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::IntoRawFd;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// The pipe to the runtime; -1 until somebody listens. Never closed.
static CHANNEL: AtomicI32 = AtomicI32::new(-1);
/// The first signal to stop that was taken for the host's; 0 until one has come.
static STOP: AtomicI32 = AtomicI32::new(0);
/// Signals to stop that came from commands.
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// A signal to stop that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived {
    /// From outside.
    Stop(Signal),
    /// From a process below us, and so without meaning.
    Ignored(Signal),
}

/// Tells of signals to stop.
pub struct Arrivals(pipe::Receiver);

impl Arrivals {
    /// The next one. A second stop is not told: the process ends in its handler, at once and with 128 + its number.
    pub async fn next(&mut self) -> Option<Arrived> {
        let mut record = [0; 2];
        self.0.read_exact(&mut record).await.ok()?;
        let signal = Signal::try_from(c_int::from(record[0])).ok()?;
        Some(if record[1] == 0 { Arrived::Stop(signal) } else { Arrived::Ignored(signal) })
    }
}

/// The signal that stops us, once one has come, told or not yet.
pub fn stopped_by() -> Option<Signal> {
    Signal::try_from(STOP.load(Ordering::Relaxed)).ok()
}

/// Takes over these signals. Needs a runtime.
pub fn arrivals(stopping: impl IntoIterator<Item = Signal>) -> io::Result<Arrivals> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    let receiver = pipe::Receiver::from_owned_fd(read)?;
    CHANNEL.store(write.into_raw_fd(), Ordering::Release);
    for signal in stopping {
        handle(signal as c_int, note as *const () as usize, libc::SA_SIGINFO)?;
    }
    Ok(Arrivals(receiver))
}

/// Has no effect any more: signals that mean nothing to the runner and would end it. The kernel keeps PID 1 from them; this
/// way the runner is the same wherever it runs. Not ignored but handled by nothing, since what is ignored stays so in
/// children.
pub fn disregard_others() {
    let named = [
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGIO,
        libc::SIGPWR,
        libc::SIGSTKFLT,
    ];
    for signal in named.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX()) {
        // Refused for a number that is none here.
        let _ = handle(signal, nothing as *const () as usize, 0);
    }
}

/// Has no effect any more: the signal of a file size limit. The write fails with a cause instead, and children have theirs.
pub fn disregard_file_size() {
    let _ = handle(libc::SIGXFSZ, nothing as *const () as usize, 0);
}

extern "C" fn nothing(_: c_int) {}

fn handle(signal: c_int, handler: usize, flags: c_int) -> io::Result<()> {
    // SAFETY: all-zero is a valid `sigaction`, with an empty mask. The handlers make system calls only and keep `errno`.
    let done = unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = handler;
        action.sa_flags = flags | libc::SA_RESTART;
        libc::sigaction(signal, &action, ptr::null_mut())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// In signal context: system calls and atomics only.
extern "C" fn note(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a filled `siginfo_t`; the sender's field is valid memory whatever the code. `errno` is this
    // thread's own. The buffer is valid for its length, and a write to a pipe this small is whole or not at all.
    unsafe {
        let errno = *libc::__errno_location();
        let below = from_below((*info).si_code, (*info).si_pid());
        // Signals of a kind merge while one waits, and in a flood of them the host's would be lost.
        let refused = below && REFUSED.fetch_add(1, Ordering::Relaxed) < limits::SIGNALS_REFUSED_MAX;
        let again = !refused && STOP.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed).is_err();
        if again && !below {
            basics::die_now(128 + signal);
        }
        if !again {
            let record = [signal as u8, u8::from(refused)];
            libc::write(CHANNEL.load(Ordering::Acquire), record.as_ptr().cast(), record.len());
        }
        *libc::__errno_location() = errno;
    }
}

/// Did a process of ours send it? A stop must not be lost for a doubt, so one that has ended meanwhile is nobody's; but the
/// host of PID 1 is outside of its namespace and has no number in it, and while commands run those inside are theirs.
fn from_below(code: c_int, sender: libc::pid_t) -> bool {
    match code {
        // Filled in by the kernel, with 0 for a sender outside of our container.
        libc::SI_USER | libc::SI_TKILL if sender > 0 => {
            let own = basics::own_pid();
            tree::is_below(sender, own) || (own == 1 && known::any() && tree::stat(sender).is_none())
        }
        libc::SI_USER | libc::SI_TKILL => false,
        // The sender's own words. No engine or shell sends so.
        code => code < 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_process_of_ours_sent_is_from_below() {
        let own = basics::own_pid();
        assert!(!from_below(libc::SI_USER, 0) && !from_below(libc::SI_USER, own) && !from_below(libc::SI_USER, 1));
        assert!(!from_below(0x80, own), "the kernel's own, from a terminal");
        assert!(from_below(libc::SI_QUEUE, 0), "a number anybody can write");
        // SAFETY: the child makes one system call that does not return and is reaped.
        unsafe {
            let child = super::super::keeper_child::fork();
            if child == 0 {
                loop {
                    libc::pause();
                }
            }
            assert!(from_below(libc::SI_USER, child) && from_below(libc::SI_TKILL, child));
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, ptr::null_mut(), 0);
            assert!(!from_below(libc::SI_USER, child));
        }
    }
}
