//! The lexical layer of the path rule: no file system access.

use super::PathError;
use crate::limits;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

/// A path below the workspace's root, cleaned, together with the caller's spelling. Only
/// [`Workspace::path`](super::Workspace::path) makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelPath {
    raw: String,
    clean: PathBuf,
    slash: bool,
    /// Where it led when it was shown to somebody.
    landing: Option<PathBuf>,
}

impl RelPath {
    /// The cleaned path relative to the root; empty for the root itself.
    pub fn as_path(&self) -> &Path {
        &self.clean
    }

    /// Is it the root itself?
    pub fn is_root(&self) -> bool {
        self.clean.as_os_str().is_empty()
    }

    /// Does it lie in `artifacts/`, and did the caller write it as the host knows that place (PROTOCOL §8.1)?
    pub fn artifact(&self) -> Option<bool> {
        let inside = self.clean.starts_with("artifacts") && self.clean.components().count() > 1;
        inside.then(|| self.raw.starts_with("artifacts/"))
    }

    /// The same path, good only as long as it leads there.
    pub(super) fn bound(self, landing: PathBuf) -> Self {
        Self { landing: Some(landing), ..self }
    }

    pub(super) fn leads_to(&self, place: &Path) -> bool {
        self.landing.as_ref().is_none_or(|landing| landing == place)
    }

    /// Did the caller write a trailing slash?
    pub(super) fn names_directory(&self) -> bool {
        self.slash
    }

    pub(super) fn names(&self) -> impl DoubleEndedIterator<Item = &OsStr> {
        self.clean.iter()
    }
}

/// The path as the caller wrote it.
impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.raw)
    }
}

/// Cleans `raw` and makes it relative to one of `roots` (two names of the same directory).
pub(super) fn lexical(raw: &str, roots: &[&Path]) -> Result<RelPath, PathError> {
    if raw.is_empty() {
        return Err(PathError::Empty);
    }
    if raw.contains('\0') {
        return Err(PathError::Nul);
    }
    let outside = || PathError::Outside { path: raw.to_owned(), root: roots[0].display().to_string() };
    let cleaned = path_clean::clean(raw);
    let clean = if cleaned.is_absolute() {
        roots.iter().find_map(|root| cleaned.strip_prefix(root).ok()).ok_or_else(outside)?
    } else if cleaned == Path::new(".") {
        Path::new("")
    } else {
        &cleaned
    };
    for name in clean.iter() {
        if name == ".." {
            return Err(outside());
        }
        if name.len() > limits::NAME_MAX_BYTES {
            return Err(PathError::NameTooLong {
                path: raw.to_owned(),
                bytes: name.len(),
                max: limits::NAME_MAX_BYTES,
            });
        }
    }
    let slash = raw.ends_with('/') || raw.ends_with("/.");
    Ok(RelPath { raw: raw.to_owned(), clean: clean.to_path_buf(), slash, landing: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(raw: &str) -> Result<String, PathError> {
        lexical(raw, &[Path::new("/workspace"), Path::new("/real")])
            .map(|path| path.as_path().to_str().unwrap().to_owned())
    }

    #[test]
    fn ordinary_names_stay_as_they_are() {
        let long = "x".repeat(255);
        for name in [
            "foo..bar",
            "..hidden",
            "...x",
            "...",
            "a:b:c.txt",
            "[...slug].ts",
            "v1..2/x",
            "-rf",
            "--help",
            " lead",
            "trail ",
            " ",
            "new\nline",
            "q\"uote",
            "$HOME",
            "*",
            "~",
            "~/x",
            "a\\b",
            "..\\..\\x",
            "C:\\x",
            "%2e%2e",
            "é😀",
            &long,
        ] {
            assert_eq!(clean(name).as_deref(), Ok(name));
        }
    }

    #[test]
    fn spellings_of_a_place_are_one() {
        for (raw, wanted) in [
            (".", ""),
            ("./", ""),
            ("/workspace", ""),
            ("/workspace/", ""),
            ("//workspace//.", ""),
            ("/real/a", "a"),
            ("./a.txt", "a.txt"),
            ("/workspace/./x//y/", "x/y"),
            ("a/../b", "b"),
            ("a/..", ""),
            ("/workspace/../workspace/x", "x"),
        ] {
            assert_eq!(clean(raw).as_deref(), Ok(wanted), "{raw}");
        }
    }

    #[test]
    fn what_leaves_the_root_is_refused() {
        for raw in [
            "..",
            "../",
            "../workspace/x",
            "a/../../b",
            "/",
            "/etc/passwd",
            "/workspace2/x",
            "/workspace/../etc",
            "/workspacex",
            "./../x",
            "/proc/self/root/etc/passwd",
            "/dev/fd/0",
            "/workspace/..",
        ] {
            assert!(matches!(clean(raw), Err(PathError::Outside { .. })), "{raw}");
        }
        assert_eq!(clean(""), Err(PathError::Empty));
        assert_eq!(clean("a\0b"), Err(PathError::Nul));
        assert!(matches!(clean(&"x".repeat(256)), Err(PathError::NameTooLong { .. })));
        assert!(matches!(clean(&"é".repeat(128)), Err(PathError::NameTooLong { .. })));
    }
}
