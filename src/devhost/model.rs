//! The model that the host plays: replies from the script, and the same reply again when it was lost on its way.

use super::script::{ModelReply, Script};
use serde_json::Value;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A script and how far it has come.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) script: Script,
    rounds: usize,
    /// Replies on their way: the round, the question's digest, the reply.
    on_the_way: Vec<(usize, u64, ModelReply)>,
}

impl Model {
    pub(crate) fn new(script: Script) -> Self {
        Self { script, ..Self::default() }
    }

    /// The reply to an `llm_call`, and the number by which its delivery is told.
    pub(crate) fn answer(&mut self, request: &Value) -> (usize, ModelReply) {
        let task = request["taskType"].as_str().unwrap_or("default");
        let (round, question) = (self.rounds, digest(request));
        // A reply that was lost is given again when the same question comes again, as a model would.
        let lost = self.on_the_way.iter().position(|(_, asked, _)| *asked == question);
        let reply = match lost.map(|at| self.on_the_way.remove(at).2) {
            Some(lost) => ModelReply { faults: Vec::new(), ..lost },
            None => self.script.reply(task, &last_results(request), round),
        };
        self.on_the_way.push((round, question, reply.clone()));
        self.rounds += 1;
        (round, reply)
    }

    /// A reply was written whole.
    pub(crate) fn delivered(&mut self, round: usize) {
        self.on_the_way.retain(|(on_the_way, ..)| *on_the_way != round);
    }
}

/// Tells whether two questions are the same but for the envelope's id.
fn digest(request: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (key, value) in request.as_object().into_iter().flatten().filter(|(key, _)| *key != "_msgId") {
        (key, value.to_string()).hash(&mut hasher);
    }
    hasher.finish()
}

/// The texts of the tool results after the last assistant message.
fn last_results(request: &Value) -> String {
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let round = messages.iter().rev().take_while(|message| message["role"] == "user").collect::<Vec<_>>();
    let blocks = round.into_iter().rev().filter_map(|message| message["content"].as_array()).flatten();
    let texts: Vec<&str> = blocks.filter_map(|block| block["content"].as_str()).collect();
    texts.join("\n")
}
