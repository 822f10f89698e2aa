//! One `connect` of a child, made on its behalf.
#![allow(unsafe_code)]

use super::listener::{self, Call};
use super::resolve::{self, Protected};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// The largest address the kernel takes.
const ADDRESS_MAX: usize = mem::size_of::<libc::sockaddr_storage>();
/// Where the path begins in a Unix address.
const PATH_AT: usize = mem::offset_of!(libc::sockaddr_un, sun_path);

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// 0 or the errno of the call.
    Done(i32),
    /// It was to a socket of the host's.
    Refused,
    /// The caller is gone.
    Gone,
}

/// Copies what the call refers to, judges the copy, and connects. `before_wait` is told when the connect may block.
pub(super) fn serve(
    listener: BorrowedFd<'_>,
    call: &Call,
    protected: &Protected,
    before_wait: impl FnOnce(),
) -> Outcome {
    match prepared(listener, call, protected) {
        Ok(Prepared::Go { socket, address, path }) => {
            if !is_nonblocking(&socket) {
                before_wait();
            }
            let errno = connect(&socket, &address);
            drop(path);
            if errno == 0 && reached(&socket, protected) {
                // SAFETY: a number; both directions end before the caller returns from its call.
                unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
                return Outcome::Refused;
            }
            Outcome::Done(errno)
        }
        Ok(Prepared::Refused) => Outcome::Refused,
        Ok(Prepared::Gone) => Outcome::Gone,
        Err(errno) => Outcome::Done(errno as i32),
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
    let domain = domain(&socket)?;
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

/// The socket's own kind, which never changes; an error for what is no socket.
fn domain(socket: &OwnedFd) -> Result<i32, Errno> {
    let mut domain = 0_i32;
    let mut length = mem::size_of::<i32>() as libc::socklen_t;
    let (socket, value) = (socket.as_raw_fd(), (&raw mut domain).cast());
    // SAFETY: the kernel writes at most `length` bytes to `domain`.
    match unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_DOMAIN, value, &raw mut length) } {
        0 => Ok(domain),
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

fn is_nonblocking(socket: &OwnedFd) -> bool {
    fcntl(socket, FcntlArg::F_GETFL).is_ok_and(|flags| flags & OFlag::O_NONBLOCK.bits() != 0)
}

fn connect(socket: &OwnedFd, address: &[u8]) -> i32 {
    let length = address.len() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of the address, and copies them before it looks at them.
    match unsafe { libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), length) } {
        0 => 0,
        _ => Errno::last_raw(),
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
