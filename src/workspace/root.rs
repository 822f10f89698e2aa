//! The root over time. A command may delete it, move it away or close it to its own user, and would leave a session in
//! which no command can start to put that right. So before each call the root is looked at, and what can be repaired is.

use super::{Dir, Kind, Workspace};
use nix::errno::Errno;
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, fchmodat, fstat, lstat};
use nix::unistd::{AccessFlags, Uid, access, mkdir};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A workspace whose root is looked at before each use.
#[derive(Debug)]
pub struct Root(Mutex<Workspace>);

/// What had to be repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// It was gone.
    MadeAnew,
    /// It could not be entered.
    Opened,
}

/// The workspace cannot be used any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RootError {
    /// Something else stands in its place. What that is or leads to is not followed.
    #[error("the workspace {} is now {kind}; it must be a directory: tell the user that it was replaced", path.display())]
    Replaced {
        /// The workspace.
        path: PathBuf,
        /// What is there.
        kind: Kind,
    },
    /// The system said no.
    #[error("the workspace {} cannot be entered: {}; tell the user", path.display(), errno.desc().to_lowercase())]
    Os {
        /// The workspace.
        path: PathBuf,
        /// The system's answer.
        errno: Errno,
    },
}

impl Root {
    /// Watches over this workspace.
    pub fn new(workspace: Workspace) -> Self {
        Self(Mutex::new(workspace))
    }

    /// The workspace as it stands now, and what was done so that it does.
    pub fn current(&self) -> Result<(Workspace, Option<Repair>), RootError> {
        let mut workspace = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |errno| RootError::Os { path: workspace.root.clone(), errno };
        let real = &workspace.real;
        let mut repair = None;
        let dir = match Dir::open_itself(real) {
            Ok(dir) => dir,
            Err(Errno::ENOENT) => {
                mkdir(real, Mode::from_bits_truncate(0o777)).map_err(failed)?;
                repair = Some(Repair::MadeAnew);
                Dir::open_itself(real).map_err(failed)?
            }
            Err(Errno::ENOTDIR | Errno::ELOOP) => {
                let kind = lstat(real).map_or(Kind::Unknown, |stat| Kind::of(&stat));
                return Err(RootError::Replaced { path: workspace.root.clone(), kind });
            }
            Err(errno) => return Err(failed(errno)),
        };
        let now = fstat(&dir).map_err(failed)?;
        if access(real, AccessFlags::X_OK) == Err(Errno::EACCES) {
            open_again(real, &now).map_err(failed)?;
            repair = Some(Repair::Opened);
        }
        let before = fstat(&workspace.dir).map_err(failed)?;
        if (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino) {
            workspace.dir = dir;
        }
        Ok((workspace.clone(), repair))
    }
}

/// Gives the owner back the use of the directory.
fn open_again(path: &Path, stat: &FileStat) -> Result<(), Errno> {
    if stat.st_uid != Uid::effective().as_raw() {
        return Err(Errno::EACCES);
    }
    let mode = Mode::from_bits_truncate(stat.st_mode) | Mode::S_IRWXU;
    fchmodat(nix::fcntl::AT_FDCWD, path, mode, FchmodatFlags::NoFollowSymlink)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_root_that_went_is_made_anew_and_one_that_was_replaced_is_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let place = base.path().join("ws");
        std::fs::create_dir(&place).unwrap();
        let root = Root::new(Workspace::open(&place).unwrap());
        assert_eq!(root.current().unwrap().1, None);
        std::fs::remove_dir(&place).unwrap();
        assert_eq!(root.current().unwrap().1, Some(Repair::MadeAnew));
        let (workspace, repair) = root.current().unwrap();
        assert_eq!(repair, None);
        let path = workspace.path("a").unwrap();
        let found = workspace.fingerprint(&path).unwrap();
        workspace.write_atomic(&path, b"x", &found).unwrap();
        assert!(place.join("a").exists());
        // Moved away, and another directory or a link put there.
        std::fs::rename(&place, base.path().join("old")).unwrap();
        std::fs::create_dir(&place).unwrap();
        let (workspace, repair) = root.current().unwrap();
        assert_eq!((repair, workspace.root_dir().kind("a".as_ref())), (None, Err(Errno::ENOENT)));
        std::fs::remove_dir(&place).unwrap();
        for target in ["old", "/etc"] {
            symlink(target, &place).unwrap();
            let error = root.current().unwrap_err().to_string();
            assert!(error.contains("is now a symbolic link"), "{error}");
            std::fs::remove_file(&place).unwrap();
        }
    }
}
