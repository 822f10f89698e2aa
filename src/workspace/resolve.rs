//! The walk: from the root to a name, one component at a time.
//!
//! Only the current directory's handle is held, with the names that led to it. `..`, which after the lexical layer comes
//! only from links, drops a name and walks again from the root: a path of thousands of components costs no descriptors,
//! and no step ever goes up in the kernel.

use super::{Dir, FileError, PathError, RelPath};
use crate::limits;
use nix::errno::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// A name and the directory it is in. The name is not a link, unless it became one since.
#[derive(Debug, Clone)]
pub struct Located {
    /// The directory.
    pub dir: Dir,
    /// One component.
    pub name: OsString,
    /// The way there without links, relative to the root.
    pub path: PathBuf,
    /// The links that stood where a file would, in the same way.
    pub links: Vec<PathBuf>,
}

/// What to do about missing directories on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parents {
    MustExist,
    Create,
}

/// Where a path led.
pub(super) enum Place {
    Name(Located),
    /// The root, or a link to `..` or the like.
    Directory(PathBuf),
    /// A directory on the way is not there.
    Nowhere(PathBuf),
}

/// Follows links in every component, the last included.
pub(super) fn leaf(root: &Dir, path: &RelPath, parents: Parents) -> Result<Place, FileError> {
    let mut walk = Walk::new(root, path, parents);
    let mut links = Vec::new();
    while let Some(name) = walk.todo.pop() {
        if name == ".." {
            walk.up()?;
        } else if walk.todo.is_empty() {
            let here = walk.place().join(&name);
            let dir = match walk.here() {
                Err(FileError::Os { errno: Errno::ENOENT, .. }) if walk.missing => return Ok(Place::Nowhere(here)),
                dir => dir?,
            };
            match dir.read_link(&name) {
                Ok(target) => {
                    walk.splice(&name, &target)?;
                    links.push(here);
                }
                Err(errno @ (Errno::EINVAL | Errno::ENOENT)) => {
                    walk.complete()?;
                    if errno == Errno::ENOENT {
                        walk.truly_absent(&dir, &name)?;
                    }
                    return Ok(Place::Name(Located { dir, name, path: here, links }));
                }
                Err(errno) => return Err(FileError::os(path, errno)),
            }
        } else {
            walk.down(name)?;
        }
    }
    Ok(Place::Directory(walk.place()))
}

/// The same, for a path that must be a directory; with where that is.
pub(super) fn directory(root: &Dir, path: &RelPath) -> Result<(Dir, PathBuf), FileError> {
    let mut walk = Walk::new(root, path, Parents::MustExist);
    while let Some(name) = walk.todo.pop() {
        if name == ".." { walk.up()? } else { walk.down(name)? }
    }
    walk.complete()?;
    Ok((walk.here()?, walk.place()))
}

struct Walk<'a> {
    root: &'a Dir,
    path: &'a RelPath,
    parents: Parents,
    /// What is still to be walked, next one last.
    todo: Vec<OsString>,
    /// The directories gone through, links resolved.
    names: Vec<OsString>,
    /// The directory `names` leads to; `None` after `..`.
    dir: Option<Dir>,
    /// The last link followed: the one to name when a `..` has nowhere to go.
    link: String,
    links: usize,
    steps: usize,
    /// A directory on the way is not there. The walk goes on, since a path that leads out is to be told before one that
    /// leads nowhere, and before the directories on its way are made.
    missing: bool,
}

impl<'a> Walk<'a> {
    fn new(root: &'a Dir, path: &'a RelPath, parents: Parents) -> Self {
        let todo = path.names().rev().map(OsStr::to_owned).collect();
        Self {
            root,
            path,
            parents,
            todo,
            names: Vec::new(),
            dir: Some(root.clone()),
            link: String::new(),
            links: 0,
            steps: 0,
            missing: false,
        }
    }

    fn here(&mut self) -> Result<Dir, FileError> {
        if let Some(dir) = &self.dir {
            return Ok(dir.clone());
        }
        let mut dir = self.root.clone();
        for at in 0..self.names.len() {
            self.step()?;
            dir = dir.open_dir(&self.names[at]).map_err(|errno| FileError::os(self.path, errno))?;
        }
        self.dir = Some(dir.clone());
        Ok(dir)
    }

    fn up(&mut self) -> Result<(), FileError> {
        if self.names.pop().is_none() {
            return Err(PathError::LinkOutside { path: self.path.to_string(), link: self.link.clone() }.into());
        }
        self.dir = None;
        Ok(())
    }

    fn down(&mut self, name: OsString) -> Result<(), FileError> {
        self.step()?;
        let dir = match self.here() {
            Err(FileError::Os { errno: Errno::ENOENT, .. }) if self.missing => {
                self.names.push(name);
                return Ok(());
            }
            here => here?,
        };
        match dir.open_dir(&name) {
            Ok(next) => {
                self.dir = Some(next);
                self.names.push(name);
                Ok(())
            }
            Err(Errno::ENOENT) => {
                self.truly_absent(&dir, &name)?;
                if self.parents == Parents::MustExist {
                    (self.dir, self.missing) = (None, true);
                    self.names.push(name);
                    return Ok(());
                }
                match dir.make_dir(&name) {
                    // Walked again rather than trusted: by now it may be something else.
                    Ok(()) | Err(Errno::EEXIST) => {
                        self.todo.push(name);
                        Ok(())
                    }
                    Err(errno) => Err(FileError::step(self.path, "cannot create its directory: ", errno)),
                }
            }
            Err(errno @ (Errno::ENOTDIR | Errno::ELOOP)) => match dir.read_link(&name) {
                Ok(target) => self.splice(&name, &target),
                Err(_) => Err(FileError::os(self.path, errno)),
            },
            Err(errno) => Err(FileError::os(self.path, errno)),
        }
    }

    /// A name that is not UTF-8 is shown with U+FFFD. Taken as it stands it would be a file that is not there, or a second one
    /// that looks the same.
    fn truly_absent(&self, dir: &Dir, name: &OsStr) -> Result<(), FileError> {
        let shown = name.to_string_lossy();
        let looks_so = || dir.entries().ok()?.flatten().find(|entry| entry.name.to_string_lossy() == shown);
        match shown.contains('\u{fffd}') && looks_so().is_some() {
            true => Err(PathError::NotUtf8 { path: self.path.to_string() }.into()),
            false => Ok(()),
        }
    }

    /// Puts a link's target in the place of the link.
    fn splice(&mut self, name: &OsStr, target: &OsStr) -> Result<(), FileError> {
        self.links += 1;
        if self.links > limits::LINKS_FOLLOWED_MAX {
            return Err(PathError::TooManyLinks { path: self.path.to_string(), max: limits::LINKS_FOLLOWED_MAX }.into());
        }
        let target = target.as_bytes();
        if target.first() == Some(&b'/') {
            return Err(PathError::AbsoluteLink { path: self.path.to_string(), link: self.shown(name) }.into());
        }
        let parts = target.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
        self.link = self.shown(name);
        self.todo.extend(parts.rev().map(|part| OsString::from_vec(part.to_vec())));
        Ok(())
    }

    /// The directories gone through.
    fn place(&self) -> PathBuf {
        self.names.iter().collect()
    }

    fn complete(&self) -> Result<(), FileError> {
        if self.missing { Err(FileError::os(self.path, Errno::ENOENT)) } else { Ok(()) }
    }

    fn step(&mut self) -> Result<(), FileError> {
        self.steps += 1;
        if self.steps > limits::PATH_STEPS_MAX {
            return Err(PathError::TooLong { path: self.path.to_string(), max: limits::PATH_STEPS_MAX }.into());
        }
        Ok(())
    }

    fn shown(&self, name: &OsStr) -> String {
        self.place().join(name).display().to_string()
    }
}
