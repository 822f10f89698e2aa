//! The gate: propose → approve → run → report (PROTOCOL §8.1).
//!
//! A local tool runs only on [`Approved<T>`], and only [`Gate::approve`] makes one. Bypassing the host is therefore not
//! a mistake one can write.

use crate::limits;
use crate::link::{CallError, Host};
use crate::redact::Redactor;
use crate::wire::check::{self, FieldError};
use crate::wire::{Action, Approve, Report};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// A call the host has agreed to. Holds exactly what was shown.
#[derive(Debug)]
pub struct Approved<T>(T);

impl<T> Approved<T> {
    /// The call.
    pub fn get(&self) -> &T {
        &self.0
    }

    /// The call, by value.
    pub fn into_inner(self) -> T {
        self.0
    }
}

/// A call that can be shown to the host in full.
pub trait Proposal {
    /// What the host is asked. Everything that will have an effect must be in it, uncut.
    fn approve(&self) -> Approve;
}

/// Why a call did not run. To the model these are different things: a denial is final, an unanswered question is not, and
/// an invalid call can be corrected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The host said no.
    #[error("Denied: {0}")]
    Denied(String),
    /// The call does not fit the host's limits; nothing was asked.
    #[error(transparent)]
    Invalid(#[from] FieldError),
    /// The host refused the question itself.
    #[error("the host could not judge this call, so it was not run: {0}")]
    Rejected(String),
    /// No usable answer came.
    #[error("no approval was received, so the call was not run: {}", unanswered(.0))]
    Unanswered(CallError),
}

/// What became of a question says nothing about the call, which was not run.
fn unanswered(error: &CallError) -> String {
    match error {
        CallError::OutcomeUnknown => "the connection to the host was lost".to_owned(),
        other => other.to_string(),
    }
}

/// Asks the host and tells it how things ended.
#[derive(Clone)]
pub struct Gate {
    host: Host,
    redactor: Arc<Redactor>,
    reports: TaskTracker,
    slots: Arc<Semaphore>,
    /// When the last report set out.
    latest: Arc<Mutex<Option<Instant>>>,
}

impl Gate {
    /// A gate for one turn. `redactor` knows what must not get into the audit log.
    pub fn new(host: Host, redactor: Redactor) -> Self {
        let slots = Arc::new(Semaphore::new(limits::REPORTS_PENDING_MAX));
        Self { host, redactor: Arc::new(redactor), reports: TaskTracker::new(), slots, latest: Arc::default() }
    }

    /// Asks the host. Only an answer with exactly `approved: true` is consent.
    pub async fn approve<T: Proposal>(&self, call: T) -> Result<Approved<T>, Refusal> {
        let question = call.approve();
        fits(&question)?;
        let reply = self.host.call(&Action::SandboxApprove(question)).await.map_err(Refusal::Unanswered)?;
        #[derive(Deserialize)]
        struct Verdict {
            ok: Option<Value>,
            approved: Option<Value>,
            reason: Option<String>,
            error: Option<String>,
            #[serde(flatten)]
            other: Map<String, Value>,
        }
        let verdict: Verdict =
            reply.read().map_err(|_| Refusal::Rejected("its answer could not be understood".to_owned()))?;
        match (verdict.ok, verdict.approved) {
            (Some(Value::Bool(true)), Some(Value::Bool(true))) => match changed(&call.approve(), &verdict.other) {
                // A yes with an error is no yes.
                None => verdict.error.map_or(Ok(Approved(call)), |error| Err(rejected(error))),
                Some(field) => Err(Refusal::Rejected(format!("its answer has another {field} than this call"))),
            },
            // A refused question carries no verdict; saying "denied" would teach the model the wrong lesson.
            (_, None) if verdict.error.is_some() => Err(rejected(verdict.error.unwrap_or_default())),
            _ => Err(Refusal::Denied(
                verdict
                    .reason
                    .filter(|reason| !reason.trim().is_empty())
                    .unwrap_or_else(|| "denied by host policy".to_owned()),
            )),
        }
    }

    /// Tells the host how an approved call ended, without waiting for its reply. Waits only while
    /// [`limits::REPORTS_PENDING_MAX`] reports are under way.
    pub async fn report(&self, mut report: Report) {
        let fit = |text: String, max| check::fitted(&self.redactor.redact(&text), max);
        report.output = report.output.map(|output| fit(output, limits::CONTENT_MAX_UNITS));
        report.error = report.error.map(|error| fit(error, limits::ERROR_MAX_UNITS));
        let Ok(slot) = self.slots.clone().acquire_owned().await else { return };
        // What has happened is told even when the turn has been cancelled meanwhile.
        let host = self.host.uncancelled();
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.reports.spawn(async move {
            if let Err(error) = host.call(&Action::SandboxResult(report)).await {
                tracing::warn!(component = "gate", error = %error, "report_failed");
            }
            drop(slot);
        });
    }

    /// Waits a moment for the reports under way, so that no question stands behind them on the wire: of what a host had not
    /// read when it went away, only the last frame is known.
    pub async fn settle(&self) {
        self.reports.close();
        let _ = tokio::time::timeout(limits::REPORT_SETTLE, self.reports.wait()).await;
        self.reports.reopen();
    }

    /// Waits until every report is acknowledged or given up, at most until the last is [`limits::REPORT_FLUSH`] old, or
    /// [`limits::REPORT_FLUSH_STOPPED`] once the turn is cancelled.
    pub async fn flush(&self) {
        self.reports.close();
        let latest = *self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let until = latest.unwrap_or_else(Instant::now) + limits::REPORT_FLUSH;
        let stopped = async {
            self.host.cancel().cancelled().await;
            tokio::time::sleep(limits::REPORT_FLUSH_STOPPED).await;
        };
        let finished = tokio::select! {
            () = self.reports.wait() => true,
            () = tokio::time::sleep_until(until) => false,
            () = stopped => false,
        };
        if !finished {
            tracing::warn!(component = "gate", pending = self.reports.len(), "reports_unfinished");
        }
        self.reports.reopen();
    }
}

fn rejected(error: String) -> Refusal {
    let silent = error.trim().is_empty();
    Refusal::Rejected(if silent { "its answer holds an error without words".to_owned() } else { error })
}

/// The field of the call that a consent names with another value, at any depth. A host that means to change a call must not
/// see the original run; echoing it is fine.
fn changed(question: &Approve, answer: &Map<String, Value>) -> Option<&'static str> {
    let mut named = Vec::new();
    answer.iter().for_each(|(key, value)| find_named(key, value, &mut named));
    if named.is_empty() {
        return None;
    }
    let asked = serde_json::to_value(question).unwrap_or_default();
    named.into_iter().find(|(name, value)| **value != asked[*name]).map(|(name, _)| name)
}

/// Everything in an answer that is called like a field of a call. Its depth is the parser's limit.
fn find_named<'a>(key: &str, value: &'a Value, found: &mut Vec<(&'static str, &'a Value)>) {
    const NAMES: [&str; 6] = ["operation", "command", "path", "content", "old_string", "new_string"];
    let name = NAMES.into_iter().find(|name| *name == key && !value.is_null());
    found.extend(name.map(|name| (name, value)));
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| find_named(key, value, found)),
        Value::Array(items) => items.iter().for_each(|item| find_named("", item, found)),
        _ => {}
    }
}

fn fits(question: &Approve) -> Result<(), FieldError> {
    let fields: [(&'static str, &Option<String>, usize, &'static str); 5] = [
        ("command", &question.command, limits::COMMAND_MAX_UNITS, ": write a script file and run that"),
        ("path", &question.path, limits::PATH_MAX_UNITS, ""),
        ("content", &question.content, limits::CONTENT_MAX_UNITS, ": write the file in parts, or produce it with bash"),
        ("old_string", &question.old_string, limits::CONTENT_MAX_UNITS, ": match a shorter piece"),
        ("new_string", &question.new_string, limits::CONTENT_MAX_UNITS, ": replace in several edits"),
    ];
    fields.into_iter().try_for_each(|(name, value, max, remedy)| match value {
        Some(value) => check::field(name, value, max, remedy),
        None => Ok(()),
    })
}
