//! Why a path or a file operation was refused. The model reads these: they name the path as it was written and say what
//! to do.

use super::{Kind, RelPath};
use nix::errno::Errno;

/// A path that is not, or does not stay, inside the workspace. Refused before the host is asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Nothing was named.
    #[error("the path is empty; use \".\" for the workspace itself")]
    Empty,
    /// Holds a NUL character.
    #[error("the path holds a NUL character; remove it")]
    Nul,
    /// One name is longer than a file system takes.
    #[error("{path}: one of its names has {bytes} bytes; the limit is {max}: choose a shorter name")]
    NameTooLong {
        /// As the caller wrote it.
        path: String,
        /// Length of the name.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Shown so, but not called so.
    #[error(
        "{path}: U+FFFD (\u{fffd}) stands for bytes of the name that are not UTF-8, and this tool takes no such name; use bash: ls -b shows them as $'…' takes them"
    )]
    NotUtf8 {
        /// As the caller wrote it.
        path: String,
    },
    /// Leaves the root by its letters.
    #[error("{path}: the path leads out of the workspace; use a path inside {root}, relative to it")]
    Outside {
        /// As the caller wrote it.
        path: String,
        /// The workspace's root.
        root: String,
    },
    /// A symbolic link leaves the root.
    #[error("{path}: the symbolic link {link} leads out of the workspace; use a path inside it")]
    LinkOutside {
        /// As the caller wrote it.
        path: String,
        /// The link, relative to the root.
        link: String,
    },
    /// A symbolic link has an absolute target; refused wherever it points, since what an absolute name means is not the
    /// workspace's to say.
    #[error(
        "{path}: the symbolic link {link} has an absolute target, which is not followed; make it a relative link, or use the path it stands for"
    )]
    AbsoluteLink {
        /// As the caller wrote it.
        path: String,
        /// The link, relative to the root.
        link: String,
    },
    /// A loop of links, most likely.
    #[error("{path}: more than {max} symbolic links on the way; is it a loop?")]
    TooManyLinks {
        /// As the caller wrote it.
        path: String,
        /// The limit.
        max: usize,
    },
    /// Links that go up and down without end.
    #[error("{path}: the path takes more than {max} steps; use a shorter one")]
    TooLong {
        /// As the caller wrote it.
        path: String,
        /// The limit.
        max: usize,
    },
}

/// Why a file could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The path is refused.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Not a regular file.
    #[error("{path}: is {kind}, not a regular file{}", kind.advice())]
    NotRegular {
        /// As the caller wrote it.
        path: String,
        /// What it is.
        kind: Kind,
    },
    /// A directory's spelling where a file is wanted.
    #[error("{path}: the path ends with a slash (or /.) and so names a directory; remove the slash to name a file")]
    TrailingSlash {
        /// As the caller wrote it.
        path: String,
    },
    /// Not what it was when it was last looked at.
    #[error("{path}: the file changed meanwhile; nothing was written: read it again and repeat the call")]
    Changed {
        /// As the caller wrote it.
        path: String,
    },
    /// A link or a directory on its way was exchanged.
    #[error(
        "{path}: it leads to another place than when the call was approved; nothing was done: look at it and repeat the call"
    )]
    Moved {
        /// As the caller wrote it.
        path: String,
    },
    /// Larger than is read as a whole.
    #[error("{path}: the file has more than {max} bytes; use bash for it")]
    TooLarge {
        /// As the caller wrote it.
        path: String,
        /// The limit.
        max: u64,
    },
    /// The system said no.
    #[error("{path}: {step}{}", reason(*errno))]
    Os {
        /// As the caller wrote it.
        path: String,
        /// What was being done, ending with `: `; empty when the path itself is the matter.
        step: &'static str,
        /// The system's answer.
        errno: Errno,
    },
}

impl FileError {
    pub(super) fn os(path: &RelPath, errno: Errno) -> Self {
        Self::step(path, "", errno)
    }

    pub(super) fn step(path: &RelPath, step: &'static str, errno: Errno) -> Self {
        Self::Os { path: path.to_string(), step, errno }
    }
}

fn reason(errno: Errno) -> String {
    match errno {
        Errno::ENOENT => "no such file or directory".to_owned(),
        Errno::ENOTDIR => "a part of the path is not a directory".to_owned(),
        Errno::ENOSPC => "no space left on device; free some space and try again".to_owned(),
        Errno::EDQUOT => "disk quota exceeded; free some space and try again".to_owned(),
        Errno::EFBIG => "file too large: the limit on the size of a file is reached".to_owned(),
        Errno::EACCES => "permission denied; look at its mode with ls -l and change it with chmod".to_owned(),
        Errno::EBUSY => {
            "it is a mount point, or the system uses it; with bash it may be written to in place".to_owned()
        }
        Errno::EROFS => "read-only file system; use another place".to_owned(),
        Errno::ELOOP => "became a symbolic link while it was being opened; try again".to_owned(),
        other => other.desc().to_lowercase(),
    }
}
