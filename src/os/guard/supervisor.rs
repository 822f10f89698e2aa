//! The threads that serve waiting calls.
//!
//! Threads of their own, not tasks: a `connect` may block, and a busy runtime must not slow down its children. All wait on
//! one epoll set; each takes one call and sees it to its end, which holds up nobody else: another is always there for the
//! next call (`crew`), and whose caller has lost interest is broken off (`waits`). When as many as may be are waiting, a
//! call that does not succeed at once ends with `EAGAIN`.
#![allow(unsafe_code)]

use super::connect::{self, Outcome};
use super::crew::{Crew, Leave};
use super::listener::{self, Call};
use super::lost::Lost;
use super::resolve::Protected;
use super::waits::{self, Waits};
use crate::limits;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, socketpair};
use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const STOP: u64 = 0;
const INBOX: u64 = 1;
const FIRST_LISTENER: u64 = 2;

/// Serves every child that was given the channel. Dropped, it closes every listener.
pub(super) struct Supervisor {
    shared: Arc<Shared>,
    channel: Arc<OwnedFd>,
}

struct Shared {
    epoll: Epoll,
    stop: EventFd,
    stopping: AtomicBool,
    /// New listeners come in here.
    inbox: OwnedFd,
    listeners: Mutex<BTreeMap<u64, Arc<OwnedFd>>>,
    next: AtomicU64,
    crew: Mutex<Crew>,
    waits: Waits,
    lost: Lost,
    refused: AtomicU64,
    protected: Protected,
}

impl Supervisor {
    pub(super) fn start(protected: Protected) -> io::Result<Self> {
        if !listener::sizes_agree() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel cannot hand calls to a supervisor"));
        }
        let flags = SockFlag::SOCK_CLOEXEC;
        let (inbox, channel) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
        let shared = Arc::new(Shared {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            stop: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
            stopping: AtomicBool::new(false),
            inbox,
            listeners: Mutex::default(),
            next: AtomicU64::new(FIRST_LISTENER),
            crew: Mutex::default(),
            waits: Waits::default(),
            lost: Lost::default(),
            refused: AtomicU64::new(0),
            protected,
        });
        shared.epoll.add(&shared.stop, EpollEvent::new(EpollFlags::EPOLLIN, STOP))?;
        shared.epoll.add(&shared.inbox, EpollEvent::new(once(), INBOX))?;
        waits::prepare()?;
        let supervisor = Self { shared: shared.clone(), channel: Arc::new(channel) };
        shared.spawn(|shared| shared.waits.watch())?;
        for _ in 0..limits::GUARD_THREADS_STANDING {
            shared.reinforce(&mut shared.crew())?;
        }
        Ok(supervisor)
    }

    /// Where a child sends its listener.
    pub(super) fn channel(&self) -> Arc<OwnedFd> {
        self.channel.clone()
    }

    pub(super) fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        let _ = self.shared.stop.write(1);
        self.shared.listeners().clear();
        self.shared.waits.stop();
    }
}

/// One thread takes an event; it is armed again when that thread has taken the call.
fn once() -> EpollFlags {
    EpollFlags::EPOLLIN | EpollFlags::EPOLLONESHOT
}

impl Shared {
    fn listeners(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<OwnedFd>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn crew(&self) -> MutexGuard<'_, Crew> {
        self.crew.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(self: &Arc<Self>, work: impl FnOnce(Arc<Self>) + Send + 'static) -> io::Result<()> {
        let shared = self.clone();
        let builder = std::thread::Builder::new().name("ax-guard".to_owned()).stack_size(limits::GUARD_STACK_BYTES);
        builder
            .spawn(move || {
                waits::ready();
                work(shared);
            })
            .map(drop)
    }

    fn reinforce(self: &Arc<Self>, crew: &mut Crew) -> io::Result<()> {
        self.spawn(|shared| shared.work())?;
        crew.joined();
        Ok(())
    }

    /// May this thread stay with its call as long as it takes? Not if no other could take the next one.
    fn go(self: &Arc<Self>) -> bool {
        let mut crew = self.crew();
        match crew.go() {
            Leave::Relief if self.reinforce(&mut crew).is_ok() => crew.go() == Leave::Granted,
            leave => leave == Leave::Granted,
        }
    }

    /// Ends with its thread.
    fn work(self: &Arc<Self>) {
        let patience =
            u16::try_from(limits::GUARD_THREAD_IDLE.as_millis()).map_or(EpollTimeout::NONE, EpollTimeout::from);
        loop {
            let mut events = [EpollEvent::empty()];
            let waited = self.epoll.wait(&mut events, patience);
            if self.stopping.load(Ordering::Relaxed) {
                return;
            }
            match waited {
                Ok(0) => {
                    let mut crew = self.crew();
                    if crew.can_spare_one() {
                        return crew.left();
                    }
                }
                Err(nix::errno::Errno::EINTR) => {}
                Ok(_) => match events[0].data() {
                    STOP => return,
                    INBOX => self.welcome(),
                    token => self.attend(token, events[0].events()),
                },
                Err(_) => return,
            }
        }
    }

    /// Takes a new child's listener.
    fn welcome(&self) {
        let received = receive_descriptor(self.inbox.as_raw_fd());
        if let Some(listener) = received {
            listener::hand_over_directly(listener.as_fd());
            let token = self.next.fetch_add(1, Ordering::Relaxed);
            let listener = Arc::new(listener);
            self.listeners().insert(token, listener.clone());
            if self.epoll.add(&listener, EpollEvent::new(once(), token)).is_err() {
                // Closed: its child's connects fail.
                self.listeners().remove(&token);
            }
        }
        let _ = self.epoll.modify(&self.inbox, &mut EpollEvent::new(once(), INBOX));
    }

    /// Serves one call of a listener, or parts with it when its last process is gone.
    fn attend(self: &Arc<Self>, token: u64, events: EpollFlags) {
        let Some(listener) = self.listeners().get(&token).cloned() else { return };
        if !events.contains(EpollFlags::EPOLLIN) {
            let _ = self.epoll.delete(&listener);
            self.listeners().remove(&token);
            return;
        }
        let call = listener::receive(listener.as_fd());
        let _ = self.epoll.modify(&listener, &mut EpollEvent::new(once(), token));
        let Ok(call) = call else { return };
        let patient = self.go();
        let wait = self.waits.enter(&listener, call, patient);
        if self.stopping.load(Ordering::Relaxed) {
            // There may be no watcher any more.
            return;
        }
        let outcome = connect::serve(listener.as_fd(), &call, &self.protected, &self.lost, &wait);
        self.settle(listener.as_fd(), &call, outcome);
        drop(wait);
        if patient {
            self.crew().back();
        }
    }

    fn settle(&self, listener: BorrowedFd<'_>, call: &Call, outcome: Outcome) {
        match outcome {
            Outcome::Gone => {}
            Outcome::Failed(errno) => {
                listener::answer(listener, call, errno);
            }
            Outcome::Made(errno, cookie) => {
                if !listener::answer(listener, call, errno) {
                    self.lost.keep(call.thread, cookie, errno);
                }
            }
            Outcome::Refused => {
                listener::answer(listener, call, libc::EACCES);
                let refused = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
                if refused <= limits::GUARD_LOGGED_MAX {
                    tracing::warn!(component = "guard", process = call.thread, refused, "host_socket_refused");
                }
            }
        }
    }
}

fn receive_descriptor(inbox: RawFd) -> Option<OwnedFd> {
    let mut byte = [0];
    let mut data = [IoSliceMut::new(&mut byte)];
    let mut control = nix::cmsg_space!(RawFd);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<()>(inbox, &mut data, Some(&mut control), flags).ok()?;
    let mut found = None;
    for part in message.cmsgs().ok()? {
        if let ControlMessageOwned::ScmRights(numbers) = part {
            for number in numbers {
                // SAFETY: the kernel has just made this descriptor for us.
                found = Some(unsafe { OwnedFd::from_raw_fd(number) });
            }
        }
    }
    found
}
