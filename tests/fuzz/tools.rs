//! What the model writes.

use super::line;
use crate::text::units;
use crate::tools::search::pattern::Pattern;
use crate::tools::{arguments as args, grep, skill as document};
use crate::workspace::Workspace;
use crate::workspace::walk::{Choice, Select};
use serde_json::{Map, Value, json};
use std::path::{Component, Path};
use std::sync::OnceLock;

/// An object is the one and only reading of its text.
pub(super) fn arguments(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match args::object("t", Some(&text)) {
        Ok(fields) => {
            let fields = Value::Object(fields);
            match serde_json::from_str::<Value>(text.trim()) {
                Ok(Value::String(inner)) if inner.is_empty() => assert_eq!(fields, json!({})),
                Ok(Value::String(inner)) => assert_eq!(fields, serde_json::from_str::<Value>(&inner).unwrap()),
                Ok(value) => assert_eq!(fields, value),
                Err(_) => assert!(text.trim().is_empty()),
            }
            // What is shown is what is read: it survives the way through the host.
            let shown = fields.to_string();
            assert_eq!(args::object("t", Some(&shown)).map(Value::Object), Ok(fields));
        }
        Err(error) => assert!(units(&error.to_string()) < 1000, "{error}"),
    }
}

/// Pattern, base, then paths, a line each. Nothing outside can match, and what matches is never in a directory left out.
pub(super) fn glob(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (raw, rest) = line(&text);
    let (base, paths) = line(rest);
    let base = base.trim_matches('/');
    if units(raw) > 200 || base.split('/').any(|part| matches!(part, "." | "..")) || base.contains("//") {
        return;
    }
    for negatable in [false, true] {
        let Ok(pattern) = Pattern::new(raw, base, Path::new("/ws"), negatable) else { continue };
        let negated = negatable && raw.starts_with('!');
        for path in paths.lines().filter(|path| is_walked(path)).take(16) {
            let taken = pattern.file(path.as_bytes()) != Choice::Leave;
            assert!(!taken || !pattern.outside || negated, "{path} is inside");
            if !taken || negated {
                continue;
            }
            for (at, _) in path.match_indices('/') {
                let directory = &path[..at];
                assert!(
                    pattern.directory(directory.as_bytes()) != Choice::Leave,
                    "{path} matches {raw:?} in {base:?}, but {directory} is not entered"
                );
            }
        }
    }
}

/// A path as a walk gives it.
fn is_walked(path: &str) -> bool {
    !path.is_empty() && path.split('/').all(|name| !matches!(name, "" | "." | ".."))
}

fn workspace() -> &'static Workspace {
    static PLACE: OnceLock<(tempfile::TempDir, Workspace)> = OnceLock::new();
    let (_, workspace) = PLACE.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let workspace = Workspace::open(directory.path()).expect("a workspace");
        (directory, workspace)
    });
    workspace
}

/// A path that is taken lies inside, and the same path again is the same place.
pub(super) fn path(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let root = workspace().root();
    for raw in [text.to_string(), format!("{}/{text}", root.display())] {
        let Ok(path) = workspace().path(&raw) else { continue };
        let clean = path.as_path();
        assert!(clean.components().all(|part| matches!(part, Component::Normal(_))), "{clean:?}");
        assert!(!raw.contains('\0'));
        if !path.is_root() {
            assert_eq!(workspace().path(clean.to_str().unwrap()).unwrap().as_path(), clean);
            assert_eq!(workspace().path(root.join(clean).to_str().unwrap()).unwrap().as_path(), clean);
        }
    }
}

/// A search's arguments compile within bounds or are refused with words.
pub(super) fn search(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (pattern, glob) = line(&text);
    for literal in [true, false] {
        let mut fields =
            Map::from_iter([("pattern".to_owned(), json!(pattern)), ("literal".to_owned(), json!(literal))]);
        if !glob.is_empty() {
            fields.insert("glob".to_owned(), json!(glob));
        }
        let args: grep::Args = args::typed("grep", fields).unwrap();
        if let Err(error) = grep::Call::prepare(args, workspace()) {
            assert!(error.starts_with("grep: ") && units(&error) < 8000, "{error}");
        }
    }
}

/// What is a SKILL.md stays one: read again from its normal form it means the same.
pub(super) fn skill(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let read = match document::parse(&text) {
        Ok(read) => read,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(text.ends_with(&read.body));
    assert!(read.frontmatter.keys().all(|key| document::KEYS.contains(&key.as_str())));
    assert_eq!(document::same_frontmatter(bytes, bytes), Ok(()));
    // JSON is YAML too.
    let normal = format!("---\n{}\n---\n{}", Value::Object(read.frontmatter.clone()), read.body);
    match document::parse(&normal) {
        Ok(again) => assert_eq!(again.frontmatter, read.frontmatter),
        // Anchors repeat what the text says once, so the long form may be over the limit.
        Err(document::SkillError::TooLarge { .. }) => {}
        Err(error) => panic!("{error}: {normal}"),
    }
}

/// A skill's fields as JSON: what is written reads back as it was given.
pub(super) fn skill_render(bytes: &[u8]) {
    let Ok(skill) = serde_json::from_slice::<document::Skill>(bytes) else { return };
    let Ok(text) = document::render(&skill) else { return };
    assert!(text.ends_with(&skill.body));
    let Ok(read) = document::parse(&text) else { return };
    assert_eq!(read.frontmatter["name"], json!(skill.name));
    assert_eq!(read.frontmatter["description"], json!(skill.description));
    assert_eq!(read.body, format!("\n{}", skill.body));
}
