//! Reading a whole file, bounded whatever its size claims to be.

use super::{FileError, Fingerprint, RelPath, Workspace};
use nix::errno::Errno;
use nix::sys::stat::fstat;
use std::io::Read;

impl Workspace {
    /// The whole content of a regular file of at most `max` bytes, and the fingerprint it was read under.
    pub fn read(&self, path: &RelPath, max: u64) -> Result<(Vec<u8>, Fingerprint), FileError> {
        let mut file = self.open_file(path)?;
        let os = |errno| FileError::step(path, "cannot be read: ", errno);
        let before = fstat(&file).map_err(os)?;
        // The size is a hint: files under /proc say 0, and another process may be appending.
        let hint = u64::try_from(before.st_size).unwrap_or(0).min(max);
        let mut content = Vec::with_capacity(usize::try_from(hint).unwrap_or(0) + 1);
        (&mut file)
            .take(max + 1)
            .read_to_end(&mut content)
            .map_err(|error| os(error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)))?;
        if content.len() as u64 > max {
            return Err(FileError::TooLarge { path: path.to_string(), max });
        }
        let print = Fingerprint::of(&before);
        if Fingerprint::of(&fstat(&file).map_err(os)?) != print {
            return Err(FileError::Changed { path: path.to_string() });
        }
        Ok((content, print))
    }
}
