//! What `.gitignore` files hide. The files are read through the workspace's handles, bounded; links, pipes and the like
//! under that name are passed over. Files outside the workspace, global ones included, have no say.

use super::passed::Sample;
use super::{Dir, Kind, OpenError, syntax};
use crate::limits;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use nix::errno::Errno;
use std::ffi::OsStr;
use std::io::{self, Read};
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
    left: Left,
}

/// What a chain of directories may still have of rules.
#[derive(Debug, Clone, Copy)]
struct Left {
    rules: usize,
    /// Bytes of rules with wildcards.
    wild: usize,
}

impl Left {
    const ALL: Self = Self { rules: limits::GITIGNORE_MAX_RULES, wild: limits::GITIGNORE_WILD_MAX_BYTES };

    /// What is left after this line; `None` if it is too much.
    fn after(self, line: &[u8]) -> Option<Self> {
        let wild = line.iter().any(|byte| b"*?[\\".contains(byte));
        let wild = self.wild.checked_sub(if wild { line.len() } else { 0 })?;
        Some(Self { rules: self.rules.checked_sub(1)?, wild })
    }
}

impl Rules {
    /// The rules in `dir`, whose path is `path`; those above if it has none of its own. A file whose rules do not all count
    /// is added to `short`.
    pub(crate) fn within(dir: &Dir, path: &[u8], above: Option<Arc<Rules>>, short: &mut Sample) -> Option<Arc<Rules>> {
        let prefix = if path.is_empty() { 0 } else { path.len() + 1 };
        let mut add = || short.add(&[path, if prefix > 0 { b"/" } else { b"" }, NAME.as_bytes()].concat());
        let bytes = match read(dir) {
            Ok(bytes) if bytes.is_empty() => return above,
            Ok(bytes) => bytes,
            Err(_) => {
                add();
                return above;
            }
        };
        let (own, left, whole) = compile(&bytes, above.as_ref().map_or(Left::ALL, |above| above.left));
        if !whole {
            add();
        }
        if own.is_empty() { above } else { Some(Arc::new(Self { above, own, prefix, left })) }
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

const NAME: &str = ".gitignore";

/// The file's content, and one byte more than is used of a larger one; nothing if there is none.
fn read(dir: &Dir) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // The type first: opening a pipe would disturb the process at its other end.
    if dir.kind(OsStr::new(NAME)) != Ok(Kind::File) {
        return Ok(bytes);
    }
    match dir.open_file(OsStr::new(NAME)) {
        Ok(file) => file.take(limits::GITIGNORE_MAX_BYTES + 1).read_to_end(&mut bytes)?,
        // Gone or changed in the meantime.
        Err(OpenError::NotRegular(_) | OpenError::Os(Errno::ENOENT)) => 0,
        Err(OpenError::Os(errno)) => return Err(errno.into()),
    };
    Ok(bytes)
}

/// The rules, what is left for those below, and whether all of them count.
fn compile(bytes: &[u8], mut left: Left) -> (Gitignore, Left, bool) {
    let (mut bytes, mut whole, mut builder) = (bytes, true, GitignoreBuilder::new(""));
    if bytes.len() as u64 > limits::GITIGNORE_MAX_BYTES {
        // Half of a line may hide far more than all of it.
        let end = bytes[..bytes.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
        (bytes, whole) = (&bytes[..end], false);
    }
    for line in bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).split(|&byte| byte == b'\n') {
        // A line that is no pattern hides nothing; the others still count.
        let Some(pattern) = syntax::pattern(line).filter(|line| !line.is_empty() && !line.starts_with('#')) else {
            continue;
        };
        let Some(after) = left.after(line) else {
            whole = false;
            break;
        };
        left = after;
        let _ = builder.add_line(None, &pattern);
    }
    match builder.build() {
        Ok(own) => (own, left, whole),
        Err(_) => (Gitignore::empty(), left, false),
    }
}
