//! Payload and results as wire messages (PROTOCOL §6.3–6.5).

use crate::limits;
use crate::text::{cut_units, units};
use crate::wire::{Block, Content, HistoryTurn, Message, Payload, Role};

/// The conversation at the start of a turn: history, then the current message.
pub fn opening(payload: &Payload) -> Vec<Message> {
    let current = Message::text(Role::User, filled(&prompt_text(payload)));
    payload.history.iter().map(history).chain([current]).collect()
}

/// The current message's text.
pub fn prompt_text(payload: &Payload) -> String {
    payload.message.to_text("\n")
}

fn history(turn: &HistoryTurn) -> Message {
    let text = turn.content.to_text("\n");
    if turn.role != "user" {
        return Message::text(Role::Assistant, filled(&text));
    }
    match turn.sender.as_deref().map(sender).filter(|sender| !sender.is_empty()) {
        Some(sender) => Message::text(Role::User, filled(&format!("[{sender}]: {text}"))),
        None => Message::text(Role::User, filled(&text)),
    }
}

fn sender(raw: &str) -> String {
    let kept = raw.chars().filter(|c| c.is_ascii_alphanumeric() || "_.-".contains(*c));
    kept.take(limits::SENDER_MAX_CHARS).collect()
}

/// No host takes an empty text, one over the limit or one with NUL.
fn filled(text: &str) -> String {
    if text.trim().is_empty() {
        return ".".to_owned();
    }
    let text = text.replace('\0', "\u{2400}");
    let length = units(&text);
    if length <= limits::MESSAGE_MAX_UNITS {
        return text;
    }
    let note = format!("\n\n[truncated — {length} chars total]");
    format!("{}{note}", cut_units(&text, limits::MESSAGE_MAX_UNITS - units(&note)))
}

/// A tool's result as its own message (PROTOCOL §6.3).
pub(super) fn tool_result(id: &str, text: &str) -> Message {
    let text = text.replace('\0', "\u{2400}");
    let length = units(&text);
    let content = match length {
        _ if text.trim().is_empty() => "[no output]".to_owned(),
        0..=limits::TOOL_RESULT_MAX_UNITS => text,
        _ => format!("{}\n\n[truncated — {length} chars total]", cut_units(&text, limits::TOOL_RESULT_MAX_UNITS)),
    };
    Message {
        role: Role::User,
        content: Content::Blocks(vec![Block::ToolResult { tool_use_id: id.to_owned(), content }]),
    }
}
