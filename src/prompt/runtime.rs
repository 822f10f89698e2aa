//! Where and when the agent runs (priority 90), and whether it must reply at all (95).

use super::PromptInput;
use super::budget::{Module, Otherwise};
use super::line;
use crate::wire::SandboxType;

/// Priority 90.
pub(super) fn runtime(input: &PromptInput<'_>) -> Module {
    let scratch = match input.sandbox {
        SandboxType::Docker => "scratch, small, gone after the turn; programs cannot be started from it",
        _ => "scratch, not kept",
    };
    let mut full = format!(
        "## Runtime
- Agent type: {}. Sandbox: {}. Profile: {}.
- Working directory: `{ws}`, where the tools start and relative paths begin. The platform keeps it in git and commits it after your turn: only what is in it can last.
- `/tmp`: {scratch}.
- Skills: `{ws}/.ax/skills/`. Files you put into `{ws}/artifacts/` are offered to the user as downloads; write them with `write_file` and the path `artifacts/<name>`.
- Earlier messages of other people in a channel begin with `[sender]: `; the platform puts that there.
- Current time: {} {}",
        line::name(input.agent_type),
        line::name(input.sandbox.as_str()),
        line::name(input.profile),
        input.clock.weekday(),
        input.clock.local_iso(),
        ws = line::path(input.workspace),
    );
    if let Some(agent) = input.agent_id.map(line::name).filter(|agent| !agent.is_empty()) {
        full.push_str(&format!("\n- Agent id: {agent}"));
    }
    if let Some(agents) = input.agents_dir {
        full.push_str(&format!(
            "\n- Shared instructions and skills of your operator: `{}`, read-only, outside the workspace: look there with `bash`.",
            line::path(agents)
        ));
    }
    Module { name: "runtime", full, otherwise: Otherwise::Drop }
}

/// Priority 95.
pub(super) fn reply_gate() -> Module {
    Module {
        name: "reply-gate",
        full: "## Replying is optional
Reply only if you are addressed or asked, or have something the others need. Otherwise answer with nothing at all: no text, no explanation of your silence. If you have already answered through a channel tool, answer exactly `SILENT_REPLY`."
            .to_owned(),
        otherwise: Otherwise::Drop,
    }
}
