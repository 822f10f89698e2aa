//! Searches the contents of many files with several threads, and gives the first results in the order of the paths: the
//! same ones each time, and no more work than they need.

use super::preview;
use super::regex::Regex;
use super::source::{Stopped, Text};
use crate::limits;
use crate::text;
use crate::workspace::passed::Sample;
use crate::workspace::walk::{Base, Found, Stop, split, together};
use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What is wanted of each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tools) enum Want {
    /// Its matching lines.
    Lines,
    /// Whether it has one.
    Files,
    /// How many it has.
    Counts,
}

/// A line of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tools) enum Line {
    /// A match.
    Match(u64, String),
    /// Context before a match.
    Before(u64, String),
    /// Context after a match.
    After(u64, String),
    /// Lines are missing here.
    Gap,
}

/// One file's results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tools) struct Hits {
    /// Relative to the workspace.
    pub(in crate::tools) path: Vec<u8>,
    /// With [`Want::Lines`].
    pub(in crate::tools) lines: Vec<Line>,
    /// Matching lines seen.
    pub(in crate::tools) matches: usize,
}

/// A search's outcome.
#[derive(Debug, Default)]
pub(in crate::tools) struct Outcome {
    /// In the order of the paths.
    pub(in crate::tools) hits: Vec<Hits>,
    /// Files that are not text.
    pub(in crate::tools) binary: Sample,
    /// Files searched only up to a line too long.
    pub(in crate::tools) long: Sample,
    /// Files that are not UTF-8, where the pattern would tell their characters apart.
    pub(in crate::tools) foreign: Sample,
    /// Files that could not be read.
    pub(in crate::tools) unreadable: Sample,
    /// It was stopped before the end.
    pub(in crate::tools) stopped: bool,
}

/// How to search.
pub(in crate::tools) struct Query<'a> {
    pub(in crate::tools) regex: &'a Regex,
    pub(in crate::tools) want: Want,
    pub(in crate::tools) context: usize,
    /// Results to find: lines, or files with the other wants.
    pub(in crate::tools) most: usize,
    pub(in crate::tools) stop: Stop<'a>,
}

/// Files a thread takes at a time.
const BATCH: usize = 16;

impl Query<'_> {
    /// Searches one open file, whatever its content looks like at the beginning.
    pub(in crate::tools) fn one(&self, path: &[u8], file: File) -> Outcome {
        let mut outcome = Outcome::default();
        Worker::new(self).search(path, file, self.most, &mut outcome);
        outcome
    }

    /// Searches what a walk has found.
    pub(in crate::tools) fn all(&self, base: &Base, found: &Found) -> Outcome {
        let shared = Shared {
            next: AtomicUsize::new(0),
            last: AtomicUsize::new(usize::MAX),
            stopped: AtomicBool::new(false),
            results: Mutex::new(Results::default()),
        };
        let mut outcome = Outcome::default();
        for part in together(|| self.work(base, found, &shared)) {
            outcome.binary.merge(part.binary);
            outcome.long.merge(part.long);
            outcome.foreign.merge(part.foreign);
            outcome.unreadable.merge(part.unreadable);
        }
        let results = shared.results.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcome.hits = results.batches.into_values().flatten().collect();
        outcome.stopped = shared.stopped.load(Ordering::Relaxed);
        outcome
    }

    fn work(&self, base: &Base, found: &Found, shared: &Shared) -> Outcome {
        let mut worker = Worker::new(self);
        let mut cursor = base.cursor();
        let mut outcome = Outcome::default();
        loop {
            let batch = shared.next.fetch_add(1, Ordering::Relaxed);
            let files = batch.saturating_mul(BATCH)..found.len().min(batch.saturating_add(1).saturating_mul(BATCH));
            if files.is_empty() || batch > shared.last.load(Ordering::Relaxed) {
                return outcome;
            }
            let mut left = self.most;
            for at in files {
                if self.stop.now() {
                    outcome.stopped = true;
                }
                if left == 0 || outcome.stopped {
                    break;
                }
                let path = found.path(at);
                let (dir, name) = split(base.below(path));
                match cursor.open(dir).map(|dir| dir.open_file(name)) {
                    Ok(Ok(file)) => left -= worker.search(path, file, left, &mut outcome).min(left),
                    // Gone or changed since the walk: it is not there any more.
                    Err(nix::errno::Errno::ENOENT) | Ok(Err(crate::workspace::OpenError::NotRegular(_))) => {}
                    Ok(Err(crate::workspace::OpenError::Os(nix::errno::Errno::ENOENT))) => {}
                    _ => outcome.unreadable.add(path),
                }
            }
            shared.add(batch, std::mem::take(&mut outcome.hits), self);
            if outcome.stopped || shared.stopped.load(Ordering::Relaxed) {
                shared.stopped.store(true, Ordering::Relaxed);
                return outcome;
            }
        }
    }

    /// What a file's hits count as.
    fn weight(&self, hits: &Hits) -> usize {
        match self.want {
            Want::Lines => hits.matches,
            Want::Files | Want::Counts => 1,
        }
    }
}

struct Shared {
    next: AtomicUsize,
    /// Batches after this one cannot contribute any more.
    last: AtomicUsize,
    stopped: AtomicBool,
    results: Mutex<Results>,
}

#[derive(Default)]
struct Results {
    batches: BTreeMap<usize, Vec<Hits>>,
    total: usize,
}

impl Shared {
    /// Keeps a batch's hits, and drops those of later batches that are not needed: memory stays at about twice the
    /// results asked for, however far another thread is behind.
    fn add(&self, batch: usize, hits: Vec<Hits>, query: &Query<'_>) {
        if hits.is_empty() {
            return;
        }
        let weigh = |hits: &Vec<Hits>| hits.iter().map(|hits| query.weight(hits)).sum::<usize>();
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.total += weigh(&hits);
        results.batches.insert(batch, hits);
        while let Some((_, tail)) = results.batches.last_key_value() {
            let rest = results.total - weigh(tail);
            if rest < query.most {
                break;
            }
            results.batches.pop_last();
            results.total = rest;
        }
        if results.total >= query.most
            && let Some((last, _)) = results.batches.last_key_value()
        {
            self.last.fetch_min(*last, Ordering::Relaxed);
        }
    }
}

/// One thread's searcher and buffers.
struct Worker<'a> {
    query: &'a Query<'a>,
    searcher: Searcher,
    head: Vec<u8>,
    buffer: Vec<u8>,
}

impl<'a> Worker<'a> {
    fn new(query: &'a Query<'a>) -> Self {
        let searcher = SearcherBuilder::new()
            .line_number(query.want == Want::Lines)
            .before_context(query.context)
            .after_context(query.context)
            .binary_detection(BinaryDetection::none())
            .heap_limit(Some(limits::GREP_HEAP_MAX_BYTES))
            .build();
        // Read as shown, text may become three times as long.
        let buffer = vec![0; if query.regex.beyond.any { 192 } else { 64 } * 1024];
        Self { query, searcher, head: vec![0; 64 * 1024], buffer }
    }

    /// Searches a file for at most `most` results and returns what it found of them.
    fn search(&mut self, path: &[u8], file: File, most: usize, outcome: &mut Outcome) -> usize {
        let Regex { matcher, beyond } = self.query.regex;
        let mut collect = Collect { matcher, want: self.query.want, most, lines: Vec::new(), matches: 0, units: 0 };
        let ended = match Text::open(file, &mut self.head, &mut self.buffer, beyond.any, self.query.stop) {
            Ok(Some(mut text)) => {
                let ended = self.searcher.search_reader(matcher, &mut text, &mut collect);
                if text.foreign && beyond.some {
                    outcome.foreign.add(path);
                }
                ended
            }
            Ok(None) => {
                outcome.binary.add(path);
                Ok(())
            }
            Err(error) => Err(error),
        };
        match ended {
            Ok(()) => {}
            Err(error) if error.get_ref().is_some_and(|inner| inner.is::<Stopped>()) => outcome.stopped = true,
            Err(error) if error.to_string().contains("allocation limit") => outcome.long.add(path),
            Err(_) => outcome.unreadable.add(path),
        }
        if collect.matches == 0 {
            return 0;
        }
        let hits = Hits { path: path.to_vec(), lines: collect.lines, matches: collect.matches };
        let weight = self.query.weight(&hits);
        outcome.hits.push(hits);
        weight
    }
}

struct Collect<'a> {
    matcher: &'a RegexMatcher,
    want: Want,
    most: usize,
    lines: Vec<Line>,
    matches: usize,
    units: usize,
}

impl Collect<'_> {
    fn push(&mut self, line: Line) {
        if let Line::Match(_, text) | Line::Before(_, text) | Line::After(_, text) = &line {
            self.units += text::json_units(text);
        }
        self.lines.push(line);
    }
}

impl Sink for Collect<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.matches += 1;
        match self.want {
            Want::Files => return Ok(false),
            Want::Counts => return Ok(true),
            Want::Lines => {}
        }
        let hit = self.matcher.find(found.bytes()).ok().flatten().map(|hit| hit.start()..hit.end());
        self.push(Line::Match(found.line_number().unwrap_or(0), preview::line(found.bytes(), hit)));
        // More than a result can show is not needed either.
        Ok(self.matches < self.most && self.units <= limits::SEARCH_OUTPUT_MAX_UNITS)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let text = preview::line(context.bytes(), None);
        let number = context.line_number().unwrap_or(0);
        self.push(match context.kind() {
            SinkContextKind::Before => Line::Before(number, text),
            _ => Line::After(number, text),
        });
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.push(Line::Gap);
        Ok(true)
    }
}
