//! The system prompt (PROTOCOL §10): pure text from the payload and a clock.
//!
//! Non-goals: reading identity or skills from disk (the host sends them), and promising anything the runner or the host
//! does not do (PROTOCOL T32).

mod budget;
mod catalog;
mod clock;
mod command;
mod habits;
mod identity;
mod line;
mod runtime;
mod safety;
mod skills;

#[cfg(test)]
mod prompt_tests;

pub use clock::Clock;
pub use command::main_prompt_command;

use crate::wire::{CatalogEntry, DispatchMode, Identity, Payload, SandboxType, SkillInfo};

/// Everything the prompt depends on. The same input gives the same bytes, so that the provider's prompt cache holds.
#[derive(Debug, Clone)]
pub struct PromptInput<'a> {
    /// `pi-coding-agent` or `claude-code`.
    pub agent_type: &'a str,
    /// Absolute path of the workspace.
    pub workspace: &'a str,
    /// Read-only instructions and skills of the operator's, if `enter` has found some.
    pub agents_dir: Option<&'a str>,
    /// Which provider launched us.
    pub sandbox: &'a SandboxType,
    /// `paranoid`, `balanced` or `yolo`.
    pub profile: &'a str,
    /// Share of tainted content, 0 to 1.
    pub taint_ratio: f64,
    /// The share from which the user must approve every call.
    pub taint_threshold: f64,
    /// The agent's own texts.
    pub identity: &'a Identity,
    /// The agent.
    pub agent_id: Option<&'a str>,
    /// An empty answer is welcome.
    pub reply_optional: bool,
    /// Skills and their state.
    pub skills: &'a [SkillInfo],
    /// Catalog tools.
    pub catalog: &'a [CatalogEntry],
    /// How catalog tools are offered.
    pub dispatch: DispatchMode,
    /// Tokens the history is thought to need, before compaction.
    pub history_tokens: usize,
    /// What time it is.
    pub clock: Clock,
}

impl<'a> PromptInput<'a> {
    /// The input for a payload that says everything itself; `identity` stands in for an absent one.
    pub fn from_payload(
        payload: &'a Payload,
        identity: &'a Identity,
        agent_type: &'a str,
        workspace: &'a str,
        clock: Clock,
    ) -> Self {
        Self {
            agent_type,
            workspace,
            agents_dir: None,
            sandbox: &payload.sandbox_type,
            profile: &payload.profile,
            taint_ratio: payload.taint_ratio,
            taint_threshold: payload.taint_threshold,
            identity: payload.identity.as_ref().unwrap_or(identity),
            agent_id: payload.agent_id.as_deref(),
            reply_optional: payload.reply_optional,
            skills: payload.skills.as_deref().unwrap_or_default(),
            catalog: payload.catalog.as_deref().unwrap_or_default(),
            dispatch: payload.dispatch.map_or(DispatchMode::Indirect, |dispatch| dispatch.mode),
            history_tokens: history_tokens(payload),
            clock,
        }
    }

    /// An agent without a soul or an identity is being set up: it gets its bootstrap text and little else.
    fn bootstrap(&self) -> bool {
        self.identity.soul.is_empty() || self.identity.identity.is_empty()
    }
}

/// Tokens of a payload's history, estimated from its size; zero if there is none (PROTOCOL §10.1).
fn history_tokens(payload: &Payload) -> usize {
    let chars: usize = payload
        .history
        .iter()
        .map(|turn| {
            let content = serde_json::to_string(&turn.content).map_or(0, |json| crate::text::units(&json));
            let sender = turn.sender.as_deref().map_or(0, |sender| sender.len() + r#","sender":"""#.len());
            content + turn.role.len() + sender + r#"{"role":"","content":},"#.len()
        })
        .sum();
    chars.div_ceil(4)
}

/// A finished prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// At most `limits::MESSAGE_MAX_UNITS` UTF-16 units, without NUL.
    pub text: String,
    /// What became of each section that had something to say, in order.
    pub sections: Vec<Section>,
}

impl Prompt {
    /// How the named section entered; `None` when it had nothing to say.
    pub fn form(&self, name: &str) -> Option<Form> {
        self.sections.iter().find(|section| section.name == name).map(|section| section.form)
    }
}

/// One section's place in the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Its name in PROTOCOL §10.1.
    pub name: &'static str,
    /// UTF-16 units it takes; 0 when dropped.
    pub chars: usize,
    /// In which form it entered.
    pub form: Form,
}

/// How much of a section there was room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// All of it.
    Full,
    /// A required section that had to be cut, with a note where.
    Cut,
    /// Its short form.
    Short,
    /// Nothing.
    Dropped,
}

/// Builds the prompt.
pub fn build(input: &PromptInput<'_>) -> Prompt {
    let normal = !input.bootstrap();
    let mut modules = Vec::new();
    modules.push(identity::module(input));
    if normal {
        modules.push(safety::injection_defense(input));
        modules.push(safety::security(input));
        modules.push(habits::tool_style());
        modules.push(habits::memory_recall());
    }
    modules.push(skills::module(input));
    if normal {
        modules.push(habits::delegation());
        modules.push(habits::heartbeat(input));
        modules.push(runtime::runtime(input));
    }
    modules.extend(catalog::module(input));
    if normal && input.reply_optional {
        modules.push(runtime::reply_gate());
    }
    budget::assemble(modules, input.history_tokens)
}
