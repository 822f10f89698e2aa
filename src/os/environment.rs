//! The environment of a child: built from nothing, never by taking away.
//!
//! A list of what to remove misses the next secret; a list of what to keep cannot. Kept from the runner's own
//! environment are the names in [`KEPT`], those of the locale, and those the image names in `AX_PASS_ENV`. Names
//! of our own and names that make a shell or the dynamic loader run other code are not passed even then, and no
//! credential the host sends can take their place.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Names passed on if the runner has them.
const KEPT: [&str; 8] = ["LANG", "LOGNAME", "TERM", "TMPDIR", "TZ", "USER", "XDG_CACHE_HOME", "npm_config_cache"];

/// The same, after `LC_`. Not whatever begins so: a key of a program whose name has these initials does too.
const LOCALE: [&str; 13] = [
    "ADDRESS",
    "ALL",
    "COLLATE",
    "CTYPE",
    "IDENTIFICATION",
    "MEASUREMENT",
    "MESSAGES",
    "MONETARY",
    "NAME",
    "NUMERIC",
    "PAPER",
    "TELEPHONE",
    "TIME",
];

/// What we set, and nobody else may.
const OURS: [&str; 10] =
    ["GIT_EDITOR", "GIT_PAGER", "GIT_TERMINAL_PROMPT", "HOME", "OLDPWD", "PAGER", "PATH", "PWD", "SHELL", "SHLVL"];

/// Names that make a shell, the loader or the C library run or read something else.
const LOADED: [&str; 12] = [
    "ENV",
    "SHELLOPTS",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS4",
    "IFS",
    "CDPATH",
    "GLOBIGNORE",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "LOCPATH",
];

/// The same by their beginning; `BASH` covers `BASH_ENV`, `BASHOPTS` and exported functions (`BASH_FUNC_…`).
const LOADED_PREFIXES: [&str; 4] = ["LD_", "DYLD_", "BASH", "_RLD"];

/// Where programs are when the runner itself was started without a PATH.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A name that is not for the host or the image to set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the variable {0:?} cannot be set for commands; use another name")]
pub struct RefusedName(pub String);

/// The variables of a child. Shows names only: values may be secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct ChildEnv {
    variables: BTreeMap<OsString, OsString>,
}

impl ChildEnv {
    /// The variables every command gets. `parent` is the runner's own environment.
    pub fn new(workspace: &Path, parent: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let parent: BTreeMap<OsString, OsString> = parent.into_iter().collect();
        let named = parent.get(OsStr::new("AX_PASS_ENV")).map(|list| list.as_bytes().to_vec()).unwrap_or_default();
        let named: Vec<&[u8]> = named.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
        let mut env = Self { variables: BTreeMap::new() };
        env.set("TERM", "dumb");
        for (name, value) in &parent {
            let bytes = name.as_bytes();
            let locale = bytes.strip_prefix(b"LC_").is_some_and(|name| is_one(&LOCALE, name));
            let wanted = is_one(&KEPT, bytes) || locale || named.contains(&bytes);
            if wanted && is_free(bytes) && !value.as_bytes().contains(&0) {
                env.variables.insert(name.clone(), without_login(bytes, value));
            }
        }
        env.set("PATH", search_path(workspace, parent.get(OsStr::new("PATH"))));
        for name in ["HOME", "PWD", "AX_WORKSPACE"] {
            env.set(name, workspace);
        }
        env.set("SHELL", "/bin/bash");
        // A pager would wait for keys that never come, a prompt for an answer.
        env.set("PAGER", "cat");
        env.set("GIT_PAGER", "cat");
        // An editor would too. This one takes what git proposes, or leaves an empty message, which git refuses at once.
        env.set("GIT_EDITOR", "true");
        env.set("GIT_TERMINAL_PROMPT", "0");
        env
    }

    /// Adds one variable of the turn; a later one replaces an earlier one.
    pub fn with(&mut self, name: &str, value: &str) -> Result<(), RefusedName> {
        if !is_free(name.as_bytes()) || value.contains('\0') {
            return Err(RefusedName(name.to_owned()));
        }
        self.set(name, value);
        Ok(())
    }

    /// Adds several; returns the names that were refused.
    pub fn extend<'a>(&mut self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
        pairs.into_iter().filter_map(|(name, value)| self.with(name, value).err()).map(|refused| refused.0).collect()
    }

    /// The variables, sorted by name: for children that are not commands (git).
    pub fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// The bytes each variable takes in it, name and value.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (&OsStr, usize)> {
        self.variables().map(|(name, value)| (name, name.len() + "=".len() + value.len()))
    }

    /// The block for `execve`.
    #[cfg(target_os = "linux")]
    pub(super) fn block(&self) -> Vec<CString> {
        let line =
            |(name, value): (&OsStr, &OsStr)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok();
        // Nothing with a NUL gets in, so nothing is lost here.
        self.variables().filter_map(line).collect()
    }

    fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.variables.insert(name.into(), value.as_ref().to_owned());
    }
}

impl fmt::Debug for ChildEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

/// Whether a name may be set by the image or the host.
fn is_free(name: &[u8]) -> bool {
    let begins = |list: &[&str]| list.iter().any(|prefix| name.starts_with(prefix.as_bytes()));
    !name.is_empty()
        && !name.iter().any(|byte| matches!(byte, 0 | b'='))
        && !name.starts_with(b"AX_")
        && !is_one(&OURS, name)
        && !is_one(&LOADED, name)
        && !begins(&LOADED_PREFIXES)
}

fn is_one(list: &[&str], name: &[u8]) -> bool {
    list.iter().any(|one| one.as_bytes() == name)
}

/// The workspace's `bin` first, once; then the runner's own path.
fn search_path(workspace: &Path, own: Option<&OsString>) -> OsString {
    let bin = workspace.join("bin");
    let own = own.map_or(PATH_DEFAULT.as_bytes(), |own| own.as_bytes());
    let rest =
        own.split(|byte| *byte == b':').filter(|entry| !entry.is_empty() && *entry != bin.as_os_str().as_bytes());
    let all: Vec<&[u8]> = std::iter::once(bin.as_os_str().as_bytes()).chain(rest).collect();
    OsString::from_vec(all.join(&b':'))
}

/// A proxy's address without user and password: passing on the address must not pass on the login.
fn without_login(name: &[u8], value: &OsStr) -> OsString {
    let bytes = value.as_bytes();
    let Some(start) = bytes.windows(3).position(|part| part == b"://").map(|at| at + 3) else {
        return value.to_owned();
    };
    let end =
        bytes[start..].iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).map_or(bytes.len(), |at| start + at);
    match bytes[start..end].iter().rposition(|byte| *byte == b'@') {
        Some(at) if name.to_ascii_lowercase().ends_with(b"_proxy") => {
            OsString::from_vec([&bytes[..start], &bytes[start + at + 1..]].concat())
        }
        _ => value.to_owned(),
    }
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
