//! One message, put together from its events.

use crate::http::sse::{Event, Events, SseError};
use crate::limits;
use crate::text::cut_units;
use crate::wire::Usage;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A whole message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// What it consists of, in order.
    pub(crate) parts: Vec<Part>,
    /// Why it ended; `None` when the service did not say.
    pub(crate) stop: Option<String>,
    /// Tokens, those from and to the cache included.
    pub(crate) usage: Usage,
}

/// A part of a message that means something to us.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    /// A tool call; `input` is JSON text as the model wrote it, `complete` says whether its end was sent.
    Call {
        id: String,
        name: String,
        input: String,
        complete: bool,
    },
}

impl Message {
    /// The model has more to say and waits to be asked.
    pub(crate) fn paused(&self) -> bool {
        self.stop.as_deref() == Some("pause_turn")
    }
}

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    #[error("the model's reply broke off before its end")]
    Torn,
    #[error("the model's reply is larger than {} bytes", limits::SSE_REPLY_MAX_BYTES)]
    TooLong,
    #[error("the model's reply cannot be read: {0}")]
    Unreadable(#[from] SseError),
    #[error("the model's reply holds an event that cannot be read ({0})")]
    Malformed(String),
    #[error("the model's reply stopped")]
    Silent,
    #[error("{words}")]
    Refused { passing: bool, words: String },
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Step {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: u32,
        content_block: Opening,
    },
    ContentBlockDelta {
        index: u32,
        delta: Delta,
    },
    ContentBlockStop {
        index: u32,
    },
    MessageDelta {
        delta: Stop,
        #[serde(default)]
        usage: Option<Tokens>,
    },
    MessageStop,
    Error {
        error: Complaint,
    },
    /// `ping`, and what may come later.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    usage: Option<Tokens>,
}

#[derive(Deserialize, Clone, Copy, Default)]
struct Tokens {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Opening {
    Text {
        #[serde(default)]
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "input_json_delta")]
    Input { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Stop {
    #[serde(default)]
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct Complaint {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    message: String,
}

/// Reads events until the message is whole. Each must come within `silence` of the one before.
pub(crate) async fn read(events: &mut Events, silence: Duration) -> Result<Message, StreamError> {
    let mut building = Building::default();
    loop {
        let next = tokio::time::timeout(silence, events.next()).await.map_err(|_| StreamError::Silent)?;
        let event = next?.ok_or(StreamError::Torn)?;
        if building.take(&event)? {
            return Ok(building.finish());
        }
    }
}

#[derive(Default)]
struct Building {
    parts: BTreeMap<u32, Part>,
    stop: Option<String>,
    tokens: Tokens,
    bytes: usize,
}

impl Building {
    /// True at the message's end.
    fn take(&mut self, event: &Event) -> Result<bool, StreamError> {
        self.bytes += event.data.len();
        if self.bytes > limits::SSE_REPLY_MAX_BYTES {
            return Err(StreamError::TooLong);
        }
        let malformed = || StreamError::Malformed(cut_units(&event.name, 40).to_owned());
        match serde_json::from_str::<Step>(&event.data).map_err(|_| malformed())? {
            Step::MessageStart { message } => self.count(message.usage),
            Step::ContentBlockStart { index, content_block } => {
                let part = match content_block {
                    Opening::Text { text } => Some(Part::Text(text)),
                    Opening::ToolUse { id, name } => {
                        Some(Part::Call { id, name, input: String::new(), complete: false })
                    }
                    Opening::Other => None,
                };
                if let Some(part) = part
                    && self.parts.insert(index, part).is_some()
                {
                    return Err(malformed());
                }
            }
            Step::ContentBlockDelta { index, delta } => match (self.parts.get_mut(&index), delta) {
                (Some(Part::Text(text)), Delta::Text { text: more }) => text.push_str(&more),
                (Some(Part::Call { input, .. }), Delta::Input { partial_json }) => input.push_str(&partial_json),
                (_, Delta::Other) | (None, _) => {}
                _ => return Err(malformed()),
            },
            Step::ContentBlockStop { index } => {
                if let Some(Part::Call { complete, .. }) = self.parts.get_mut(&index) {
                    *complete = true;
                }
            }
            Step::MessageDelta { delta, usage } => {
                self.stop = delta.stop_reason.or(self.stop.take());
                self.count(usage);
            }
            Step::MessageStop => return Ok(true),
            Step::Error { error } => {
                let passing = matches!(error.kind.as_str(), "overloaded_error" | "api_error" | "rate_limit_error");
                let words = format!("{}: {}", error.kind, error.message);
                let words = cut_units(&words, limits::HTTP_ERROR_BODY_UNITS);
                return Err(StreamError::Refused { passing, words: format!("the model's service failed ({words})") });
            }
            Step::Other => {}
        }
        Ok(false)
    }

    /// Later numbers are totals, not additions.
    fn count(&mut self, usage: Option<Tokens>) {
        let Some(new) = usage else { return };
        let old = self.tokens;
        self.tokens = Tokens {
            input_tokens: new.input_tokens.or(old.input_tokens),
            cache_creation_input_tokens: new.cache_creation_input_tokens.or(old.cache_creation_input_tokens),
            cache_read_input_tokens: new.cache_read_input_tokens.or(old.cache_read_input_tokens),
            output_tokens: new.output_tokens.or(old.output_tokens),
        };
    }

    fn finish(self) -> Message {
        let Tokens { input_tokens, cache_creation_input_tokens, cache_read_input_tokens, output_tokens } = self.tokens;
        let input = [input_tokens, cache_creation_input_tokens, cache_read_input_tokens];
        let usage = Usage {
            input_tokens: input.into_iter().flatten().fold(0, u64::saturating_add),
            output_tokens: output_tokens.unwrap_or(0),
        };
        Message { parts: self.parts.into_values().collect(), stop: self.stop, usage }
    }
}
