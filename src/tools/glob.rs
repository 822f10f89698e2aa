//! `glob`: finds files by their paths.

use super::Finished;
use super::fields::{Field, Kind, optional, required};
use super::schema::Schema;
use super::search::note::Notes;
use super::search::pattern::Pattern;
use super::search::{Start, finish, max_results, path, pattern, start};
use crate::gate::{Approved, Proposal};
use crate::wire::{Approve, Operation, ToolSpec};
use crate::workspace::walk::{Choice, Found, Select, Stop, walk};
use crate::workspace::{FileError, RelPath, Workspace};
use crate::{limits, text};
use serde::{Deserialize, Serialize};

use std::os::unix::ffi::OsStrExt;
use tokio_util::sync::CancellationToken;

const TOOL: &str = "glob";

// `max_results` names it.
const _: () = assert!(limits::SEARCH_RESULTS_DEFAULT == 100);
const FIELDS: &[Field] = &[
    required(
        "pattern",
        Kind::Text(limits::PATH_MAX_UNITS),
        "Glob pattern. * stays within a name, ** crosses directories.",
    ),
    optional("path", Kind::Text(limits::PATH_MAX_UNITS), "Directory to search in; the workspace if absent."),
    optional("max_results", Kind::Int(1, limits::SEARCH_RESULTS_MAX as i64), "Most paths to return; default 100."),
];

/// How the model sees it.
pub fn spec() -> ToolSpec {
    ToolSpec::new(
        TOOL,
        "Find files in the workspace by name or path: *.rs (at any depth), src/**/*.{ts,tsx}, docs/*.md. \
         Prefer it to find or ls in the shell. Gives sorted paths relative to the workspace; directories and \
         symbolic links are not listed. Hidden files are found, .git is not, nor what .gitignore hides \
         unless pattern or path names it literally. `truncated` says whether there are more.",
        &Schema(FIELDS),
    )
}

/// The model's arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    pattern: String,
    path: Option<String>,
    #[serde(default, deserialize_with = "max_results")]
    max_results: Option<usize>,
}

/// A search that can be shown to the host.
#[derive(Debug)]
pub struct Call {
    given: String,
    path: RelPath,
    pattern: Pattern,
    most: usize,
}

impl Call {
    /// Refuses patterns that do not compile and paths that leave the workspace.
    pub fn prepare(args: Args, workspace: &Workspace) -> Result<Self, String> {
        if args.pattern.is_empty() {
            return Err(format!("{TOOL}: field `pattern` is empty; use ** for all files"));
        }
        let (given, path) = path(TOOL, args.path, workspace)?;
        let pattern = pattern((TOOL, "pattern"), &args.pattern, &path, workspace, false)?;
        Ok(Self { given, path, pattern, most: args.max_results.unwrap_or(limits::SEARCH_RESULTS_DEFAULT) })
    }
}

impl Proposal for Call {
    fn approve(&self) -> Approve {
        Approve::path(Operation::Glob, self.given.clone())
    }
}

#[derive(Serialize)]
struct Files {
    files: Vec<String>,
    truncated: bool,
    count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// Searches.
pub fn run(call: Approved<Call>, workspace: &Workspace, cancel: &CancellationToken) -> Finished {
    let call = call.into_inner();
    finish(Operation::Glob, &call.path, cancel, |stop| search(&call, workspace, stop))
}

fn search(call: &Call, workspace: &Workspace, stop: Stop<'_>) -> Result<Files, FileError> {
    match start(workspace, &call.path)? {
        Start::Directory(base) => Ok(render(call, workspace, &walk(&base, &call.pattern, stop))),
        Start::File(_) => {
            let path = call.path.as_path().as_os_str().as_bytes();
            let hit = call.pattern.file(path) != Choice::Leave;
            let files: Vec<String> = hit.then(|| shown_whole(path)).into_iter().collect();
            let note = Some("path is a file; give a directory to search in".to_owned());
            Ok(Files { count: files.len(), files, truncated: false, note })
        }
    }
}

fn render(call: &Call, workspace: &Workspace, found: &Found) -> Files {
    let mut notes = Notes::default();
    let mut files = Vec::new();
    let (mut units, mut full) = (0, false);
    while files.len() < found.len().min(call.most) {
        let path = shown_whole(found.path(files.len()));
        units += text::json_units(&path) + r#""","#.len();
        if units > limits::SEARCH_OUTPUT_MAX_UNITS {
            full = true;
            break;
        }
        files.push(path);
    }
    let more = found.len() > files.len();
    let cut = format!("These are the first {} of {} files", files.len(), found.len());
    if full {
        notes.add(format!("{cut}, cut at the size limit of a result: narrow the pattern or the path"));
    } else if more {
        notes.cut(&cut, call.most, "the pattern or the path");
    }
    if let Some(advice) = call.pattern.advice(found.len() == 0, &call.path, workspace) {
        notes.add(advice);
    }
    notes.names((0..files.len()).map(|at| found.path(at)));
    notes.passed(&found.passed, ": begin pattern with the path of one to find what it hides");
    if found.full {
        notes.add("The tree has too many files to list them all: search a smaller path");
    }
    if found.stopped {
        notes.stopped(false);
    }
    let truncated = more || found.full || found.stopped;
    Files { count: files.len(), files, truncated, note: notes.text() }
}

/// A name as JSON can hold it: not shortened, so that it can be used as it is.
fn shown_whole(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
