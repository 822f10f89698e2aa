//! What runs after the fork: the keeper, and the shell up to its exec.
//!
//! The fork is of a process with threads, any of which may have held a lock at that moment. So there is one rule here:
//! **system calls only** – no allocation, no lock, nothing of the standard library that might do either, no panic. Both
//! entry points are `extern "C"`, so that a panic in spite of that aborts instead of running the runner's code twice.
#![allow(unsafe_code)]

use super::basics;
use super::guard::Installer;
use super::keeper::{Record, Stage};
use super::tree;
use crate::limits;
use libc::{c_char, c_int, pid_t};
use std::mem::MaybeUninit;
use std::ptr;

/// All that the children need, made before the fork.
pub(super) struct Plan<'a> {
    /// Paths of bash; the first that exists is executed. Ends in a null, like the other two.
    pub(super) programs: &'a [*const c_char],
    pub(super) argv: &'a [*const c_char],
    pub(super) envp: &'a [*const c_char],
    pub(super) null: c_int,
    pub(super) output: c_int,
    pub(super) status: c_int,
    pub(super) control: c_int,
    pub(super) workspace: c_int,
    /// What the shell may not do, and the descriptor this needs until the exec (-1 for none).
    pub(super) filter: Installer,
    pub(super) filter_channel: c_int,
}

/// Forks by the bare system call: the C library's `fork` runs handlers and takes locks.
///
/// # Safety
/// In the child only what this module allows itself may be done, until exec or `_exit`.
pub(super) unsafe fn fork() -> pid_t {
    const ZERO: libc::c_long = 0;
    // SAFETY: with no flags but the exit signal and no stack of its own, `clone` is `fork` on every architecture,
    // whatever the order of the remaining arguments: they are all zero. A process number fits `pid_t`.
    unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(libc::SIGCHLD), ZERO, ZERO, ZERO, ZERO) as pid_t }
}

/// The keeper's life. Born with every signal blocked, and they stay so: only SIGKILL and SIGSTOP reach it.
pub(super) extern "C" fn keeper(plan: &Plan<'_>) -> ! {
    // SAFETY: all calls take integers or pointers into the plan and this frame, which outlive them.
    unsafe {
        // A group of its own: what is sent to the runner's group must not end it too. Not a session: where the kernel
        // schedules by session (autogroup) a new one waits its turn behind every busy one, milliseconds on a full machine.
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_NAME, c"ax-keeper".as_ptr());
        // The kernel reads whole registers, so the numbers must be as wide.
        const YES: libc::c_ulong = 1;
        const UNUSED: libc::c_ulong = 0;
        // Without that, orphans go to PID 1; if that is the runner, it can end them itself (`watch`).
        if libc::prctl(libc::PR_SET_CHILD_SUBREAPER, YES, UNUSED, UNUSED, UNUSED) != 0 && libc::getppid() != 1 {
            fail(plan, Stage::Subreaper);
        }
        // The shell's three descriptors, in place before it is forked.
        libc::dup2(plan.null, 0);
        libc::dup2(plan.output, 1);
        libc::dup2(plan.output, 2);
        close_all_but([plan.status, plan.control, plan.workspace, plan.filter_channel]);
        wake_on_child();
        let shell_pid = start_shell(plan);
        if shell_pid < 0 {
            fail(plan, Stage::Fork);
        }
        // Holding the output pipe would keep it from ever ending.
        libc::dup2(0, 1);
        libc::dup2(0, 2);
        libc::close(plan.workspace);
        libc::close(plan.filter_channel);
        attend(plan, shell_pid)
    }
}

/// Starts the shell as `vfork` does: it borrows the keeper's memory until its exec, and the keeper waits so long. Copying
/// the page tables of the runner once more would be work thrown away at once.
unsafe fn start_shell(plan: &Plan<'_>) -> pid_t {
    const STACK_BYTES: usize = 16 * 1024;
    #[repr(align(16))]
    struct Stack(MaybeUninit<[u8; STACK_BYTES]>);
    let mut stack = Stack(MaybeUninit::uninit());
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: stacks grow downwards on both architectures, so the child starts at the end of this one, which outlives it
    // as this call returns only after its exec or exit. It writes there, to descriptors and to `errno`, and to nothing else
    // of ours. Its signal actions and its descriptors are copies.
    unsafe {
        let top = stack.0.as_mut_ptr().add(1);
        libc::clone(shell, top.cast(), flags, ptr::from_ref(plan).cast_mut().cast())
    }
}

/// From fork to exec.
extern "C" fn shell(plan: *mut libc::c_void) -> c_int {
    // SAFETY: `start_shell` passes the plan, which its caller holds. The argument lists end in a null. All our other
    // descriptors are close-on-exec.
    unsafe {
        let plan = &*plan.cast::<Plan<'_>>();
        libc::setsid();
        // Should runner and keeper be killed in one stroke, at least the command itself goes too.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        default_signals();
        if libc::fchdir(plan.workspace) != 0 {
            fail(plan, Stage::Directory);
        }
        let refused = plan.filter.install();
        if refused != 0 {
            say(plan, Record::Failed(Stage::Filter, refused));
            libc::_exit(127);
        }
        basics::give_descriptors();
        for program in plan.programs.iter().filter(|program| !program.is_null()) {
            libc::execve(*program, plan.argv.as_ptr(), plan.envp.as_ptr());
            if errno() != libc::ENOENT {
                break;
            }
        }
        fail(plan, Stage::Exec)
    }
}

/// Waits until nothing is left below, or until the runner is gone.
unsafe fn attend(plan: &Plan<'_>, shell_pid: pid_t) -> ! {
    // SAFETY: the set and the poll entry live in this frame.
    unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut mask);
        libc::sigdelset(&mut mask, libc::SIGCHLD);
        let mut shell_status = None;
        let mut told = false;
        loop {
            let left = reap(shell_pid, &mut shell_status);
            if let Some(status) = shell_status.filter(|_| !told) {
                say(plan, Record::Exited { status, alone: left == Left::Nothing });
                told = true;
            }
            if left == Left::Nothing {
                say(plan, Record::Clean);
                libc::_exit(0);
            }
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let wait = if left == Left::Ended { &raw const at_once } else { ptr::null() };
            let mut control = libc::pollfd { fd: plan.control, events: 0, revents: 0 };
            // The only moment in which SIGCHLD is let in, so none can be missed between the look and the wait.
            if libc::ppoll(&mut control, 1, wait, &mask) > 0 {
                end_all();
            }
        }
    }
}

/// What `reap` left behind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    Running,
    /// Perhaps more that has ended.
    Ended,
}

/// Takes the status of what has ended: a batch, so that a storm of dying orphans cannot delay the report for long. Any
/// child may be taken here: all are this call's.
unsafe fn reap(shell_pid: pid_t, shell_status: &mut Option<c_int>) -> Left {
    for _ in 0..limits::REAP_BATCH {
        let mut status = 0;
        // SAFETY: `status` is writable memory of this frame.
        match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
            0 => return Left::Running,
            -1 => return Left::Nothing,
            pid if pid == shell_pid => *shell_status = Some(status),
            _ => {}
        }
    }
    Left::Ended
}

/// The runner is gone: ends everything below, then itself. There is nobody left to report to.
unsafe fn end_all() -> ! {
    // Grows, so that one that cannot die (waiting for a device) costs next to nothing.
    let mut pause = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    // SAFETY: system calls on memory of this frame.
    unsafe {
        let own = libc::getpid();
        loop {
            tree::sweep(own, 0, |_| true);
            let mut status = 0;
            loop {
                match libc::waitpid(-1, &mut status, libc::WNOHANG) {
                    0 => break,
                    -1 => libc::_exit(0),
                    _ => {}
                }
            }
            libc::nanosleep(&pause, ptr::null_mut());
            pause.tv_nsec = (pause.tv_nsec * 2).min(200_000_000);
        }
    }
}

/// Tells the runner. If it is gone the write fails, and the control pipe says the same.
unsafe fn say(plan: &Plan<'_>, record: Record) {
    let bytes = record.encode();
    // SAFETY: the buffer is valid for its length.
    unsafe { libc::write(plan.status, bytes.as_ptr().cast(), bytes.len()) };
}

/// Tells the runner that the command did not start, and ends this process.
unsafe fn fail(plan: &Plan<'_>, stage: Stage) -> ! {
    // SAFETY: as `say`; `_exit` does not return.
    unsafe {
        say(plan, Record::Failed(stage, errno()));
        libc::_exit(127)
    }
}

fn errno() -> c_int {
    // SAFETY: the address is this thread's own and always valid.
    unsafe { *libc::__errno_location() }
}

/// A handler that does nothing, so that SIGCHLD interrupts the wait; blocked outside of it.
unsafe fn wake_on_child() {
    extern "C" fn nothing(_: c_int) {}
    // SAFETY: all-zero is a valid `sigaction`; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(c_int) as usize;
        action.sa_flags = libc::SA_NOCLDSTOP;
        libc::sigaction(libc::SIGCHLD, &action, ptr::null_mut());
    }
}

/// Every signal as a new program expects it. What is ignored would stay ignored across exec (the standard library
/// ignores SIGPIPE, we ignore SIGXFSZ, `nohup` SIGHUP), and so would the mask.
unsafe fn default_signals() {
    const LAST_SIGNAL: c_int = 64;
    const SET_BYTES: usize = 8;
    // The kernel's own structure, larger than on any architecture: all zero is the default action with an empty mask.
    // By the bare call, since the C library refuses the two signals it keeps for itself, and those too come ignored from
    // some parents.
    let default = [0_u64; 8];
    // SAFETY: the kernel reads the structure and writes nothing. Signals that cannot be set are refused.
    unsafe {
        for signal in 1..=LAST_SIGNAL {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), ptr::null::<u64>(), SET_BYTES);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
    }
}

/// Closes every descriptor above the standard three but these.
unsafe fn close_all_but(mut keep: [c_int; 4]) {
    keep.sort_unstable();
    let mut from = 3;
    for fd in keep.into_iter().filter(|fd| *fd >= 0) {
        if fd > from && !close_range(from, fd - 1) {
            return close_one_by_one(keep);
        }
        from = fd + 1;
    }
    if !close_range(from, c_int::MAX) {
        close_one_by_one(keep);
    }
}

fn close_range(first: c_int, last: c_int) -> bool {
    // SAFETY: closes numbers that nothing in this process uses any more.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) == 0 }
}

/// The same where the kernel or a seccomp profile has no `close_range`: what `/proc` lists.
fn close_one_by_one(keep: [c_int; 4]) {
    tree::each_number(c"/proc/self/fd", |fd, listing| {
        if fd > 2 && fd != listing && !keep.contains(&fd) {
            // SAFETY: as above. The listing itself is closed by the one who opened it.
            unsafe { libc::close(fd) };
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_close_range_the_same_descriptors_are_closed() {
        // SAFETY: the child makes system calls only and ends by `_exit`.
        let status = unsafe {
            let pid = fork();
            if pid == 0 {
                let open = [0; 40].map(|_| libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY));
                let keep = [open[20], open[3], open[39], -1];
                close_one_by_one(keep);
                let is_open = |fd: c_int| libc::fcntl(fd, libc::F_GETFD) >= 0;
                let right = open.iter().all(|fd| is_open(*fd) == keep.contains(fd)) && (0..3).all(is_open);
                libc::_exit(c_int::from(!right));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
            status
        };
        assert_eq!(status, 0);
    }
}
