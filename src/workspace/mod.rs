//! The confined directory: every path a model names is resolved here, and nothing outside the root is ever opened.
//!
//! A path passes two layers. The lexical one ([`Workspace::path`]) cleans the string and refuses what leaves the root.
//! The other walks the tree one component at a time with `openat(O_NOFOLLOW)` on directory handles; a symbolic link is
//! read and its components are walked like the caller's own, so links work inside the root and cannot lead out of it,
//! however often somebody swaps them meanwhile. It needs neither `openat2` nor `/proc`, so it behaves the same on an old
//! kernel, under any seccomp profile and in gVisor; a library that prefers `openat2` would have two behaviours to test,
//! and gives no handle for "the directory and the name in it", which an atomic replace needs.
//!
//! What it does not do: it guards paths, not mounts placed inside the root, and it cannot undo a directory that is moved
//! out of the root while a handle on it is held.

mod cursor;
mod dir;
mod error;
mod fingerprint;
pub(crate) mod passed;
mod path;
mod read;
mod resolve;
mod root;
mod rules;
mod syntax;
pub(crate) mod walk;
mod write;

pub use dir::{Dir, Entries, Entry, Kind, OpenError};
pub use error::{FileError, PathError};
pub use fingerprint::Fingerprint;
pub use path::RelPath;
pub use resolve::Located;
pub use root::{Repair, Root, RootError};
pub use write::Handover;

use nix::errno::Errno;
use resolve::{Parents, Place};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The directory the agent's file tools see. Open it when the directory is complete: a mount that appears on it later is
/// not seen through the handle.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: PathBuf,
    real: PathBuf,
    dir: Dir,
}

impl Workspace {
    /// Opens the root; links in `root` itself are the operator's and are followed.
    pub fn open(root: &Path) -> std::io::Result<Self> {
        let root = path_clean::clean(std::path::absolute(root)?);
        let dir = Dir::open_root(&root)?;
        let real = std::fs::canonicalize(&root)?;
        Ok(Self { root, real, dir })
    }

    /// The root as it was named.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A handle on the root.
    pub fn root_dir(&self) -> &Dir {
        &self.dir
    }

    /// Checks a path by its letters only. `a/link/..` is `a`, as for every tool that cleans paths before use; the kernel
    /// would go to the parent of the link's target.
    pub fn path(&self, raw: &str) -> Result<RelPath, PathError> {
        path::lexical(raw, &[&self.root, &self.real])
    }

    /// The directory and the name in it that `path` leads to, links followed; the name need not exist.
    pub fn locate(&self, path: &RelPath) -> Result<Located, FileError> {
        self.leaf(path, Parents::MustExist)
    }

    /// Opens a directory, links followed.
    pub fn open_dir(&self, path: &RelPath) -> Result<Dir, FileError> {
        let (dir, place) = resolve::directory(&self.dir, path)?;
        still_there(path, &place)?;
        Ok(dir)
    }

    /// The path bound to where it leads now, links followed, whether or not anything is there: what is approved for one
    /// place must not be done at another. One that leads nowhere may later lead where its letters say.
    pub fn bound(&self, path: RelPath) -> Result<RelPath, PathError> {
        let landing = match self.landing(&path) {
            Ok(place) => place,
            Err(FileError::Path(error)) => return Err(error),
            Err(_) => path.as_path().to_owned(),
        };
        Ok(path.bound(landing))
    }

    fn landing(&self, path: &RelPath) -> Result<PathBuf, FileError> {
        Ok(match resolve::leaf(&self.dir, path, Parents::MustExist)? {
            Place::Name(at) => at.path,
            Place::Directory(place) | Place::Nowhere(place) => place,
        })
    }

    /// Opens a regular file for reading, links followed. Never blocks and never opens anything else.
    pub fn open_file(&self, path: &RelPath) -> Result<File, FileError> {
        let at = self.locate(path)?;
        let refused = |error| match error {
            OpenError::NotRegular(kind) => FileError::NotRegular { path: path.to_string(), kind },
            OpenError::Os(errno) => FileError::os(path, errno),
        };
        // The type is looked at first, since opening a pipe already disturbs the process at its other end; a pipe that is
        // swapped in afterwards is opened without blocking and refused.
        match at.dir.kind(&at.name).map_err(|errno| FileError::os(path, errno))? {
            Kind::File => at.dir.open_file(&at.name).map_err(refused),
            kind => Err(refused(OpenError::NotRegular(kind))),
        }
    }

    /// What stands at `path` now. A missing file, or a missing directory on the way, is [`Fingerprint::Absent`];
    /// anything but a regular file is an error.
    pub fn fingerprint(&self, path: &RelPath) -> Result<Fingerprint, FileError> {
        match self.locate(path) {
            Ok(at) => Ok(fingerprint::of_target(&at, path)?.map_or(Fingerprint::Absent, |stat| Fingerprint::of(&stat))),
            Err(FileError::Os { errno: Errno::ENOENT, .. }) => Ok(Fingerprint::Absent),
            Err(error) => Err(error),
        }
    }

    fn leaf(&self, path: &RelPath, parents: Parents) -> Result<Located, FileError> {
        if path.names_directory() && !path.is_root() {
            return Err(FileError::TrailingSlash { path: path.to_string() });
        }
        match resolve::leaf(&self.dir, path, parents)? {
            Place::Name(at) => still_there(path, &at.path).map(|()| at),
            Place::Directory(_) => Err(FileError::NotRegular { path: path.to_string(), kind: Kind::Directory }),
            Place::Nowhere(_) => Err(FileError::os(path, Errno::ENOENT)),
        }
    }
}

fn still_there(path: &RelPath, place: &Path) -> Result<(), FileError> {
    if path.leads_to(place) { Ok(()) } else { Err(FileError::Moved { path: path.to_string() }) }
}
