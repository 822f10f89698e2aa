//! A turn's conversation, kept within what the host, the transport and the model take: 200 messages, a number of bytes.
//!
//! When it grows too large, room is made where it is missed least: results of earlier rounds are shortened first, then the
//! arguments of earlier calls, then the oldest history goes, then the last round's results shrink, then whole rounds go.
//! What is shortened or left out says so. Calls and their results stay together. The cuts are kept, and go further than
//! needed, so that the beginning of the conversation stays the same for many rounds.

use super::history::{filled, media, media_bytes, result_text};
use crate::limits;
use crate::text::{cut_units, units};
use crate::wire::{Block, Content, Message, Role};
use serde::Serialize;
use serde_json::Value;

/// How much one request may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Messages besides the system prompt.
    messages: usize,
    /// Bytes of JSON that texts, calls and results may take.
    text: usize,
    /// Bytes that media may take.
    media: usize,
    /// Bytes that all of it may take.
    free: usize,
}

impl Room {
    /// The room in requests of `request_max` bytes of which `overhead` are taken by the prompt, the tools and the envelope.
    pub fn new(request_max: usize, overhead: usize) -> Self {
        let free = request_max.saturating_sub(overhead + limits::REQUEST_SLACK_BYTES);
        Self {
            messages: limits::LLM_MESSAGES_MAX - 1,
            text: free.min(limits::CONVERSATION_MAX_BYTES),
            media: free.saturating_sub(limits::CONVERSATION_MIN_BYTES),
            free,
        }
    }

    /// Bytes that texts, calls and results may take.
    pub(super) fn text_bytes(&self) -> usize {
        self.text
    }
}

/// A call's result.
#[derive(Debug, Clone)]
struct Answer {
    id: String,
    text: String,
}

/// What the model said and what its calls gave.
#[derive(Debug, Clone)]
struct Round {
    said: Message,
    answers: Vec<Answer>,
    /// Of its JSON. Kept, because counting costs as much as sending.
    bytes: usize,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Conversation {
    /// Stands for what is older than the history, and outlasts it.
    summary: Vec<Message>,
    history: Vec<Message>,
    message: String,
    media: Vec<Block>,
    rounds: Vec<Round>,
    /// Of what stands before the rounds.
    opening_bytes: usize,
    room: Room,
    left_out_turns: usize,
    left_out_rounds: usize,
}

impl Conversation {
    /// A turn's beginning: earlier turns and the current message.
    pub fn new(history: Vec<Message>, message: &Content, room: Room) -> Self {
        let media = media(message, room.media);
        let room = Room { text: room.text.min(room.free.saturating_sub(media_bytes(&media))), ..room };
        let message = match message.to_text("\n") {
            text if text.trim().is_empty() && !media.is_empty() => String::new(),
            text => filled(&text),
        };
        Self {
            opening_bytes: history.iter().map(size).sum::<usize>() + size(&message),
            summary: Vec::new(),
            history,
            message,
            media,
            rounds: Vec::new(),
            room,
            left_out_turns: 0,
            left_out_rounds: 0,
        }
    }

    /// The same, after a summary of what came before the history.
    pub(super) fn after(self, summary: Vec<Message>) -> Self {
        Self { opening_bytes: self.opening_bytes + summary.iter().map(size).sum::<usize>(), summary, ..self }
    }

    /// Adds a round: the model's message and a result, with its call's id, for each of the calls in it.
    pub fn add(&mut self, said: Message, results: impl IntoIterator<Item = (String, String)>) {
        let answers = results.into_iter().map(|(id, text)| Answer { id, text: result_text(&text) }).collect();
        self.rounds.push(Round::new(said, answers));
    }

    /// The messages to send, after room was made for them.
    pub fn messages(&mut self) -> Vec<Message> {
        self.shrink();
        // Results of one round may share a message; nothing is lost by it.
        let merged = self.count(false) > self.room.messages;
        while self.count(merged) > self.room.messages && (self.drop_turn().is_some() || self.drop_round()) {}
        self.compose(merged)
    }

    /// Messages of [`Self::compose`], or one more.
    fn count(&self, merged: bool) -> usize {
        let results = |round: &Round| if merged { 1 } else { round.answers.len() };
        let note = usize::from(self.left_out_turns > 0);
        self.summary.len()
            + self.history.len()
            + note
            + 1
            + self.rounds.iter().map(|round| 1 + results(round)).sum::<usize>()
    }

    fn compose(&self, merged: bool) -> Vec<Message> {
        let mut messages = [self.summary.as_slice(), &self.history].concat();
        if self.left_out_turns > 0 {
            let which = match self.summary.is_empty() {
                true => format!("{} oldest messages of this conversation", self.left_out_turns),
                false => format!("{} messages that followed this summary", self.left_out_turns),
            };
            let note = format!("[The {which} were left out to make room.]");
            match messages.first_mut() {
                Some(Message { role: Role::User, content: Content::Text(text) }) => {
                    *text = filled(&format!("{note}\n\n{text}"))
                }
                Some(_) => messages.insert(0, Message::text(Role::User, note)),
                None => messages.push(Message::text(Role::User, note)),
            }
        }
        messages.push(self.current());
        for round in &self.rounds {
            messages.push(round.said.clone());
            let mut blocks = round
                .answers
                .iter()
                .map(|answer| Block::ToolResult { tool_use_id: answer.id.clone(), content: answer.text.clone() });
            match merged {
                true if !round.answers.is_empty() => messages.push(Message::blocks(Role::User, blocks.collect())),
                true => {}
                false => messages.extend(blocks.by_ref().map(|block| Message::blocks(Role::User, vec![block]))),
            }
        }
        messages
    }

    /// The current message, with its media in every round: a model that calls a tool must not lose sight of them.
    fn current(&self) -> Message {
        let mut text = self.message.clone();
        if self.left_out_rounds > 0 {
            let note = format!(
                "[The {} earliest rounds of tool calls of this turn were left out to make room.]",
                self.left_out_rounds
            );
            text = filled(&format!("{text}\n\n{note}"));
        }
        if self.media.is_empty() {
            return Message::text(Role::User, text);
        }
        let text = (!text.is_empty()).then_some(Block::Text { text });
        Message::blocks(Role::User, text.into_iter().chain(self.media.iter().cloned()).collect())
    }

    fn bytes(&self) -> usize {
        self.opening_bytes + self.rounds.iter().map(|round| round.bytes).sum::<usize>() + limits::REQUEST_SLACK_BYTES
    }

    /// Makes room, if there is not enough, down to three quarters of it.
    fn shrink(&mut self) {
        let mut bytes = self.bytes();
        if bytes <= self.room.text {
            return;
        }
        let target = self.room.text / 4 * 3;
        let earlier = self.rounds.len().saturating_sub(1);
        for round in &mut self.rounds[..earlier] {
            bytes -= round.shorten_results(bytes.saturating_sub(target));
        }
        for round in &mut self.rounds[..earlier] {
            if bytes > target {
                bytes -= round.shorten_calls();
            }
        }
        bytes = self.drop_turns(bytes, target);
        if let Some(last) = self.rounds.last_mut().filter(|_| bytes > self.room.text) {
            bytes -= last.shorten_calls();
            bytes -= last.share(bytes, target);
        }
        while bytes > self.room.text && self.drop_round() {
            bytes = self.bytes();
        }
        // What is left is the current message, and perhaps one round of hundreds of calls.
        let mut keep = units(&self.message);
        while bytes > self.room.text && keep > limits::SHORTENED_RESULT_UNITS {
            keep /= 2;
            let before = size(&self.message);
            self.message = shortened(&self.message, keep, "");
            self.opening_bytes -= before - size(&self.message);
            bytes = self.bytes();
        }
    }

    /// Drops the oldest turns until the conversation has at most `target` bytes; returns how many it has.
    fn drop_turns(&mut self, mut bytes: usize, target: usize) -> usize {
        while bytes > target
            && let Some(freed) = self.drop_turn()
        {
            bytes -= freed;
        }
        bytes
    }

    /// Drops the oldest turn, and the answers to it: what is left begins with the user again. The summary goes last. Returns
    /// the bytes freed.
    fn drop_turn(&mut self) -> Option<usize> {
        let oldest = if self.history.is_empty() { &mut self.summary } else { &mut self.history };
        let next = oldest.iter().skip(1).position(|message| message.role == Role::User);
        let count = next.map_or(oldest.len(), |next| next + 1);
        self.left_out_turns += count;
        let freed = oldest.drain(..count).map(|message| size(&message)).sum();
        self.opening_bytes -= freed;
        (count > 0).then_some(freed)
    }

    fn drop_round(&mut self) -> bool {
        if self.rounds.len() <= 1 {
            return false;
        }
        self.rounds.remove(0);
        self.left_out_rounds += 1;
        true
    }
}

impl Round {
    fn new(said: Message, answers: Vec<Answer>) -> Self {
        // The JSON around a result that is a message of its own.
        const FRAME: usize = 90;
        let results: usize = answers.iter().map(|it| size(&it.text) + size(&it.id) + FRAME).sum();
        Self { bytes: size(&said) + results, said, answers }
    }

    /// Shortens results until `excess` bytes are saved; returns how many were.
    fn shorten_results(&mut self, excess: usize) -> usize {
        let mut saved = 0;
        for answer in &mut self.answers {
            if saved >= excess {
                break;
            }
            let before = size(&answer.text);
            answer.text =
                shortened(&answer.text, limits::SHORTENED_RESULT_UNITS, "; run the call again if you need the rest");
            saved += before.saturating_sub(size(&answer.text));
        }
        self.saved(saved)
    }

    /// Shortens the arguments of the calls; returns the bytes saved.
    fn shorten_calls(&mut self) -> usize {
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

    /// Gives each result the same share of what the rest of a conversation of `bytes` leaves of `target`; returns the bytes
    /// saved.
    fn share(&mut self, bytes: usize, target: usize) -> usize {
        let texts: usize = self.answers.iter().map(|answer| size(&answer.text)).sum();
        let share = (target + texts).saturating_sub(bytes) / self.answers.len().max(1);
        for answer in &mut self.answers {
            // Parts of a text differ in bytes for each character, so one cut in proportion may not be enough.
            let mut before = size(&answer.text);
            while before > share {
                let keep = (units(&answer.text) as u64 * share as u64 / before as u64) as usize;
                answer.text = shortened(&answer.text, keep, "; ask for less at a time");
                let after = size(&answer.text);
                if after + after / 8 >= before {
                    break;
                }
                before = after;
            }
        }
        self.saved(texts.saturating_sub(self.answers.iter().map(|answer| size(&answer.text)).sum()))
    }

    fn saved(&mut self, bytes: usize) -> usize {
        self.bytes -= bytes;
        bytes
    }
}

/// The beginning of a text, and a note.
fn shortened(text: &str, keep: usize, advice: &str) -> String {
    let length = units(text);
    let kept = cut_units(text, keep);
    let note = format!("\n[shortened to make room: the first {} of {length} characters{advice}]", units(kept));
    match units(kept) + units(&note) < length {
        true => format!("{kept}{note}"),
        false => text.to_owned(),
    }
}

fn shorten_strings(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > limits::SHORTENED_ARGUMENT_UNITS => {
            *text = shortened(text, limits::SHORTENED_ARGUMENT_UNITS / 2, "");
        }
        Value::Array(items) => items.iter_mut().for_each(shorten_strings),
        Value::Object(fields) => fields.values_mut().for_each(shorten_strings),
        _ => {}
    }
}

/// Bytes of a value's JSON.
pub(super) fn size(value: &impl Serialize) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0 + 1,
        Err(_) => usize::MAX / 2,
    }
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
