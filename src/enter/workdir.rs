//! The workspace's place. It may be anywhere but where it would hide the image or the kernel's own trees.

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// Trees that belong to the image or the engine.
const SYSTEM: [&str; 14] =
    ["usr", "etc", "var", "opt", "bin", "sbin", "boot", "proc", "sys", "dev", "root", "run", "srv", "tmp"];

/// Why the workspace cannot be there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WorkdirError {
    /// A relative or dotted path.
    #[error("AX_WORKSPACE is {0:?}: it must be an absolute path without ..")]
    NotAbsolute(PathBuf),
    /// It would hide something.
    #[error(
        "AX_WORKSPACE is {0:?}, which belongs to the system: mount the workspace elsewhere, for example at /workspace"
    )]
    System(PathBuf),
    /// Below a temporary file system that hides the mount.
    #[error("AX_WORKSPACE is {0:?}, but /tmp is a file system in memory that hides it: mount the workspace elsewhere")]
    Hidden(PathBuf),
}

/// Checks the path as given and as it resolves.
pub(crate) fn check(workspace: &Path, home: Option<&Path>) -> Result<(), WorkdirError> {
    let plain = workspace.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !workspace.is_absolute() || !plain {
        return Err(WorkdirError::NotAbsolute(workspace.to_owned()));
    }
    for path in [Some(workspace.to_owned()), workspace.canonicalize().ok()].into_iter().flatten() {
        belongs_to_system(&path, home)?;
    }
    Ok(())
}

fn belongs_to_system(path: &Path, home: Option<&Path>) -> Result<(), WorkdirError> {
    let system = || WorkdirError::System(path.to_owned());
    let mut parts = path.components().skip(1);
    let Some(Component::Normal(first)) = parts.next() else { return Err(system()) };
    let first = first.to_string_lossy();
    let top = parts.next().is_none();
    if first == "tmp" && !top {
        return if is_hidden(path) { Err(WorkdirError::Hidden(path.to_owned())) } else { Ok(()) };
    }
    // An engine that makes up a user gives it the working directory as its home; only a home of the image's is hidden.
    let hides_home =
        home.filter(|home| home.starts_with("/home")).is_some_and(|home| path == home || path == home.join(".agents"));
    if SYSTEM.contains(&&*first) || first.starts_with("lib") || (first == "home" && top) || hides_home {
        return Err(system());
    }
    Ok(())
}

/// Whether `/tmp` is a tmpfs and nothing is mounted at the path: an engine puts the tmpfs over a mount below it, and
/// what is written there looks right and is lost.
fn is_hidden(path: &Path) -> bool {
    let type_of = |path: &Path| nix::sys::statfs::statfs(path).ok().map(|stat| stat.filesystem_type());
    let device = |path: &Path| path.metadata().ok().map(|metadata| metadata.dev());
    type_of(Path::new("/tmp")) == Some(nix::sys::statfs::TMPFS_MAGIC)
        && device(path).is_none_or(|own| Some(own) == device(Path::new("/tmp")))
}

/// What is wrong with using the workspace as the current user, with the remedy.
pub(crate) fn trouble(workspace: &Path) -> Option<String> {
    let metadata = match workspace.metadata() {
        Ok(metadata) if metadata.is_dir() => metadata,
        Ok(_) => return Some(format!("{} is not a directory: mount the workspace there", workspace.display())),
        Err(error) => {
            return Some(format!("{} cannot be used ({error}): mount the workspace there", workspace.display()));
        }
    };
    let all = AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK;
    let errno = access(workspace, all).err()?;
    let (owner, group, uid) = (metadata.uid(), metadata.gid(), nix::unistd::getuid());
    // Nobody is to be root only to reach a directory.
    let remedy = match owner {
        _ if errno == Errno::EROFS => "mount it writable".to_owned(),
        0 => format!("change its owner to uid {uid}"),
        _ => format!("run as --user {owner}:{group} or change its owner"),
    };
    Some(format!(
        "{} is owned by {owner}:{group} with mode {:04o} and cannot be used by uid {uid} ({}): {remedy}",
        workspace.display(),
        metadata.mode() & 0o7777,
        errno.desc()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_it_may_be() {
        let home = Some(Path::new("/home/user"));
        for path in
            ["/workspace", "/workspace/a", "/home/ann/project", "/home/user/project", "/data", "/mnt/x", "/Users/ann"]
        {
            assert_eq!(check(Path::new(path), home), Ok(()), "{path}");
        }
        for path in [
            "",
            "workspace",
            "./x",
            "/workspace/../etc",
            "/",
            "//",
            "/usr",
            "/usr/local/x",
            "/etc/x",
            "/var/x",
            "/opt/x",
            "/bin",
            "/sbin/x",
            "/lib",
            "/lib64/x",
            "/libx",
            "/boot",
            "/proc/1/root",
            "/sys",
            "/dev/shm",
            "/root/x",
            "/run/x",
            "/home",
            "/home/user",
            "/home/user/.agents",
            "/tmp",
            "/tmp/",
        ] {
            assert!(check(Path::new(path), home).is_err(), "{path} was taken");
        }
    }

    #[test]
    fn a_home_that_is_the_workspace_is_none_of_the_images() {
        assert_eq!(check(Path::new("/workspace"), Some(Path::new("/workspace"))), Ok(()));
    }

    #[test]
    fn a_link_to_a_system_path_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/etc", &link).unwrap();
        assert!(matches!(check(&link, None), Err(WorkdirError::System(_))));
    }
}
