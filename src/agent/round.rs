//! One round of a conversation: what the model said, and what its calls gave.

use super::shortened::{MARKER_MAX, Shortened, level, size};
use crate::limits;
use crate::text::json_bytes;
use crate::tools::forward;
use crate::wire::{Block, Content, Message};
use serde_json::Value;

/// A call's result.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    id: String,
    text: Shortened,
    /// How to get what is left out of it; empty where the call had effects that must not happen again.
    advice: &'static str,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Round {
    pub(super) said: Message,
    pub(super) answers: Vec<Answer>,
    /// Of its JSON. Kept, because counting costs as much as sending.
    pub(super) bytes: usize,
    calls_are_short: bool,
}

impl Answer {
    pub(super) fn block(&self) -> Block {
        Block::ToolResult { tool_use_id: self.id.clone(), content: self.text.show().into_owned() }
    }

    fn size(&self) -> usize {
        size(&self.text.show())
    }
}

impl Round {
    /// Of the model's message and, for each call in it, the call's id and result.
    pub(super) fn new(said: Message, results: impl IntoIterator<Item = (String, String)>) -> Self {
        let answer = |(id, text): (String, String)| {
            let advice = call(&said, &id).map_or("", |(name, input)| advice(name, input));
            Answer { id, text: text.into(), advice }
        };
        let answers = results.into_iter().map(answer).collect();
        Self { said, answers, bytes: 0, calls_are_short: false }.measured()
    }

    /// With its bytes counted.
    pub(super) fn measured(self) -> Self {
        // The JSON around a result that is a message of its own.
        const FRAME: usize = 90;
        let results: usize = self.answers.iter().map(|it| it.size() + size(&it.id) + FRAME).sum();
        Self { bytes: size(&self.said) + results, ..self }
    }

    /// Shortens results until `excess` bytes are saved; returns how many were.
    pub(super) fn shorten_results(&mut self, excess: usize) -> usize {
        let mut saved = 0;
        for answer in &mut self.answers {
            if saved >= excess {
                break;
            }
            // Once it is that short it stays the same, and so does the beginning of the conversation.
            if answer.text.units() > limits::SHORTENED_RESULT_UNITS {
                saved += answer.text.cut(limits::SHORTENED_RESULT_UNITS, char::len_utf16, answer.advice);
            }
        }
        self.saved(saved)
    }

    /// Shortens the arguments of the calls; returns the bytes saved.
    pub(super) fn shorten_calls(&mut self) -> usize {
        if std::mem::replace(&mut self.calls_are_short, true) {
            return 0;
        }
        let before = size(&self.said);
        if let Content::Blocks(blocks) = &mut self.said.content {
            for block in blocks {
                if let Block::ToolUse { input, .. } = block {
                    shorten_strings(input);
                }
            }
        }
        self.saved(before.saturating_sub(size(&self.said)))
    }

    /// Brings the results to what the rest of a conversation of `bytes` leaves them of `target`, but not below `least`
    /// together, the largest first; returns the bytes saved.
    pub(super) fn share(&mut self, bytes: usize, target: usize, least: usize) -> usize {
        let sizes: Vec<usize> = self.answers.iter().map(Answer::size).collect();
        let room = (target + sizes.iter().sum::<usize>()).saturating_sub(bytes).max(least);
        // What is no longer than two such lines would say nothing any more.
        let most = level(sizes, room).max(2 * MARKER_MAX);
        let mut saved = 0;
        for answer in self.answers.iter_mut().filter(|answer| answer.size() > most) {
            saved += answer.text.cut(most.saturating_sub(MARKER_MAX), json_bytes, answer.advice);
        }
        self.saved(saved)
    }

    fn saved(&mut self, bytes: usize) -> usize {
        self.bytes -= bytes;
        bytes
    }
}

/// The name and the arguments of a call.
fn call<'m>(said: &'m Message, wanted: &str) -> Option<(&'m str, &'m Value)> {
    let Content::Blocks(blocks) = &said.content else { return None };
    blocks.iter().find_map(|block| match block {
        Block::ToolUse { id, name, input } if id == wanted => Some((name.as_str(), input)),
        _ => None,
    })
}

/// How the model gets what is left out of a call's result, without doing again what the call did.
fn advice(name: &str, input: &Value) -> &'static str {
    match name {
        "read_file" => "to see them, read those lines with offset and limit",
        "grep" | "glob" => "to see them, search for less at a time",
        "bash" => "let a command with long output write it to a file, and read that in parts",
        _ if forward::reads(name, input["type"].as_str().unwrap_or_default()) => {
            "to see more, make this call again, alone"
        }
        _ => "",
    }
}

fn shorten_strings(value: &mut Value) {
    match value {
        Value::String(text) => {
            let mut short = Shortened::from(std::mem::take(text));
            if short.units() > limits::SHORTENED_ARGUMENT_UNITS {
                short.cut(limits::SHORTENED_ARGUMENT_UNITS / 2, char::len_utf16, "");
            }
            *text = short.show().into_owned();
        }
        Value::Array(items) => items.iter_mut().for_each(shorten_strings),
        Value::Object(fields) => fields.values_mut().for_each(shorten_strings),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_has_effects_is_not_to_be_called_again() {
        for (name, input, wanted) in [
            ("read_file", json!({}), "offset and limit"),
            ("glob", json!({}), "search for less"),
            ("web", json!({"type": "fetch"}), "make this call again"),
            ("memory", json!({"type": "query"}), "make this call again"),
            ("audit", json!({}), "make this call again"),
            ("bash", json!({}), "write it to a file"),
            ("memory", json!({"type": "write"}), ""),
            ("memory", json!({"type": 1}), ""),
            ("agent", json!({"type": "delegate"}), ""),
            ("call_tool", json!({}), ""),
            ("skill_write", json!({}), ""),
            ("mcp_tracker_get_ticket", json!({}), ""),
        ] {
            let advice = advice(name, &input);
            assert!(advice.contains(wanted) && advice.is_empty() == wanted.is_empty(), "{name} {input}: {advice}");
        }
    }
}
