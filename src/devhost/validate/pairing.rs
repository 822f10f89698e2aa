//! The rules a model provider enforces on a conversation. The host passes messages through, so a breach would come back
//! as a failed model turn and poison every later one of the session.

use super::patterns::is_tool_name;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// What is wrong with an `llm_call` that has passed the host's own check; each text says where.
pub(super) fn check(call: &Map<String, Value>) -> Vec<String> {
    let mut talk = Talk::default();
    let messages = call.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (index, message) in messages.iter().enumerate() {
        talk.message(index, message);
    }
    talk.end(messages.len());
    tools(call, &mut talk.issues);
    talk.issues
}

#[derive(Default)]
struct Talk {
    issues: Vec<String>,
    /// Calls of the last assistant message that have no result yet.
    open: BTreeSet<String>,
    /// Every call's id so far.
    called: BTreeSet<String>,
    last: Option<String>,
}

impl Talk {
    fn add(&mut self, index: usize, message: impl std::fmt::Display) {
        self.issues.push(format!("messages.{index}: {message}"));
    }

    fn message(&mut self, index: usize, message: &Value) {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "system" {
            if index > 0 {
                self.add(index, "a system message stands only at the beginning");
            }
            if !message["content"].is_string() || blank(message["content"].as_str()) {
                self.add(index, "the system message is text and not empty");
            }
            return;
        }
        if self.last.is_none() && role != "user" {
            self.add(index, "the conversation begins with the user");
        }
        if role == "assistant" && !self.open.is_empty() {
            self.unanswered(index);
        }
        match &message["content"] {
            Value::String(text) => {
                if blank(Some(text)) {
                    self.add(index, "the text is empty");
                }
                if !self.open.is_empty() {
                    self.unanswered(index);
                }
            }
            Value::Array(blocks) => self.blocks(index, role, blocks),
            _ => {}
        }
        self.last = Some(role.to_owned());
    }

    fn blocks(&mut self, index: usize, role: &str, blocks: &[Value]) {
        if blocks.is_empty() {
            self.add(index, "the list of blocks is empty");
        }
        for block in blocks {
            match (role, block["type"].as_str().unwrap_or_default()) {
                (_, "text") => {
                    if blank(block["text"].as_str()) {
                        self.add(index, "a text block is empty");
                    }
                    if role == "user" && !self.open.is_empty() {
                        self.unanswered(index);
                    }
                }
                ("assistant", "tool_use") => self.tool_use(index, block),
                ("user", "tool_result") => self.tool_result(index, block),
                ("user", "tool_use") => self.add(index, "a tool_use stands in a user message"),
                ("assistant", kind) => self.add(index, format_args!("a {kind} stands in an assistant message")),
                _ if !self.open.is_empty() => self.unanswered(index),
                _ => {}
            }
        }
    }

    fn tool_use(&mut self, index: usize, block: &Value) {
        let id = block["id"].as_str().unwrap_or_default();
        if id.is_empty() {
            self.add(index, "a tool_use has an empty id");
        }
        if !self.called.insert(id.to_owned()) {
            self.add(index, format_args!("the tool_use id \"{id}\" is used twice"));
        }
        if block["name"].as_str().is_none_or(|name| !is_tool_name(name)) {
            self.add(index, format_args!("a tool_use has the impossible name {}", block["name"]));
        }
        if !block["input"].is_object() {
            self.add(index, "the input of a tool_use is not an object");
        }
        self.open.insert(id.to_owned());
    }

    fn tool_result(&mut self, index: usize, block: &Value) {
        let id = block["tool_use_id"].as_str().unwrap_or_default();
        if !self.open.remove(id) {
            self.add(index, format_args!("a tool_result answers no open call: \"{id}\""));
        }
        if block["content"].as_str().unwrap_or_default().is_empty() {
            self.add(index, format_args!("the result of \"{id}\" is empty"));
        }
    }

    fn unanswered(&mut self, index: usize) {
        let open: Vec<String> = std::mem::take(&mut self.open).into_iter().collect();
        self.add(index, format_args!("calls without a result directly after them: {}", open.join(", ")));
    }

    fn end(&mut self, count: usize) {
        if !self.open.is_empty() {
            self.unanswered(count);
        }
        if self.last.as_deref() != Some("user") {
            self.add(count, "the conversation does not end with the user");
        }
    }
}

fn blank(text: Option<&str>) -> bool {
    text.is_none_or(|text| text.trim().is_empty())
}

fn tools(call: &Map<String, Value>, issues: &mut Vec<String>) {
    let mut names = BTreeSet::new();
    let tools = call.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (index, tool) in tools.iter().enumerate() {
        let name = tool["name"].as_str().unwrap_or_default();
        if !is_tool_name(name) {
            issues.push(format!("tools.{index}: no provider takes the name \"{name}\""));
        }
        if !names.insert(name) {
            issues.push(format!("tools.{index}: the name \"{name}\" is used twice"));
        }
        if tool["parameters"]["type"] != "object" {
            issues.push(format!("tools.{index}: parameters of \"{name}\" lack type \"object\""));
        }
    }
}

#[cfg(test)]
#[path = "pairing_tests.rs"]
mod tests;
