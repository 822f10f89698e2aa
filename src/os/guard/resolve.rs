//! What a path of a child's names, and whether it is a socket of the host's.

use super::listener::Call;
use crate::limits;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat, stat};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The host's sockets. Known by their inode, so that every spelling, link and mount of one is the same; every inode that
/// was seen under a protected name stays known, so that one which was renamed is too.
pub(super) struct Protected {
    paths: Vec<PathBuf>,
    seen: Mutex<BTreeSet<Identity>>,
    /// What we see ourselves.
    root: Identity,
    mounts: Identity,
}

/// Device and inode.
type Identity = (u64, u64);

impl Protected {
    pub(super) fn new(paths: Vec<PathBuf>) -> Result<Self, Errno> {
        let (root, mounts) = (identity(&stat("/")?), identity(&stat("/proc/self/ns/mnt")?));
        let protected = Self { paths, seen: Mutex::default(), root, mounts };
        protected.look();
        Ok(protected)
    }

    /// The host may have made its sockets anew.
    fn look(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(self.paths.iter().filter_map(|path| stat(path).ok()).map(|found| identity(&found)));
    }

    /// Is this file one of them? Asked of an open handle, *before* the names are looked up again: a socket that takes a
    /// protected name later is a different one from the one that is connected to.
    pub(super) fn holds(&self, file: &OwnedFd) -> Result<bool, Errno> {
        let found = identity(&fstat(file)?);
        self.look();
        Ok(self.seen.lock().unwrap_or_else(PoisonError::into_inner).contains(&found))
    }

    /// Has the caller our root directory and our mounts?
    fn sees_the_same(&self, process: &str) -> Result<bool, Errno> {
        let same = |name: &str, own: Identity| -> Result<bool, Errno> {
            Ok(identity(&stat(format!("{process}/{name}").as_str())?) == own)
        };
        Ok(same("root", self.root)? && same("ns/mnt", self.mounts)?)
    }

    /// Is this the name the other side was bound to? For a socket that was made and renamed between two looks.
    pub(super) fn names(&self, bound: &[u8]) -> bool {
        self.paths.iter().any(|path| path.as_os_str().as_bytes() == bound)
    }
}

fn identity(found: &FileStat) -> Identity {
    (found.st_dev, found.st_ino)
}

/// Opens what `path` names for the caller, as a handle that cannot be read or written.
pub(super) fn open_for(call: &Call, protected: &Protected, path: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let path = own_entries(call, path);
    let process = format!("/proc/{}", call.thread);
    let place = |name: &str| open(format!("{process}/{name}").as_str(), flags | OFlag::O_DIRECTORY, Mode::empty());
    let absolute = path.is_absolute();
    if protected.sees_the_same(&process)? {
        return match absolute {
            true => open(&path, flags, Mode::empty()),
            false => openat(place("cwd")?, &path, flags, Mode::empty()),
        };
    }
    // In a root of its own. The kernel resolves in it, without the links of /proc, which would be ours.
    let (start, resolve) = match absolute {
        true => (place("root")?, ResolveFlag::RESOLVE_IN_ROOT),
        false => (place("cwd")?, ResolveFlag::RESOLVE_BENEATH),
    };
    let how = OpenHow::new().flags(flags).resolve(resolve | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    // While something is renamed, anywhere on the machine, the kernel will not vouch for `..` and asks to try again.
    let mut tries = 0..limits::RESOLVE_TRIES;
    loop {
        match openat2(&start, &path, how) {
            Err(Errno::EAGAIN) if tries.next().is_some() => {}
            outcome => return outcome,
        }
    }
}

/// Names that mean something else to each process, in the caller's meaning.
fn own_entries(call: &Call, path: &[u8]) -> PathBuf {
    let thread = call.thread;
    let mine = [
        ("/proc/self/", format!("/proc/{thread}/")),
        ("/proc/thread-self/", format!("/proc/{thread}/task/{thread}/")),
        ("/dev/fd/", format!("/proc/{thread}/fd/")),
    ];
    for (prefix, replacement) in mine {
        if let Some(rest) = path.strip_prefix(prefix.as_bytes()) {
            return PathBuf::from(OsStr::from_bytes(&[replacement.as_bytes(), rest].concat()));
        }
    }
    PathBuf::from(OsStr::from_bytes(path))
}

/// Has the caller our user id? Another's rights are not ours to use.
pub(super) fn is_our_user(call: &Call) -> Result<bool, Errno> {
    let found = fstatat(nix::fcntl::AT_FDCWD, format!("/proc/{}", call.thread).as_str(), AtFlags::empty())?;
    Ok(found.st_uid == nix::unistd::geteuid().as_raw())
}
