//! What the file tools have in common: results, and the check of a path before the host is asked.

use super::Finished;
use crate::limits;
use crate::text;
use crate::wire::{Operation, Report};
use crate::workspace::{FileError, RelPath, Workspace};
use serde::Serialize;

/// A result's compact JSON and its report.
pub(super) fn done(operation: Operation, path: &RelPath, result: &impl Serialize) -> Finished {
    match serde_json::to_string(result) {
        Ok(text) => Finished { text, report: Some(Report::path(operation, path.to_string(), Ok(()))) },
        Err(error) => failed(operation, path, &error.to_string()),
    }
}

/// A failure; the host hears of it too.
pub(super) fn failed(operation: Operation, path: &RelPath, error: &str) -> Finished {
    #[derive(Serialize)]
    struct Failure<'a> {
        error: &'a str,
    }
    let error = text::cut_json(error, limits::ERROR_MAX_UNITS);
    // A struct of one string always encodes.
    let text = serde_json::to_string(&Failure { error }).unwrap_or_default();
    Finished { text, report: Some(Report::path(operation, path.to_string(), Err(error.to_owned()))) }
}

/// What else the model should know of a result, in one text.
pub(super) fn notes(notes: [Option<String>; 2]) -> Option<String> {
    notes.into_iter().flatten().reduce(|all, note| all + " " + &note)
}

/// The path, if it stays in the workspace by its letters and by its links, bound to where it leads now. Whether anything is
/// there is for the tool to find out after the host's approval.
pub(super) fn confined(raw: &str, workspace: &Workspace) -> Result<RelPath, FileError> {
    Ok(workspace.bound(workspace.path(raw)?)?)
}
