//! The skills and their state (priority 70).

use super::PromptInput;
use super::budget::{Module, Otherwise};
use super::line;
use crate::wire::SkillInfo;

const CREATION: &str = "### Writing a skill
Read `.ax/skills/skill-creator/SKILL.md` to the end first, if it exists. Then use `skill_write`: it renders and checks the whole file; do not compose SKILL.md by other means. Frequent mistakes in the frontmatter:
- a key that does not exist, or one at the wrong level: unknown keys are rejected;
- `domains` with a scheme, a port or a path: host names only, such as `api.example.com`;
- `envName` that is not UPPER_SNAKE_CASE, or a `credential` that is an object: it is the bare name of one of the `credentials`;
- URLs of servers and of OAuth that are not `https`;
- `authType: oauth` without its `oauth` block.
The file is committed with the workspace after your turn, and a skill works only once an administrator has approved it. One that is listed as [INVALID] next turn was rejected: correct it and write it again.";

/// The skills section.
pub(super) fn module(input: &PromptInput<'_>) -> Module {
    let mut full = String::from("## Skills\n");
    let mut short = full.clone();
    if input.skills.is_empty() {
        full.push_str("No skills are installed.");
        short.push_str("No skills are installed.");
    } else {
        for skill in input.skills {
            full.push_str(&entry(skill));
            short.push_str(&format!("- {} **{}**\n", label(skill), name(skill)));
        }
        full.push_str("To use a skill, read `.ax/skills/<name>/SKILL.md` first and follow it.");
        short.push_str("Read `.ax/skills/<name>/SKILL.md` before you use one; only [ENABLED] ones work.");
        if input.skills.iter().any(|skill| label(skill) != "[ENABLED]") {
            full.push_str(
                " Only [ENABLED] skills work. Do not reach what a pending or invalid one would give you by the network or by other tools; tell the user what it is waiting for. Correct an [INVALID] one with `skill_write`.",
            );
        }
    }
    if !input.workspace.is_empty() {
        full.push_str("\n\n");
        full.push_str(CREATION);
    }
    Module { name: "skills", full, otherwise: Otherwise::Short(short) }
}

/// A state that is not known here is none to rely on.
fn label(skill: &SkillInfo) -> &'static str {
    match skill.kind.as_str() {
        "" | "enabled" => "[ENABLED]",
        "invalid" => "[INVALID]",
        _ => "[PENDING]",
    }
}

fn name(skill: &SkillInfo) -> String {
    let name = line::name(&skill.name);
    if name.is_empty() { "(no name)".to_owned() } else { name }
}

fn entry(skill: &SkillInfo) -> String {
    let mut entry = format!("- {} **{}**", label(skill), name(skill));
    for (before, text, after) in [
        (": ", line::summary(&skill.description), ""),
        (" (waiting on: ", line::summary(&skill.pending_reasons.join(", ")), ")"),
        (" (missing: ", line::summary(&skill.warnings.join(", ")), ")"),
    ] {
        if !text.is_empty() {
            entry.push_str(&format!("{before}{text}{after}"));
        }
    }
    entry + "\n"
}
