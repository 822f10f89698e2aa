//! `write_file`: a whole file, exactly as given.

use super::fields::{Field, Kind, required};
use super::file_result::{confined, done, failed, notes};
use super::schema::Schema;
use super::{Finished, skill};
use crate::gate::{Approved, Proposal};
use crate::limits;
use crate::wire::{Approve, Operation, ToolSpec};
use crate::workspace::{FileError, Fingerprint, RelPath, Workspace};
use serde::{Deserialize, Serialize};

const FIELDS: &[Field] = &[
    required("path", Kind::Text(limits::PATH_MAX_UNITS), "The file, relative to the workspace or absolute inside it."),
    required("content", Kind::Text(limits::CONTENT_MAX_UNITS), "All of the file's new content."),
];

/// How the model sees it.
pub fn spec() -> ToolSpec {
    ToolSpec::new(
        "write_file",
        "Write a file in the workspace: creates it and its directories, or replaces all of its content. The \
         content is taken exactly as given. To change part of a file use edit_file. Files under artifacts/ \
         become downloads for the user.",
        &Schema(FIELDS),
    )
}

/// The model's arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    path: String,
    content: String,
}

/// A write that can be shown to the host.
#[derive(Debug)]
pub struct Call {
    path: RelPath,
    content: String,
    /// What the host approves the replacement of.
    before: Result<Fingerprint, FileError>,
}

impl Call {
    /// Refuses paths that leave the workspace and notes what is there now: what the host approves is the replacement of that.
    pub fn prepare(args: Args, workspace: &Workspace) -> Result<Self, String> {
        let path = confined(&args.path, workspace).map_err(|error| format!("Error writing file: {error}"))?;
        let before = workspace.fingerprint(&path);
        Ok(Self { path, content: args.content, before })
    }

    /// Refuses a change of a skill's frontmatter in a session without a person (PROTOCOL T13).
    pub fn guarded(self, workspace: &Workspace, session_id: Option<&str>) -> Result<Self, String> {
        match skill::protected(workspace, &self.path, session_id)? {
            Some(old) => skill::same_frontmatter(&old, self.content.as_bytes()).map(|()| self),
            None => Ok(self),
        }
    }
}

impl Proposal for Call {
    fn approve(&self) -> Approve {
        Approve { content: Some(self.content.clone()), ..Approve::path(Operation::Write, self.path.to_string()) }
    }
}

#[derive(Serialize)]
struct Written {
    written: bool,
    path: String,
    bytes: usize,
    created: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// The host goes by the path's beginning.
fn not_offered(path: &RelPath) -> Option<String> {
    let path = path.artifact().is_some_and(|known| !known).then(|| path.as_path().display())?;
    Some(format!("Not offered to the user as a download: for that write it with the path {path}, spelled exactly so."))
}

/// Writes.
pub fn run(call: Approved<Call>, workspace: &Workspace) -> Finished {
    let Call { path, content, before } = call.into_inner();
    let result = before.and_then(|before| {
        let handover = workspace.write_atomic(&path, content.as_bytes(), &before)?;
        Ok((before == Fingerprint::Absent, handover))
    });
    match result {
        Ok((created, handover)) => {
            let note = notes([handover.map(|handover| handover.to_string()), not_offered(&path)]);
            let written = Written { written: true, path: path.to_string(), bytes: content.len(), created, note };
            done(Operation::Write, &path, &written)
        }
        Err(error) => failed(Operation::Write, &path, &format!("Error writing file: {error}")),
    }
}
