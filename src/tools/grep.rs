//! `grep`: searches file contents in-process. The pattern is only ever a pattern: no program is started and no text of the
//! model's becomes an option (CASES G01).

use super::Finished;
use super::fields::{Field, Kind, TEXT, optional, required};
use super::file_result::{done, failed};
use super::schema::Schema;
use super::search::content::{Hits, Line, Outcome, Query, Want};
use super::search::note::{Notes, shown};
use super::search::pattern::{All, GIT, OUTSIDE, Pattern};
use super::search::{Start, max_results, path, start};
use crate::gate::{Approved, Proposal};
use crate::wire::{Approve, Operation, ToolSpec, check};
use crate::workspace::walk::{Select, Stop, walk};
use crate::workspace::{FileError, RelPath, Workspace};
use crate::{limits, text};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use regex_syntax::hir::Look;
use serde::{Deserialize, Serialize};

use std::os::unix::ffi::OsStrExt;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

const TOOL: &str = "grep";

// `max_results` names it.
const _: () = assert!(limits::SEARCH_RESULTS_DEFAULT == 100);
const FIELDS: &[Field] = &[
    required("pattern", TEXT, "Regular expression, or plain text with literal."),
    optional("path", TEXT, "File or directory to search; the workspace if absent."),
    optional("glob", TEXT, "Only files whose name (*.rs) or path (src/**/*.rs) matches; !*.min.js leaves files out."),
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
    max_results: Option<u64>,
    include_line_numbers: Option<bool>,
    context_lines: Option<u64>,
    ignore_case: Option<bool>,
    literal: Option<bool>,
    output_mode: Option<Mode>,
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
    matcher: RegexMatcher,
    filter: Option<Pattern>,
    most: usize,
    numbers: bool,
    context: usize,
    mode: Mode,
}

impl Call {
    /// Refuses patterns that do not compile and paths that leave the workspace.
    pub fn prepare(args: Args, workspace: &Workspace) -> Result<Self, String> {
        let field =
            |name, value: &str, max| check::field(name, value, max, "").map_err(|error| format!("{TOOL}: {error}"));
        field("pattern", &args.pattern, limits::GREP_PATTERN_MAX_UNITS)?;
        let (given, path) = path(TOOL, args.path, workspace)?;
        let filter = match &args.glob {
            Some(glob) => {
                field("glob", glob, limits::PATH_MAX_UNITS)?;
                let base = path.as_path().to_str().unwrap_or_default();
                let filter = Pattern::new(glob, base, workspace.root(), true);
                Some(filter.map_err(|error| format!("{TOOL}: field `glob`: {error}"))?)
            }
            None => None,
        };
        let context = args.context_lines.unwrap_or(0);
        let context = usize::try_from(context)
            .ok()
            .filter(|lines| *lines <= limits::GREP_CONTEXT_MAX_LINES)
            .ok_or_else(|| {
                format!(
                    "{TOOL}: field `context_lines` must be an integer from 0 to {}; received {context}",
                    limits::GREP_CONTEXT_MAX_LINES
                )
            })?;
        Ok(Self {
            given,
            path,
            matcher: matcher(&args.pattern, args.ignore_case.unwrap_or(false), args.literal.unwrap_or(false))?,
            filter,
            most: max_results(TOOL, args.max_results)?,
            numbers: args.include_line_numbers.unwrap_or(true),
            context,
            mode: args.output_mode.unwrap_or(Mode::Content),
        })
    }
}

/// Compiles the pattern; the error says where it is wrong.
fn matcher(pattern: &str, ignore_case: bool, literal: bool) -> Result<RegexMatcher, String> {
    if !literal {
        // Asked first, since the matcher wraps the pattern before it reads it and would point into the wrapping.
        let parsed = regex_syntax::ParserBuilder::new().multi_line(true).utf8(false).build().parse(pattern);
        let parsed = parsed.map_err(|error| {
            let (at, fault) = position(&error);
            let advice = "escape special characters with a backslash, or set literal to search for plain text";
            format!("{TOOL}: bad pattern at character {at}: {fault}; {advice}")
        })?;
        // The searcher hands over lines with or without their end, whole files or parts of them: these would match by chance.
        let anchors = parsed.properties().look_set();
        if anchors.contains(Look::Start) || anchors.contains(Look::End) {
            return Err(format!(
                "{TOOL}: bad pattern: lines are searched one by one, so use ^ and $ instead of \\A, \\z and (?-m)"
            ));
        }
    }
    let build = |pattern: &str| {
        RegexMatcherBuilder::new()
            .case_insensitive(ignore_case)
            .fixed_strings(literal)
            .multi_line(true)
            .crlf(true)
            .size_limit(limits::GREP_REGEX_MAX_BYTES)
            .dfa_size_limit(limits::GREP_REGEX_MAX_BYTES)
            .build(pattern)
    };
    // The matcher puts the pattern in brackets; with (?x) a comment at its end would swallow the closing one.
    let built = build(pattern).or_else(|error| build(&format!("{pattern}\n")).map_err(|_| error));
    built.map_err(|error| match super::one_line(&error.to_string()) {
        banned if banned.contains("is not allowed in a regex") => format!(
            "{TOOL}: bad pattern: a pattern matches within one line, so it cannot contain a line break (\\n or \\r); `$` \
             matches before LF and CRLF alike, so leave \\r? out, and use bash to find carriage returns"
        ),
        fault => format!("{TOOL}: bad pattern: {fault}"),
    })
}

/// Where a pattern is wrong, counted from 1, and why.
fn position(error: &regex_syntax::Error) -> (usize, String) {
    match error {
        regex_syntax::Error::Parse(error) => (error.span().start.column, error.kind().to_string()),
        regex_syntax::Error::Translate(error) => (error.span().start.column, error.kind().to_string()),
        other => (1, super::one_line(&other.to_string())),
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
    let stop = Stop { cancel, deadline: Instant::now() + limits::SEARCH_TIMEOUT };
    match search(&call, workspace, stop) {
        Ok(found) => done(Operation::Grep, &call.path, &found),
        Err(error) => failed(Operation::Grep, &call.path, &format!("Error searching: {error}")),
    }
}

fn search(call: &Call, workspace: &Workspace, stop: Stop<'_>) -> Result<Found, FileError> {
    let mut notes = Notes::default();
    let want = match call.mode {
        Mode::Content => Want::Lines,
        Mode::Files => Want::Files,
        Mode::Count => Want::Counts,
    };
    // One more than is shown, to know whether there are more.
    let query = Query { matcher: &call.matcher, want, context: call.context, most: call.most + 1, stop };
    let mut full = false;
    let mut stopped = false;
    let outcome = match start(workspace, &call.path)? {
        Start::File(file) => query.one(call.path.as_path().as_os_str().as_bytes(), file),
        Start::Directory(base) => {
            let select: &dyn Select = call.filter.as_ref().map_or(&All, |filter| filter);
            let listed = walk(&base, select, stop);
            notes.passed(&listed.passed);
            if listed.full {
                notes.add("The tree has too many files to list them all: search a smaller path");
            }
            (full, stopped) = (listed.full, listed.stopped);
            if call.filter.as_ref().is_some_and(|filter| filter.outside) {
                notes.add(OUTSIDE);
            }
            if call.filter.as_ref().is_some_and(|filter| filter.git) {
                notes.add(GIT);
            }
            query.all(&base, &listed)
        }
    };
    stopped |= outcome.stopped;
    if stopped {
        notes.stopped();
    }
    notes.sample("binary files were not searched", &outcome.binary, "");
    notes.sample("files have a line too long to search and were searched up to it", &outcome.long, "");
    notes.sample("files could not be read", &outcome.unreadable, "");
    Ok(render(call, outcome, full || stopped, notes))
}

fn render(call: &Call, outcome: Outcome, incomplete: bool, mut notes: Notes) -> Found {
    let mut text = Rendered { call, text: String::new(), units: 0, count: 0, full: false };
    let mut truncated = incomplete;
    for hits in &outcome.hits {
        if !text.hits(hits) {
            truncated = true;
            break;
        }
    }
    if text.full {
        notes.add("The result is cut at its size limit: narrow the pattern or the path");
    }
    Found { matches: text.text, truncated, count: text.count, note: notes.text() }
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
