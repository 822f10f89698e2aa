//! Does it work here? Tried on a child, since each piece can be missing in the kernel, in the engine's own filter, or in
//! what this user may do, and a list of versions would guess.
#![allow(unsafe_code)]

use super::super::keeper_child;
use super::super::known::{self, Known};
use super::super::lack::is_lack;
use super::install::{ChildFilter, Installer};
use crate::limits;
use std::ffi::CStr;
use std::io;
use std::time::Instant;

/// No directory, whatever the system: opening it gives `ENOENT`, which only the supervisor's own attempt can bring back.
const NOWHERE: &CStr = c"/proc/self/ax-guard-trial";

/// What the child tries.
#[derive(Clone, Copy)]
enum Attempt<'a> {
    /// To connect to a Unix socket.
    Connect(&'a CStr),
    /// To make one.
    Socket,
}

/// A connect that the supervisor has made must come back with its result.
pub(super) fn guard(filter: &ChildFilter) -> io::Result<()> {
    match run(filter.installer(), Attempt::Connect(NOWHERE))? {
        (0, libc::ENOENT) => Ok(()),
        (0, errno) => Err(missing("the supervisor gets", errno)),
        (errno, _) => Err(missing("the filter gets", errno)),
    }
}

/// What a child gets that connects to the socket at `path`: 0 or an errno.
pub(super) fn connect(filter: &ChildFilter, path: &CStr) -> io::Result<i32> {
    match run(filter.installer(), Attempt::Connect(path))? {
        (0, errno) => Ok(errno),
        (errno, _) => Err(missing("the filter gets", errno)),
    }
}

/// A new Unix socket must be refused.
pub(super) fn deny(filter: &ChildFilter) -> io::Result<()> {
    match run(filter.installer(), Attempt::Socket)? {
        (0, libc::EAFNOSUPPORT) => Ok(()),
        (0, errno) => Err(missing("a socket gets", errno)),
        (errno, _) => Err(missing("the filter gets", errno)),
    }
}

fn missing(what: &str, errno: i32) -> io::Error {
    // That this very moment is a bad one says nothing about the kernel.
    let lack = io::Error::from_raw_os_error(errno);
    if is_lack(&lack) {
        return lack;
    }
    let cause = if errno == 0 { "no refusal".to_owned() } else { io::Error::from_raw_os_error(errno).to_string() };
    io::Error::new(io::ErrorKind::Unsupported, format!("{what} {cause}"))
}

/// Forks a child that installs the filter and makes one attempt. Returns both errnos.
fn run(installer: Installer, attempt: Attempt<'_>) -> io::Result<(i32, i32)> {
    let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC | nix::fcntl::OFlag::O_NONBLOCK)?;
    let ((), child) = Known::start(|| {
        use std::os::fd::AsRawFd;
        let writer = writer.as_raw_fd();
        // SAFETY: in the child system calls only, then `_exit`.
        match unsafe { keeper_child::fork() } {
            0 => child(installer, attempt, writer),
            pid if pid < 0 => Err(io::Error::last_os_error()),
            pid => Ok(((), pid)),
        }
    })?;
    drop(writer);
    let started = Instant::now();
    let mut answer = [0; 8];
    let outcome = loop {
        match nix::unistd::read(&reader, &mut answer) {
            Ok(8) => {
                let [a, b, c, d, e, f, g, h] = answer;
                break Ok((i32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes([e, f, g, h])));
            }
            Ok(_) => break Err(io::Error::new(io::ErrorKind::Unsupported, "the child of the trial died")),
            Err(_) if started.elapsed() > limits::GUARD_TRIAL => {
                break Err(io::Error::new(io::ErrorKind::Unsupported, "the child of the trial hangs"));
            }
            Err(_) => std::thread::sleep(limits::REAP_PAUSE),
        }
    };
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.pid()), nix::sys::signal::Signal::SIGKILL);
    while !known::reap(child.pid()) && started.elapsed() < 2 * limits::GUARD_TRIAL {
        std::thread::sleep(limits::REAP_PAUSE);
    }
    outcome
}

fn child(installer: Installer, attempt: Attempt<'_>, writer: i32) -> ! {
    // SAFETY: system calls on numbers and on this frame. A child of ours is readable after its exec; this one has none, so it
    // says so itself, in its own copy of our memory.
    unsafe {
        libc::prctl(
            libc::PR_SET_DUMPABLE,
            1 as libc::c_ulong,
            0 as libc::c_ulong,
            0 as libc::c_ulong,
            0 as libc::c_ulong,
        );
        let installed = installer.install();
        let tried = match attempt {
            _ if installed != 0 => 0,
            Attempt::Connect(path) => try_connect(path),
            Attempt::Socket => try_socket(),
        };
        let answer = [installed, tried];
        libc::write(writer, answer.as_ptr().cast(), 8);
        libc::_exit(0)
    }
}

fn try_connect(path: &CStr) -> i32 {
    // SAFETY: the address is in this frame and as long as it says; what does not fit is left out.
    unsafe {
        let socket = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return *libc::__errno_location();
        }
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let fitting = path.count_bytes().min(address.sun_path.len() - 1);
        std::ptr::copy_nonoverlapping(path.as_ptr(), address.sun_path.as_mut_ptr().cast(), fitting);
        let length = std::mem::size_of::<libc::sockaddr_un>() as libc::socklen_t;
        match libc::connect(socket, (&raw const address).cast(), length) {
            0 => 0,
            _ => *libc::__errno_location(),
        }
    }
}

fn try_socket() -> i32 {
    // SAFETY: numbers only.
    unsafe {
        match libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) {
            0.. => 0,
            _ => *libc::__errno_location(),
        }
    }
}
