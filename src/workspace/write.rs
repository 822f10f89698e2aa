//! Replacing a file at once: all of the new content under the old name, or the old file as it was.
//!
//! The content goes to a new file in the target's directory, which is then renamed over the target. What follows from that:
//! - a hard link is split: the other names keep the old content, which also means that a file outside the workspace that
//!   was linked into it is never written;
//! - permission bits are kept, except set-user-id and set-group-id, which the kernel takes from a changed file too; owner
//!   and group are kept where the process may set them, and where it may not the caller is told; access control lists and
//!   extended attributes are not kept;
//! - directories made for a write that then failed stay;
//! - a process killed in the middle leaves the old file and perhaps a file named `.ax-tmp-…`.

use super::resolve::Parents;
use super::{Dir, FileError, Fingerprint, Located, RelPath, Workspace, fingerprint, still_there};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat};
use nix::unistd::{Gid, Uid, fchown};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;

impl Workspace {
    /// Writes `content` to `path`, creating missing directories, if what stands there still is `expected`. On any error
    /// the old file is untouched.
    pub fn write_atomic(
        &self,
        path: &RelPath,
        content: &[u8],
        expected: &Fingerprint,
    ) -> Result<Option<Handover>, FileError> {
        let at = match self.locate(path) {
            Err(FileError::Os { errno: Errno::ENOENT, .. }) => {
                // Before a directory is made on a way that has changed.
                still_there(path, &self.landing(path)?)?;
                self.leaf(path, Parents::Create)?
            }
            at => at?,
        };
        let old = unchanged(&at, path, expected)?;
        if old.is_some() {
            writable(&at, path)?;
        }
        below_size_limit(path, content)?;
        let temp = Temp::create(&at.dir, old.as_ref())
            .map_err(|errno| FileError::step(path, "cannot create a file in its directory: ", errno))?;
        let (filled, handover) =
            temp.fill(content, old.as_ref()).map_err(|errno| FileError::step(path, "cannot be written: ", errno))?;
        // Once more, since writing may have taken long. What changes between this look and the rename is replaced.
        unchanged(&at, path, expected)?;
        filled.put(&at.name).map_err(|errno| FileError::step(path, "cannot be replaced: ", errno))?;
        Ok(handover)
    }
}

/// A replaced file that could not keep whom it belonged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handover {
    owner: bool,
    group: bool,
    /// Permission bits before and now.
    mode: (u32, u32),
}

impl fmt::Display for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lost, now) = match (self.owner, self.group) {
            (true, true) => ("owner and group", "they are"),
            (true, false) => ("owner", "it is"),
            (false, _) => ("group", "it is"),
        };
        write!(f, "The file's {lost} could not be kept: {now} yours now")?;
        match self.mode {
            (before, now) if before != now => write!(f, "; its mode is {now:04o} and was {before:04o}."),
            _ => f.write_str("."),
        }
    }
}

fn unchanged(at: &Located, path: &RelPath, expected: &Fingerprint) -> Result<Option<FileStat>, FileError> {
    let now = fingerprint::of_target(at, path)?;
    if now.as_ref().map_or(Fingerprint::Absent, Fingerprint::of) == *expected {
        Ok(now)
    } else {
        Err(FileError::Changed { path: path.to_string() })
    }
}

/// A rename needs no permission on the file itself; a write to it would. Opening asks the kernel everything at once: mode
/// bits, access lists, read-only mounts, immutable files. (`faccessat2` is refused by older seccomp profiles.)
fn writable(at: &Located, path: &RelPath) -> Result<(), FileError> {
    match at.dir.open_for_writing(&at.name) {
        // A program that is running may be replaced, though not written to.
        Ok(_) | Err(Errno::ETXTBSY) => Ok(()),
        Err(errno) => Err(FileError::step(path, "cannot be written: ", errno)),
    }
}

/// Beyond RLIMIT_FSIZE the kernel sends a signal that ends the process, unless somebody has arranged otherwise.
fn below_size_limit(path: &RelPath, content: &[u8]) -> Result<(), FileError> {
    match getrlimit(Resource::RLIMIT_FSIZE) {
        Ok((soft, _)) if content.len() as u64 > soft => Err(FileError::step(path, "cannot be written: ", Errno::EFBIG)),
        _ => Ok(()),
    }
}

/// A file on its way to another name; removed unless it gets there.
struct Temp<'a> {
    dir: &'a Dir,
    name: OsString,
    file: Option<File>,
}

impl<'a> Temp<'a> {
    fn create(dir: &'a Dir, old: Option<&FileStat>) -> Result<Self, Errno> {
        // Never wider than the file it replaces, while it has the same content.
        let mode = old.map_or(0o666, |old| old.st_mode & 0o600);
        for _ in 0..16 {
            let name = unguessable();
            match dir.create(&name, Mode::from_bits_truncate(mode)) {
                Ok(file) => return Ok(Self { dir, name, file: Some(file) }),
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EEXIST)
    }

    fn fill(mut self, content: &[u8], old: Option<&FileStat>) -> Result<(Filled<'a>, Option<Handover>), Errno> {
        let mut handover = None;
        if let Some(mut file) = self.file.take() {
            file.write_all(content).map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))?;
            if let Some(old) = old {
                handover = like(&file, old)?;
            }
            // Network and FUSE file systems tell some failures only here.
            nix::unistd::close(file)?;
        }
        Ok((Filled(self), handover))
    }
}

/// A complete file: only this can take the target's name.
struct Filled<'a>(Temp<'a>);

impl Filled<'_> {
    fn put(mut self, name: &OsStr) -> Result<(), Errno> {
        self.0.dir.rename(&self.0.name, name)?;
        self.0.name.clear();
        Ok(())
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // Nothing better can be done about a failure; the write itself is reported.
            let _ = self.dir.remove_file(&self.name);
        }
    }
}

/// Gives `file` the owner, as far as allowed, and the permissions of the file it replaces.
fn like(file: &File, old: &FileStat) -> Result<Option<Handover>, Errno> {
    let new = fstat(file)?;
    let before = old.st_mode & 0o1777;
    // Not allowed to most; then the writer owns what it wrote.
    let owner = new.st_uid != old.st_uid && fchown(file, Some(Uid::from_raw(old.st_uid)), None).is_err();
    let group = new.st_gid != old.st_gid && fchown(file, None, Some(Gid::from_raw(old.st_gid))).is_err();
    // Another group must not get what was meant for the first one: it gets what everybody has.
    let now = if group { before & !0o070 | ((before & 0o007) << 3) } else { before };
    fchmod(file, Mode::from_bits_truncate(now))?;
    Ok((owner || group).then_some(Handover { owner, group, mode: (before, now) }))
}

/// A name nobody can plant beforehand: the standard library's hash keys come from the system's random numbers. Creation is
/// exclusive in any case, so a lucky guess only costs a second attempt.
fn unguessable() -> OsString {
    format!(".ax-tmp-{:016x}", RandomState::new().build_hasher().finish()).into()
}
