//! File, shell and search tools where the sandbox is not a container: the host runs them (PROTOCOL §7.5). Only the
//! options the host knows are offered.

use super::{HostTool, Operation};
use crate::limits;
use crate::tools::fields::{Field, Kind, optional, required};
use crate::tools::skill_write::FIELDS as SKILL_FIELDS;

const PATH: Field = required("path", Kind::Text(limits::PATH_MAX_UNITS), "Relative to the workspace.");
const WITHIN: Field = optional("path", Kind::Text(limits::PATH_MAX_UNITS), "Where to search; the workspace if absent.");
const MOST: Field = optional("max_results", Kind::Int(1, limits::SEARCH_RESULTS_MAX as i64), "100 if absent.");

pub(super) const TOOLS: [&HostTool; 7] = [
    &HostTool {
        name: "bash",
        description: "Run a shell command in the workspace and return its output.",
        operations: &[Operation::new(
            "",
            "sandbox_bash",
            &[required("command", Kind::Text(limits::COMMAND_MAX_UNITS), "")],
        )
        .within(limits::BASH_FORWARDED_TIMEOUT)],
    },
    &HostTool {
        name: "read_file",
        description: "Read a text file of the workspace.",
        operations: &[Operation::new("", "sandbox_read_file", &[PATH]).reading()],
    },
    &HostTool {
        name: "write_file",
        description: "Write a whole file of the workspace, creating or replacing it. Files under `artifacts/` become downloads for the user.",
        operations: &[Operation::new(
            "",
            "sandbox_write_file",
            &[PATH, required("content", Kind::Text(limits::CONTENT_MAX_UNITS), "The whole new content.")],
        )],
    },
    &HostTool {
        name: "edit_file",
        description: "Replace the first occurrence of a text in a file of the workspace. Make `old_string` long enough to occur once.",
        operations: &[Operation::new(
            "",
            "sandbox_edit_file",
            &[
                PATH,
                required("old_string", Kind::Text(limits::CONTENT_MAX_UNITS), "The exact text to replace."),
                required("new_string", Kind::Text(limits::CONTENT_MAX_UNITS), "What takes its place."),
            ],
        )],
    },
    &HostTool {
        name: "skill_write",
        description: crate::tools::skill_write::DESCRIPTION,
        operations: &[Operation::new("", "skill_write", SKILL_FIELDS)],
    },
    &HostTool {
        name: "grep",
        description: "Search file contents by regular expression. Prefer it to searching in the shell.",
        operations: &[Operation::new(
            "",
            "sandbox_grep",
            &[
                required("pattern", Kind::Text(limits::GREP_PATTERN_MAX_UNITS), "Regular expression."),
                WITHIN,
                optional("glob", Kind::Text(limits::PATH_MAX_UNITS), "Only files whose path matches, such as `*.rs`."),
                MOST,
                optional("include_line_numbers", Kind::Flag, "true if absent."),
                optional(
                    "context_lines",
                    Kind::Int(0, limits::GREP_CONTEXT_MAX_LINES as i64),
                    "Lines around each match.",
                ),
            ],
        )
        .reading()],
    },
    &HostTool {
        name: "glob",
        description: "Find files by a glob pattern such as `src/**/*.rs`. Prefer it to listing in the shell.",
        operations: &[Operation::new(
            "",
            "sandbox_glob",
            &[required("pattern", Kind::Text(limits::PATH_MAX_UNITS), "Glob pattern."), WITHIN, MOST],
        )
        .reading()],
    },
];
