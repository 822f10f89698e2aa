//! The agent's home directory: copies what the operator put into the seed, and keeps what the agent has changed.
//!
//! Runs after privilege is gone, so that a link the agent planted leads only where it could write anyway. Per file, a
//! copy of what was last written tells an agent's edit from a change of the operator's: untouched files follow the seed,
//! edited ones stay and are named, deleted ones come back.

use crate::limits;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Where the copies are, below the home directory.
const STATE: &str = ".local/state/ax-runner/seed";

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
    let mut report = Seeded::default();
    for file in files(seed)? {
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
        Ok(metadata) if !metadata.is_file() => Outcome::Kept,
        Ok(_) => {
            let found = read(target)?;
            if found == wanted {
                Outcome::Same
            } else if read(record).is_ok_and(|written| written == found) {
                Outcome::Written
            } else {
                Outcome::Kept
            }
        }
    };
    if let Outcome::Written = outcome {
        write(target, &wanted, mode)?;
    }
    if !matches!(outcome, Outcome::Kept) && !read(record).is_ok_and(|written| written == wanted) {
        write(record, &wanted, 0o600)?;
    }
    Ok(outcome)
}

/// Regular files below the seed, links to files included: a mounted ConfigMap consists of them. Its `..data` entries are
/// not files of the operator's.
fn files(seed: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(seed.join(&directory))? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(b"..") {
                continue;
            }
            let path = directory.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                open.push(path);
            } else if seed.join(&path).is_file() {
                found.push(path);
            }
            if found.len() + open.len() > limits::SEED_FILES_MAX {
                return Err(io::Error::other(format!("it holds more than {} files", limits::SEED_FILES_MAX)));
            }
        }
    }
    found.sort();
    Ok(found)
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

/// Whole or not at all.
fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let parent = path.parent().ok_or_else(|| io::Error::other("it has no directory"))?;
    std::fs::create_dir_all(parent)?;
    let temporary = parent.join(format!(".ax-seed-{}", std::process::id()));
    // A leftover of a run that was killed; create_new below refuses whatever still stands there.
    let _ = std::fs::remove_file(&temporary);
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Place {
        _dir: tempfile::TempDir,
        seed: PathBuf,
        home: PathBuf,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let (seed, home) = (dir.path().join("seed"), dir.path().join("home"));
        fs::create_dir_all(seed.join("deep/er")).unwrap();
        fs::create_dir(&home).unwrap();
        fs::write(seed.join("a"), "1").unwrap();
        fs::write(seed.join("deep/er/b"), "1").unwrap();
        Place { _dir: dir, seed, home }
    }

    fn run(place: &Place) -> Seeded {
        super::seed(&place.seed, &place.home).unwrap()
    }

    #[test]
    fn untouched_files_follow_edited_ones_stay_deleted_ones_return() {
        let place = place();
        assert_eq!(run(&place).written, 2);
        assert_eq!(run(&place), Seeded::default());
        fs::write(place.home.join("a"), "mine").unwrap();
        fs::write(place.seed.join("a"), "2").unwrap();
        fs::write(place.seed.join("deep/er/b"), "2").unwrap();
        let second = run(&place);
        assert_eq!((second.written, second.kept), (1, vec![PathBuf::from("a")]));
        assert_eq!(fs::read_to_string(place.home.join("a")).unwrap(), "mine");
        assert_eq!(fs::read_to_string(place.home.join("deep/er/b")).unwrap(), "2");
        fs::remove_file(place.home.join("a")).unwrap();
        assert_eq!(run(&place).written, 1);
        assert_eq!(fs::read_to_string(place.home.join("a")).unwrap(), "2");
    }

    #[test]
    fn a_file_that_was_there_before_is_an_edit() {
        let place = place();
        fs::write(place.home.join("a"), "older").unwrap();
        assert_eq!(run(&place).kept, [PathBuf::from("a")]);
    }

    #[test]
    fn planted_links_pipes_and_directories_are_kept_and_not_followed() {
        let place = place();
        let outside = place.home.with_file_name("outside");
        fs::write(&outside, "canary").unwrap();
        std::os::unix::fs::symlink(&outside, place.home.join("a")).unwrap();
        fs::create_dir_all(place.home.join("deep/er")).unwrap();
        nix::unistd::mkfifo(&place.home.join("deep/er/b"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(run(&place).kept.len(), 2);
        assert_eq!(fs::read_to_string(&outside).unwrap(), "canary");
    }

    #[test]
    fn modes_are_the_owners_only_and_a_config_map_is_read() {
        let place = place();
        fs::create_dir(place.seed.join("..2024")).unwrap();
        fs::write(place.seed.join("..2024/c"), "map").unwrap();
        std::os::unix::fs::symlink("..2024", place.seed.join("..data")).unwrap();
        std::os::unix::fs::symlink("..data/c", place.seed.join("c")).unwrap();
        fs::set_permissions(place.seed.join("a"), fs::Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(run(&place).written, 3);
        let mode = |name: &str| fs::metadata(place.home.join(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("a"), mode("c")), (0o700, 0o600));
        assert!(!place.home.join("..data").exists());
    }

    #[test]
    fn one_bad_file_does_not_stop_the_others() {
        let place = place();
        fs::write(place.home.join("deep"), "a file where a directory is needed").unwrap();
        let report = run(&place);
        assert_eq!((report.written, report.failed.len()), (1, 1));
    }
}
