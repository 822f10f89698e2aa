//! SKILL.md (PROTOCOL §9): its shape, its rules, and who may change its frontmatter.

mod document;
mod guard;
mod render;
mod rules;
mod yaml;

#[cfg(test)]
mod skill_tests;

pub use document::{Document, parse};
pub use guard::{is_skill_md, protected, same_frontmatter};
pub use render::{Auth, Credential, McpServer, Oauth, OpenApi, Skill, Source, render};

/// Top-level keys of the frontmatter in the order in which they are written.
pub const KEYS: [&str; 7] = ["name", "description", "source", "credentials", "mcpServers", "openapi", "domains"];

/// Why a text is not a SKILL.md. The messages are the host's words where it has some, since the model meets both.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkillError {
    /// No `---` block at the start.
    #[error("missing or unterminated YAML frontmatter")]
    NoFrontmatter,
    /// Larger than any skill needs; a parser is not given more.
    #[error("frontmatter has {bytes} bytes; the limit is {max}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Not YAML.
    #[error("invalid YAML: {0}")]
    Yaml(String),
    /// YAML that breaks a rule; one `<path>: <message>` each, joined by `; `.
    #[error("{0}")]
    Rules(String),
    /// A character that not every reader of YAML takes for the same.
    #[error("it holds U+{:04X}, which readers of YAML take for different things", u32::from(*.0))]
    Contested(char),
    /// A value that YAML cannot hold.
    #[error("a value would read back differently than it was given; remove control characters")]
    Unreadable,
}
