//! What `grep` and `glob` share.

pub(super) mod content;
pub(super) mod note;
pub(crate) mod pattern;
pub(super) mod preview;
pub(super) mod regex;
mod source;

use super::Finished;
use super::arguments::whole;
use super::file_result::{confined, done, failed};
use crate::limits;
use crate::os;
use crate::wire::{Operation, check};
use crate::workspace::walk::{Base, Stop};
use crate::workspace::{FileError, RelPath, Workspace};
use pattern::Pattern;
use serde::{Deserializer, Serialize};
use std::fs::File;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// Where a search starts.
pub(super) enum Start {
    /// A directory, searched with what is below it.
    Directory(Base),
    /// One file.
    File(File),
}

/// Opens what the caller named; links inside the workspace are followed here, and only here.
pub(super) fn start(workspace: &Workspace, path: &RelPath) -> Result<Start, FileError> {
    match workspace.open_dir(path) {
        Ok(dir) => Ok(Start::Directory(Base::new(workspace, path, dir))),
        Err(error @ FileError::Path(_)) => Err(error),
        Err(_) => workspace.open_file(path).map(Start::File),
    }
}

/// The path argument, the workspace itself if there is none.
pub(super) fn path(tool: &str, given: Option<String>, workspace: &Workspace) -> Result<(String, RelPath), String> {
    let given = given.unwrap_or_else(|| ".".to_owned());
    check::field("path", &given, limits::PATH_MAX_UNITS, "").map_err(|error| format!("{tool}: {error}"))?;
    let path = confined(&given, workspace).map_err(|error| format!("{tool}: {error}"))?;
    Ok((given, path))
}

/// A glob pattern argument of a search at `path`; `negatable` if a leading `!` turns it around.
pub(super) fn pattern(
    (tool, field): (&str, &'static str),
    given: &str,
    path: &RelPath,
    workspace: &Workspace,
    negatable: bool,
) -> Result<Pattern, String> {
    check::field(field, given, limits::PATH_MAX_UNITS, "").map_err(|error| format!("{tool}: {error}"))?;
    let base = path.as_path().to_str().unwrap_or_default();
    let pattern = Pattern::new(given, base, workspace.root(), negatable);
    pattern.map_err(|error| format!("{tool}: field `{field}`: {error}"))
}

/// The number of results asked for.
pub(super) fn max_results<'de, D: Deserializer<'de>>(source: D) -> Result<Option<usize>, D::Error> {
    whole(source, 1..=limits::SEARCH_RESULTS_MAX)
}

/// Runs a search to its end or its time limit.
pub(super) fn finish<T: Serialize>(
    operation: Operation,
    path: &RelPath,
    cancel: &CancellationToken,
    search: impl FnOnce(Stop<'_>) -> Result<T, FileError>,
) -> Finished {
    match search(Stop { cancel, deadline: Instant::now() + limits::SEARCH_TIMEOUT, ending: os::stopping }) {
        Ok(found) => done(operation, path, &found),
        Err(error) => failed(operation, path, &format!("Error searching: {error}")),
    }
}
