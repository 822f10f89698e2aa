//! Glob patterns over paths of the workspace.
//!
//! A pattern is only ever compared with paths the walk has found, so nothing in it can lead outside. Without a slash it
//! matches a name at any depth; with one, the path from the search's directory or from the workspace.

use super::note::shown;
use crate::workspace::walk::{Choice, Select};
use crate::workspace::{RelPath, Workspace};
use globset::{GlobBuilder, GlobMatcher};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Said of a pattern that is [`Pattern::outside`].
const OUTSIDE: &str = "The pattern has .. in it or names a place outside the workspace, where nothing is searched: give a directory of the workspace as path instead";
/// Said of one that names `.git`.
const GIT: &str = ".git is not listed or searched unless it is given as path";

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    matchers: Vec<Matcher>,
    negated: bool,
    /// As it was given.
    raw: String,
    /// It can match nothing inside the workspace.
    pub(crate) outside: bool,
    /// It names `.git`, which is not listed.
    git: bool,
}

#[derive(Debug)]
struct Matcher {
    glob: GlobMatcher,
    /// The components before the first wildcard, relative to the workspace; empty when it matches at any depth.
    literal: Vec<String>,
    /// There is no wildcard at all.
    exact: bool,
    any_depth: bool,
}

impl Pattern {
    /// Compiles a pattern for a search in `base` (relative to the workspace, empty for all of it). `root` is the
    /// workspace's absolute path. A leading `!` turns a filter around where `negatable`.
    pub(crate) fn new(given: &str, base: &str, root: &Path, negatable: bool) -> Result<Self, String> {
        let (negated, raw) = match given.strip_prefix('!') {
            Some(rest) if negatable => (true, rest),
            _ => (false, given),
        };
        let (absolute, inside) = relative(raw, root);
        let Some(pattern) = inside else {
            return Ok(Self { matchers: Vec::new(), negated, raw: given.to_owned(), outside: true, git: false });
        };
        let pattern = match pattern.strip_suffix('/') {
            Some(directory) => format!("{directory}/**"),
            None => pattern.to_owned(),
        };
        let parts: Vec<&str> = pattern.split('/').filter(|part| !["", "."].contains(part)).collect();
        let pattern = parts.join("/");
        let mut matchers = Vec::new();
        for glob in readings(&pattern) {
            if !absolute && !pattern.contains('/') {
                matchers.push(Matcher { any_depth: true, ..matcher(&format!("**/{glob}"), &pattern)? });
            } else {
                matchers.push(matcher(&glob, &pattern)?);
                if !absolute && !base.is_empty() {
                    let full = format!("{}/{glob}", globset::escape(base));
                    matchers.push(matcher(&full, &format!("{base}/{pattern}"))?);
                }
            }
        }
        // Paths that are listed have no such part, wherever it leads.
        let outside = parts.contains(&"..");
        Ok(Self { matchers, negated, raw: given.to_owned(), outside, git: parts.contains(&".git") })
    }

    /// What to tell of it, where `none` says that it selected no file in `base`.
    pub(crate) fn advice(&self, none: bool, base: &RelPath, workspace: &Workspace) -> Option<String> {
        if self.outside {
            return Some(OUTSIDE.to_owned());
        }
        if !none || self.negated {
            return None;
        }
        if self.git {
            return Some(GIT.to_owned());
        }
        // Of the search's directory, or of the workspace.
        let below = || workspace.path(base.as_path().join(&self.raw).to_str()?).ok();
        let directory = |path: &RelPath| workspace.open_dir(path).is_ok();
        let plain = workspace.path(&self.raw).ok();
        if let Some(plain) = plain.filter(|plain| directory(plain) || below().is_some_and(|below| directory(&below))) {
            let plain = shown(plain.as_path().as_os_str().as_bytes());
            return Some(format!("{plain} is a directory; use {plain}/** for the files in it"));
        }
        if self.raw.starts_with('!') {
            let advice = "There is no negation here, ! is a plain character: say what to find, or use find in bash";
            return Some(advice.to_owned());
        }
        let several = self.raw.contains([',', ';', '|']) || self.raw.contains(" *");
        (several && !self.raw.contains('{')).then(|| {
            "No file matches this as one pattern: write several in braces, as in *.{rs,py} or {src,tests}/**".to_owned()
        })
    }
}

/// Is it absolute, and what is left of it below `root`?
fn relative<'a>(raw: &'a str, root: &Path) -> (bool, Option<&'a str>) {
    if !raw.starts_with('/') {
        return (false, Some(raw.trim_start_matches("./")));
    }
    let rest = root.to_str().and_then(|root| raw.strip_prefix(root.trim_end_matches('/')));
    (true, rest.and_then(|rest| if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }))
}

/// The pattern, and the same with its brackets, braces and backslashes as plain characters: names such as `[id].tsx` are
/// common, and nobody thinks of escaping them.
fn readings(pattern: &str) -> Vec<String> {
    let mut readings = vec![pattern.to_owned()];
    if pattern.contains(['[', '{', '\\']) {
        let escape = |c| if matches!(c, '[' | ']' | '{' | '}' | '\\') { format!("\\{c}") } else { String::from(c) };
        readings.push(pattern.chars().map(escape).collect());
    }
    readings
}

fn matcher(glob: &str, literal: &str) -> Result<Matcher, String> {
    let compiled = GlobBuilder::new(glob).literal_separator(true).backslash_escape(true).build();
    let compiled = compiled.map_err(|error| format!("bad glob pattern: {}", error.kind()))?;
    let mut parts: Vec<String> = Vec::new();
    let mut exact = true;
    for part in literal.split('/') {
        if part.contains(['*', '?', '[', ']', '{', '}', '\\']) {
            exact = false;
            break;
        }
        parts.push(part.to_owned());
    }
    if exact {
        parts.pop();
    }
    Ok(Matcher { glob: compiled.compile_matcher(), literal: parts, exact, any_depth: false })
}

impl Matcher {
    /// Could something below this directory match? `Named` when the pattern spells the directory out.
    fn below(&self, path: &[u8]) -> Choice {
        if self.any_depth {
            return Choice::Take;
        }
        let mut parts = self.literal.iter();
        for name in path.split(|&byte| byte == b'/') {
            match parts.next() {
                Some(part) if part.as_bytes() == name => {}
                Some(_) => return Choice::Leave,
                None => return if self.exact { Choice::Leave } else { Choice::Take },
            }
        }
        Choice::Named
    }
}

impl Select for Pattern {
    fn directory(&self, path: &[u8]) -> Choice {
        if self.negated {
            let excluded = self.matchers.iter().any(|matcher| matcher.glob.is_match(as_path(path)));
            return if excluded { Choice::Leave } else { Choice::Take };
        }
        let choices = self.matchers.iter().map(|matcher| matcher.below(path));
        choices.max_by_key(|choice| *choice as u8).unwrap_or(Choice::Leave)
    }

    fn file(&self, path: &[u8]) -> Choice {
        let hit = self.matchers.iter().find(|matcher| matcher.glob.is_match(as_path(path)));
        match (hit, self.negated) {
            (Some(matcher), false) if matcher.exact => Choice::Named,
            (Some(_), false) | (None, true) => Choice::Take,
            (None, false) | (Some(_), true) => Choice::Leave,
        }
    }
}

/// Everything.
pub(crate) struct All;

impl Select for All {
    fn directory(&self, _: &[u8]) -> Choice {
        Choice::Take
    }

    fn file(&self, _: &[u8]) -> Choice {
        Choice::Take
    }
}

fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(pattern: &str, base: &str, path: &str) -> Choice {
        Pattern::new(pattern, base, Path::new("/ws"), true).unwrap().file(path.as_bytes())
    }

    #[test]
    fn matches_names_at_any_depth_and_paths_from_either_root() {
        use Choice::{Leave, Named, Take};
        for (pattern, base, path, wanted) in [
            ("*.rs", "", "a/b.rs", Take),
            ("*.rs", "a", "a/b.rs", Take),
            ("b.rs", "", "a/b.rs", Named),
            ("src/*.rs", "", "src/a.rs", Take),
            ("src/*.rs", "", "src/a/b.rs", Leave),
            ("src/*.rs", "", "x/src/a.rs", Leave),
            ("src/*.rs", "x", "x/src/a.rs", Take),
            ("src/*.rs", "[x]", "[x]/src/a.rs", Take),
            ("src/**/*.rs", "", "src/a.rs", Take),
            ("**/*.{rs,md}", "", "a.md", Take),
            ("./src/a.rs", "", "src/a.rs", Named),
            ("src//a.rs", "", "src/a.rs", Named),
            ("src/./*.rs", "", "src/a.rs", Take),
            (".//**//*.rs", "", "src/a.rs", Take),
            ("src//", "", "src/a/b", Take),
            ("/ws/src/a.rs", "src", "src/a.rs", Named),
            ("/ws/a.rs", "", "b/a.rs", Leave),
            ("src/", "", "src/a/b", Take),
            ("*", "", "a/.hidden", Take),
            ("**", "", "a/b", Take),
            ("foo..bar/*.txt", "", "foo..bar/a.txt", Take),
            ("\\*", "", "*", Take),
            ("a\\b", "", "d/a\\b", Take),
            ("a\\b/[c].*", "", "a\\b/[c].x", Take),
            ("[a-c]?", "", "b1", Take),
            ("[...slug].ts", "", "a/[...slug].ts", Take),
            ("app/[id]/page.tsx", "", "app/[id]/page.tsx", Take),
            ("[id]/**", "app", "app/[id]/x", Take),
            ("w{e}/*", "", "w{e}/x", Take),
            ("!a[b]", "", "a[b]", Leave),
            ("!*.rs", "", "a.rs", Leave),
            ("!*.rs", "", "a.md", Take),
            ("-rf", "", "-rf", Named),
            ("--pre=x", "", "y", Leave),
        ] {
            assert_eq!(file(pattern, base, path), wanted, "{pattern} in {base:?}: {path}");
        }
    }

    #[test]
    fn nothing_outside_can_be_named() {
        for pattern in ["../x/*", "/x/*", "/", "/wsx/a", "a/../../x", "../../*", "*/../x", "**/../../x/*", "..//x"] {
            let pattern = Pattern::new(pattern, "", Path::new("/ws"), false).unwrap();
            assert!(pattern.outside || pattern.file(b"x/y") == Choice::Leave, "{pattern:?}");
        }
    }

    #[test]
    fn enters_only_what_can_match() {
        use Choice::{Leave, Named, Take};
        for (pattern, base, path, wanted) in [
            ("*.rs", "", "a", Take),
            ("src/*.rs", "", "src", Named),
            ("src/*.rs", "", "lib", Leave),
            ("src/*/x", "", "src/a", Take),
            ("build/out.txt", "", "build", Named),
            ("build/out.txt", "", "build/x", Leave),
            ("src/*.rs", "x", "x", Named),
            ("src/*.rs", "x", "x/src", Named),
            ("src/*.rs", "x", "x/lib", Leave),
            ("**/a", "", "any/where", Take),
            ("{a,b}/c", "", "a", Take),
        ] {
            let pattern = Pattern::new(pattern, base, Path::new("/ws"), false).unwrap();
            assert_eq!(pattern.directory(path.as_bytes()), wanted, "{pattern:?}: {path}");
        }
    }

    #[test]
    fn bad_patterns_are_errors() {
        for pattern in ["[", "a{b", "[z-a]", "\\"] {
            assert!(Pattern::new(pattern, "", Path::new("/ws"), false).unwrap_err().starts_with("bad glob pattern: "));
        }
    }
}
