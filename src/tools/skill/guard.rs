//! Who may change a skill's frontmatter (PROTOCOL §9.4, T13): a person at the other end, or nobody. A job that runs unseen
//! must not give itself credentials or domains.

use super::{KEYS, parse};
use std::ffi::OsStr;
use std::path::Path;

/// Does a person take part in this session?
pub fn interactive(session_id: Option<&str>) -> bool {
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

/// Refuses a write that changes the frontmatter of an existing skill in a session without a person. For every tool that
/// writes files: call it with the old bytes (`None` if there is no file) and the new ones.
pub fn guard_skill_md(path: &Path, old: Option<&[u8]>, new: &[u8], session_id: Option<&str>) -> Result<(), String> {
    if interactive(session_id) || !is_skill_md(path) {
        return Ok(());
    }
    // A file that is missing or already broken has no frontmatter to protect.
    let Some(old) = old.and_then(|old| parse(&String::from_utf8_lossy(old)).ok()) else { return Ok(()) };
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
