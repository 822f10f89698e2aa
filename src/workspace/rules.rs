//! What `.gitignore` files hide. The files are read through the workspace's handles, bounded; links, pipes and the like
//! under that name are passed over. Files outside the workspace, global ones included, have no say.

use super::{Dir, Kind, syntax};
use crate::limits;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The rules that hold in one directory: its own and those of the directories above.
#[derive(Debug)]
pub(crate) struct Rules {
    above: Option<Arc<Rules>>,
    own: Gitignore,
    /// Length of the directory's path, its slash included: what to take off a path before asking `own`.
    prefix: usize,
}

impl Rules {
    /// The rules in `dir`, whose path is `path`; those above if it has none of its own.
    pub(crate) fn within(dir: &Dir, path: &[u8], above: Option<Arc<Rules>>) -> Option<Arc<Rules>> {
        match read(dir) {
            Some(own) => {
                let prefix = if path.is_empty() { 0 } else { path.len() + 1 };
                Some(Arc::new(Self { above, own, prefix }))
            }
            None => above,
        }
    }

    /// Do the rules hide this path? The innermost file that says anything decides.
    pub(crate) fn hide(&self, path: &[u8], directory: bool) -> bool {
        let mut rules = Some(self);
        while let Some(level) = rules {
            let below = Path::new(OsStr::from_bytes(&path[level.prefix..]));
            match level.own.matched(below, directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => rules = level.above.as_deref(),
            }
        }
        false
    }
}

fn read(dir: &Dir) -> Option<Gitignore> {
    let name = OsStr::new(".gitignore");
    // The type first: opening a pipe would disturb the process at its other end.
    if dir.kind(name) != Ok(Kind::File) {
        return None;
    }
    let mut bytes = Vec::new();
    dir.open_file(name).ok()?.take(limits::GITIGNORE_MAX_BYTES).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 == limits::GITIGNORE_MAX_BYTES {
        // Half of a line may hide far more than all of it.
        bytes.truncate(bytes.iter().rposition(|&byte| byte == b'\n').unwrap_or(0));
    }
    let mut builder = GitignoreBuilder::new("");
    for line in bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes).split(|&byte| byte == b'\n') {
        // A line that is no pattern hides nothing; the others still count.
        let _ = syntax::pattern(line).map(|line| builder.add_line(None, &line));
    }
    builder.build().ok().filter(|own| !own.is_empty())
}
