//! `save_artifact` and `audit`: what is handed over, and what was done.

use super::{HostTool, Operation};
use crate::limits;
use crate::tools::fields::{Kind, optional, required};

pub(super) const SAVE_ARTIFACT: HostTool = HostTool {
    name: "save_artifact",
    description: "Store a file with the host, outside the workspace. `tier` says who it is kept for: `session` (this conversation), `user` (this person) or `agent` (everyone this agent works for). For a file the user should download from the workspace, write it to `artifacts/` with `write_file` instead. Content of more than 100 characters that looks like base64 is stored decoded.",
    operations: &[Operation::new(
        "",
        "save_artifact",
        &[
            required("tier", Kind::Choice(&["agent", "user", "session"]), "Who it is kept for."),
            required(
                "path",
                Kind::Text(limits::PATH_MAX_UNITS),
                "Name or relative path of the file, with its extension.",
            ),
            required("content", Kind::Text(limits::CONTENT_MAX_UNITS), "The file's text, or base64 for other data."),
        ],
    )],
};

pub(super) const AUDIT: HostTool = HostTool {
    name: "audit",
    description: "Look into the host's audit log: what this agent did, newest first as the host orders it. Use it when the user asks what happened, or to verify what an earlier turn really did. All filters are optional.",
    // The host takes the filters in an object of their own; sent flat they would name the action (PROTOCOL T7).
    operations: &[Operation::new(
        "",
        "audit_query",
        &[
            optional("action", Kind::Text(100), "Only events of this action, such as `sandbox_bash`."),
            optional("sessionId", Kind::Text(128), "Only events of this session."),
            optional("limit", Kind::Int(1, 500), "Most events to return."),
        ],
    )
    .reading()
    .wrapped_in("filter")],
};
