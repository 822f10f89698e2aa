//! Opens directories named relative to a base, one after another, and keeps the handles on the way: neighbours cost one
//! `openat`. Links are never followed.

use super::Dir;
use crate::limits;
use nix::errno::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// See the module.
pub(crate) struct Cursor {
    base: Dir,
    /// The path `here` was opened by; components are separated by one slash.
    path: Vec<u8>,
    /// Handles of the first levels of `path`, with the length of the path to each.
    kept: Vec<(usize, Dir)>,
    here: Dir,
}

impl Cursor {
    /// Starts at the base.
    pub(crate) fn new(base: Dir) -> Self {
        Self { here: base.clone(), base, path: Vec::new(), kept: Vec::new() }
    }

    /// The directory at `path`, empty for the base itself.
    pub(crate) fn open(&mut self, path: &[u8]) -> Result<&Dir, Errno> {
        if path == self.path {
            return Ok(&self.here);
        }
        self.kept.retain(|(end, _)| {
            path.get(..*end) == self.path.get(..*end) && matches!(path.get(*end), None | Some(b'/'))
        });
        let (mut at, mut dir) = match self.kept.last() {
            Some((end, dir)) => (*end, dir.clone()),
            None => (0, self.base.clone()),
        };
        while at < path.len() {
            let start = if at == 0 { 0 } else { at + 1 };
            let end = path[start..].iter().position(|&byte| byte == b'/').map_or(path.len(), |length| start + length);
            dir = dir.open_dir(OsStr::from_bytes(&path[start..end]))?;
            if self.kept.len() < limits::WALK_HANDLES_MAX {
                self.kept.push((end, dir.clone()));
            }
            at = end;
        }
        self.path.clear();
        self.path.extend_from_slice(path);
        self.here = dir;
        Ok(&self.here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;
    use std::io::Read;

    #[test]
    fn finds_each_directory_from_any_other_and_follows_no_link() {
        let tree = tempfile::tempdir().unwrap();
        let deep = "d/".repeat(limits::WALK_HANDLES_MAX + 5);
        let paths = ["", "a", "a/b", "a/bc", "a/b/c", "ab", deep.trim_end_matches('/')];
        for path in paths {
            std::fs::create_dir_all(tree.path().join(path)).unwrap();
            std::fs::write(tree.path().join(path).join("f"), path).unwrap();
        }
        std::os::unix::fs::symlink("a", tree.path().join("link")).unwrap();
        let ws = Workspace::open(tree.path()).unwrap();
        let mut cursor = Cursor::new(ws.root_dir().clone());
        for from in paths {
            for to in paths {
                cursor.open(from.as_bytes()).unwrap();
                let mut text = String::new();
                let dir = cursor.open(to.as_bytes()).unwrap();
                dir.open_file(OsStr::new("f")).unwrap().read_to_string(&mut text).unwrap();
                assert_eq!(text, to, "from {from}");
                assert!(cursor.open(b"link/b").is_err());
            }
        }
    }
}
