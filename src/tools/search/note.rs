//! What a search tells the model besides its results: what was not looked at, and why.

use crate::workspace::passed::{Passed, Sample};
use crate::{limits, text};

/// Collects sentences.
#[derive(Debug, Default)]
pub(in crate::tools) struct Notes(Vec<String>);

impl Notes {
    /// One sentence without its full stop.
    pub(in crate::tools) fn add(&mut self, sentence: impl Into<String>) {
        self.0.push(sentence.into());
    }

    /// A sentence about entries that were passed over; nothing if there were none.
    pub(in crate::tools) fn sample(&mut self, what: &str, sample: &Sample, advice: &str) {
        if sample.count == 0 {
            return;
        }
        let (names, _) = names(sample);
        let more = if sample.count > names.len() { ", …" } else { "" };
        // The words are written for several.
        let what = if sample.count == 1 { one(what) } else { what.to_owned() };
        self.add(format!("{} {what} ({}{more}){advice}", sample.count, names.join(", ")));
    }

    /// What a walk passed over; `remedy` says how to search what is hidden.
    pub(in crate::tools) fn passed(&mut self, passed: &Passed, remedy: &str) {
        let reachable = |sample, remedy| if names(sample).1 { remedy } else { BASH };
        let ignored = reachable(&passed.ignored, remedy);
        self.sample("entries hidden by .gitignore were not searched", &passed.ignored, ignored);
        self.sample("symbolic links were not followed", &passed.links, "");
        self.sample("pipes, sockets or devices were skipped", &passed.special, "");
        self.sample("directories could not be read", &passed.unreadable, "");
        let deep = reachable(&passed.deep, ": name one as path to search it");
        self.sample("directories are too deep and were skipped", &passed.deep, deep);
        let short = ".gitignore files are too large or could not be read: not all of their rules count";
        self.sample(short, &passed.short, "");
    }

    /// Says what a path that is no text looks like in the results.
    pub(in crate::tools) fn names<'a>(&mut self, mut paths: impl Iterator<Item = &'a [u8]>) {
        if paths.any(|path| std::str::from_utf8(path).is_err()) {
            self.add("U+FFFD (\u{fffd}) in a path stands for a byte that is not UTF-8: reach such a file with bash, with ? in its place");
        }
    }

    /// There are more results than the `most` that were asked for.
    pub(in crate::tools) fn cut(&mut self, what: &str, most: usize, narrow: &str) {
        let max = limits::SEARCH_RESULTS_MAX;
        match most < max {
            true => self.add(format!("{what}: raise max_results (at most {max}), or narrow {narrow}")),
            false => self.add(format!("{what}, which is the most: narrow {narrow}")),
        }
    }

    /// The search did not come to its end.
    pub(in crate::tools) fn stopped(&mut self, one_file: bool) {
        let seconds = limits::SEARCH_TIMEOUT.as_secs();
        let (what, advice) = match one_file {
            true => ("all of the file", "use a simpler pattern, or bash for a part of the file"),
            false => ("everything", "search a smaller path"),
        };
        self.add(format!("Cancelled or stopped after {seconds} s, before {what} was searched: {advice}"));
    }

    /// All of it; `None` if there is nothing to say.
    pub(in crate::tools) fn text(self) -> Option<String> {
        if self.0.is_empty() { None } else { Some(self.0.join(". ") + ".") }
    }
}

/// Said where no path of a sample can be given to a tool.
const BASH: &str = ": a path of more than 1024 characters cannot be given to a tool, so use bash there";
const _: () = assert!(limits::PATH_MAX_UNITS == 1024);

/// The paths of a sample to be named, as many as are together no longer than one may be, and whether one of them is whole.
fn names(sample: &Sample) -> (Vec<String>, bool) {
    let (mut names, mut left, mut whole) = (Vec::new(), limits::PATH_MAX_UNITS, false);
    for path in &sample.first {
        let mut name = shown(path);
        let long = text::units(&name) > limits::PATH_MAX_UNITS;
        if long {
            let half = limits::NOTE_PATH_MAX_UNITS / 2;
            let end: String = name.chars().rev().take(half).collect();
            name = format!("{}…{}", text::cut_units(&name, half), end.chars().rev().collect::<String>());
        }
        let Some(rest) = left.checked_sub(text::units(&name)) else { break };
        left = rest;
        whole |= !long;
        names.push(name);
    }
    (names, whole)
}

/// A sentence about several things, about one.
fn one(several: &str) -> String {
    const WORDS: [(&str, &str); 9] = [
        ("entries", "entry"),
        ("directories", "directory"),
        ("files", "file"),
        ("links", "link"),
        ("pipes, sockets or devices", "pipe, socket or device"),
        (" were ", " was "),
        (" are ", " is "),
        (" have ", " has "),
        (" their ", " its "),
    ];
    WORDS.into_iter().fold(several.to_owned(), |text, (many, one)| text.replace(many, one))
}

/// A path on one line, as text.
pub(in crate::tools) fn shown(path: &[u8]) -> String {
    if path.is_empty() {
        return ".".to_owned();
    }
    let text = String::from_utf8_lossy(path);
    match text.contains(|c: char| c.is_control()) {
        true => {
            text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
        }
        false => text.into_owned(),
    }
}
