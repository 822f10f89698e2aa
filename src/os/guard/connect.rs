//! One `connect` of a child, made on its behalf.
#![allow(unsafe_code)]

use super::listener::{self, Call};
use super::lost::Lost;
use super::resolve::{self, Protected};
use super::waits::{Cause, Wait};
use nix::errno::Errno;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// The largest address the kernel takes.
const ADDRESS_MAX: usize = mem::size_of::<libc::sockaddr_storage>();
/// Where the path begins in a Unix address.
const PATH_AT: usize = mem::offset_of!(libc::sockaddr_un, sun_path);

/// `ERESTARTSYS`, which never leaves the kernel: the call is made again if the signal's handler wants that or there is none,
/// else it ends with `EINTR`.
const RESTART: i32 = 512;

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The errno of a call that went no further than our own looking.
    Failed(i32),
    /// 0 or the errno of a connect that was made on the socket with this cookie.
    Made(i32, Option<u64>),
    /// It was to a socket of the host's.
    Refused,
    /// The caller is gone.
    Gone,
}

/// Copies what the call refers to, judges the copy, and connects.
pub(super) fn serve(
    listener: BorrowedFd<'_>,
    call: &Call,
    protected: &Protected,
    lost: &Lost,
    wait: &Wait<'_>,
) -> Outcome {
    match prepared(listener, call, protected) {
        Ok(Prepared::Go { socket, address, path }) => {
            let cookie = || option(&socket, libc::SO_COOKIE).ok();
            if let Some(errno) = lost.take(call.thread, cookie) {
                return Outcome::Made(errno, cookie());
            }
            let errno = match connect(&socket, &address, wait) {
                Ok(errno) => errno,
                Err(cause) => return broken_off(cause, &socket),
            };
            drop(path);
            if errno == 0 && reached(&socket, protected) {
                // SAFETY: a number; both directions end before the caller returns from its call.
                unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
                return Outcome::Refused;
            }
            Outcome::Made(errno, cookie())
        }
        Ok(Prepared::Refused) => Outcome::Refused,
        Ok(Prepared::Gone) => Outcome::Gone,
        Err(errno) => Outcome::Failed(errno as i32),
    }
}

/// What the kernel would say.
fn broken_off(cause: Cause, socket: &OwnedFd) -> Outcome {
    // A wait with an end of its own is not taken up again.
    let timed = || option::<[i64; 2]>(socket, libc::SO_SNDTIMEO).is_ok_and(|time| time != [0, 0]);
    match cause {
        Cause::Gone => Outcome::Gone,
        Cause::Signal if timed() => Outcome::Failed(libc::EINTR),
        Cause::Signal => Outcome::Failed(RESTART),
        Cause::Crowded => Outcome::Failed(libc::EAGAIN),
    }
}

enum Prepared {
    /// Connect `socket` to `address`; `path` keeps what it names open.
    Go {
        socket: OwnedFd,
        address: Vec<u8>,
        path: Option<OwnedFd>,
    },
    Refused,
    Gone,
}

fn prepared(listener: BorrowedFd<'_>, call: &Call, protected: &Protected) -> Result<Prepared, Errno> {
    // The kernel takes both as `int`.
    let (number, length) = (call.arguments[0] as i32, call.arguments[2] as i32);
    let socket = listener::duplicate(call, number).map_err(errno)?;
    // Its own kind, which never changes.
    let domain: i32 = option(&socket, libc::SO_DOMAIN)?;
    let length = usize::try_from(length).ok().filter(|length| *length <= ADDRESS_MAX).ok_or(Errno::EINVAL)?;
    let mut address = vec![0; length];
    listener::read_memory(call, call.arguments[1], &mut address).map_err(errno)?;
    let mut held = None;
    if domain == libc::AF_UNIX && family(&address) == libc::AF_UNIX {
        if !resolve::is_our_user(call)? {
            return Err(Errno::EACCES);
        }
        if let Some(path) = path(&address) {
            let file = resolve::open_for(call, protected, path)?;
            if protected.holds(&file)? {
                return Ok(Prepared::Refused);
            }
            address = unix_address(&format!("/proc/self/fd/{}", file.as_raw_fd()));
            held = Some(file);
        }
    }
    // All that was looked up by the caller's number was the caller's, if it still waits now.
    match listener::waits(listener, call) {
        true => Ok(Prepared::Go { socket, address, path: held }),
        false => Ok(Prepared::Gone),
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EPERM))
}

/// A number, or numbers, the kernel has for this socket; an error for what is no socket.
fn option<T: Default + Copy>(socket: &OwnedFd, name: i32) -> Result<T, Errno> {
    let mut value = T::default();
    let mut length = mem::size_of::<T>() as libc::socklen_t;
    let (socket, place) = (socket.as_raw_fd(), (&raw mut value).cast());
    // SAFETY: the kernel writes at most `length` bytes to `value`, which is plain numbers.
    match unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, name, place, &raw mut length) } {
        0 => Ok(value),
        _ => Err(Errno::last()),
    }
}

fn family(address: &[u8]) -> i32 {
    address.first_chunk().map_or(libc::AF_UNSPEC, |bytes| i32::from(u16::from_ne_bytes(*bytes)))
}

/// The file a Unix address names; `None` for abstract and empty names, which are no files.
fn path(address: &[u8]) -> Option<&[u8]> {
    let name = address.get(PATH_AT..)?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Some(&name[..end]).filter(|path| !path.is_empty())
}

fn unix_address(path: &str) -> Vec<u8> {
    let family = (libc::AF_UNIX as u16).to_ne_bytes();
    [&family, path.as_bytes(), &[0]].concat()
}

/// 0 or the errno; an error when it waited and was broken off. A TCP connection is then still being made, as after any
/// signal, and the next call on the socket waits on for it.
fn connect(socket: &OwnedFd, address: &[u8], wait: &Wait<'_>) -> Result<i32, Cause> {
    let length = address.len() as libc::socklen_t;
    loop {
        // SAFETY: the kernel reads `length` bytes of the address, and copies them before it looks at them.
        let result = unsafe { libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), length) };
        match if result == 0 { 0 } else { Errno::last_raw() } {
            libc::EINTR => wait.broken_off().map_or(Ok(()), Err)?,
            errno => return Ok(errno),
        }
    }
}

/// Is the other side bound to a protected name?
fn reached(socket: &OwnedFd, protected: &Protected) -> bool {
    let mut address = [0_u8; ADDRESS_MAX];
    let mut length = ADDRESS_MAX as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes.
    let known = unsafe { libc::getpeername(socket.as_raw_fd(), address.as_mut_ptr().cast(), &raw mut length) } == 0;
    let address = &address[..(length as usize).min(ADDRESS_MAX)];
    known && family(address) == libc::AF_UNIX && path(address).is_some_and(|bound| protected.names(bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_an_address() {
        let unix = |name: &[u8]| [&(libc::AF_UNIX as u16).to_ne_bytes()[..], name].concat();
        assert_eq!(path(&unix(b"/a/b\0junk")), Some(&b"/a/b"[..]));
        assert_eq!(path(&unix(&[b'x'; 108])), Some(&[b'x'; 108][..]), "no NUL at the end is no excuse");
        assert_eq!(path(&unix(b"\0abstract")), None);
        assert_eq!(path(&unix(b"")), None);
        assert_eq!(path(b"\x01"), None);
        assert_eq!((family(b""), family(&unix(b""))), (libc::AF_UNSPEC, libc::AF_UNIX));
    }
}
