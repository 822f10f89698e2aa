//! The loop of one turn (PROTOCOL §6.7–6.9).

use super::conversation::Conversation;
use super::opening;
use super::reply::{Call, Round};
use crate::limits;
use crate::link::{CallError, Host};
use crate::text::javascript;
use crate::tools::Toolbox;
use crate::wire::{Action, LlmCall, Message, ModelFault, Payload, Role, Usage};
use futures_util::future::join_all;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

/// What stays the same for all rounds of a turn.
#[derive(Debug, Clone)]
pub struct Brief {
    /// Model id for the host's log.
    pub model: String,
    /// Upper bound of one reply.
    pub max_tokens: u32,
    /// The system prompt; none when empty.
    pub system: String,
}

/// How a turn ended.
#[derive(Debug)]
pub struct Ended {
    /// Everything the model said to the user.
    pub answer: String,
    /// What kept it from finishing, if anything did.
    pub failure: Option<Failure>,
    /// Tools that were started.
    pub tools_started: usize,
    /// Tokens of all rounds.
    pub usage: Usage,
}

impl Ended {
    /// A paragraph more. Everything that the user is told goes through here, a whole round at a time.
    fn add(&mut self, text: &str, say: &mut (dyn FnMut(&str) + Send)) {
        let gap = if self.answer.is_empty() { "" } else { "\n\n" };
        // The host looks at the whole answer, so blank rounds before it do not count.
        let begins = javascript::trim_start(&self.answer).is_empty();
        let text = if begins { unstructured(text) } else { Cow::Borrowed(text) };
        for piece in [gap, &*text] {
            say(piece);
            self.answer.push_str(piece);
        }
    }
}

/// Why the model could not finish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The host or the model refused the request.
    #[error("the model call failed: {0}")]
    Model(String),
    /// The host did not answer, or cannot be reached.
    #[error("the model call failed: {0}")]
    Link(CallError),
    /// Nobody is there to go on for.
    #[error("the host went away and did not come back")]
    HostGone,
    /// The model went on calling tools after the limit.
    #[error("stopped after {0} model calls; the work so far is kept")]
    TooManyRounds(usize),
}

/// Runs rounds until the model stops calling tools. Each round's text is given to `say` as it comes, with the blank line
/// that parts it from the text before (PROTOCOL §6.9).
pub async fn run(
    brief: &Brief,
    payload: &Payload,
    host: &Host,
    tools: &Arc<Toolbox>,
    say: &mut (dyn FnMut(&str) + Send),
) -> Ended {
    let mut ended = Ended { answer: String::new(), failure: None, tools_started: 0, usage: Usage::default() };
    let mut conversation = opening::open(brief, payload, host, tools.specs()).await;
    // History holds no calls, so all ids are this turn's.
    let mut ids = HashSet::new();
    for _ in 0..limits::LLM_ROUNDS_MAX {
        let round = match ask(brief, &mut conversation, host, tools, &mut ids).await {
            Ok(round) => round,
            Err(failure) => {
                tracing::warn!(component = "runner", error = %failure, "llm_call_failed");
                ended.failure = Some(failure);
                return ended;
            }
        };
        ended.usage.input_tokens = ended.usage.input_tokens.saturating_add(round.usage.input_tokens);
        ended.usage.output_tokens = ended.usage.output_tokens.saturating_add(round.usage.output_tokens);
        if !round.text.is_empty() {
            ended.add(&round.text, say);
        }
        if round.calls.is_empty() {
            if round.cut {
                // Whoever reads half an answer must not take it for a whole one.
                ended.add(&format!("[The reply was cut at its limit of {}.]", tokens(brief.max_tokens)), say);
            }
            return ended;
        }
        let results = execute(&round.calls, tools, &mut ended.tools_started, brief.max_tokens).await;
        tools.settle().await;
        conversation.add(round.message(), round.calls.iter().map(|call| call.id.clone()).zip(results));
        if host.cancel().is_cancelled() {
            ended.failure = Some(Failure::Link(CallError::Cancelled));
            return ended;
        }
    }
    ended.failure = Some(Failure::TooManyRounds(limits::LLM_ROUNDS_MAX));
    ended
}

/// An answer that begins so, after what JavaScript takes for blank, is taken for a list of files by the host (PROTOCOL §1.4),
/// which is not the model's to send. A space more is the same JSON to everybody else.
fn unstructured(text: &str) -> Cow<'_, str> {
    let body = javascript::trim_start(text);
    match body.strip_prefix("{\"__ax_response\":") {
        Some(_) => Cow::Owned(format!("{}{{ {}", &text[..text.len() - body.len()], &body[1..])),
        None => Cow::Borrowed(text),
    }
}

/// One model call. A reply that cannot be read is asked for once more: models do break their JSON now and then.
async fn ask(
    brief: &Brief,
    conversation: &mut Conversation,
    host: &Host,
    tools: &Toolbox,
    ids: &mut HashSet<String>,
) -> Result<Round, Failure> {
    let conversation = conversation.messages();
    let system = (!brief.system.is_empty()).then(|| Message::text(Role::System, brief.system.as_str()));
    let action = Action::LlmCall(LlmCall {
        model: Some(brief.model.clone()),
        task_type: None,
        messages: system.into_iter().chain(conversation).collect(),
        tools: tools.specs().clone(),
        max_tokens: Some(brief.max_tokens),
    });
    let mut attempts = 0;
    loop {
        let asked = Instant::now();
        let reply = host.call(&action).await.map_err(Failure::Link)?;
        let ms = asked.elapsed().as_millis() as u64;
        tracing::debug!(component = "runner", ms, "llm_call_result");
        match reply.chunks() {
            Ok(chunks) => return Ok(Round::new(chunks, brief.max_tokens, ids)),
            Err(ModelFault::Broken(error)) if attempts < limits::LLM_MALFORMED_RETRIES => {
                tracing::warn!(component = "runner", error = error.as_str(), "llm_reply_malformed");
                attempts += 1;
            }
            Err(fault) => return Err(Failure::Model(fault.to_string())),
        }
    }
}

/// Runs the calls and returns their texts in call order: one for each, whatever happened to it. Calls run side by side, but
/// for one thing: those that write files and those that do not take turns, in call order. A reply that writes a script
/// and runs it, or reads a file and edits it, means it in that order. Which files a command touches cannot be told, so a
/// write waits for all commands before it, needed or not, where PROTOCOL §6.7 would start everything at once and leave to
/// chance what is run: a slow reply is better than one whose outcome differs each time.
async fn execute(calls: &[Call], tools: &Arc<Toolbox>, started: &mut usize, max_tokens: u32) -> Vec<String> {
    let planned: Vec<_> = calls.iter().map(|call| plan(call, tools, started, max_tokens)).collect();
    let writes = |plan: &Result<&Call, String>| plan.as_ref().is_ok_and(|call| tools.writes(&call.name));
    let mut texts = Vec::with_capacity(planned.len());
    for group in planned.chunk_by(|one, next| writes(one) == writes(next)) {
        // All at once: no more than [`limits::TOOL_CALLS_MAX`] do anything, and none may wait behind a command that sleeps.
        texts.extend(join_all(group.iter().map(|plan| run_one(plan.clone(), tools))).await);
    }
    texts
}

async fn run_one(plan: Result<&Call, String>, tools: &Arc<Toolbox>) -> String {
    let call = match plan {
        Err(text) => return text,
        Ok(call) => call,
    };
    // A task of its own, so that a panic is this call's result and not the turn's end.
    let begun = Instant::now();
    let (tools, name, args) = (tools.clone(), call.name.clone(), call.args.clone());
    let outcome = tokio::spawn(async move { tools.invoke(&name, &args).await }).await;
    let ms = begun.elapsed().as_millis() as u64;
    tracing::debug!(component = "runner", tool = call.name.as_str(), ms, "tool_result");
    outcome.unwrap_or_else(|_| {
        "Error: the tool failed inside the runner; what it did before that is unknown. Check before you repeat it."
            .to_owned()
    })
}

/// Decides, in call order, what runs; `Err` is the result of a call that does not.
fn plan<'c>(call: &'c Call, tools: &Toolbox, started: &mut usize, max_tokens: u32) -> Result<&'c Call, String> {
    if !tools.has(&call.name) {
        return Err(tools.not_found(&call.name));
    }
    if call.cut {
        return Err(format!(
            "Error: the reply was cut at its limit of {}, so the arguments of this call may be \
             incomplete and it was not run. Send it again in smaller parts.",
            tokens(max_tokens)
        ));
    }
    if *started >= limits::TOOL_CALLS_MAX {
        return Err(format!(
            "Error: Maximum tool call limit reached ({} calls). Please provide your final response to the user.",
            limits::TOOL_CALLS_MAX
        ));
    }
    *started += 1;
    Ok(call)
}

fn tokens(count: u32) -> String {
    crate::text::counted(count as usize, "token")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_cannot_answer_with_files() {
        assert_eq!(unstructured(" \n{\"__ax_response\":{}}"), " \n{ \"__ax_response\":{}}");
        for text in ["", "{\"__ax_responses\":1}", "a {\"__ax_response\":{}}", "{ \"__ax_response\":{}}"] {
            assert_eq!(unstructured(text), text);
        }
    }

    #[test]
    fn nor_after_what_the_host_strips() {
        const FILES: &str = "{\"__ax_response\":{\"content\":[]}}";
        let blanks =
            ["", " ", "\n", "\u{feff}", "\u{feff}\u{feff}\t", "\u{a0}", "\u{3000}\u{2028}\u{2029}", "\u{b}\u{c}\r"];
        for (first, before) in blanks.iter().flat_map(|first| blanks.map(|before| (first, before))) {
            let mut ended = Ended { answer: String::new(), failure: None, tools_started: 0, usage: Usage::default() };
            let mut said = String::new();
            for text in [*first, &format!("{before}{FILES}")] {
                ended.add(text, &mut |piece| said.push_str(piece));
            }
            assert_eq!(said, ended.answer);
            assert!(said.ends_with("{ \"__ax_response\":{\"content\":[]}}"), "{said:?}");
        }
    }
}
