//! `describe_tools` and `call_tool`: the catalog (PROTOCOL §7.2, §7.3).

use super::{HostTool, Operation};
use crate::limits;
use crate::tools::fields::{Kind, required};

pub(super) const DESCRIBE_TOOLS: HostTool = HostTool {
    name: "describe_tools",
    description: "Look up catalog tools. With an empty `names` list: the directory (names and summaries). With names: the full schema of their arguments. Do this before you call a catalog tool for the first time.",
    operations: &[Operation::new(
        "",
        "describe_tools",
        &[required("names", Kind::Texts(0, usize::MAX, 200), "Tool names, or an empty list for the directory.")],
    )
    .reading()],
};

pub(super) const CALL_TOOL: HostTool = HostTool {
    name: "call_tool",
    description: "Call a catalog tool by its name, with arguments as `describe_tools` shows them. `_select` inside `args` is a jq program that the host applies to the result: use it to get only what you need of a large one. A result that is too large is written to a file in the workspace; you get its path and a preview, and can search it with `grep` or read parts with `read_file`.",
    operations: &[Operation::new(
        "",
        "call_tool",
        &[
            required("tool", Kind::Text(limits::TOOL_ID_MAX_UNITS), "The catalog tool's name."),
            required("args", Kind::Object, "The tool's arguments; `{}` if it takes none."),
        ],
    )],
};
