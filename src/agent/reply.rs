//! One reply of the model, made fit to be replayed.

use crate::limits;
use crate::text::cut_units;
use crate::wire::{Block, Chunk, Message, Role, ToolCall, Usage};
use serde_json::{Value, json};
use std::collections::HashSet;

/// What the model said in one round.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// All its text, joined with nothing between.
    pub text: String,
    /// Its tool calls, in order, each with an id of its own.
    pub calls: Vec<Call>,
    /// Tokens used.
    pub usage: Usage,
    /// It ended at its token limit.
    pub cut: bool,
}

/// A tool call of the round.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// Unique in the conversation.
    pub id: String,
    /// As the model wrote it.
    pub name: String,
    /// JSON text as the model wrote it; `null` when absent.
    pub args: String,
    /// The reply ended at its token limit right after this call, so its arguments may be cut.
    pub cut: bool,
}

impl Round {
    /// Sorts the chunks. `used` holds the ids of the conversation so far: providers pair results with calls by id, so an
    /// empty or repeated one gets a new name.
    pub(super) fn new(chunks: Vec<Chunk>, max_tokens: u32, used: &mut HashSet<String>) -> Self {
        let mut round = Self::default();
        let mut ends_with_call = false;
        for chunk in chunks {
            match chunk {
                Chunk::Text(text) => {
                    ends_with_call &= text.trim().is_empty();
                    // No host takes it back as a message.
                    round.text.push_str(&text.replace('\0', "\u{2400}"));
                }
                Chunk::ToolUse(call) => {
                    ends_with_call = true;
                    round.calls.push(Call::new(call, used));
                }
                // A second one without figures does not undo the first.
                Chunk::Done(usage) if usage.output_tokens >= round.usage.output_tokens => round.usage = usage,
                Chunk::Done(_) => {}
                Chunk::Cut => round.cut = true,
                Chunk::Other => {}
            }
        }
        round.cut |= round.usage.output_tokens >= u64::from(max_tokens);
        if round.cut
            && ends_with_call
            && let Some(last) = round.calls.last_mut()
        {
            last.cut = true;
        }
        round
    }

    /// The message that replays this round: text first, then the calls (PROTOCOL §6.2).
    pub(super) fn message(&self) -> Message {
        let text = cut_units(&self.text, limits::MESSAGE_MAX_UNITS);
        if self.calls.is_empty() {
            return Message::text(Role::Assistant, if text.trim().is_empty() { "." } else { text });
        }
        let mut blocks = Vec::with_capacity(self.calls.len() + 1);
        if !text.trim().is_empty() {
            blocks.push(Block::Text { text: text.to_owned() });
        }
        blocks.extend(self.calls.iter().map(Call::block));
        Message::blocks(Role::Assistant, blocks)
    }
}

impl Call {
    fn new(call: ToolCall, used: &mut HashSet<String>) -> Self {
        let wish = identifier(&call.id, limits::TOOL_ID_MAX_UNITS);
        let mut id = wish.clone();
        let mut count = used.len();
        while id.is_empty() || used.contains(&id) {
            count += 1;
            id = format!("call_{count}");
        }
        used.insert(id.clone());
        let args = call.args.map_or_else(|| "null".to_owned(), |raw| raw.get().to_owned());
        Self { id, name: call.name, args, cut: false }
    }

    /// Replayed arguments are an object, as providers demand; what was not one is told in the call's result. A string that
    /// holds one was read as that (`tools::arguments`).
    fn block(&self) -> Block {
        let read = |text: &str| serde_json::from_str::<Value>(text).ok();
        let input = match read(&self.args) {
            Some(Value::String(text)) => read(&text),
            other => other,
        };
        let input = input.filter(Value::is_object).unwrap_or_else(|| json!({}));
        let name = identifier(&self.name, limits::TOOL_NAME_PROVIDER_MAX);
        Block::ToolUse { id: self.id.clone(), name: if name.is_empty() { "unknown".to_owned() } else { name }, input }
    }
}

/// In the letters that providers take back in ids and tool names; models invent others now and then.
fn identifier(text: &str, max: usize) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    text.chars().take(max).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, args: &str) -> Chunk {
        let body = format!(r#"{{"id":"{id}","name":"bash","args":{args}}}"#);
        Chunk::ToolUse(serde_json::from_str(&body).unwrap())
    }

    #[test]
    fn ids_are_unique_and_inputs_are_objects() {
        let mut used = HashSet::from(["old".to_owned()]);
        let text = call("text", r#""{\"x\":1}""#);
        let chunks = vec![call("a", "{}"), call("a", "[1]"), call("", "null"), call("old", "{\"x\":1}"), text];
        let round = Round::new(chunks, 100, &mut used);
        let ids: HashSet<&str> = round.calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids.len(), 5);
        assert!(!ids.contains("") && !ids.contains("old") && ids.contains("a"));
        let crate::wire::Content::Blocks(blocks) = round.message().content else { panic!("not blocks") };
        let inputs: Vec<Value> = blocks
            .into_iter()
            .map(|block| match block {
                Block::ToolUse { input, .. } => input,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(inputs, [json!({}), json!({}), json!({}), json!({"x": 1}), json!({"x": 1})]);
    }

    #[test]
    fn a_reply_at_its_token_limit_marks_only_the_call_it_ends_with() {
        let done = Chunk::Done(Usage { input_tokens: 1, output_tokens: 100 });
        let mut used = HashSet::new();
        let round = Round::new(vec![call("a", "{}"), call("b", "{}"), done.clone()], 100, &mut used);
        assert_eq!(round.calls.iter().map(|call| call.cut).collect::<Vec<_>>(), [false, true]);
        let round = Round::new(vec![call("c", "{}"), Chunk::Text("x".into()), done.clone()], 100, &mut used);
        assert!(!round.calls[0].cut);
        let blank = Chunk::Text(" \n".into());
        for chunks in [
            vec![call("d", "{}"), blank.clone(), done.clone()],
            vec![done.clone(), call("e", "{}")],
            vec![call("f", "{}"), done, Chunk::Done(Usage::default()), blank],
        ] {
            assert!(Round::new(chunks, 100, &mut used).calls[0].cut);
        }
    }

    #[test]
    fn nothing_said_is_a_dot() {
        let message = Round::default().message();
        assert_eq!(message, Message::text(Role::Assistant, "."));
    }
}
