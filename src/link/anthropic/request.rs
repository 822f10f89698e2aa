//! The conversation as the Messages API wants it.

use super::stream::{Message as Answer, Part};
use crate::limits;
use crate::wire::{Block, Content, LlmCall, Role};
use base64::Engine;
use serde_json::{Value, json};

/// The request's body.
pub(super) fn body(call: &LlmCall, max_tokens: u32) -> Value {
    let mut system = Vec::new();
    let mut messages: Vec<Value> = Vec::new();
    for message in &call.messages {
        let role = match message.role {
            Role::System => {
                system.push(message.content.to_text("\n"));
                continue;
            }
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        push(&mut messages, role, blocks(&message.content));
    }
    // It must begin with the user; a history that was cut may not.
    if messages.first().is_some_and(|first| first["role"] == "assistant") {
        messages.insert(0, json!({"role": "user", "content": [{"type": "text", "text": "(earlier conversation)"}]}));
    }
    let mut body = json!({
        "model": call.model.as_deref().unwrap_or(limits::MODEL_DEFAULT),
        "max_tokens": max_tokens,
        "stream": true,
        "messages": messages,
    });
    let system = system.join("\n\n");
    if !system.trim().is_empty() {
        body["system"] = system.into();
    }
    if !call.tools.is_empty() {
        let tools = call
            .tools
            .iter()
            .map(|tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters}));
        body["tools"] = tools.collect();
    }
    body
}

/// Adds what the model has said so far, so that it goes on from there.
pub(super) fn go_on(body: &mut Value, answer: &Answer) {
    let parts = answer.parts.iter().filter_map(|part| match part {
        Part::Text(text) if !text.trim().is_empty() => Some(json!({"type": "text", "text": text})),
        _ => None,
    });
    let parts: Vec<Value> = parts.collect();
    if let Some(messages) = body["messages"].as_array_mut() {
        push(messages, "assistant", parts);
    }
}

/// Adds blocks to the conversation. Neighbours of one role become one message: the results of one reply's calls must
/// stand together behind it.
fn push(messages: &mut Vec<Value>, role: &str, mut blocks: Vec<Value>) {
    if blocks.is_empty() {
        return;
    }
    if let Some(last) = messages.last_mut().filter(|last| last["role"] == role)
        && let Some(content) = last["content"].as_array_mut()
    {
        content.append(&mut blocks);
        return;
    }
    messages.push(json!({"role": role, "content": blocks}));
}

fn blocks(content: &Content) -> Vec<Value> {
    match content {
        Content::Text(text) => text_block(text).into_iter().collect(),
        Content::Blocks(blocks) => blocks.iter().filter_map(block).collect(),
    }
}

/// The API refuses a text of nothing.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn block(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text } => text_block(text),
        Block::ToolUse { id, name, input } => Some(json!({"type": "tool_use", "id": id, "name": name, "input": input})),
        Block::ToolResult { tool_use_id, content } => {
            let content = if content.trim().is_empty() { "[no output]" } else { content };
            Some(json!({"type": "tool_result", "tool_use_id": tool_use_id, "content": content}))
        }
        Block::ImageData { data, mime_type } => Some(source("image", data, mime_type)),
        Block::FileData { data, mime_type, filename } => Some(file(data, mime_type, filename)),
        // References that the host did not resolve mean nothing to the API.
        Block::Image { .. } | Block::File { .. } => None,
    }
}

fn source(kind: &str, data: &str, mime_type: &str) -> Value {
    json!({"type": kind, "source": {"type": "base64", "media_type": mime_type, "data": data}})
}

/// The API takes PDF as it is; other files are shown as text where they are text.
fn file(data: &str, mime_type: &str, filename: &str) -> Value {
    if mime_type == "application/pdf" {
        return source("document", data, mime_type);
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap_or_default();
    let text = match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => format!("--- {filename} ---\n{text}\n--- end {filename} ---"),
        _ => format!("[the file {filename} ({mime_type}) is not text and cannot be shown]"),
    };
    json!({"type": "text", "text": text})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Message, ToolSpec};

    fn call(messages: Vec<Message>) -> LlmCall {
        LlmCall { model: None, task_type: None, messages, tools: [].into(), max_tokens: None }
    }

    #[test]
    fn results_of_one_reply_stand_in_one_message() {
        let result = |id: &str| {
            Message::blocks(Role::User, vec![Block::ToolResult { tool_use_id: id.into(), content: "".into() }])
        };
        let uses = vec![
            Block::Text { text: " ".into() },
            Block::ToolUse { id: "a".into(), name: "bash".into(), input: json!({}) },
            Block::ToolUse { id: "b".into(), name: "bash".into(), input: json!({}) },
        ];
        let mut call = call(vec![
            Message::text(Role::System, "be kind"),
            Message::text(Role::Assistant, "hello"),
            Message::text(Role::User, "go"),
            Message::blocks(Role::Assistant, uses),
            result("a"),
            result("b"),
        ]);
        call.tools = [ToolSpec::new("bash", "d", &json!({"type": "object"}))].into();
        let body = body(&call, 100);
        assert_eq!(body["system"], "be kind");
        assert_eq!(body["tools"][0]["input_schema"]["type"], "object");
        let roles: Vec<&str> = body["messages"].as_array().unwrap().iter().filter_map(|m| m["role"].as_str()).collect();
        assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
        let last = &body["messages"][4]["content"];
        assert_eq!((&last[0]["tool_use_id"], &last[1]["tool_use_id"]), (&json!("a"), &json!("b")));
        assert_eq!(last[0]["content"], "[no output]");
        assert_eq!(body["messages"][3]["content"].as_array().unwrap().len(), 2, "no empty text");
        assert!(self::body(&self::call(vec![Message::text(Role::User, "x")]), 1).get("tools").is_none());
    }

    #[test]
    fn files_and_images() {
        let data = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let blocks = vec![
            Block::ImageData { data: "AAAA".into(), mime_type: "image/png".into() },
            Block::FileData { data: data("%PDF"), mime_type: "application/pdf".into(), filename: "a.pdf".into() },
            Block::FileData { data: data("a,b"), mime_type: "text/csv".into(), filename: "a.csv".into() },
            Block::FileData { data: "AAAA".into(), mime_type: "application/zip".into(), filename: "a.zip".into() },
            Block::Image { file_id: "1".into(), mime_type: "image/png".into() },
        ];
        let body = body(&call(vec![Message::blocks(Role::User, blocks)]), 1);
        let content = body["messages"][0]["content"].as_array().unwrap();
        let source = json!({"type": "base64", "media_type": "image/png", "data": "AAAA"});
        assert_eq!(content[0], json!({"type": "image", "source": source}));
        assert_eq!(content[1]["type"], "document");
        assert_eq!(content[2]["text"], "--- a.csv ---\na,b\n--- end a.csv ---");
        assert!(content[3]["text"].as_str().unwrap().contains("a.zip (application/zip) is not text"));
        assert_eq!(content.len(), 4);
    }
}
