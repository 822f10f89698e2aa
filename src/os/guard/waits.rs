//! Calls that are being served, and the watcher that breaks off those which need not go on.
//!
//! A `connect` may wait for ever, and the kernel tells nobody that its caller was killed or has got a signal. So every call
//! on its way is looked at again and again. One is broken off by a signal to the thread that serves it, which ends the wait
//! in the kernel as a signal to the caller would have: no option or flag of the caller's socket is touched.
#![allow(unsafe_code)]

use super::listener::{self, Call};
use crate::limits;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, pthread_sigmask, sigaction};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Means nothing to the runner, and is ignored where nobody handles it.
const BREAK_OFF: Signal = Signal::SIGURG;

/// Why a call is not seen to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its caller does not wait any more.
    Gone,
    /// Its caller has a signal to attend to.
    Signal,
    /// It would wait, and too many do already.
    Crowded,
}

/// All calls that are being served.
#[derive(Default)]
pub(super) struct Waits {
    table: Mutex<Table>,
    /// For the watcher.
    change: Condvar,
    /// A call has left that another waits for.
    left: Condvar,
}

#[derive(Default)]
struct Table {
    calls: BTreeMap<u64, Entry>,
    next: u64,
    /// The watcher has nothing to look at and must be woken.
    asleep: bool,
    /// Somebody waits for a call to leave.
    awaited: bool,
    stopping: bool,
}

struct Entry {
    listener: Arc<OwnedFd>,
    call: Call,
    /// The thread that serves it.
    server: libc::pid_t,
    /// May it take as long as it likes?
    patient: bool,
    /// Looked at once: most calls are done before the watcher comes again.
    seen: bool,
    cause: Option<Cause>,
}

/// One call, known to the watcher while this lives. Stays on its thread.
pub(super) struct Wait<'a> {
    waits: &'a Waits,
    key: u64,
}

impl Wait<'_> {
    /// Why it was broken off, if it was.
    pub(super) fn broken_off(&self) -> Option<Cause> {
        self.waits.lock().calls.get(&self.key).and_then(|entry| entry.cause)
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut table = self.waits.lock();
        table.calls.remove(&self.key);
        if std::mem::take(&mut table.awaited) {
            self.waits.left.notify_all();
        }
    }
}

impl Waits {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread turns to this call. It must be [`ready`].
    pub(super) fn enter(&self, listener: &Arc<OwnedFd>, call: Call, patient: bool) -> Wait<'_> {
        let mut table = self.after_older_ones(&call);
        let key = table.next;
        table.next += 1;
        let server = nix::unistd::gettid().as_raw();
        let entry = Entry { listener: listener.clone(), call, server, patient, seen: false, cause: None };
        table.calls.insert(key, entry);
        // One that may not wait holds up the calls behind it.
        if std::mem::take(&mut table.asleep) || !patient {
            self.change.notify_one();
        }
        Wait { waits: self, key }
    }

    /// A thread makes one call at a time. If an older one of its is here, a signal has ended its wait; how that call ends must
    /// be known before this one is made on the same socket.
    fn after_older_ones(&self, call: &Call) -> MutexGuard<'_, Table> {
        let mut table = self.lock();
        for _ in 0..limits::GUARD_LEAVE_TRIES {
            let older = table.calls.values_mut().find(|entry| call.follows(&entry.call));
            let Some(older) = older else { break };
            older.break_off(Cause::Gone);
            table.awaited = true;
            let waited = self.left.wait_timeout(table, limits::GUARD_LEAVE);
            table = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        table
    }

    /// Breaks off what is on its way and ends the watcher.
    pub(super) fn stop(&self) {
        self.lock().stopping = true;
        self.change.notify_one();
    }

    /// The watcher's life.
    pub(super) fn watch(&self) {
        let mut next_round = Instant::now();
        loop {
            let mut table = self.lock();
            while table.calls.is_empty() && !table.stopping {
                table.asleep = true;
                table = self.change.wait(table).unwrap_or_else(PoisonError::into_inner);
            }
            table.asleep = false;
            if table.calls.is_empty() {
                return;
            }
            let crowded = table.calls.values().any(|entry| !entry.patient);
            let pause = if crowded { limits::GUARD_LOOK_CROWDED } else { limits::GUARD_LOOK };
            let rested = self.change.wait_timeout(table, pause);
            drop(rested.unwrap_or_else(PoisonError::into_inner));
            let all = Instant::now() >= next_round;
            if all {
                next_round = Instant::now() + limits::GUARD_LOOK;
            }
            self.look(all);
        }
    }

    /// At those that may not wait, or at all.
    fn look(&self, all: bool) {
        let mut due = Vec::new();
        let mut table = self.lock();
        let stopping = table.stopping;
        for (key, entry) in &mut table.calls {
            if stopping || ((all || !entry.patient) && std::mem::replace(&mut entry.seen, true)) {
                due.push((*key, entry.listener.clone(), entry.call, entry.patient));
            }
        }
        drop(table);
        for (key, listener, call, patient) in due {
            let cause = if stopping { Some(Cause::Gone) } else { cause(&listener, &call, patient) };
            // Under the lock, and if it is still there.
            if let (Some(cause), Some(entry)) = (cause, self.lock().calls.get_mut(&key)) {
                entry.break_off(cause);
            }
        }
    }
}

impl Entry {
    /// To be done again until it has left: the thread may not have been where the signal ends anything. It cannot have turned
    /// to another call, since it leaves the table first, and that is locked.
    fn break_off(&mut self, cause: Cause) {
        self.cause = Some(cause);
        // SAFETY: numbers. The thread lives while it is in the table.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.server, BREAK_OFF as libc::c_int) };
    }
}

/// What speaks against waiting on. The thread's number was the caller's if it still waits afterwards.
fn cause(listener: &OwnedFd, call: &Call, patient: bool) -> Option<Cause> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", call.thread)).unwrap_or_default();
    match listener::waits(listener.as_fd(), call) {
        false => Some(Cause::Gone),
        true if must_attend(&status) => Some(Cause::Signal),
        true => (!patient).then_some(Cause::Crowded),
    }
}

/// Has this thread a signal that it would be woken for? One to its process the kernel gives to the first thread if that can
/// take it; which other one was chosen does not show, and a thread that was not would get no signal, only a strange error.
fn must_attend(status: &str) -> bool {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let set = |name: &str| field(name).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0);
    let is_first = field("Pid:").is_some_and(|own| field("Tgid:") == Some(own));
    let shared = if is_first { set("ShdPnd:") } else { 0 };
    (set("SigPnd:") | shared) & !set("SigBlk:") != 0
}

/// Lets the watcher's signal end a wait. Not taken up again afterwards, hence no `SA_RESTART`.
pub(super) fn prepare() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler does nothing.
    unsafe { sigaction(BREAK_OFF, &action) }?;
    Ok(())
}

/// Makes the calling thread one that can be broken off. All other signals are for the runtime's threads.
pub(super) fn ready() {
    let mut blocked = SigSet::all();
    blocked.remove(BREAK_OFF);
    let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&blocked), None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_a_signal_wakes() {
        let status = |thread: i32, own: &str, shared: &str, blocked: &str| {
            format!(
                "Name:\tx\nTgid:\t7\nNgid:\t0\nPid:\t{thread}\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\t{blocked}\n"
            )
        };
        for (thread, own, shared, blocked, wanted) in [
            (7, "0000000000000000", "0000000000000000", "0000000000000000", false),
            (7, "0000000000000000", "0000000000002000", "0000000000000000", true),
            (7, "0000000000002000", "0000000000000000", "0000000000000000", true),
            (7, "0000000000002000", "0000000000002000", "0000000000002000", false),
            (7, "8000000000000000", "0000000000000000", "0000000000002000", true),
            (8, "0000000000000000", "0000000000002000", "0000000000000000", false),
            (8, "0000000000002000", "0000000000000000", "0000000000000000", true),
        ] {
            assert_eq!(must_attend(&status(thread, own, shared, blocked)), wanted, "{thread} {own} {shared} {blocked}");
        }
        assert!(!must_attend(""), "no such thread any more");
    }
}
