//! What stood under a path at a moment, so that a change since can be seen.

use super::{FileError, Kind, Located, RelPath};
use nix::errno::Errno;
use nix::sys::stat::FileStat;

/// Two equal fingerprints are, as far as the file system tells, the same content of the same file. Two changes within one
/// tick of the file system's clock that leave the size alone cannot be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fingerprint {
    /// No file.
    Absent,
    /// A regular file.
    Present {
        /// Device and inode.
        file: (u64, u64),
        /// Bytes.
        size: i64,
        /// Seconds and nanoseconds of the last change to the content.
        modified: (i64, i64),
        /// The same for any change, permissions included.
        changed: (i64, i64),
    },
}

impl Fingerprint {
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "the widths differ between architectures")]
    pub(super) fn of(stat: &FileStat) -> Self {
        Self::Present {
            file: (stat.st_dev as u64, stat.st_ino as u64),
            size: stat.st_size as i64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }
}

/// The file at a located name; anything but a regular file is refused.
pub(super) fn of_target(at: &Located, path: &RelPath) -> Result<Option<FileStat>, FileError> {
    match at.dir.stat(&at.name) {
        Ok(stat) => match Kind::of(&stat) {
            Kind::File => Ok(Some(stat)),
            kind => Err(FileError::NotRegular { path: path.to_string(), kind }),
        },
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(FileError::os(path, errno)),
    }
}
