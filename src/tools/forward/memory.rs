//! `memory`: what is worth knowing in later sessions.

use super::{HostTool, Operation};
use crate::tools::fields::{Field, Kind, optional, required};

const SCOPE: Field =
    required("scope", Kind::Scope, "Which part of memory, such as `general`, `preferences` or `project/<name>`.");
const ID: Field = required("id", Kind::Uuid, "An entry's id as `query`, `list` or `write` returned it.");
const TAGS: Field = optional("tags", Kind::Texts(0, usize::MAX, 100), "Words the entry can be found by.");
const LIMIT: Field = optional("limit", Kind::Int(1, 100), "Most entries to return.");

pub(super) const MEMORY: HostTool = HostTool {
    name: "memory",
    description: "Long-term memory that outlives this conversation. Pick `type`:
- `query`: find entries of a scope by words and tags. Do this before answering about earlier work, decisions, people or preferences.
- `read`: one entry whole, by id.
- `list`: the entries of a scope.
- `write`: remember one fact, decision or preference in a sentence or two, with tags. Never credentials.
- `delete`: remove an entry that has become wrong, by id.",
    operations: &[
        Operation::new("write", "memory_write", &[SCOPE, required("content", Kind::Text(100_000), "The entry's text."), TAGS]),
        Operation::new(
            "query",
            "memory_query",
            &[SCOPE, optional("query", Kind::Text(10_000), "Words to look for; without them only scope and tags count."), LIMIT, TAGS],
        )
        .reading(),
        Operation::new("read", "memory_read", &[ID]).reading(),
        Operation::new("delete", "memory_delete", &[ID]),
        Operation::new("list", "memory_list", &[SCOPE, LIMIT]).reading(),
    ],
};
