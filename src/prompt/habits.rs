//! How to work: tools (12), memory (60), delegation (75), schedule and heartbeat (80). All optional.

use super::PromptInput;
use super::budget::{Module, Otherwise};

fn module(name: &'static str, full: &str, short: &str) -> Module {
    Module { name, full: full.to_owned(), otherwise: Otherwise::Short(short.to_owned()) }
}

/// Priority 12.
pub(super) fn tool_style() -> Module {
    module(
        "tool-style",
        "## Tools
- Do not narrate routine calls; just make them. Explain only what is surprising, risky or slow.
- Put calls that do not depend on each other into one reply: they run at the same time.
- When a call fails, read the message and try another way. Report to the user what failed and what you tried once you are out of ways; do not repeat a call unchanged.
- A result may say that it was cut or that something was skipped. Believe it and ask for the rest if you need it.
- Search with `grep` and `glob` rather than `grep`, `rg`, `find` or `ls -R` in the shell; read and change files with the file tools.
- A turn has a limited number of tool calls (50). Finish with an answer before they run out.",
        "## Tools
Do not narrate routine calls. Make independent calls in one reply. On failure try another way, then report. Prefer `grep` and `glob` to searching in the shell.",
    )
}

/// Priority 60.
pub(super) fn memory_recall() -> Module {
    module(
        "memory-recall",
        "## Memory
- Before you answer about earlier work, decisions, dates, people or preferences, search: `memory` with type `query` (a scope and a few words), then type `read` with the id of a hit you need whole. If nothing is found, say so instead of guessing.
- Write (type `write`) when the user asks you to remember, states a lasting preference or fact, makes a decision, or corrects you. Not for what is in the workspace or holds for this task only; never credentials.
- One fact an entry, a sentence or two, with tags it can be found by. Delete an entry that has become wrong.",
        "## Memory
Search `memory` (type `query`) before you answer about the past. Write lasting facts, preferences and decisions as short, tagged entries.",
    )
}

/// Priority 75.
pub(super) fn delegation() -> Module {
    module(
        "delegation",
        "## Delegation
`agent` hands a task to another agent with a context of its own. Use it for work that is large, separate and easy to describe, or that can run beside yours; do small things yourself.
- `runner`: `pi-coding-agent` for general work, `claude-code` preferably for code.
- The other agent sees nothing of this conversation. `task` must stand alone: goal, constraints, what to return. Put into `context` only what it needs.
- Type `delegate` waits for the answer. With `wait: false` it returns a handle at once: go on, then fetch the answers with type `collect` and `handleIds`.
- Optional: `model`, `maxTokens`, `timeoutSec` (5 to 600), `resourceTier` (`heavy` for big builds).
- The host limits how many run at once (3 unless configured otherwise) and how deep delegation nests (2). When it refuses, do the work yourself or wait.
- Check what comes back before you rely on it.",
        "## Delegation
`agent` (type `delegate`) gives a self-contained task to another agent, `claude-code` preferably for code; `wait: false` and type `collect` run it beside your work. It sees nothing of this conversation.",
    )
}

const SCHEDULE: &str = "## Schedule
- `scheduler` type `add_cron` repeats a prompt (five-field cron), `run_at` runs it once at a local ISO time without zone, such as `2026-03-01T09:30:00`, `list` shows jobs, `remove` deletes one by id.
- Work out one-shot times from the current time under Runtime.
- Something is scheduled only if the tool call succeeded. Never say so without calling it.";

/// Priority 80.
pub(super) fn heartbeat(input: &PromptInput<'_>) -> Module {
    let short = "## Schedule\nUse `scheduler` (`add_cron`, `run_at` with a local ISO time, `list`, `remove`); nothing is scheduled without the call.";
    match input.identity.heartbeat.trim() {
        "" => module("heartbeat", SCHEDULE, short),
        checklist => module(
            "heartbeat",
            &format!(
                "## Heartbeat
When you are woken by a heartbeat, go through this checklist:

{checklist}

- Nothing to do: answer exactly `HEARTBEAT_OK`.
- You have already acted through a channel tool: answer exactly `SILENT_REPLY`.
- Otherwise answer with what the user should know.

{SCHEDULE}"
            ),
            &format!(
                "## Heartbeat\nWhen you are woken by a heartbeat, read the checklist in `.ax/HEARTBEAT.md` and go through it. With nothing to do answer exactly `HEARTBEAT_OK`; if you already acted through a channel tool, `SILENT_REPLY`.\n\n{short}"
            ),
        ),
    }
}
