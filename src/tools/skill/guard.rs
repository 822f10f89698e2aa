//! Who may change a skill's frontmatter (PROTOCOL §9.4, T13): a person at the other end, or nobody. A job that runs unseen
//! must not give itself credentials or domains.

use super::document::split;
use super::yaml;
use super::{KEYS, SkillError, parse, rules};
use crate::limits;
use crate::workspace::{FileError, RelPath, Workspace};
use nix::errno::Errno;
use serde_json::{Map, Value};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Does a person take part in this session?
fn interactive(session_id: Option<&str>) -> bool {
    session_id.is_some_and(|id| id.starts_with("http:"))
}

/// Is this the definition of a skill? `path` is relative to the workspace with its links resolved. A workspace
/// that lies on a host's case-insensitive disk has other names for the same file (`\u{17f}` is an `s` there).
pub fn is_skill_md(path: &Path) -> bool {
    let names: Vec<&OsStr> = path.iter().collect();
    match names.as_slice() {
        [ax, skills, _, .., file] => {
            let is = |name: &OsStr, wanted: &str| name.to_str().is_some_and(|name| folded(name) == wanted);
            is(ax, ".ax") && is(skills, "skills") && is(file, "skill.md")
        }
        _ => false,
    }
}

/// As the most forgiving disk compares names: without case, and without the marks HFS+ ignores.
fn folded(name: &str) -> String {
    let ignored = ['\u{200c}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{206a}'..='\u{206f}', '\u{feff}'..='\u{feff}'];
    name.replace(|c| ignored.iter().any(|marks| marks.contains(&c)), "").to_uppercase().to_lowercase()
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
        Err(FileError::TooLarge { max, .. }) => Err(format!(
            "cannot check the SKILL.md that would be replaced: it has more than {max} bytes; ask the user to make this change in a chat"
        )),
        Err(error) => Err(format!("cannot check the SKILL.md that would be replaced: {error}")),
    }
}

/// What an existing file is to the host.
enum Existing {
    /// Surely no skill: it has no frontmatter, or one that no reader accepts. It may be repaired.
    NoSkill,
    /// A skill if the host agrees with the values.
    Skill(Map<String, Value>),
    /// What the host reads there cannot be told here.
    Unknown(String),
}

fn existing(yaml: &str) -> Existing {
    if !may_have(yaml, "name") || !may_have(yaml, "description") {
        return Existing::NoSkill;
    }
    if yaml.len() > limits::FRONTMATTER_MAX_BYTES {
        let bytes = yaml.len();
        return Existing::Unknown(SkillError::TooLarge { bytes, max: limits::FRONTMATTER_MAX_BYTES }.to_string());
    }
    if let Some(c) = yaml::contested(yaml) {
        return Existing::Unknown(SkillError::Contested(c).to_string());
    }
    match yaml::read(yaml) {
        Ok(value) => rules::check_form(value).map_or(Existing::NoSkill, Existing::Skill),
        Err(error) if error.stops_every_reader() => Existing::NoSkill,
        Err(error) => Existing::Unknown(error.to_string()),
    }
}

/// May there be such a key, for a reader of any kind? A backslash may spell it.
fn may_have(yaml: &str, key: &str) -> bool {
    yaml.contains(key) || yaml.contains('\\')
}

/// Refuses new content whose frontmatter means something else than that of the old, or cannot be shown to mean the same.
pub fn same_frontmatter(old: &[u8], new: &[u8]) -> Result<(), String> {
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let Some((was, _)) = split(&old) else { return Ok(()) };
    if split(&new).is_some_and(|(is, _)| is == was) {
        return Ok(());
    }
    let refusal = |reason: String| {
        format!(
            "Refusing to mutate SKILL.md frontmatter from a non-interactive session. {reason} Only the body may change here; ask the user to make this change in a chat."
        )
    };
    let was = match existing(was) {
        Existing::NoSkill => return Ok(()),
        Existing::Skill(was) => was,
        Existing::Unknown(why) => {
            let why = super::super::one_line(&why);
            return Err(refusal(format!(
                "The file's frontmatter cannot be compared with another ({why}), so it must stay byte for byte as it is."
            )));
        }
    };
    // Breaking it first and replacing it afterwards would be a way around.
    let is = readable(&new).map_err(|error| refusal(format!("Changed: no longer valid ({error}).")))?;
    let changed: Vec<&str> = KEYS.into_iter().filter(|key| was.get(*key) != is.get(*key)).collect();
    if changed.is_empty() { Ok(()) } else { Err(refusal(format!("Changed: {}.", changed.join(", ")))) }
}

/// A frontmatter that is the same for every reader.
fn readable(text: &str) -> Result<Map<String, Value>, SkillError> {
    match split(text).and_then(|(yaml, _)| yaml::contested(yaml)) {
        Some(c) => Err(SkillError::Contested(c)),
        None => parse(text).map(|document| document.frontmatter),
    }
}
