//! A message as the reply the loop reads; each way a message can end is told.

use super::stream::{Message, Part};
use crate::limits;
use crate::link::CallError;
use crate::text::cut_units;
use crate::wire::{Reply, Usage};
use serde::Serialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What the model has said, over one message or several that paused.
pub(super) struct Outcome {
    max_tokens: u32,
    text: String,
    calls: Vec<Call>,
    usage: Usage,
    stop: Option<String>,
}

#[derive(Serialize)]
struct Call {
    id: String,
    name: String,
    args: Box<RawValue>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Chunk<'a> {
    Text {
        content: Cow<'a, str>,
    },
    ToolUse {
        #[serde(rename = "toolCall")]
        call: &'a Call,
    },
    Cut,
    Done {
        usage: Usage,
    },
}

#[derive(Serialize)]
struct Body<'a> {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    chunks: Vec<Chunk<'a>>,
}

impl Outcome {
    pub(super) fn new(max_tokens: u32) -> Self {
        Self { max_tokens, text: String::new(), calls: Vec::new(), usage: Usage::default(), stop: None }
    }

    pub(super) fn add(&mut self, message: Message) {
        self.usage.input_tokens = self.usage.input_tokens.saturating_add(message.usage.input_tokens);
        self.usage.output_tokens = self.usage.output_tokens.saturating_add(message.usage.output_tokens);
        self.stop = message.stop;
        for part in message.parts {
            match part {
                Part::Text(text) => self.text.push_str(&text),
                Part::Call { id, name, input, complete } => {
                    let args = if complete { arguments(input) } else { RawValue::NULL.to_owned() };
                    self.calls.push(Call { id, name, args });
                }
            }
        }
    }

    /// The reply: what was said, and a note or an error where it did not end by itself.
    pub(super) fn reply(mut self) -> Result<Reply, CallError> {
        let (note, error) = self.ending();
        // The loop says so, and does not run the call that a cut reply ends with.
        let cut = match self.stop.as_deref() {
            Some("max_tokens") => true,
            Some("model_context_window_exceeded") => !self.calls.is_empty(),
            _ => false,
        };
        if let Some(note) = note {
            let gap = if self.text.is_empty() { "" } else { "\n\n" };
            self.text.push_str(gap);
            self.text.push_str(&note);
        }
        let mut chunks = Vec::with_capacity(self.calls.len() + 3);
        if !self.text.is_empty() {
            chunks.push(Chunk::Text { content: Cow::Borrowed(&self.text) });
        }
        chunks.extend(self.calls.iter().map(|call| Chunk::ToolUse { call }));
        chunks.extend(cut.then_some(Chunk::Cut));
        chunks.push(Chunk::Done { usage: self.usage });
        let body = Body { ok: error.is_none(), error, chunks };
        serde_json::to_vec(&body).map(Reply::new).map_err(|_| CallError::Unencodable)
    }

    /// A note for the reader, or an error that ends the turn.
    fn ending(&self) -> (Option<String>, Option<String>) {
        let (silent, max) = (self.text.trim().is_empty() && self.calls.is_empty(), self.max_tokens);
        let note = |text: String| (Some(text), None);
        let error = |text: &str| (None, Some(text.to_owned()));
        match self.stop.as_deref() {
            Some("end_turn" | "stop_sequence") => (None, None),
            Some("tool_use") if self.calls.is_empty() => error("the model announced a tool call and made none"),
            Some("tool_use") => (None, None),
            Some("refusal") => error("the model declined to answer this request"),
            Some("max_tokens") if silent => error(&format!(
                "the reply reached its limit of {max} tokens before it said anything; raise --max-tokens"
            )),
            Some("model_context_window_exceeded") if silent => {
                error("the conversation fills the model's context; start a new one or shorten it")
            }
            Some("model_context_window_exceeded") if self.calls.is_empty() => {
                note("[The reply was cut: the conversation fills the model's context.]".to_owned())
            }
            // The loop's to say.
            Some("max_tokens" | "model_context_window_exceeded") => (None, None),
            Some("pause_turn") => note(format!(
                "[The model paused more than {} times; it may not have finished.]",
                limits::ANTHROPIC_PAUSES_MAX
            )),
            Some(other) if silent => {
                error(&format!("the model said nothing and stopped for an unknown reason ({})", cut_units(other, 60)))
            }
            Some(other) => note(format!("[The reply ended for an unknown reason ({}).]", cut_units(other, 60))),
            None if silent => error("the model said nothing and gave no reason for stopping"),
            None => note("[The reply ended without a reason; it may be incomplete.]".to_owned()),
        }
    }
}

/// The model's JSON as it is. What is no JSON becomes a string: the tool's own check then says what is wrong, and with
/// which call.
fn arguments(input: String) -> Box<RawValue> {
    let text = if input.trim().is_empty() { "{}".to_owned() } else { input };
    match RawValue::from_string(text.clone()) {
        Ok(raw) => raw,
        Err(_) => serde_json::value::to_raw_value(&text).unwrap_or_else(|_| RawValue::NULL.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Chunk as Read;

    fn reply(stop: Option<&str>, parts: Vec<Part>) -> Reply {
        let mut outcome = Outcome::new(100);
        let usage = Usage { input_tokens: 1, output_tokens: 7 };
        outcome.add(Message { parts, stop: stop.map(str::to_owned), usage });
        outcome.reply().unwrap()
    }

    fn text() -> Vec<Part> {
        vec![Part::Text("hi".into())]
    }

    fn call(input: &str, complete: bool) -> Vec<Part> {
        vec![Part::Call { id: "t".into(), name: "bash".into(), input: input.into(), complete }]
    }

    fn shown(reply: &Reply) -> String {
        let chunks = reply.chunks().unwrap();
        let text =
            chunks.iter().filter_map(|chunk| if let Read::Text(text) = chunk { Some(text.as_str()) } else { None });
        text.collect()
    }

    #[test]
    fn every_end_is_told_in_its_own_words() {
        let mut notes = std::collections::HashSet::new();
        for stop in [Some("pause_turn"), Some("model_context_window_exceeded"), Some("new"), None] {
            let reply = reply(stop, text());
            assert!(reply.accepted().is_ok());
            let shown = shown(&reply);
            assert!(shown.starts_with("hi\n\n["), "{shown}");
            assert!(notes.insert(shown), "{stop:?}");
        }
        for (stop, parts) in [
            (Some("refusal"), text()),
            (Some("tool_use"), text()),
            (Some("max_tokens"), vec![]),
            (Some("model_context_window_exceeded"), vec![]),
            (Some("new"), vec![]),
            (None, vec![]),
        ] {
            assert!(notes.insert(reply(stop, parts).accepted().unwrap_err()), "{stop:?}");
        }
        for stop in ["end_turn", "stop_sequence"] {
            assert_eq!(shown(&reply(Some(stop), text())), "hi");
            assert!(reply(Some(stop), vec![]).accepted().is_ok(), "silence can be meant");
        }
    }

    #[test]
    fn what_was_cut_is_said_beside_the_figures() {
        let last = |reply: Reply| {
            let chunks = reply.chunks().unwrap();
            let cut = chunks.iter().any(|chunk| matches!(chunk, Read::Cut));
            assert!(matches!(chunks.last(), Some(Read::Done(Usage { output_tokens: 7, .. }))), "the provider's figure");
            (chunks, cut)
        };
        for (stop, cut) in [("max_tokens", true), ("model_context_window_exceeded", false), ("end_turn", false)] {
            assert_eq!(last(reply(Some(stop), text())).1, cut, "{stop}");
        }
        let (chunks, cut) = last(reply(Some("max_tokens"), call(r#"{"command":"rm -rf /tm"#, false)));
        assert!(cut && matches!(&chunks[0], Read::ToolUse(call) if call.args.is_none()));
        assert!(last(reply(Some("model_context_window_exceeded"), call("{}", true))).1);
        let (chunks, cut) = last(reply(Some("tool_use"), call("", true)));
        assert!(!cut && matches!(&chunks[0], Read::ToolUse(call) if call.args.as_ref().unwrap().get() == "{}"));
        let (chunks, _) = last(reply(Some("tool_use"), call("{oops", true)));
        assert!(matches!(&chunks[0], Read::ToolUse(call) if call.args.as_ref().unwrap().get() == "\"{oops\""));
    }
}
