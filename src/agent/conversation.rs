//! A turn's conversation, kept within what the host, the transport and the model take: 200 messages, a number of bytes.
//!
//! When it grows too large, room is made where it is missed least: results of earlier rounds are shortened first, then the
//! arguments of earlier calls, then the oldest history goes, then the last round's results shrink, then whole rounds go.
//! What is shortened or left out says so. Calls and their results stay together. The cuts are kept, and go further than
//! needed, so that the beginning of the conversation stays the same for many rounds.

use super::history::{filled, media, media_bytes, result_text};
use super::round::{Answer, Round};
use super::shortened::{Shortened, size};
use crate::limits;
use crate::text::counted;
use crate::wire::{Block, Content, Message, Role};

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

/// See the module.
#[derive(Debug, Clone)]
pub struct Conversation {
    /// Stands for what is older than the history, and outlasts it.
    summary: Vec<Message>,
    history: Vec<Message>,
    message: Shortened,
    media: Vec<Block>,
    rounds: Vec<Round>,
    /// Of what stands before the rounds.
    opening_bytes: usize,
    room: Room,
    left_out_turns: usize,
    left_out_rounds: usize,
    /// The results of a round share a message.
    merged: bool,
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
            message: message.into(),
            media,
            rounds: Vec::new(),
            room,
            left_out_turns: 0,
            left_out_rounds: 0,
            merged: false,
        }
    }

    /// The same, after a summary of what came before the history.
    pub(super) fn after(self, summary: Vec<Message>) -> Self {
        Self { opening_bytes: self.opening_bytes + summary.iter().map(size).sum::<usize>(), summary, ..self }
    }

    /// Adds a round: the model's message and a result, with its call's id, for each of the calls in it.
    pub fn add(&mut self, said: Message, results: impl IntoIterator<Item = (String, String)>) {
        let results = results.into_iter().map(|(id, text)| (id, result_text(&text)));
        self.rounds.push(Round::new(said, results));
    }

    /// The messages to send, after room was made for them.
    pub fn messages(&mut self) -> Vec<Message> {
        self.shrink();
        let most = self.room.messages;
        // Results of one round may share a message; nothing is lost by it.
        self.merged |= self.count() > most;
        if self.count() > most {
            while self.count() > most - most / 10 && (self.drop_turn().is_some() || self.drop_round()) {}
        }
        self.compose()
    }

    /// Messages of [`Self::compose`], or one more.
    fn count(&self) -> usize {
        let results = |round: &Round| if self.merged { 1 } else { round.answers.len() };
        let note = usize::from(self.left_out_turns > 0);
        self.summary.len()
            + self.history.len()
            + note
            + 1
            + self.rounds.iter().map(|round| 1 + results(round)).sum::<usize>()
    }

    fn compose(&self) -> Vec<Message> {
        let mut messages = [self.summary.as_slice(), &self.history].concat();
        if self.left_out_turns > 0 {
            let which = match self.summary.is_empty() {
                true => counted(self.left_out_turns, "oldest message") + " of this conversation",
                false => counted(self.left_out_turns, "message") + " that followed this summary",
            };
            let note = format!("[Left out to make room: the {which}.]");
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
            let blocks = round.answers.iter().map(Answer::block);
            match self.merged {
                true if !round.answers.is_empty() => messages.push(Message::blocks(Role::User, blocks.collect())),
                true => {}
                false => messages.extend(blocks.map(|block| Message::blocks(Role::User, vec![block]))),
            }
        }
        messages
    }

    /// The current message, with its media in every round: a model that calls a tool must not lose sight of them.
    fn current(&self) -> Message {
        let mut text = self.message.show().into_owned();
        if self.left_out_rounds > 0 {
            let rounds = counted(self.left_out_rounds, "earliest round");
            let note = format!("[Left out to make room: the {rounds} of tool calls of this turn.]");
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
        // The newest results can be had again, and what was said before cannot: down to a quarter of the room they give way.
        if let Some(last) = self.rounds.last_mut().filter(|_| bytes > self.room.text) {
            bytes -= last.shorten_calls();
            bytes -= last.share(bytes, self.room.text, self.room.text / 4);
        }
        if bytes > self.room.text {
            bytes = self.drop_turns(bytes, target);
        }
        if let Some(last) = self.rounds.last_mut().filter(|_| bytes > self.room.text) {
            bytes -= last.share(bytes, target, 0);
        }
        if bytes > self.room.text {
            while bytes > target && self.drop_round() {
                bytes = self.bytes();
            }
        }
        // What is left is the current message, and perhaps one round of hundreds of calls.
        let mut keep = self.message.units();
        while bytes > self.room.text && keep > limits::SHORTENED_RESULT_UNITS {
            keep /= 2;
            self.opening_bytes -= self.message.cut(keep, char::len_utf16, "");
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

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
