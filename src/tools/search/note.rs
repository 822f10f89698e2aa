//! What a search tells the model besides its results: what was not looked at, and why.

use crate::limits;
use crate::workspace::passed::{Passed, Sample};

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
        let names: Vec<String> = sample.first.iter().map(|path| shown(path)).collect();
        let more = if sample.count > names.len() { ", …" } else { "" };
        // The words are written for several.
        let what = if sample.count == 1 { one(what) } else { what.to_owned() };
        self.add(format!("{} {what} ({}{more}){advice}", sample.count, names.join(", ")));
    }

    /// What a walk passed over; `remedy` says how to search what is hidden.
    pub(in crate::tools) fn passed(&mut self, passed: &Passed, remedy: &str) {
        self.sample("entries hidden by .gitignore were not searched", &passed.ignored, remedy);
        self.sample("symbolic links were not followed", &passed.links, "");
        self.sample("pipes, sockets or devices were skipped", &passed.special, "");
        self.sample("directories could not be read", &passed.unreadable, "");
        self.sample("directories are too deep and were skipped", &passed.deep, ": name one as path to search it");
        let short = ".gitignore files are too large or could not be read: not all of their rules count";
        self.sample(short, &passed.short, "");
    }

    /// Says what a path that is no text looks like in the results.
    pub(in crate::tools) fn names<'a>(&mut self, mut paths: impl Iterator<Item = &'a [u8]>) {
        if paths.any(|path| std::str::from_utf8(path).is_err()) {
            self.add("U+FFFD (\u{fffd}) in a path stands for a byte that is not UTF-8: reach such a file with bash, with ? in its place");
        }
    }

    /// The search did not come to its end.
    pub(in crate::tools) fn stopped(&mut self) {
        let seconds = limits::SEARCH_TIMEOUT.as_secs();
        self.add(format!(
            "Cancelled or stopped after {seconds} s, before everything was searched: search a smaller path"
        ));
    }

    /// All of it; `None` if there is nothing to say.
    pub(in crate::tools) fn text(self) -> Option<String> {
        if self.0.is_empty() { None } else { Some(self.0.join(". ") + ".") }
    }
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
