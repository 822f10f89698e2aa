//! Whether a file that decides about the agent is out of the agent's reach. What it could rewrite now, the next start would
//! obey.
//!
//! Each step of the path is looked at, links included: who can write a directory can put another file in its place. A
//! read-only mount settles it for what is in it, so the loosely permitted directories of a Kubernetes ConfigMap pass.

use nix::sys::statvfs::{FsFlags, statvfs};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows.
const LINKS_MAX: usize = 40;
const STICKY: u32 = 0o1000;

/// Whom the payload runs as, and what is its own.
#[derive(Debug)]
pub(crate) struct Agent {
    /// Its user.
    pub uid: u32,
    /// All its groups.
    pub gids: Vec<u32>,
    /// Its workspace.
    pub workspace: Option<PathBuf>,
}

/// Why a file cannot be relied on: which, and what about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TrustError {
    /// The file itself.
    #[error(
        "{0} can be changed by the agent or others ({1}): give it to root and chmod it to go-w, or mount it read-only"
    )]
    File(String, String),
    /// A directory on the way.
    #[error(
        "{0} can be replaced by the agent, which can write in {1} ({2}): give that directory to root and chmod it to go-w, \
         mount it read-only, or put the file elsewhere"
    )]
    Directory(String, String, String),
    /// It was there a moment ago.
    #[error("{0} cannot be looked at again ({1}): nobody may change it during the start")]
    Lost(String, String),
    /// It is the agent's by its place.
    #[error("{0} is in the workspace, which is the agent's: put it elsewhere, for example in /etc/ax")]
    Workspace(String),
}

/// Checks a file that has been read. `what` names its kind.
pub(crate) fn check(what: &str, file: &Path, agent: &Agent) -> Result<(), TrustError> {
    let name = format!("the {what} {}", file.display());
    let lost = |error: std::io::Error| TrustError::Lost(name.clone(), error.to_string());
    let mut ahead = steps(&std::path::absolute(file).map_err(lost)?);
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    while let Some(step) = ahead.pop_front() {
        if step == ".." {
            at.pop();
            continue;
        }
        let next = at.join(step);
        let (directory, entry) = (at.metadata().map_err(lost)?, next.symlink_metadata().map_err(lost)?);
        if is_workspace(&next, agent) {
            return Err(TrustError::Workspace(name));
        }
        if agent.can_replace(&entry, &directory) && !is_read_only(&at) {
            return Err(TrustError::Directory(name, at.display().to_string(), held(&directory)));
        }
        if !entry.is_symlink() {
            at = next;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(lost(std::io::Error::from_raw_os_error(libc::ELOOP)));
        }
        let target = std::fs::read_link(&next).map_err(lost)?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        for step in steps(&target).into_iter().rev() {
            ahead.push_front(step);
        }
    }
    let metadata = at.metadata().map_err(lost)?;
    if agent.can_change(&metadata) && !is_read_only(&at) {
        return Err(TrustError::File(name, held(&metadata)));
    }
    Ok(())
}

impl Agent {
    fn owns(&self, metadata: &Metadata) -> bool {
        self.uid != 0 && metadata.uid() == self.uid
    }

    /// By its bits: an access list that names the agent is somebody's decision.
    fn may_write(&self, metadata: &Metadata) -> bool {
        metadata.mode() & 0o002 != 0 || (metadata.mode() & 0o020 != 0 && self.gids.contains(&metadata.gid()))
    }

    fn can_change(&self, file: &Metadata) -> bool {
        self.owns(file) || self.may_write(file)
    }

    /// In a sticky directory only an entry's owner and the directory's can.
    fn can_replace(&self, entry: &Metadata, directory: &Metadata) -> bool {
        self.owns(directory) || (self.may_write(directory) && (directory.mode() & STICKY == 0 || self.owns(entry)))
    }
}

/// A link may have been made there: the place it is reached by counts, not only where it ends.
fn is_workspace(path: &Path, agent: &Agent) -> bool {
    agent
        .workspace
        .as_ref()
        .is_some_and(|workspace| path == workspace || workspace.canonicalize().is_ok_and(|workspace| path == workspace))
}

fn is_read_only(path: &Path) -> bool {
    statvfs(path).is_ok_and(|stat| stat.flags().contains(FsFlags::ST_RDONLY))
}

fn steps(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

fn held(metadata: &Metadata) -> String {
    format!("owner {}:{}, mode {:04o}", metadata.uid(), metadata.gid(), metadata.mode() & 0o7777)
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
