//! Files of `NAME=value` lines, for what must not stand on a command line or in an image.
//!
//! Read while still privileged, so that a file only root can open works. A file others can read is refused: it would
//! have leaked already.

use super::environment::Environment;
use crate::limits;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Why a file was refused. The values are never repeated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EnvFileError {
    /// It cannot be had.
    #[error("the environment file {0} cannot be read: {1}")]
    Read(String, String),
    /// Somebody else could read or write it.
    #[error("the environment file {0} has mode {1:04o}: others can read or change it; chmod it to 0600")]
    Exposed(String, u32),
    /// A line that is no assignment.
    #[error("line {1} of the environment file {0} is not NAME=value")]
    Line(String, usize),
    /// A line that would change the policy.
    #[error("line {1} of the environment file {0} sets {2}, which an environment file must not decide: remove it")]
    Forbidden(String, usize, String),
}

/// Adds the file's variables; it wins over what is there.
pub(crate) fn load(path: &Path, environment: &mut Environment) -> Result<(), EnvFileError> {
    let name = path.display().to_string();
    let text = read(path, &name)?;
    for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line.trim_start())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once('=').ok_or_else(|| EnvFileError::Line(name.clone(), number))?;
        if !is_name(key) || value.contains('\0') {
            return Err(EnvFileError::Line(name, number));
        }
        if key.starts_with("AX_NET_") || key.starts_with("LD_") {
            return Err(EnvFileError::Forbidden(name, number, key.to_owned()));
        }
        environment.set(key, value);
    }
    Ok(())
}

fn read(path: &Path, name: &str) -> Result<String, EnvFileError> {
    let failed = |error: std::io::Error| EnvFileError::Read(name.to_owned(), error.to_string());
    let file = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(std::io::Error::other("it is not a regular file")));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(EnvFileError::Exposed(name.to_owned(), metadata.mode() & 0o7777));
    }
    let mut text = String::new();
    file.take(limits::ENV_FILE_MAX_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > limits::ENV_FILE_MAX_BYTES {
        return Err(failed(std::io::Error::other("it is too large")));
    }
    Ok(text)
}

fn is_name(key: &str) -> bool {
    !key.is_empty()
        && !key.starts_with(|first: char| first.is_ascii_digit())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn loaded(text: &str, mode: u32) -> Result<Environment, EnvFileError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("env");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut environment = Environment::default();
        load(&path, &mut environment).map(|()| environment)
    }

    #[test]
    fn values_are_taken_as_they_stand() {
        let environment = loaded("# note\n\nA=1\nB= \"x=y\" # kept\nC=\n", 0o600).unwrap();
        assert_eq!(environment.get("A").unwrap(), Some("1"));
        assert_eq!(environment.get("B").unwrap(), Some(" \"x=y\" # kept"));
        assert_eq!(environment.get("C").unwrap(), Some(""));
    }

    #[test]
    fn exposed_or_broken_files_are_refused_without_their_values() {
        for mode in [0o644, 0o640, 0o602, 0o660] {
            assert!(matches!(loaded("A=hunter2\n", mode), Err(EnvFileError::Exposed(..))), "{mode:o}");
        }
        for text in [
            "hunter2",
            "A =hunter2",
            "1A=hunter2",
            "=hunter2",
            "A-B=hunter2",
            "A=hunter2\0",
            "AX_NET_POLICY=external",
            "LD_PRELOAD=/x",
        ] {
            let error = loaded(text, 0o400).err().unwrap().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
