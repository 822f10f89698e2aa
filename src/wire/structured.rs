//! The fields of a structured payload (PROTOCOL §2.2), with the tolerance of a JavaScript reader.

use super::payload::json_as;
use super::payload::{CatalogEntry, Dispatch, DispatchMode, HistoryTurn, Identity, Payload, SandboxType, SkillInfo};
use super::{Content, Members, Ordered};
use crate::secret::Secret;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The payload that `text` is, read as `value`; `None` when it is none by the rule. A `null` among the turns demotes the whole,
/// or is left out of it.
pub(super) fn structured(value: &Value, text: &str, leave_out: bool) -> Option<Payload> {
    let mut fields = Fields { object: value.as_object()?, ignored: Vec::new() };
    let message = match fields.object.get("message")? {
        message @ (Value::String(_) | Value::Array(_)) => content(message),
        _ => return None,
    };
    let history = match fields.array("history") {
        Some(turns) if !leave_out && turns.iter().any(Value::is_null) => return None,
        Some(turns) => turns.iter().filter(|turn| !turn.is_null()).map(history_turn).collect(),
        None => Vec::new(),
    };
    Some(Payload {
        message,
        history,
        taint_ratio: fields.policy("taintRatio", Value::as_f64, 0.0, 1.0),
        taint_threshold: fields.policy("taintThreshold", Value::as_f64, 1.0, 0.0),
        profile: fields.policy("profile", string, "balanced".to_owned(), "paranoid".to_owned()),
        sandbox_type: match fields.string("sandboxType").as_deref() {
            None | Some("docker") => SandboxType::Docker,
            Some("apple") => SandboxType::Apple,
            Some("k8s") => SandboxType::K8s,
            Some(other) => SandboxType::Other(other.to_owned()),
        },
        user_id: fields.known("userId"),
        reply_optional: fields.flag("replyOptional"),
        session_id: fields.known("sessionId"),
        request_id: fields.known("requestId"),
        session_scope: fields.known("sessionScope"),
        ipc_token: fields.known("ipcToken").map(Secret::new),
        agent_id: fields.known("agentId"),
        identity: fields.object("identity").map(identity),
        web_proxy_url: fields.string("webProxyUrl"),
        credential_env: fields.object("credentialEnv").map(credentials).unwrap_or_default(),
        ca_cert: fields.string("caCert"),
        single_turn: fields.flag("singleTurn"),
        skills: fields.array("skills").map(|skills| skills.iter().filter_map(skill).collect()),
        catalog: fields.array("catalog").map(|entries| catalog(entries, text)),
        dispatch: fields.object("tool_dispatch").and_then(dispatch),
        ignored: fields.ignored,
    })
}

fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Optional fields of the payload; remembers those of a wrong type.
struct Fields<'a> {
    object: &'a Map<String, Value>,
    ignored: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    fn get<T>(&mut self, key: &'static str, read: impl Fn(&'a Value) -> Option<T>) -> Option<T> {
        let value = self.object.get(key).filter(|value| !value.is_null())?;
        let found = read(value);
        if found.is_none() {
            self.ignored.push(key);
        }
        found
    }

    /// A field that widens what the agent may do: one that is there but cannot be read must not mean the widest
    /// (CASES I16).
    fn policy<T>(&mut self, key: &'static str, read: impl Fn(&'a Value) -> Option<T>, absent: T, unreadable: T) -> T {
        let known = self.ignored.len();
        match self.get(key, read) {
            Some(value) => value,
            None if self.ignored.len() > known => unreadable,
            None => absent,
        }
    }

    fn string(&mut self, key: &'static str) -> Option<String> {
        self.get(key, string)
    }

    /// An id or a token. An empty one says that it is not known, and must not take the place of one that is (PROTOCOL T21).
    fn known(&mut self, key: &'static str) -> Option<String> {
        self.string(key).filter(|value| !value.is_empty())
    }

    fn flag(&mut self, key: &'static str) -> bool {
        self.get(key, Value::as_bool).unwrap_or(false)
    }

    fn array(&mut self, key: &'static str) -> Option<&'a Vec<Value>> {
        self.get(key, Value::as_array)
    }

    fn object(&mut self, key: &'static str) -> Option<&'a Map<String, Value>> {
        self.get(key, Value::as_object)
    }
}

/// Blocks the runner does not know become empty text: one of them must not cost the user the whole message.
fn content(value: &Value) -> Content {
    match value {
        Value::String(text) => Content::Text(text.clone()),
        Value::Array(blocks) => {
            Content::Blocks(blocks.iter().filter_map(|block| serde_json::from_value(lenient(block)).ok()).collect())
        }
        // As JavaScript writes it.
        Value::Number(number) if number.as_f64() == Some(0.0) => Content::Text("0".to_owned()),
        other => Content::Text(other.to_string()),
    }
}

/// A block with only the fields its kind has: the host's stored blocks may carry more, and its own schema would refuse
/// them on the way back.
fn lenient(block: &Value) -> Value {
    let Some(object) = block.as_object() else { return Value::Null };
    let known: &[&str] = match object.get("type").and_then(Value::as_str) {
        Some("text") => &["text"],
        Some("tool_use") => &["id", "name", "input"],
        Some("tool_result") => &["tool_use_id", "content"],
        Some("image") => &["fileId", "mimeType"],
        Some("image_data") => &["data", "mimeType"],
        Some("file") => &["fileId", "mimeType", "filename"],
        Some("file_data") => &["data", "mimeType", "filename"],
        _ => return Value::Null,
    };
    object
        .iter()
        .filter(|(key, _)| *key == "type" || known.contains(&key.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect::<Map<_, _>>()
        .into()
}

/// As a JavaScript reader takes it: reading a field of a number or a string gives "undefined".
fn history_turn(turn: &Value) -> HistoryTurn {
    let get = |key: &str| turn.as_object().and_then(|object| object.get(key));
    HistoryTurn {
        role: get("role").and_then(Value::as_str).unwrap_or_default().to_owned(),
        content: get("content").map_or_else(|| Content::Text("undefined".to_owned()), content),
        sender: get("sender").and_then(Value::as_str).map(str::to_owned),
    }
}

fn identity(object: &Map<String, Value>) -> Identity {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Identity {
        agents: text("agents"),
        soul: text("soul"),
        identity: text("identity"),
        bootstrap: text("bootstrap"),
        heartbeat: text("heartbeat"),
    }
}

fn credentials(object: &Map<String, Value>) -> BTreeMap<String, Secret> {
    object.iter().filter_map(|(name, value)| Some((name.clone(), Secret::new(value.as_str()?)))).collect()
}

fn skill(value: &Value) -> Option<SkillInfo> {
    let object = value.as_object()?;
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let list = |key: &str| {
        let items = object.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    Some(SkillInfo {
        name: text("name"),
        description: text("description"),
        kind: text("kind"),
        pending_reasons: list("pendingReasons"),
        warnings: list("warnings"),
    })
}

/// The entries, with their schemas' members in the order of the payload's text: the model reads parameters in it.
fn catalog(entries: &[Value], text: &str) -> Vec<CatalogEntry> {
    #[derive(Deserialize)]
    struct InOrder {
        catalog: Vec<Ordered>,
    }
    let ordered = match entries.is_empty() {
        true => Vec::new(),
        // A payload that names its catalog twice has no one order.
        false => json_as::<InOrder>(text)
            .map_or_else(|_| entries.iter().map(Ordered::from).collect(), |ordered| ordered.catalog),
    };
    ordered.iter().filter_map(catalog_entry).collect()
}

fn catalog_entry(value: &Ordered) -> Option<CatalogEntry> {
    let object = value.as_object()?;
    let text = |key: &str| object.get(key).and_then(Ordered::as_str).unwrap_or_default().to_owned();
    Some(CatalogEntry {
        name: Some(text("name")).filter(|name| !name.is_empty())?,
        skill: text("skill"),
        summary: text("summary"),
        schema: object
            .get("schema")
            .filter(|schema| schema.as_object().is_some())
            .cloned()
            .unwrap_or_else(|| Ordered::Object(Members::default())),
    })
}

fn dispatch(object: &Map<String, Value>) -> Option<Dispatch> {
    let mode = DispatchMode::deserialize(object.get("mode")?).ok()?;
    let spill = object.get("spill_threshold_bytes")?.as_f64()?;
    Some(Dispatch { mode, spill_threshold_bytes: spill.max(0.0) as u64 })
}
