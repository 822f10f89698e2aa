//! What the runner asks of the host (PROTOCOL §3.2, §6.1, §8.1, §14).

use super::{Message, ToolSpec};
use crate::limits;
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// One request. Its serialised form is the flat object of PROTOCOL §3.2 without the metadata keys.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Action {
    /// A model turn.
    LlmCall(LlmCall),
    /// May this run?
    SandboxApprove(Approve),
    /// This is how it ended.
    SandboxResult(Report),
    /// The turn's answer (listen and HTTP mode).
    AgentResponse {
        /// The answer's text.
        content: String,
    },
    /// Is there more to do?
    FetchWork {},
    /// A tool that the host runs.
    Forward(Forward),
}

/// `llm_call`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LlmCall {
    /// Informational: the host picks the real model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Absent except for compaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_type: Option<TaskType>,
    /// 1 to 200 messages.
    pub messages: Vec<Message>,
    /// Absent when no tool is offered.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub tools: Arc<[ToolSpec]>,
    /// Upper bound of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
}

/// Which of the host's models answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskType {
    /// A quick, cheap one: summaries.
    Fast,
}

/// What a local tool is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Run a command.
    Bash,
    /// Read a file.
    Read,
    /// Write a whole file.
    Write,
    /// Replace text in a file.
    Edit,
    /// Search contents.
    Grep,
    /// Search names.
    Glob,
}

/// `sandbox_approve`. Paths and texts are the caller's own, uncut: what is shown is what runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Approve {
    /// What will be done.
    pub operation: Operation,
    /// For `bash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// For everything but `bash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// For `write`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// For `edit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_string: Option<String>,
    /// For `edit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_string: Option<String>,
}

impl Approve {
    /// A command.
    pub fn command(command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), ..Self::blank(Operation::Bash) }
    }

    /// An operation on a path; `content` and the edit's strings are set by the caller.
    pub fn path(operation: Operation, path: impl Into<String>) -> Self {
        Self { path: Some(path.into()), ..Self::blank(operation) }
    }

    fn blank(operation: Operation) -> Self {
        Self { operation, command: None, path: None, content: None, old_string: None, new_string: None }
    }
}

/// `sandbox_result`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What was done.
    pub operation: Operation,
    /// For `bash`, as approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// As approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// For `bash`: at most 500,000 UTF-16 units, no NUL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// For `bash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// For everything but `bash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// Why it failed: at most 10,000 UTF-16 units, no NUL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Report {
    /// How a command ended.
    pub fn command(command: impl Into<String>, output: impl Into<String>, exit_code: i32) -> Self {
        Self {
            operation: Operation::Bash,
            command: Some(command.into()),
            path: None,
            output: Some(output.into()),
            exit_code: Some(exit_code),
            success: None,
            error: None,
        }
    }

    /// How an operation on a path ended; `Err` holds the reason.
    pub fn path(operation: Operation, path: impl Into<String>, outcome: Result<(), String>) -> Self {
        Self {
            operation,
            command: None,
            path: Some(path.into()),
            output: None,
            exit_code: None,
            success: Some(outcome.is_ok()),
            error: outcome.err(),
        }
    }
}

/// A host tool's action with its fields. The name is ours and not the model's, so arguments can never choose the
/// action (PROTOCOL T7).
#[derive(Debug, Clone, Serialize)]
pub struct Forward {
    #[serde(skip)]
    name: &'static str,
    #[serde(skip)]
    timeout: Duration,
    #[serde(skip)]
    repeatable: bool,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl Forward {
    /// Fields named `action` or beginning with `_` are dropped: they are the envelope's (DESIGN §4.10).
    pub fn new(name: &'static str, mut fields: Map<String, Value>) -> Self {
        fields.retain(|key, _| key != "action" && !key.starts_with('_'));
        Self { name, timeout: limits::CALL_TIMEOUT, repeatable: false, fields }
    }

    /// Waits this long instead of [`limits::CALL_TIMEOUT`].
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Marks an action that only reads: it may be sent again when its outcome is unknown.
    pub fn read_only(self) -> Self {
        Self { repeatable: true, ..self }
    }

    /// The action's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The action's fields.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }
}

impl Action {
    /// The name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::LlmCall(_) => "llm_call",
            Self::SandboxApprove(_) => "sandbox_approve",
            Self::SandboxResult(_) => "sandbox_result",
            Self::AgentResponse { .. } => "agent_response",
            Self::FetchWork {} => "fetch_work",
            Self::Forward(forward) => forward.name,
        }
    }

    /// May it be sent again after the link broke with its outcome unknown? True for what only asks, reads, or delivers
    /// the answer (DESIGN §4.7). A report is not: the host would log the event twice.
    pub fn repeatable(&self) -> bool {
        match self {
            Self::LlmCall(_) | Self::SandboxApprove(_) | Self::AgentResponse { .. } | Self::FetchWork {} => true,
            Self::SandboxResult(_) => false,
            Self::Forward(forward) => forward.repeatable,
        }
    }

    /// Silence after which the call is given up; `llm` is the configured limit of an `llm_call` (PROTOCOL §3.6).
    pub fn timeout(&self, llm: Duration) -> Duration {
        match self {
            Self::LlmCall(_) => llm,
            Self::SandboxApprove(_) | Self::SandboxResult(_) => limits::CALL_TIMEOUT,
            Self::AgentResponse { .. } => limits::ANSWER_TIMEOUT,
            Self::FetchWork {} => limits::FETCH_WORK_TIMEOUT,
            Self::Forward(forward) => forward.timeout,
        }
    }

    /// The request's bytes: `_msgId` first, so that a key of the same name inside the arguments cannot shadow it
    /// (PROTOCOL §3.2), then the action, the metadata and the fields.
    pub fn encode(&self, msg_id: Option<&str>, meta: &Meta) -> serde_json::Result<Vec<u8>> {
        #[derive(Serialize)]
        struct Request<'a> {
            #[serde(rename = "_msgId", skip_serializing_if = "Option::is_none")]
            msg_id: Option<&'a str>,
            action: &'static str,
            #[serde(flatten)]
            meta: &'a Meta,
            #[serde(flatten)]
            fields: &'a Action,
        }
        serde_json::to_vec(&Request { msg_id, action: self.name(), meta, fields: self })
    }
}

/// Who a call is for: the keys the host takes out before it validates (PROTOCOL §3.2). A new turn brings a new one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Meta {
    /// Over HTTP always present, empty when unknown (PROTOCOL §4.1).
    #[serde(rename = "_sessionId", skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Ties the host's events to the turn.
    #[serde(rename = "_requestId", skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The user the turn is for.
    #[serde(rename = "_userId", skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// `dm`, `channel`, `thread` or `group`: scopes memory.
    #[serde(rename = "_sessionScope", skip_serializing_if = "Option::is_none")]
    pub session_scope: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn meta() -> Meta {
        Meta { session_id: Some("s".into()), request_id: Some("r".into()), ..Meta::default() }
    }

    #[test]
    fn message_id_comes_first_and_arguments_cannot_name_the_action() {
        let fields = json!({"action": "llm_call", "_msgId": "9", "_sessionId": "x", "filter": {"_msgId": "7"}});
        let forward = Forward::new("audit_query", fields.as_object().cloned().unwrap());
        let bytes = Action::Forward(forward).encode(Some("4"), &meta()).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(
            text,
            r#"{"_msgId":"4","action":"audit_query","_sessionId":"s","_requestId":"r","filter":{"_msgId":"7"}}"#
        );
    }

    #[test]
    fn absent_fields_are_absent() {
        let bytes = Action::SandboxApprove(Approve::command("ls")).encode(None, &Meta::default()).unwrap();
        assert_eq!(bytes, br#"{"action":"sandbox_approve","operation":"bash","command":"ls"}"#);
        let report = Report::path(Operation::Read, "a", Err("no".into()));
        let bytes = Action::SandboxResult(report).encode(None, &Meta::default()).unwrap();
        assert_eq!(bytes, br#"{"action":"sandbox_result","operation":"read","path":"a","success":false,"error":"no"}"#);
    }
}
