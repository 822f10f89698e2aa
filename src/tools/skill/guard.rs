//! Who may change a skill's frontmatter (PROTOCOL §9.4, T13): a person at the other end, or nobody. A job that runs unseen
//! must not give itself credentials or domains.

use super::{KEYS, parse};
use crate::limits;
use crate::workspace::{FileError, RelPath, Workspace};
use nix::errno::Errno;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Does a person take part in this session?
fn interactive(session_id: Option<&str>) -> bool {
    session_id.is_some_and(|id| id.starts_with("http:"))
}

/// Is this the definition of a skill? `path` is relative to the workspace with its links resolved. Case is ignored: a
/// workspace that lies on a host's case-insensitive disk has other names for the same file.
pub fn is_skill_md(path: &Path) -> bool {
    let names: Vec<&OsStr> = path.iter().collect();
    match names.as_slice() {
        [ax, skills, _, .., file] => {
            ax.eq_ignore_ascii_case(".ax")
                && skills.eq_ignore_ascii_case("skills")
                && file.eq_ignore_ascii_case("SKILL.md")
        }
        _ => false,
    }
}

/// The bytes of an existing SKILL.md whose frontmatter this session may not change; `None` when a write to `path` needs no
/// check. Links are followed, so another name for the file is no way around, and neither is a SKILL.md that is a link.
pub fn protected(workspace: &Workspace, path: &RelPath, session_id: Option<&str>) -> Result<Option<Vec<u8>>, String> {
    let Ok(at) = workspace.locate(path) else { return Ok(None) };
    let mut names = at.links.iter().map(PathBuf::as_path).chain([path.as_path(), &at.path]);
    if interactive(session_id) || !names.any(is_skill_md) {
        return Ok(None);
    }
    match workspace.read(path, limits::FILE_MAX_BYTES) {
        Ok((old, _)) => Ok(Some(old)),
        Err(FileError::Os { errno: Errno::ENOENT, .. }) => Ok(None),
        Err(error) => Err(format!("cannot check the SKILL.md that would be replaced: {error}")),
    }
}

/// Refuses new content whose frontmatter means something else than that of the old.
pub fn same_frontmatter(old: &[u8], new: &[u8]) -> Result<(), String> {
    // A broken file has no frontmatter to protect.
    let Ok(old) = parse(&String::from_utf8_lossy(old)) else { return Ok(()) };
    let refusal = |changed: &str| {
        format!(
            "Refusing to mutate SKILL.md frontmatter from a non-interactive session. Changed: {changed}. Only the body may change here; ask the user to make this change in a chat."
        )
    };
    // Breaking it first and replacing it afterwards would be a way around.
    let new = parse(&String::from_utf8_lossy(new)).map_err(|error| refusal(&format!("no longer valid ({error})")))?;
    let changed: Vec<&str> =
        KEYS.into_iter().filter(|key| old.frontmatter.get(*key) != new.frontmatter.get(*key)).collect();
    if changed.is_empty() { Ok(()) } else { Err(refusal(&changed.join(", "))) }
}
