//! The agent's home directory: copies what the operator put into the seed, and keeps what the agent has changed.
//!
//! Runs after privilege is gone, so that a link the agent planted leads only where it could write anyway. Per file, a
//! copy of what was last written, with its mode, tells an agent's edit from a change of the operator's: untouched files
//! follow the seed, edited ones stay and are named, deleted ones come back.

use crate::limits;
use std::fs::Metadata;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Where the copies are, below the home directory.
const STATE: &str = ".local/state/ax-runner/seed";
/// The bit of a mode that is carried over.
const EXECUTABLE: u32 = 0o100;

/// What was done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seeded {
    /// Files written.
    pub written: usize,
    /// Files the agent has changed, left alone.
    pub kept: Vec<PathBuf>,
    /// Files that could not be read or written, with the reason.
    pub failed: Vec<(PathBuf, String)>,
}

/// Copies `seed` into `home`.
pub(crate) fn seed(seed: &Path, home: &Path) -> io::Result<Seeded> {
    let mut walk = Walk { seed, found: Vec::new(), failed: Vec::new() };
    walk.enter(Path::new(""), &mut Vec::new())?;
    walk.found.sort();
    let mut report = Seeded { failed: walk.failed, ..Seeded::default() };
    for file in walk.found {
        match one(&seed.join(&file), &home.join(&file), &home.join(STATE).join(&file)) {
            Ok(Outcome::Written) => report.written += 1,
            Ok(Outcome::Kept) => report.kept.push(file),
            Ok(Outcome::Same) => {}
            Err(error) => report.failed.push((file, error.to_string())),
        }
    }
    Ok(report)
}

enum Outcome {
    Written,
    Same,
    Kept,
}

fn one(source: &Path, target: &Path, record: &Path) -> io::Result<Outcome> {
    let mode = if source.metadata()?.permissions().mode() & 0o111 == 0 { 0o600 } else { 0o700 };
    let wanted = read(source)?;
    let outcome = match target.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Outcome::Written,
        Err(error) => return Err(error),
        Ok(metadata) => compare(&metadata, target, record, &wanted, mode)?,
    };
    if let Outcome::Written = outcome {
        write(target, &wanted, mode)?;
    }
    if !matches!(outcome, Outcome::Kept) && !is_as_written(record, &wanted, mode) {
        write(record, &wanted, mode)?;
    }
    Ok(outcome)
}

/// What is to be done about something that stands at the target's place.
fn compare(metadata: &Metadata, target: &Path, record: &Path, wanted: &[u8], mode: u32) -> io::Result<Outcome> {
    // Larger than anything we write, or no file at all: the agent's.
    if !metadata.is_file() || metadata.len() > limits::SEED_FILE_MAX_BYTES {
        return Ok(Outcome::Kept);
    }
    let found = match read(target) {
        // Our own file can be unreadable to us only if the agent made it so.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Outcome::Kept),
        // Taken away between two looks, by another container with this home.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Outcome::Written),
        other => other?,
    };
    if found == wanted && same_mode(metadata.mode(), mode) {
        Ok(Outcome::Same)
    } else if is_as_written(record, &found, metadata.mode()) {
        Ok(Outcome::Written)
    } else {
        Ok(Outcome::Kept)
    }
}

/// Whether the record says that we wrote these bytes with this mode.
fn is_as_written(record: &Path, bytes: &[u8], mode: u32) -> bool {
    record.metadata().is_ok_and(|metadata| same_mode(metadata.mode(), mode))
        && read(record).is_ok_and(|written| written == bytes)
}

fn same_mode(one: u32, other: u32) -> bool {
    (one ^ other) & EXECUTABLE == 0
}

/// Looks for the seed's files. Links are followed, to directories too: a mounted ConfigMap consists of them.
struct Walk<'a> {
    seed: &'a Path,
    found: Vec<PathBuf>,
    failed: Vec<(PathBuf, String)>,
}

impl Walk<'_> {
    /// Takes one directory; `above` are those it is in, so that a link to one of them ends there. Only the seed itself
    /// must be readable: another directory that is not costs its own files.
    fn enter(&mut self, directory: &Path, above: &mut Vec<(u64, u64)>) -> io::Result<()> {
        let place = self.seed.join(directory);
        let identity = place.metadata().map(|metadata| (metadata.dev(), metadata.ino()))?;
        if above.contains(&identity) {
            self.failed.push((directory.to_owned(), "it is a link to a directory it is in".to_owned()));
            return Ok(());
        }
        above.push(identity);
        for entry in std::fs::read_dir(&place)? {
            let name = entry?.file_name();
            // A ConfigMap's `..data` and what it points to are not files of the operator's.
            if !name.as_encoded_bytes().starts_with(b"..") {
                self.take(directory.join(name), above)?;
            }
        }
        above.pop();
        Ok(())
    }

    fn take(&mut self, path: PathBuf, above: &mut Vec<(u64, u64)>) -> io::Result<()> {
        let depth = above.len();
        let trouble = match self.seed.join(&path).metadata() {
            Ok(metadata) if metadata.is_dir() => self.enter(&path, above).err(),
            Ok(metadata) if metadata.is_file() => {
                self.found.push(path.clone());
                None
            }
            Ok(_) => Some(io::Error::other("it is neither a file nor a directory")),
            Err(error) => Some(error),
        };
        above.truncate(depth);
        if let Some(error) = trouble {
            self.failed.push((path, error.to_string()));
        }
        if self.found.len() + self.failed.len() > limits::SEED_FILES_MAX {
            return Err(io::Error::other(format!("it holds more than {} files", limits::SEED_FILES_MAX)));
        }
        Ok(())
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let mut bytes = Vec::new();
    file.take(limits::SEED_FILE_MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limits::SEED_FILE_MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {} bytes", limits::SEED_FILE_MAX_BYTES)));
    }
    Ok(bytes)
}

/// Whole or not at all. The name is made up anew: two containers that share a home have the same process id, and an agent
/// could stand in the way of one it knows.
fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let parent = path.parent().ok_or_else(|| io::Error::other("it has no directory"))?;
    std::fs::create_dir_all(parent)?;
    let mut temporary = tempfile::Builder::new()
        .prefix(".ax-seed-")
        .permissions(std::fs::Permissions::from_mode(mode))
        .tempfile_in(parent)?;
    temporary.write_all(bytes)?;
    temporary.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
#[path = "home_tests.rs"]
mod tests;
