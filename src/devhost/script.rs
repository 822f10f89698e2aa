//! What the model says: a list of replies in JSON, picked in order, some only when the last tool result fits.

use super::fault::Fault;
use super::pattern::Pattern;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A script that cannot be used; the text says where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("script: {0}")]
pub struct ScriptError(String);

/// The replies still to come.
#[derive(Debug, Default)]
pub struct Script {
    replies: Vec<Scripted>,
    /// Canned replies of forwarded actions, by action.
    pub(crate) actions: Map<String, Value>,
}

#[derive(Debug)]
struct Scripted {
    entry: Entry,
    when: Option<Pattern>,
    /// `None`: any number of times.
    left: Option<u32>,
}

/// One reply as it is written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Entry {
    text: Option<Texts>,
    thinking: Option<String>,
    tools: Vec<Value>,
    usage: Option<Value>,
    delay_ms: u64,
    fault: Option<Fault>,
    when: Option<String>,
    repeat: Option<Repeat>,
    /// The reply is `ok: false` with this error.
    error: Option<String>,
    /// The reply's exact body: a string is sent as it is, anything else as its JSON text.
    raw: Option<Value>,
    /// The exact list of chunks.
    chunks: Option<Value>,
    /// Answers only `llm_call`s of this task type; without it only those of the default type.
    task: Option<String>,
    /// For people.
    #[allow(dead_code, reason = "read so that a strict reader accepts it")]
    note: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Repeat {
    Times(u32),
    Always(bool),
}

/// A tool call of a reply.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tool {
    name: String,
    #[serde(default)]
    args: Option<Value>,
    /// The arguments' JSON text, put into the reply byte for byte.
    #[serde(default)]
    args_raw: Option<String>,
    #[serde(default)]
    id: Option<String>,
}

/// A reply ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelReply {
    /// The body without `_msgId`.
    pub(crate) body: String,
    /// Send the body byte for byte.
    pub(crate) exact: bool,
    pub(crate) faults: Vec<Fault>,
    /// For the transcript.
    pub(crate) text: String,
    pub(crate) calls: Vec<String>,
}

impl Script {
    /// A script from JSON text: a list of replies, or an object with `replies` and `actions`.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let value: Value = serde_json::from_str(text).map_err(|error| ScriptError(format!("not JSON: {error}")))?;
        Self::from_value(value)
    }

    /// The same from a JSON value.
    pub fn from_value(value: Value) -> Result<Self, ScriptError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            replies: Vec<Value>,
            #[serde(default)]
            actions: Map<String, Value>,
            #[serde(default)]
            #[allow(dead_code, reason = "read so that a strict reader accepts it")]
            note: Option<String>,
        }
        let file = match value {
            Value::Array(replies) => File { replies, actions: Map::new(), note: None },
            object => serde_json::from_value(object).map_err(|error| ScriptError(error.to_string()))?,
        };
        if let Some((action, _)) = file.actions.iter().find(|(_, reply)| !reply.is_object()) {
            return Err(ScriptError(format!("the reply of action \"{action}\" is not an object")));
        }
        let read = |(at, value)| Scripted::read(at + 1, value);
        Ok(Self {
            replies: file.replies.into_iter().enumerate().map(read).collect::<Result<_, _>>()?,
            actions: file.actions,
        })
    }

    /// A script in a test: panics with the error.
    #[allow(clippy::panic, reason = "a test's literal script; the message is the failure")]
    pub fn json(value: Value) -> Self {
        Self::from_value(value).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A script that says one thing.
    pub fn text(text: &str) -> Self {
        Self::json(json!([{"text": text}]))
    }

    /// The first unused reply whose condition holds; `count` is the number of earlier replies, for ids.
    pub(crate) fn reply(&mut self, task: &str, last_result: &str, count: usize) -> ModelReply {
        let fits = |scripted: &&mut Scripted| {
            scripted.left != Some(0)
                && scripted.entry.task.as_deref().unwrap_or("default") == task
                && scripted.when.as_ref().is_none_or(|when| when.is_match(last_result))
        };
        match self.replies.iter_mut().find(fits) {
            Some(scripted) => scripted.take(count),
            None if task == "default" => plain("script ended"),
            None => plain("Summary of the earlier conversation."),
        }
    }

    /// Does any reply that is left reset the connection?
    pub(crate) fn resets(&self) -> bool {
        self.replies.iter().any(|scripted| matches!(scripted.entry.fault, Some(Fault::Reset(_))))
    }
}

fn plain(text: &str) -> ModelReply {
    let body = json!({"ok": true, "chunks": [{"type": "text", "content": text}, {"type": "done"}]}).to_string();
    ModelReply { body, exact: false, faults: Vec::new(), text: text.to_owned(), calls: Vec::new() }
}

impl Scripted {
    fn read(number: usize, value: Value) -> Result<Self, ScriptError> {
        let at = |error: &dyn std::fmt::Display| ScriptError(format!("reply {number}: {error}"));
        if !value.is_object() {
            return Err(at(&"expected an object"));
        }
        let entry: Entry = serde_json::from_value(value).map_err(|error| at(&error))?;
        for (index, tool) in entry.tools.iter().enumerate() {
            let tool = Tool::read(tool).map_err(|error| at(&format_args!("tool {}: {error}", index + 1)))?;
            if tool.args.is_some() && tool.args_raw.is_some() {
                return Err(at(&format_args!("tool {}: args and args_raw exclude each other", index + 1)));
            }
        }
        let bodies = [entry.raw.is_some(), entry.error.is_some(), entry.chunks.is_some()];
        let parts = entry.text.is_some() || entry.thinking.is_some() || !entry.tools.is_empty();
        if bodies.into_iter().filter(|given| *given).count() + usize::from(parts) > 1 {
            return Err(at(&"text and tools, chunks, raw and error exclude each other"));
        }
        let when =
            entry.when.as_deref().map(Pattern::new).transpose().map_err(|error| at(&format_args!("when: {error}")))?;
        let left = match entry.repeat {
            None => Some(1),
            Some(Repeat::Times(times)) => Some(times),
            Some(Repeat::Always(true)) => None,
            Some(Repeat::Always(false)) => return Err(at(&"repeat is a number or true")),
        };
        Ok(Self { entry, when, left })
    }

    fn take(&mut self, count: usize) -> ModelReply {
        self.left = self.left.map(|left| left - 1);
        let entry = &self.entry;
        let mut faults: Vec<Fault> = entry.fault.clone().into_iter().collect();
        if entry.delay_ms > 0 {
            faults.push(Fault::DelayMs(entry.delay_ms));
        }
        let tools: Vec<Tool> = entry.tools.iter().filter_map(|tool| Tool::read(tool).ok()).collect();
        let (body, exact) = match (&entry.raw, &entry.error, &entry.chunks) {
            (Some(Value::String(raw)), ..) => (raw.clone(), true),
            (Some(raw), ..) => (raw.to_string(), true),
            (_, Some(error), _) => (json!({"ok": false, "error": error}).to_string(), false),
            (.., Some(chunks)) => (json!({"ok": true, "chunks": chunks}).to_string(), false),
            _ => (self.chunks(&tools, count), false),
        };
        let calls = tools.iter().map(|tool| tool.name.clone()).collect();
        ModelReply { body, exact, faults, text: self.texts().concat(), calls }
    }

    fn texts(&self) -> Vec<String> {
        match &self.entry.text {
            None => Vec::new(),
            Some(Texts::One(text)) => vec![text.clone()],
            Some(Texts::Many(texts)) => texts.clone(),
        }
    }

    /// The body as text, since raw arguments need not survive a parser.
    fn chunks(&self, tools: &[Tool], count: usize) -> String {
        let mut chunks: Vec<String> = Vec::new();
        if let Some(thinking) = &self.entry.thinking {
            chunks.push(json!({"type": "thinking", "content": thinking}).to_string());
        }
        chunks.extend(self.texts().iter().map(|text| json!({"type": "text", "content": text}).to_string()));
        for (index, tool) in tools.iter().enumerate() {
            let id = tool.id.clone().unwrap_or_else(|| format!("tu_{}_{}", count + 1, index + 1));
            let args = match (&tool.args_raw, &tool.args) {
                (Some(raw), _) => raw.clone(),
                (None, Some(args)) => args.to_string(),
                (None, None) => "{}".to_owned(),
            };
            chunks.push(format!(
                r#"{{"type":"tool_use","toolCall":{{"id":{},"name":{},"args":{args}}}}}"#,
                json!(id),
                json!(tool.name)
            ));
        }
        chunks.push(match &self.entry.usage {
            Some(usage) => json!({"type": "done", "usage": usage}).to_string(),
            None => json!({"type": "done"}).to_string(),
        });
        format!(r#"{{"ok":true,"chunks":[{}]}}"#, chunks.join(","))
    }
}

impl Tool {
    fn read(value: &Value) -> Result<Self, String> {
        Self::deserialize(value).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
