//! `edit_file`: one text in a file replaced by another, and nothing else changed.

use super::fields::{Field, Kind, optional, required};
use super::file_result::{confined, done, failed, notes};
use super::schema::Schema;
use super::{Finished, skill};
use crate::gate::{Approved, Proposal};
use crate::limits;
use crate::text::{self, NoEdit};
use crate::wire::{Approve, Operation, ToolSpec};
use crate::workspace::{FileError, Fingerprint, Handover, RelPath, Workspace};
use serde::{Deserialize, Serialize};

/// No edit makes a file larger than it could read again.
const MAX_BYTES: usize = limits::FILE_MAX_BYTES as usize;

const FIELDS: &[Field] = &[
    required("path", Kind::Text(limits::PATH_MAX_UNITS), "The file, relative to the workspace or absolute inside it."),
    required(
        "old_string",
        Kind::Text(limits::CONTENT_MAX_UNITS),
        "The text to replace, exactly as it stands in the file.",
    ),
    required("new_string", Kind::Text(limits::CONTENT_MAX_UNITS), "What to put in its place; empty to delete."),
    optional("replace_all", Kind::Flag, "Replace every occurrence; default false."),
];

/// How the model sees it.
pub fn spec() -> ToolSpec {
    ToolSpec::new(
        "edit_file",
        "Replace text in a file in the workspace. old_string is taken literally and must occur exactly once; \
         give enough of the lines around it to make it unique, or set replace_all. new_string is inserted as \
         it is, with the file's line ends. The rest of the file does not change.",
        &Schema(FIELDS),
    )
}

/// The model's arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    path: String,
    old_string: String,
    new_string: String,
    replace_all: Option<bool>,
}

/// An edit that can be shown to the host.
#[derive(Debug)]
pub struct Call {
    path: RelPath,
    old: String,
    new: String,
    all: bool,
    /// What the host approves the change of.
    before: Result<Fingerprint, FileError>,
}

impl Call {
    /// Refuses paths that leave the workspace and edits that could do nothing, and notes what is there now.
    pub fn prepare(args: Args, workspace: &Workspace) -> Result<Self, String> {
        let path = confined(&args.path, workspace).map_err(|error| format!("Error editing file: {error}"))?;
        if args.old_string.is_empty() {
            return Err(NoEdit::EmptyPattern.to_string());
        }
        if args.old_string == args.new_string {
            return Err(NoEdit::Same.to_string());
        }
        let before = workspace.fingerprint(&path);
        Ok(Self { path, old: args.old_string, new: args.new_string, all: args.replace_all.unwrap_or(false), before })
    }

    /// Refuses a change of a skill's frontmatter in a session without a person (PROTOCOL T13). An edit that will fail is let
    /// through, so that it fails with its own message; one of a file that changes meanwhile fails too.
    pub fn guarded(self, workspace: &Workspace, session_id: Option<&str>) -> Result<Self, String> {
        if let Some(old) = skill::protected(workspace, &self.path, session_id)?
            && let Ok(edited) = text::replace(&old, &self.old, &self.new, self.all, MAX_BYTES)
        {
            skill::same_frontmatter(&old, &edited.content)?;
        }
        Ok(self)
    }
}

impl Proposal for Call {
    fn approve(&self) -> Approve {
        Approve {
            old_string: Some(self.old.clone()),
            new_string: Some(self.new.clone()),
            ..Approve::path(Operation::Edit, self.path.to_string())
        }
    }
}

#[derive(Serialize)]
struct Edited {
    edited: bool,
    path: String,
    replacements: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// The host took its copy when the file was written.
const STALE: &str = "A download offered to the user before still has the old content: write the whole file with write_file \
                     to replace it.";

/// Edits.
pub fn run(call: Approved<Call>, workspace: &Workspace) -> Finished {
    let call = call.into_inner();
    match edit(&call, workspace) {
        Ok((replacements, handover)) => {
            let stale = call.path.artifact().map(|_| STALE.to_owned());
            let note = notes([handover.map(|handover| handover.to_string()), stale]);
            let edited = Edited { edited: true, path: call.path.to_string(), replacements, note };
            done(Operation::Edit, &call.path, &edited)
        }
        Err(error) => failed(Operation::Edit, &call.path, &error),
    }
}

fn edit(call: &Call, workspace: &Workspace) -> Result<(usize, Option<Handover>), String> {
    let explained = |error: FileError| format!("Error editing file: {error}");
    let before = call.before.clone().map_err(explained)?;
    let (content, print) = workspace.read(&call.path, limits::FILE_MAX_BYTES).map_err(explained)?;
    if print != before {
        return Err(explained(FileError::Changed { path: call.path.to_string() }));
    }
    let edited =
        text::replace(&content, &call.old, &call.new, call.all, MAX_BYTES).map_err(|error| error.to_string())?;
    drop(content);
    let handover = workspace.write_atomic(&call.path, &edited.content, &print).map_err(explained)?;
    Ok((edited.count, handover))
}
