//! The work item (PROTOCOL §2): what the host hands the runner at the start of a turn.

use super::structured::structured;
use super::{Content, Meta, Ordered, attempt, surrogates};
use crate::secret::Secret;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// One turn's work. Fields the host may leave out are `None`; the rest has the defaults of PROTOCOL §2.2.
#[derive(Debug, Clone)]
pub struct Payload {
    /// What the user said.
    pub message: Content,
    /// Earlier turns, oldest first.
    pub history: Vec<HistoryTurn>,
    /// Share of tainted content, 0 to 1.
    pub taint_ratio: f64,
    /// The share from which the prompt demands approval.
    pub taint_threshold: f64,
    /// `paranoid`, `balanced` or `yolo`; shown to the model.
    pub profile: String,
    /// Which provider launched us.
    pub sandbox_type: SandboxType,
    /// The user the turn is for.
    pub user_id: Option<String>,
    /// An empty answer is welcome.
    pub reply_optional: bool,
    /// The conversation.
    pub session_id: Option<String>,
    /// The turn.
    pub request_id: Option<String>,
    /// `dm`, `channel`, `thread` or `group`.
    pub session_scope: Option<String>,
    /// HTTP mode: the token of this turn's calls.
    pub ipc_token: Option<Secret>,
    /// The agent.
    pub agent_id: Option<String>,
    /// The agent's own texts.
    pub identity: Option<Identity>,
    /// HTTP mode: the web proxy.
    pub web_proxy_url: Option<String>,
    /// Credentials for tool children; placeholders when the web proxy is on.
    pub credential_env: BTreeMap<String, Secret>,
    /// The certificate authority of the intercepting proxy, PEM.
    pub ca_cert: Option<String>,
    /// End after this turn.
    pub single_turn: bool,
    /// Skills and their state; `None` when the payload does not mention them.
    pub skills: Option<Vec<SkillInfo>>,
    /// Catalog tools; `None` when the payload does not mention them.
    pub catalog: Option<Vec<CatalogEntry>>,
    /// How catalog tools are offered; `None` when absent or malformed.
    pub dispatch: Option<Dispatch>,
    /// Fields present with a type the host never sends; their default was taken. Logged, never their values.
    pub ignored: Vec<&'static str>,
}

/// Where the runner lives (PROTOCOL §2.2 `sandboxType`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxType {
    /// Docker or podman.
    Docker,
    /// Apple `container`.
    Apple,
    /// A Kubernetes pod.
    K8s,
    /// Any other value: file and shell tools are the host's.
    Other(String),
}

impl SandboxType {
    /// The value on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Docker => "docker",
            Self::Apple => "apple",
            Self::K8s => "k8s",
            Self::Other(name) => name,
        }
    }

    /// Are file and shell tools run here (PROTOCOL §7)?
    pub fn is_container(&self) -> bool {
        !matches!(self, Self::Other(_))
    }
}

/// One earlier turn.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryTurn {
    /// `user`, or anything else for the assistant.
    pub role: String,
    /// What was said.
    pub content: Content,
    /// Who said it, in a channel.
    pub sender: Option<String>,
}

/// The agent's own texts (PROTOCOL §10.2); what is absent is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// AGENTS.md
    pub agents: String,
    /// SOUL.md
    pub soul: String,
    /// IDENTITY.md
    pub identity: String,
    /// The text of an agent that has no soul yet.
    pub bootstrap: String,
    /// HEARTBEAT.md
    pub heartbeat: String,
}

/// A skill as the host lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillInfo {
    /// Directory name under `.ax/skills/`.
    pub name: String,
    /// One line for the prompt.
    pub description: String,
    /// `enabled`, `pending` or `invalid`; empty counts as enabled.
    pub kind: String,
    /// What a pending skill waits for.
    pub pending_reasons: Vec<String>,
    /// What is missing.
    pub warnings: Vec<String>,
}

/// A catalog tool (PROTOCOL §7.6), as far as the runner needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogEntry {
    /// `mcp_…` or `api_…`.
    pub name: String,
    /// The skill it belongs to.
    pub skill: String,
    /// One line for the prompt.
    pub summary: String,
    /// JSON Schema of its arguments.
    pub schema: Ordered,
}

/// How catalog tools are offered (PROTOCOL §7.3, §7.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dispatch {
    /// By two meta tools, or each as a tool of its own.
    pub mode: DispatchMode,
    /// Results of more bytes go to a file.
    pub spill_threshold_bytes: u64,
}

/// See [`Dispatch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DispatchMode {
    /// Each catalog entry is a tool.
    Direct,
    /// `describe_tools` and `call_tool`.
    Indirect,
}

/// A work item that must not run. None of the messages holds any of its text: as a plain message it would show its
/// credentials to the model and run with default policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// Not text.
    #[error("payload is not UTF-8 text")]
    NotUtf8,
    /// No JSON has it, and UTF-16 is full of it.
    #[error("payload holds a NUL character; send UTF-8 text, not UTF-16")]
    Nul,
    /// Meant as a payload, and no JSON.
    #[error("payload looks structured but is damaged at line {line} column {column}; send one JSON object")]
    Damaged {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// More than the parser's stack takes.
    #[error("payload is nested more than 128 levels deep; send a flatter JSON object")]
    TooDeep,
    /// Its calls could not be made.
    #[error("payload's \"ipcToken\" holds characters that no HTTP header carries")]
    Token,
    /// Meant as a payload, and nothing is asked in it.
    #[error("payload is JSON, but not an object whose \"message\" is a string or an array; send one such object")]
    NoMessage,
}

impl Payload {
    /// Reads a work item with the acceptance rule of PROTOCOL §2.1: an object whose `message` is a string or an array
    /// is structured, everything else is a plain message, unless it was meant as more (`attempt`). Byte order marks are
    /// skipped and lone surrogates become U+FFFD, as a JavaScript reader would take them.
    pub fn read(bytes: &[u8]) -> Result<Self, PayloadError> {
        let raw = std::str::from_utf8(bytes).map_err(|_| PayloadError::NotUtf8)?.trim_start_matches('\u{feff}');
        if raw.contains('\0') {
            return Err(PayloadError::Nul);
        }
        let error = match json(raw) {
            Ok(value) => match structured(&value, raw, false) {
                Some(payload) => return payload.callable(),
                None if attempt::is_meant(raw) => {
                    return structured(&value, raw, true).ok_or(PayloadError::NoMessage)?.callable();
                }
                None => return Ok(Self::plain(raw)),
            },
            Err(error) => error,
        };
        let object = attempt::document(raw).starts_with('{') && raw.contains("\"message\"");
        if !object && !attempt::is_meant(raw) && !attempt::is_rest(raw) {
            return Ok(Self::plain(raw));
        }
        // The parser has no kind for it.
        match error.to_string().starts_with("recursion limit") {
            true => Err(PayloadError::TooDeep),
            false => Err(PayloadError::Damaged { line: error.line(), column: error.column() }),
        }
    }

    fn callable(self) -> Result<Self, PayloadError> {
        match &self.ipc_token {
            Some(token) if !token.is_token() => Err(PayloadError::Token),
            _ => Ok(self),
        }
    }

    /// Who its calls are for.
    pub fn meta(&self) -> Meta {
        Meta {
            session_id: self.session_id.clone(),
            request_id: self.request_id.clone(),
            user_id: self.user_id.clone(),
            session_scope: self.session_scope.clone(),
        }
    }

    /// A plain message with every default.
    pub fn plain(message: &str) -> Self {
        Self {
            message: Content::Text(message.to_owned()),
            history: Vec::new(),
            taint_ratio: 0.0,
            taint_threshold: 1.0,
            profile: "balanced".to_owned(),
            sandbox_type: SandboxType::Docker,
            user_id: None,
            reply_optional: false,
            session_id: None,
            request_id: None,
            session_scope: None,
            ipc_token: None,
            agent_id: None,
            identity: None,
            web_proxy_url: None,
            credential_env: BTreeMap::new(),
            ca_cert: None,
            single_turn: false,
            skills: None,
            catalog: None,
            dispatch: None,
            ignored: Vec::new(),
        }
    }
}

/// Reads JSON as a JavaScript reader would: lone surrogates become U+FFFD. Blanks and byte order marks may stand before it.
pub(crate) fn json(text: &str) -> serde_json::Result<Value> {
    json_as(text)
}

/// The same, as a type.
pub(super) fn json_as<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    let text = attempt::document(text);
    serde_json::from_str(text).or_else(|_| serde_json::from_str(&surrogates::repair(text)))
}

#[cfg(test)]
#[path = "payload_tests.rs"]
mod tests;
