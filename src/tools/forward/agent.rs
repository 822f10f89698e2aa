//! `agent`: work given to another agent.

use super::{HostTool, Operation};
use crate::limits;
use crate::tools::fields::{Kind, optional, required};

pub(super) const AGENT: HostTool = HostTool {
    name: "agent",
    description: "Give a separate, well-described piece of work to another agent. It sees nothing of this conversation. Pick `type`:
- `delegate`: waits for the answer; with `wait: false` it returns a handle at once so that you can go on working or start more.
- `collect`: the answers of handles started with `wait: false`.
The host limits how many agents run at once and how deep they nest. Check what comes back before you rely on it.",
    operations: &[
        Operation::new(
            "delegate",
            "agent_delegate",
            &[
                required("task", Kind::Text(50_000), "The whole task: goal, constraints, what to return."),
                optional("context", Kind::Text(100_000), "What it has to know; no more than that."),
                optional(
                    "runner",
                    Kind::Choice(&["pi-coding-agent", "claude-code"]),
                    "`pi-coding-agent` for general work, `claude-code` preferably for code.",
                ),
                optional("model", Kind::Text(128), "Another model than the default one."),
                optional("maxTokens", Kind::Int(1, 200_000), "Most tokens of one of its replies."),
                optional("timeoutSec", Kind::Int(5, 600), "Time limit in seconds."),
                optional("wait", Kind::Flag, "false returns a handle at once; true if absent."),
                optional("resourceTier", Kind::Choice(&["default", "heavy"]), "`heavy` for large builds."),
            ],
        )
        .within(limits::AGENT_TIMEOUT),
        Operation::new(
            "collect",
            "agent_collect",
            &[
                required("handleIds", Kind::Texts(1, 20, 128), "Handles returned by `delegate`."),
                optional("timeoutMs", Kind::Int(1000, 600_000), "How long to wait for them in milliseconds."),
            ],
        )
        .reading()
        .within(limits::AGENT_TIMEOUT),
    ],
};
