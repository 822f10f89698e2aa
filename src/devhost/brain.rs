//! Answers requests, whatever way they came: the model from the script, approvals from the policy, everything else
//! canned. Remembers every request for the tests.

use super::ask;
use super::body::Body;
use super::canned;
use super::event::{Event, Listener};
use super::fault::{Fault, Plan, Point};
use super::model::Model;
use super::policy::{Policy, Verdict};
use super::script::Script;
use super::seen::{Answer, Request, Violation};
use super::validate::{self, Checked, Transport};
use crate::wire::{self, Payload};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The host's mind.
pub(crate) struct Brain {
    state: Mutex<State>,
    changed: Condvar,
    listeners: Vec<Listener>,
    started: Instant,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) model: Model,
    pub(crate) policy: Policy,
    pub(crate) plan: Plan,
    pub(crate) requests: Vec<Request>,
    pub(crate) violations: Vec<Violation>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) connections: usize,
    pub(crate) open: usize,
    counts: BTreeMap<String, usize>,
    /// The payloads handed out, to compare the metadata with. One that is not a payload makes everything possible.
    expected: Vec<Map<String, Value>>,
    catalog: Vec<Value>,
    /// Ids seen, by connection.
    ids: BTreeSet<(usize, String)>,
    /// Calls that were allowed and not yet reported.
    allowed: BTreeMap<String, usize>,
    /// HTTP: the one slot for work.
    work: Option<String>,
    /// HTTP: tokens of turns the host is processing.
    turns: BTreeSet<String>,
}

/// The answer to one request, still without its envelope.
#[derive(Debug)]
pub(crate) struct Handled {
    pub(crate) msg_id: Option<String>,
    pub(crate) body: Body,
    pub(crate) faults: Vec<Fault>,
    /// The model's turn this is, to be told when it is delivered.
    pub(crate) round: Option<usize>,
    /// The turn's answer is in.
    pub(crate) answered: bool,
    ask: Option<Value>,
}

impl Brain {
    pub(crate) fn new(script: Script, policy: Policy, listeners: Vec<Listener>) -> Self {
        let state = State { model: Model::new(script), policy, ..State::default() };
        Self { state: Mutex::new(state), changed: Condvar::new(), listeners, started: Instant::now() }
    }

    /// The state; a panic elsewhere must not hide what was seen.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the state satisfies `ready`; `false` after `limit`.
    pub(crate) fn wait(&self, limit: Duration, ready: impl Fn(&State) -> bool) -> bool {
        let (_state, result) = self
            .changed
            .wait_timeout_while(self.state(), limit, |state| !ready(state))
            .unwrap_or_else(PoisonError::into_inner);
        !result.timed_out()
    }

    pub(crate) fn emit(&self, event: &Event) {
        self.listeners.iter().for_each(|listener| listener(event));
    }

    pub(crate) fn violation(&self, action: &str, message: impl Into<String>) {
        let message = message.into();
        self.emit(&Event::Violation(match action {
            "" => message.clone(),
            action => format!("{action}: {message}"),
        }));
        self.state().violations.push(Violation { action: action.to_owned(), message });
        self.changed.notify_all();
    }

    pub(crate) fn connected(&self) -> usize {
        self.emit(&Event::Connected);
        let mut state = self.state();
        state.connections += 1;
        state.open += 1;
        let number = state.connections;
        drop(state);
        self.changed.notify_all();
        number
    }

    pub(crate) fn disconnected(&self) {
        self.emit(&Event::Disconnected);
        self.state().open -= 1;
        self.changed.notify_all();
    }

    /// From now on the metadata must be this payload's.
    pub(crate) fn expect(&self, payload: &Value) {
        let mut state = self.state();
        match payload.as_object().filter(|object| object.contains_key("message")) {
            Some(object) => state.expected.push(object.clone()),
            None => state.expected.clear(),
        }
        state.catalog = payload["catalog"].as_array().cloned().unwrap_or_default();
    }

    /// Puts an item into the slot for work; an unclaimed one is overwritten (PROTOCOL §4.3).
    pub(crate) fn push_work(&self, item: String, pod_token: &str) {
        let payload = wire::json(&item).unwrap_or_default();
        // Whoever damages an item on its way leaves the turn's token valid.
        let token = Payload::guess_token(item.as_bytes());
        let token = token.map_or_else(|| pod_token.to_owned(), |token| token.expose().to_owned());
        self.expect(&payload);
        let mut state = self.state();
        state.turns.insert(token);
        state.work = Some(item);
    }

    /// The item in the slot; it stays there if it is to be handed out `again`.
    pub(crate) fn work(&self, again: bool) -> Option<String> {
        let mut state = self.state();
        if again { state.work.clone() } else { state.work.take() }
    }

    /// Is the host processing the turn of this token?
    pub(crate) fn open_turn(&self, token: &str) -> bool {
        self.state().turns.contains(token)
    }

    /// Every later call of this turn is refused (PROTOCOL §4.1).
    pub(crate) fn close_turn(&self, token: &str) {
        self.state().turns.remove(token);
    }

    /// Will a reply have to reset its connection?
    pub(crate) fn resets(&self) -> bool {
        let state = self.state();
        state.plan.resets() || state.model.script.resets()
    }

    /// The faults of the next request addressed by `key` (an action, `*`, or a path over HTTP).
    pub(crate) fn due(&self, key: &str) -> Vec<Fault> {
        let mut state = self.state();
        let count = state.counts.entry(key.to_owned()).or_default();
        *count += 1;
        let nth = *count;
        state.plan.take(key, nth)
    }

    /// Takes one request: checks it, carries it out unless a fault drops it first, and decides the answer.
    pub(crate) fn receive(&self, raw: &[u8], transport: Transport, connection: usize) -> Handled {
        let checked = validate::check(raw, transport);
        let mut faults = self.due(&checked.action);
        faults.extend(self.due("*"));
        let carried_out = !faults.iter().any(Fault::drops);
        self.record(raw, &checked, connection, carried_out);
        let strange =
            self.strangers(&checked, transport).into_iter().chain(self.reused(&checked, transport, connection));
        for message in checked.violations.iter().cloned().chain(strange) {
            self.violation(&checked.action, message);
        }
        let mut handled = Handled {
            msg_id: checked.msg_id.clone(),
            body: Body::Json("{}".to_owned()),
            faults,
            round: None,
            answered: false,
            ask: None,
        };
        if carried_out {
            // A handler that the script brings makes the host serve what it does not serve by itself.
            let scripted =
                checked.action == "fetch_work" && self.state().model.script.actions.contains_key("fetch_work");
            match &checked.refusal {
                Some(refusal) if !scripted => handled.body = Body::Json(refusal.to_string()),
                _ => self.carry_out(&checked, transport, &mut handled),
            }
        }
        for fault in &handled.faults {
            self.emit(&Event::Fault(format!("{}: {fault:?}", checked.action)));
        }
        self.changed.notify_all();
        handled
    }

    /// Finishes an answer that a person gives.
    pub(crate) async fn settle(&self, handled: &mut Handled) {
        let Some(request) = handled.ask.take() else { return };
        let verdict = ask::terminal(&request).await;
        handled.body = self.verdict(&request, &verdict, &mut handled.faults);
    }

    /// HTTP: remembers a call that its token did not open.
    pub(crate) fn refuse(&self, raw: &[u8], connection: usize) {
        self.record(raw, &validate::check(raw, Transport::Http), connection, false);
        self.changed.notify_all();
    }

    /// How many requests of an action, or to a path, have come.
    pub(crate) fn count(&self, key: &str) -> usize {
        self.state().counts.get(key).copied().unwrap_or_default()
    }

    fn record(&self, raw: &[u8], checked: &Checked, connection: usize, carried_out: bool) {
        self.emit(&Event::Request { action: checked.action.clone(), value: checked.value.clone() });
        let at = self.started.elapsed();
        let mut state = self.state();
        let index = state.requests.len();
        state.requests.push(Request {
            index,
            at,
            connection,
            action: checked.action.clone(),
            raw: Bytes::copy_from_slice(raw),
            value: checked.value.clone(),
            carried_out,
        });
    }

    /// Metadata that is no turn's.
    fn strangers(&self, checked: &Checked, transport: Transport) -> Vec<String> {
        const PAIRS: [(&str, &str); 4] = [
            ("_sessionId", "sessionId"),
            ("_requestId", "requestId"),
            ("_userId", "userId"),
            ("_sessionScope", "sessionScope"),
        ];
        let state = self.state();
        let named =
            |request: &Value| PAIRS.iter().any(|(key, _)| request[key].as_str().is_some_and(|id| !id.is_empty()));
        // A runner that could not read its work, or was stopped before, answers for no turn.
        let nobody = checked.action == "agent_response"
            && !named(&checked.value)
            && !state.requests.iter().any(|request| named(&request.value));
        // Asking for more work belongs to no turn either.
        if nobody || matches!(checked.action.as_str(), "" | "fetch_work") {
            return Vec::new();
        }
        // A summary without the request's id is not streamed to the user (PROTOCOL T10).
        let summary = checked.value["taskType"] == "fast";
        let wrong = |payload: &Map<String, Value>| {
            let differs = |(key, source): &(&str, &str)| {
                let wanted = payload.get(*source).and_then(Value::as_str);
                let found = checked.meta(key);
                let absent =
                    wanted.is_none() && found.is_none_or(|found| transport == Transport::Http && found.is_empty());
                let fits = absent || found == wanted || (summary && *key == "_requestId" && found.is_none());
                (!fits).then(|| format!("{key} is {found:?}; the payload's {source} is {wanted:?}"))
            };
            PAIRS.iter().filter_map(differs).collect::<Vec<_>>()
        };
        let judged: Vec<_> = state.expected.iter().map(wrong).collect();
        if judged.iter().any(Vec::is_empty) { Vec::new() } else { judged.into_iter().next_back().unwrap_or_default() }
    }

    /// An id that this connection has used before.
    fn reused(&self, checked: &Checked, transport: Transport, connection: usize) -> Option<String> {
        let id = checked.msg_id.clone().filter(|_| transport != Transport::Http)?;
        let fresh = self.state().ids.insert((connection, id.clone()));
        (!fresh).then(|| format!("_msgId \"{id}\" is used a second time on this connection"))
    }

    fn carry_out(&self, checked: &Checked, transport: Transport, handled: &mut Handled) {
        let request = &checked.value;
        match checked.action.as_str() {
            "llm_call" => self.model(request, handled),
            "sandbox_approve" => self.approve(request, handled),
            "sandbox_result" => {
                self.reported(request);
                handled.body = Body::ok(json!({}));
            }
            "agent_response" => {
                let content = request["content"].as_str().unwrap_or_default().to_owned();
                self.emit(&Event::Answer { content: content.clone() });
                let request_id = checked.meta("_requestId").map(str::to_owned);
                self.state().answers.push(Answer { content, request_id });
                handled.answered = true;
                // The bridge's acknowledgement has no id (PROTOCOL T5).
                handled.body = match transport {
                    Transport::Listen => Body::Bare(r#"{"ok":true}"#.to_owned()),
                    _ => Body::ok(json!({})),
                };
            }
            action => {
                let state = self.state();
                let reply = match state.model.script.actions.get(action) {
                    Some(reply) => reply.clone(),
                    None => canned::reply(action, request, &state.catalog),
                };
                drop(state);
                self.emit(&Event::Forwarded { action: action.to_owned(), reply: reply.to_string() });
                handled.body = Body::ok(reply);
            }
        }
    }

    fn model(&self, request: &Value, handled: &mut Handled) {
        let (round, reply) = self.state().model.answer(request);
        handled.round = Some(round);
        self.emit(&Event::Model { text: reply.text, calls: reply.calls });
        handled.faults.extend(reply.faults);
        handled.body = if reply.exact { Body::Exact(reply.body) } else { Body::Json(reply.body) };
    }

    /// A model's reply was written whole.
    pub(crate) fn delivered(&self, round: usize) {
        self.state().model.delivered(round);
    }

    fn approve(&self, request: &Value, handled: &mut Handled) {
        let (verdict, delay) = self.state().policy.judge(request);
        if delay > 0 {
            handled.faults.push(Fault::DelayMs(delay));
        }
        match verdict {
            Verdict::Ask => handled.ask = Some(request.clone()),
            verdict => handled.body = self.verdict(request, &verdict, &mut handled.faults),
        }
    }

    /// Only what was allowed can have run, and each allowed call is reported at most once (PROTOCOL §8.1, §8.4).
    fn reported(&self, request: &Value) {
        let mut state = self.state();
        let open = state.allowed.get_mut(&subject(request)).filter(|count| **count > 0);
        let known = open.map(|count| *count -= 1).is_some();
        drop(state);
        if !known {
            self.violation("sandbox_result", format!("reports a call that was not approved: {}", subject(request)));
        }
        self.emit(&Event::Reported { request: request.clone() });
    }

    fn verdict(&self, request: &Value, verdict: &Verdict, faults: &mut Vec<Fault>) -> Body {
        let (words, body) = match verdict {
            Verdict::Allow => ("allowed".to_owned(), json!({"approved": true})),
            Verdict::Deny(reason) if reason.is_empty() => ("denied".to_owned(), json!({"approved": false})),
            Verdict::Deny(reason) => (format!("denied: {reason}"), json!({"approved": false, "reason": reason})),
            Verdict::Reply(reply) => (format!("answered {}", json!(reply)), json!(reply)),
            Verdict::Ask | Verdict::NoAnswer => {
                faults.push(Fault::Silence(Point::Read));
                ("no answer".to_owned(), json!({}))
            }
        };
        if body["approved"] == true {
            *self.state().allowed.entry(subject(request)).or_default() += 1;
        }
        self.emit(&Event::Judged { request: request.clone(), verdict: words });
        Body::ok(body)
    }
}

/// What an approval and its report have in common.
fn subject(request: &Value) -> String {
    format!("{} {}", request["operation"], request.get("command").unwrap_or(&request["path"]))
}
