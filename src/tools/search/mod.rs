//! What `grep` and `glob` share.

pub(super) mod content;
pub(super) mod note;
pub(crate) mod pattern;
pub(super) mod preview;
mod source;

use super::file_result::confined;
use crate::limits;
use crate::wire::check;
use crate::workspace::walk::Base;
use crate::workspace::{FileError, RelPath, Workspace};
use std::fs::File;

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

/// The number of results asked for.
pub(super) fn max_results(tool: &str, given: Option<u64>) -> Result<usize, String> {
    let Some(given) = given else { return Ok(limits::SEARCH_RESULTS_DEFAULT) };
    usize::try_from(given).ok().filter(|max| (1..=limits::SEARCH_RESULTS_MAX).contains(max)).ok_or_else(|| {
        format!(
            "{tool}: field `max_results` must be an integer from 1 to {}; received {given}",
            limits::SEARCH_RESULTS_MAX
        )
    })
}
