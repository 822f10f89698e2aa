//! A handle on a directory, and what can be done with one name in it. Nothing here follows a link or takes more than one
//! component, so a handle below the root stays below it.

use nix::dir::Type;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// What stands under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A character or block device.
    Device,
    /// None of these.
    Unknown,
}

impl Kind {
    pub(super) fn of(stat: &FileStat) -> Self {
        match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
            SFlag::S_IFREG => Self::File,
            SFlag::S_IFDIR => Self::Directory,
            SFlag::S_IFLNK => Self::Link,
            SFlag::S_IFIFO => Self::Fifo,
            SFlag::S_IFSOCK => Self::Socket,
            SFlag::S_IFCHR | SFlag::S_IFBLK => Self::Device,
            _ => Self::Unknown,
        }
    }
}

impl Kind {
    /// What to do with it instead of reading or writing it as a file.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Directory => "; glob or `ls` lists what is in it",
            _ => "",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "a regular file",
            Self::Directory => "a directory",
            Self::Link => "a symbolic link",
            Self::Fifo => "a named pipe (fifo)",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Unknown => "a file of an unknown type",
        })
    }
}

/// Why a name could not be opened as a regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenError {
    /// It is something else.
    NotRegular(Kind),
    /// The system said no.
    Os(Errno),
}

/// An open directory. Clones share the handle.
#[derive(Debug, Clone)]
pub struct Dir(Arc<OwnedFd>);

impl Dir {
    pub(super) fn open_root(path: &Path) -> Result<Self, Errno> {
        let fd = nix::fcntl::open(path, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        Ok(Self(Arc::new(fd)))
    }

    /// The same, refusing a link in the last place.
    pub(super) fn open_itself(path: &Path) -> Result<Self, Errno> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(Self(Arc::new(nix::fcntl::open(path, flags, Mode::empty())?)))
    }

    /// Opens a directory in this one; a link is refused with `ENOTDIR`.
    pub fn open_dir(&self, name: &OsStr) -> Result<Self, Errno> {
        // O_PATH: walking through a directory needs no permission to list it.
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(Self(Arc::new(openat(self, single(name)?, flags, Mode::empty())?)))
    }

    /// Opens a regular file for reading: never blocks, never takes a terminal, follows no link. Opening a pipe or a device
    /// can have effects, so a caller that knows the type should ask only for files.
    pub fn open_file(&self, name: &OsStr) -> Result<File, OpenError> {
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = single(name).and_then(|name| openat(self, name, flags, Mode::empty()));
        let file = match opened {
            Ok(fd) => File::from(fd),
            // A socket cannot be opened at all.
            Err(Errno::ENXIO) => return Err(OpenError::NotRegular(self.kind(name).map_err(OpenError::Os)?)),
            Err(Errno::ELOOP) => return Err(OpenError::NotRegular(Kind::Link)),
            Err(errno) => return Err(OpenError::Os(errno)),
        };
        match Kind::of(&fstat(&file).map_err(OpenError::Os)?) {
            Kind::File => Ok(file),
            kind => Err(OpenError::NotRegular(kind)),
        }
    }

    /// The directory's entries but `.` and `..`, in no order.
    pub fn entries(&self) -> Result<Entries, Errno> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let listing = nix::dir::Dir::openat(self, ".", flags, Mode::empty())?;
        Ok(Entries { dir: self.clone(), listing: listing.into_iter() })
    }

    /// What stands under a name; a link is a link.
    pub fn kind(&self, name: &OsStr) -> Result<Kind, Errno> {
        self.stat(name).map(|stat| Kind::of(&stat))
    }

    pub(super) fn stat(&self, name: &OsStr) -> Result<FileStat, Errno> {
        fstatat(self, single(name)?, AtFlags::AT_SYMLINK_NOFOLLOW)
    }

    pub(super) fn read_link(&self, name: &OsStr) -> Result<OsString, Errno> {
        readlinkat(self, single(name)?)
    }

    pub(super) fn make_dir(&self, name: &OsStr) -> Result<(), Errno> {
        mkdirat(self, single(name)?, Mode::from_bits_truncate(0o777))
    }

    /// Creates a file that did not exist; the umask applies to `mode`.
    pub(super) fn create(&self, name: &OsStr, mode: Mode) -> Result<File, Errno> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        openat(self, single(name)?, flags, mode).map(File::from)
    }

    /// Opens an existing file for writing and changes nothing.
    pub(super) fn open_for_writing(&self, name: &OsStr) -> Result<File, Errno> {
        let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        openat(self, single(name)?, flags, Mode::empty()).map(File::from)
    }

    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        renameat(self, single(from)?, self, single(to)?)
    }

    pub(super) fn remove_file(&self, name: &OsStr) -> Result<(), Errno> {
        unlinkat(self, single(name)?, UnlinkatFlags::NoRemoveDir)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The name itself when it is one ordinary component.
fn single(name: &OsStr) -> Result<&OsStr, Errno> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') {
        Err(Errno::EINVAL)
    } else {
        Ok(name)
    }
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Any bytes but `/` and NUL.
    pub name: OsString,
    /// What it was when it was listed.
    pub kind: Kind,
}

/// Lists a directory.
#[derive(Debug)]
pub struct Entries {
    dir: Dir,
    listing: nix::dir::OwningIter,
}

impl Iterator for Entries {
    type Item = Result<Entry, Errno>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = match self.listing.next()? {
                Ok(entry) => entry,
                Err(errno) => return Some(Err(errno)),
            };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                Some(Type::File) => Kind::File,
                Some(Type::Directory) => Kind::Directory,
                Some(Type::Symlink) => Kind::Link,
                Some(Type::Fifo) => Kind::Fifo,
                Some(Type::Socket) => Kind::Socket,
                Some(Type::CharacterDevice | Type::BlockDevice) => Kind::Device,
                // Some file systems do not say; a name that is gone by now is skipped by whoever opens it.
                None => self.dir.kind(name).unwrap_or(Kind::Unknown),
            };
            return Some(Ok(Entry { name: name.to_owned(), kind }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_one_ordinary_component_is_a_name() {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(base.path().join("root/in")).unwrap();
        let dir = Dir::open_root(&base.path().join("root")).unwrap();
        for name in ["", ".", "..", "../root", "in/..", "in/", "/", "/etc"] {
            let name = OsStr::new(name);
            assert_eq!(dir.open_dir(name).unwrap_err(), Errno::EINVAL);
            assert_eq!(dir.open_file(name).unwrap_err(), OpenError::Os(Errno::EINVAL));
            assert_eq!(dir.make_dir(name), Err(Errno::EINVAL));
            assert_eq!(dir.rename(OsStr::new("in"), name), Err(Errno::EINVAL));
        }
    }

    #[test]
    fn a_planted_name_is_not_written_through() {
        let base = tempfile::tempdir().unwrap();
        symlink(base.path().join("elsewhere"), base.path().join("planted")).unwrap();
        let dir = Dir::open_root(base.path()).unwrap();
        assert_eq!(dir.create(OsStr::new("planted"), Mode::S_IRWXU).unwrap_err(), Errno::EEXIST);
        assert_eq!(dir.open_for_writing(OsStr::new("planted")).unwrap_err(), Errno::ELOOP);
        assert_eq!(dir.open_file(OsStr::new("planted")).unwrap_err(), OpenError::NotRegular(Kind::Link));
        assert!(!base.path().join("elsewhere").exists());
    }

    #[test]
    fn entries_are_listed_with_their_types() {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir(base.path().join("dir")).unwrap();
        std::fs::write(base.path().join(".hidden"), "").unwrap();
        std::fs::write(base.path().join(OsStr::from_bytes(b"\xff")), "").unwrap();
        symlink("dir", base.path().join("link")).unwrap();
        nix::unistd::mkfifo(&base.path().join("fifo"), Mode::S_IRWXU).unwrap();
        let dir = Dir::open_root(base.path()).unwrap();
        // Twice: a listing has its own position.
        for _ in 0..2 {
            let mut found: Vec<(OsString, Kind)> =
                dir.entries().unwrap().map(|entry| entry.unwrap()).map(|entry| (entry.name, entry.kind)).collect();
            found.sort_by(|a, b| a.0.cmp(&b.0));
            let kinds: Vec<Kind> = found.iter().map(|entry| entry.1).collect();
            assert_eq!(kinds, [Kind::File, Kind::Directory, Kind::Fifo, Kind::Link, Kind::File]);
            assert_eq!(found[4].0.as_bytes(), b"\xff");
        }
        assert_eq!(dir.open_dir(OsStr::new("link")).unwrap_err(), Errno::ENOTDIR);
    }
}
