//! Is a request one the host would take? The check is the host's (PROTOCOL §3.2, §3.3, §14), and beyond it everything a
//! careful runner never does: each failure of either kind is a violation that fails the run.

mod actions;
mod document;
mod pairing;
mod patterns;
mod shape;

use serde_json::{Map, Value, json};
use shape::Issues;

/// The keys the host takes out before it validates.
const META: [&str; 5] = ["_msgId", "_sessionId", "_requestId", "_userId", "_sessionScope"];

/// Which way a request came; the envelope's rules depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// The runner connected to the host's socket.
    Socket,
    /// The host dialled the runner's socket.
    Listen,
    /// HTTP.
    Http,
}

/// What the check found.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The whole request; `null` when it is not JSON.
    pub(crate) value: Value,
    /// The action's name; empty when there is none.
    pub(crate) action: String,
    /// The id to echo.
    pub(crate) msg_id: Option<String>,
    /// The host's refusal, if it refuses.
    pub(crate) refusal: Option<Value>,
    /// Everything that is wrong, whether or not the host would notice.
    pub(crate) violations: Vec<String>,
}

impl Checked {
    /// The value of one metadata key.
    pub(crate) fn meta(&self, key: &str) -> Option<&str> {
        self.value.get(key).and_then(Value::as_str)
    }

    fn refuse(mut self, error: String, violation: bool) -> Self {
        if violation {
            self.violations.push(error.clone());
        }
        self.refusal = Some(json!({"ok": false, "error": error}));
        self
    }
}

/// The host's rules that a request breaks: for hosts of a few lines, which would take anything.
pub fn broken_rules(raw: &[u8], transport: Transport) -> Vec<String> {
    check(raw, transport).violations
}

/// Checks one request.
pub(crate) fn check(raw: &[u8], transport: Transport) -> Checked {
    let blank =
        Checked { value: Value::Null, action: String::new(), msg_id: None, refusal: None, violations: Vec::new() };
    let Some(document) = document::read(raw).filter(|document| !document.value.is_null()) else {
        return blank.refuse("Invalid JSON".to_owned(), true);
    };
    let text = |key: &str| document.value.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut checked = Checked {
        action: text("action").unwrap_or_default(),
        msg_id: text("_msgId"),
        violations: document.remarks,
        value: document.value,
        ..blank
    };
    let Some(object) = checked.value.as_object() else {
        return checked.refuse("Unknown or missing action".to_owned(), true);
    };
    let envelope = envelope(object, raw, transport);
    checked.violations.extend(envelope);
    let Some(spec) = actions::ACTIONS.iter().find(|spec| spec.name == checked.action) else {
        return checked.refuse("Unknown or missing action".to_owned(), true);
    };
    // The bridge and the HTTP side take the answer out before anything is validated (PROTOCOL §3.9, §4.5).
    if spec.name == "agent_response" && transport != Transport::Socket {
        if !checked.value["content"].is_string() {
            checked.violations.push("agent_response has no content".to_owned());
        }
        return checked;
    }
    let mut fields = checked.value.as_object().cloned().unwrap_or_default();
    fields.retain(|key, _| !META.contains(&key.as_str()) && key != "action");
    let mut issues = Issues::default();
    issues.object("", &fields, spec.fields, None);
    if !issues.0.is_empty() {
        issues.0.truncate(3);
        let error = format!("Validation failed for action \"{}\": {}", spec.name, issues.0.join("; "));
        return checked.refuse(error, true);
    }
    if !spec.handled {
        // An idle runner asks for work and learns that there is none; nothing else without a handler is ever meant.
        let meant = spec.name == "fetch_work" && transport == Transport::Listen;
        return checked.refuse(format!("No handler for action \"{}\"", spec.name), !meant);
    }
    if spec.name == "llm_call" {
        let broken = pairing::check(&fields);
        if let Some(first) = broken.first() {
            let refusal = json!({"ok": false, "error": format!("Handler error: invalid_request_error: {first}")});
            checked.violations.extend(broken);
            checked.refusal = Some(refusal);
        }
    }
    checked
}

fn envelope(object: &Map<String, Value>, raw: &[u8], transport: Transport) -> Vec<String> {
    let mut issues = Vec::new();
    for key in META {
        match object.get(key) {
            Some(value) if !value.is_string() => issues.push(format!("{key} is not a string")),
            None if key == "_msgId" && transport != Transport::Http => issues.push("_msgId is missing".to_owned()),
            None if key == "_sessionId" && transport == Transport::Http => {
                issues.push("_sessionId is missing; over HTTP it is always there, empty when unknown".to_owned());
            }
            _ => {}
        }
    }
    if transport == Transport::Http {
        return issues;
    }
    if let Some(id) = object.get("_msgId").and_then(Value::as_str) {
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
            issues.push(format!("_msgId \"{id}\" is not a decimal number"));
        }
        // Heartbeats go to the id that a text search finds first (PROTOCOL §3.2).
        if first_id(raw).as_deref() != Some(id) {
            issues.push("another _msgId stands before the envelope's own".to_owned());
        }
    }
    issues
}

/// The first match of `"_msgId"\s*:\s*"([^"]+)"`.
fn first_id(raw: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(raw);
    text.match_indices("\"_msgId\"").find_map(|(at, key)| {
        let rest = text[at + key.len()..].trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
        rest.split_once('"').map(|(id, _)| id.to_owned()).filter(|id| !id.is_empty())
    })
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
