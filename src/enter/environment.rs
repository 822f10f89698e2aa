//! The environment as a value: read once, changed on the way, handed to the command.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Directories every command needs, in the order of a Debian login shell. A host passes its own `PATH`, which on a Mac or
/// on NixOS names none of them.
const SYSTEM_PATH: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The variables of one process.
#[derive(Clone, Default)]
pub(crate) struct Environment(BTreeMap<OsString, OsString>);

/// A variable that is there and cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0} is set to something that is not text: correct or unset it")]
pub(crate) struct NotText(&'static str);

impl Environment {
    /// This process's variables.
    pub(crate) fn current() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// A value. Unset and not-text are different things: a policy that cannot be read must not become the default one.
    pub(crate) fn get(&self, name: &'static str) -> Result<Option<&str>, NotText> {
        match self.0.get(OsStr::new(name)) {
            None => Ok(None),
            Some(value) => value.to_str().map(Some).ok_or(NotText(name)),
        }
    }

    /// A path.
    pub(crate) fn path(&self, name: &str) -> Option<&std::path::Path> {
        self.0.get(OsStr::new(name)).filter(|value| !value.is_empty()).map(std::path::Path::new)
    }

    /// Sets a variable.
    pub(crate) fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.0.insert(name.into(), value.into());
    }

    /// Removes a variable.
    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(OsStr::new(name));
    }

    /// Appends the system directories that `PATH` lacks.
    pub(crate) fn complete_path(&mut self) {
        let given = self.0.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        let mut path: Vec<_> = std::env::split_paths(&given).filter(|dir| dir.is_absolute()).collect();
        for dir in SYSTEM_PATH.map(std::path::PathBuf::from) {
            if !path.contains(&dir) {
                path.push(dir);
            }
        }
        if let Ok(joined) = std::env::join_paths(path) {
            self.set("PATH", joined);
        }
    }

    /// All variables.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.0.iter()
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_keeps_its_order_and_gains_what_is_missing() {
        let mut environment: Environment =
            [("PATH", "/workspace/bin:/opt/homebrew/bin::.:/usr/bin")].into_iter().collect();
        environment.complete_path();
        assert_eq!(
            environment.get("PATH").unwrap(),
            Some("/workspace/bin:/opt/homebrew/bin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin")
        );
        let mut empty = Environment::default();
        empty.complete_path();
        assert_eq!(empty.get("PATH").unwrap(), Some("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
    }
}
