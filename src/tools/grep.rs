//! `grep`: searches file contents in-process. The pattern is only ever a pattern: no program is started and no text of the
//! model's becomes an option (CASES G01).

use super::Finished;
use super::arguments::whole;
use super::fields::{Field, Kind, optional, required};
use super::schema::Schema;
use super::search::content::{Hits, Line, Outcome, Query, Want};
use super::search::note::{Notes, shown};
use super::search::pattern::{All, Pattern};
use super::search::regex::Regex;
use super::search::{Start, finish, max_results, path, pattern, start};
use crate::gate::{Approved, Proposal};
use crate::wire::{Approve, Operation, ToolSpec, check};
use crate::workspace::walk::{Select, Stop, walk};
use crate::workspace::{FileError, RelPath, Workspace};
use crate::{limits, text};
use serde::{Deserialize, Deserializer, Serialize};
use std::os::unix::ffi::OsStrExt;
use tokio_util::sync::CancellationToken;

const TOOL: &str = "grep";

// `max_results` names it.
const _: () = assert!(limits::SEARCH_RESULTS_DEFAULT == 100);
const FIELDS: &[Field] = &[
    required("pattern", Kind::Text(limits::GREP_PATTERN_MAX_UNITS), "Regular expression, or plain text with literal."),
    optional("path", Kind::Text(limits::PATH_MAX_UNITS), "File or directory to search; the workspace if absent."),
    optional(
        "glob",
        Kind::Text(limits::PATH_MAX_UNITS),
        "Only files whose name (*.rs) or path (src/**/*.rs) matches; !*.min.js leaves files out.",
    ),
    optional("ignore_case", Kind::Flag, "Upper and lower case are the same; default false."),
    optional("literal", Kind::Flag, "Take the pattern as plain text; default false."),
    optional("output_mode", Kind::Choice(&["content", "files", "count"]), "Default content."),
    optional(
        "context_lines",
        Kind::Int(0, limits::GREP_CONTEXT_MAX_LINES as i64),
        "Lines to show before and after each match; default 0.",
    ),
    optional("include_line_numbers", Kind::Flag, "Default true."),
    optional(
        "max_results",
        Kind::Int(1, limits::SEARCH_RESULTS_MAX as i64),
        "Most matching lines (or files) to return; default 100.",
    ),
];

/// How the model sees it.
pub fn spec() -> ToolSpec {
    ToolSpec::new(
        TOOL,
        "Search file contents in the workspace by regular expression (Rust syntax: no look-around, no \
         back-references; matches stay within a line). Prefer it to grep or rg in the shell. Lines come back \
         as path:line:text, in the order of the paths. Hidden files are searched, .git is not, nor what \
         .gitignore hides unless you name it as path. `truncated` says whether there are more results; the \
         note says what was skipped. output_mode `files` gives only names and `count` the number of matching \
         lines per file: use them first when a pattern may be frequent.",
        &Schema(FIELDS),
    )
}

/// The model's arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default, deserialize_with = "max_results")]
    max_results: Option<usize>,
    include_line_numbers: Option<bool>,
    #[serde(default, deserialize_with = "context_lines")]
    context_lines: Option<usize>,
    ignore_case: Option<bool>,
    literal: Option<bool>,
    output_mode: Option<Mode>,
}

fn context_lines<'de, D: Deserializer<'de>>(source: D) -> Result<Option<usize>, D::Error> {
    whole(source, 0..=limits::GREP_CONTEXT_MAX_LINES)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Content,
    Files,
    Count,
}

/// A search that can be shown to the host.
#[derive(Debug)]
pub struct Call {
    given: String,
    path: RelPath,
    regex: Regex,
    filter: Option<Pattern>,
    most: usize,
    numbers: bool,
    context: usize,
    mode: Mode,
}

impl Call {
    /// Refuses patterns that do not compile and paths that leave the workspace.
    pub fn prepare(args: Args, workspace: &Workspace) -> Result<Self, String> {
        check::field("pattern", &args.pattern, limits::GREP_PATTERN_MAX_UNITS, "")
            .map_err(|error| format!("{TOOL}: {error}"))?;
        let (given, path) = path(TOOL, args.path, workspace)?;
        let filter = args.glob.map(|glob| pattern((TOOL, "glob"), &glob, &path, workspace, true)).transpose()?;
        Ok(Self {
            given,
            path,
            regex: Regex::new(TOOL, &args.pattern, args.ignore_case.unwrap_or(false), args.literal.unwrap_or(false))?,
            filter,
            most: args.max_results.unwrap_or(limits::SEARCH_RESULTS_DEFAULT),
            numbers: args.include_line_numbers.unwrap_or(true),
            context: args.context_lines.unwrap_or(0),
            mode: args.output_mode.unwrap_or(Mode::Content),
        })
    }
}

impl Proposal for Call {
    fn approve(&self) -> Approve {
        Approve::path(Operation::Grep, self.given.clone())
    }
}

#[derive(Serialize)]
struct Found {
    matches: String,
    truncated: bool,
    count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// Searches.
pub fn run(call: Approved<Call>, workspace: &Workspace, cancel: &CancellationToken) -> Finished {
    let call = call.into_inner();
    finish(Operation::Grep, &call.path, cancel, |stop| search(&call, workspace, stop))
}

fn search(call: &Call, workspace: &Workspace, stop: Stop<'_>) -> Result<Found, FileError> {
    let mut notes = Notes::default();
    let want = match call.mode {
        Mode::Content => Want::Lines,
        Mode::Files => Want::Files,
        Mode::Count => Want::Counts,
    };
    // One more than is shown, to know whether there are more.
    let query = Query { regex: &call.regex, want, context: call.context, most: call.most + 1, stop };
    let (mut full, mut stopped, mut one_file) = (false, false, false);
    let outcome = match start(workspace, &call.path)? {
        Start::File(file) => {
            one_file = true;
            query.one(call.path.as_path().as_os_str().as_bytes(), file)
        }
        Start::Directory(base) => {
            let select: &dyn Select = call.filter.as_ref().map_or(&All, |filter| filter);
            let listed = walk(&base, select, stop);
            notes.passed(&listed.passed, ": name one as path to search it");
            if listed.full {
                notes.add("The tree has too many files to list them all: search a smaller path");
            }
            (full, stopped) = (listed.full, listed.stopped);
            let advice = |filter: &Pattern| filter.advice(listed.len() == 0, &call.path, workspace);
            if let Some(advice) = call.filter.as_ref().and_then(advice) {
                notes.add(advice);
            }
            query.all(&base, &listed)
        }
    };
    stopped |= outcome.stopped;
    if stopped {
        notes.stopped(one_file);
    }
    notes.sample("binary files were not searched", &outcome.binary, "");
    notes.sample(
        "files have a line too long to search and were searched up to it",
        &outcome.long,
        ": search the rest with bash and grep -o",
    );
    notes.sample(
        "files are not UTF-8 and were searched for ASCII text only",
        &outcome.foreign,
        ": .+ in a regular expression matches the other characters",
    );
    notes.sample("files could not be read", &outcome.unreadable, "");
    Ok(render(call, outcome, full || stopped, notes))
}

fn render(call: &Call, outcome: Outcome, incomplete: bool, mut notes: Notes) -> Found {
    let mut lines = Rendered { call, text: String::new(), units: 0, count: 0, full: false };
    let mut truncated = incomplete;
    for hits in &outcome.hits {
        if !lines.hits(hits) {
            truncated = true;
            break;
        }
    }
    notes.names(outcome.hits.iter().map(|hits| hits.path.as_slice()));
    if lines.full {
        notes.add("The result is cut at its size limit: narrow the pattern or the path");
    } else if lines.count == call.most && truncated {
        let what = if call.mode == Mode::Content { "matching line" } else { "file" };
        notes.cut(&format!("Cut after {}", text::counted(lines.count, what)), call.most, "the pattern, path or glob");
    }
    Found { matches: lines.text, truncated, count: lines.count, note: notes.text() }
}

struct Rendered<'a> {
    call: &'a Call,
    text: String,
    units: usize,
    count: usize,
    full: bool,
}

impl Rendered<'_> {
    /// Adds a file's results; `false` when not all of them fit.
    fn hits(&mut self, hits: &Hits) -> bool {
        let path = shown(&hits.path);
        match self.call.mode {
            Mode::Files => self.counted(&path),
            Mode::Count => self.counted(&format!("{path}:{}", hits.matches)),
            Mode::Content => self.lines(&path, &hits.lines),
        }
    }

    fn counted(&mut self, line: &str) -> bool {
        if self.count == self.call.most || !self.line(line) {
            return false;
        }
        self.count += 1;
        true
    }

    fn lines(&mut self, path: &str, lines: &[Line]) -> bool {
        let mut kept = (self.text.len(), self.units);
        let gap = (self.call.context > 0 && !self.text.is_empty()).then_some(&Line::Gap);
        for line in gap.into_iter().chain(lines) {
            let fits = match line {
                Line::Match(number, text) => self.counted(&self.prefixed(path, ':', *number, text)),
                Line::Before(number, text) | Line::After(number, text) => {
                    self.line(&self.prefixed(path, '-', *number, text))
                }
                Line::Gap => self.line("--"),
            };
            if !fits {
                // The context and the separator of a match that is not shown.
                self.text.truncate(kept.0);
                self.units = kept.1;
                return false;
            }
            if matches!(line, Line::Match(..) | Line::After(..)) {
                kept = (self.text.len(), self.units);
            }
        }
        true
    }

    fn prefixed(&self, path: &str, mark: char, number: u64, text: &str) -> String {
        match self.call.numbers {
            true => format!("{path}{mark}{number}{mark}{text}"),
            false => format!("{path}{mark}{text}"),
        }
    }

    fn line(&mut self, line: &str) -> bool {
        let units = text::json_units(line) + 2;
        if self.units + units > limits::SEARCH_OUTPUT_MAX_UNITS {
            self.full = true;
            return false;
        }
        self.units += units;
        self.text.push_str(line);
        self.text.push('\n');
        true
    }
}
