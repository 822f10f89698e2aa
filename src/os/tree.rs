//! Who descends from whom, read from `/proc`.
//!
//! Used by the runner and, after a fork, by a keeper: nothing here allocates, locks or panics. Ancestry is asked of the
//! kernel for each process right before it is signalled, so a number that was given to somebody else meanwhile is not
//! one of ours any more and is left alone. That is a stronger check than remembering numbers with their start times.
#![allow(unsafe_code)]

use crate::limits;
use libc::{c_char, c_int, pid_t};

/// One line of `/proc/<pid>/stat`, as far as it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    /// `R`, `S`, `D`, `T`, `t`, `Z`, `X` …
    pub(super) state: u8,
    pub(super) parent: pid_t,
    /// Clock ticks since boot.
    pub(super) start: u64,
}

/// A process below the root that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Descendant {
    pub(super) pid: pid_t,
    /// The root's own child above it; itself when it is that child.
    pub(super) top: pid_t,
    pub(super) state: u8,
}

impl Descendant {
    /// A zombie has ended; it only waits to be counted by its parent.
    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Stopped, by a signal or by a tracer: cannot fork.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }
}

/// Calls `visit` for every process that descends from `root` and started no earlier than `since`.
pub(super) fn each_descendant(root: pid_t, since: u64, mut visit: impl FnMut(Descendant)) {
    each_pid(|pid| {
        if let Some(found) = descends(pid, root, since) {
            visit(found);
        }
    });
}

/// Does `/proc` show the processes that we number? Without it, or with that of another namespace, nothing that a command
/// leaves behind could be found, and what is found would be somebody else's.
pub(super) fn is_ours() -> bool {
    std::fs::read_link("/proc/self").is_ok_and(|own| own.as_os_str() == std::process::id().to_string().as_str())
}

/// Is this a process outside of what we have started? One that has ended is not: nobody can tell whose it was.
pub fn is_foreign(pid: pid_t) -> bool {
    let mut ours = false;
    each_descendant(std::process::id().cast_signed(), 0, |process| ours |= process.pid == pid);
    !ours && stat(pid).is_some()
}

/// Does this process descend from `root`, ended or not?
pub(super) fn is_below(pid: pid_t, root: pid_t) -> bool {
    descends(pid, root, 0).is_some()
}

/// Sends `signal` to every living descendant of `root`; how many there were.
pub(super) fn signal_descendants(root: pid_t, since: u64, signal: c_int) -> usize {
    let mut count = 0;
    each_descendant(root, since, |process| {
        if process.is_alive() {
            send(process.pid, signal);
            count += 1;
        }
    });
    count
}

/// Stops, then kills every descendant of `root` that `select` accepts; how many were alive.
///
/// Killing alone loses a race against processes that fork: those born between the listing and the signal live on. A
/// stopped process cannot fork, so passes of SIGSTOP are made until one finds nothing running. Whatever escapes this
/// sweep is found by the next.
pub(super) fn sweep(root: pid_t, since: u64, select: impl Fn(&Descendant) -> bool) -> usize {
    for _ in 0..limits::STOP_PASSES_MAX {
        let mut running = 0;
        each_descendant(root, since, |process| {
            if process.is_alive() && !process.is_stopped() && select(&process) {
                send(process.pid, libc::SIGSTOP);
                running += 1;
            }
        });
        if running == 0 {
            break;
        }
    }
    let mut alive = 0;
    each_descendant(root, since, |process| {
        if process.is_alive() && select(&process) {
            send(process.pid, libc::SIGKILL);
            alive += 1;
        }
    });
    alive
}

/// Sends a signal to one process. That it has gone meanwhile is no error.
pub(super) fn send(pid: pid_t, signal: c_int) {
    if pid > 1 {
        // SAFETY: `kill` takes two integers. The test keeps out 0 and negative numbers, which mean whole groups.
        unsafe { libc::kill(pid, signal) };
    }
}

/// What the kernel says about one process; `None` when there is none.
pub(super) fn stat(pid: pid_t) -> Option<Stat> {
    let mut path = [0_u8; 32];
    let mut line = [0_u8; 1024];
    stat_path(pid, &mut path)?;
    // SAFETY: `path` ends in a NUL, since it is longer than the longest text written to it.
    let fd = unsafe { libc::open(path.as_ptr().cast::<c_char>(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        return None;
    }
    // SAFETY: the buffer is valid for its own length; `fd` is ours and closed once.
    let read = unsafe {
        let read = libc::read(fd, line.as_mut_ptr().cast(), line.len());
        libc::close(fd);
        read
    };
    parse_stat(line.get(..usize::try_from(read).ok()?)?)
}

/// The process `pid` as a descendant of `root`: follows the parents upwards.
fn descends(pid: pid_t, root: pid_t, since: u64) -> Option<Descendant> {
    let own = stat(pid)?;
    let mut at = own;
    let mut top = pid;
    for _ in 0..limits::PROCESS_DEPTH_MAX {
        if at.start < since {
            return None;
        }
        if at.parent == root {
            return Some(Descendant { pid, top, state: own.state });
        }
        if at.parent <= 1 {
            return None;
        }
        top = at.parent;
        at = stat(top)?;
    }
    None
}

/// Calls `visit` for each process number in `/proc`.
fn each_pid(mut visit: impl FnMut(pid_t)) {
    each_number(c"/proc", |pid, _| visit(pid));
}

/// Calls `visit` with each entry of a directory whose name is a number, and with the descriptor it is read from. Reads
/// without `opendir`, which allocates.
pub(super) fn each_number(directory: &std::ffi::CStr, mut visit: impl FnMut(c_int, c_int)) {
    #[repr(align(8))]
    struct Buffer([u8; 4096]);
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the path ends in a NUL.
    let fd = unsafe { libc::open(directory.as_ptr(), flags) };
    if fd < 0 {
        return;
    }
    let mut buffer = Buffer([0; 4096]);
    loop {
        // SAFETY: the kernel writes at most the given length into the buffer.
        let read = unsafe { libc::syscall(libc::SYS_getdents64, fd, buffer.0.as_mut_ptr(), buffer.0.len()) };
        let Some(mut rest) = usize::try_from(read).ok().filter(|read| *read > 0).and_then(|read| buffer.0.get(..read))
        else {
            break;
        };
        while let Some((name, next)) = first_entry(rest) {
            if let Some(number) = number(name) {
                visit(number, fd);
            }
            rest = next;
        }
    }
    // SAFETY: `fd` is ours and closed once.
    unsafe { libc::close(fd) };
}

/// The first `linux_dirent64`: eight bytes inode, eight bytes offset, two bytes record length, one byte type, the name.
fn first_entry(records: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::from(u16::from_ne_bytes([*records.get(16)?, *records.get(17)?]));
    let name = records.get(19..length)?;
    let end = name.iter().position(|byte| *byte == 0)?;
    Some((name.get(..end)?, records.get(length..)?))
}

/// A name that is a decimal number and nothing else.
fn number(name: &[u8]) -> Option<c_int> {
    if name.is_empty() {
        return None;
    }
    name.iter().try_fold(0_i32, |sum, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        sum.checked_mul(10)?.checked_add(i32::from(digit))
    })
}

/// Writes `/proc/<pid>/stat` with its NUL.
fn stat_path(pid: pid_t, out: &mut [u8; 32]) -> Option<()> {
    let mut digits = [0_u8; 10];
    let mut left = u32::try_from(pid).ok()?;
    let mut count = 0;
    for digit in digits.iter_mut().rev() {
        // The remainder is below ten, so nothing is lost.
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
        count += 1;
        if left == 0 {
            break;
        }
    }
    let number = digits.get(10 - count..)?;
    let parts = b"/proc/".iter().chain(number).chain(b"/stat\0");
    for (to, from) in out.iter_mut().zip(parts) {
        *to = *from;
    }
    Some(())
}

/// Reads the fields after the name. The name may hold spaces and brackets; its last `)` ends it.
fn parse_stat(line: &[u8]) -> Option<Stat> {
    let name_end = line.iter().rposition(|byte| *byte == b')')?;
    let mut fields = line.get(name_end + 2..)?.split(|byte| *byte == b' ');
    let state = *fields.next()?.first()?;
    let parent = number(fields.next()?)?;
    // Field 22 of the line; the state was field 3, the parent field 4.
    let start = fields.nth(17)?;
    let start = start.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })?;
    Some(Stat { state, parent, start })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_name_that_looks_like_fields() {
        let line = b"77 (a) S 1 (x) R 42 77 77 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 2";
        assert_eq!(parse_stat(line), Some(Stat { state: b'R', parent: 42, start: 98765 }));
        for cut in 0..line.len() - 12 {
            assert_eq!(parse_stat(&line[..cut]).filter(|stat| stat.parent == 42 && stat.start == 98765), None);
        }
    }

    #[test]
    fn paths_have_every_digit() {
        for pid in [1, 9, 10, 4_194_304, i32::MAX] {
            let mut out = [0; 32];
            stat_path(pid, &mut out).unwrap();
            let text: Vec<u8> = out.iter().copied().take_while(|byte| *byte != 0).collect();
            assert_eq!(String::from_utf8(text).unwrap(), format!("/proc/{pid}/stat"));
        }
        assert!(stat_path(-1, &mut [0; 32]).is_none());
    }

    #[test]
    fn numbers_are_nothing_but_digits() {
        assert_eq!(number(b"120"), Some(120));
        for name in [&b""[..], b"self", b"1a", b"-1", b"99999999999"] {
            assert_eq!(number(name), None);
        }
    }

    #[test]
    fn this_process_has_a_parent_and_is_listed() {
        let me = i32::try_from(std::process::id()).unwrap();
        let own = stat(me).unwrap();
        assert_eq!(own.parent, nix::unistd::getppid().as_raw());
        let mut seen = false;
        each_descendant(own.parent, 0, |process| seen |= process.pid == me && process.top == me);
        assert!(seen);
        assert_eq!(stat(i32::MAX), None);
    }
}
