//! The live transcript on stderr: what the model says, each call with its verdict, time and outcome, a summary.

use super::event::{Event, Listener};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Columns for the subject of a call; the whole of it is in the audit log.
const SUBJECT_COLUMNS: usize = 60;

/// Shows and counts.
pub(super) struct Transcript {
    verbose: bool,
    colour: bool,
    started: Instant,
    tally: Mutex<Tally>,
}

#[derive(Default)]
struct Tally {
    rounds: usize,
    calls: usize,
    denied: usize,
    failed: usize,
    forwarded: usize,
    violations: usize,
    /// Approved calls under way, by operation and subject.
    running: HashMap<String, Vec<Instant>>,
    /// Calls of the last round that have not come to the host, and the subjects of those that have.
    open: usize,
    asked: Vec<String>,
}

impl Transcript {
    /// Colour only for a terminal, and not against the user's `NO_COLOR`.
    pub(super) fn new(verbose: bool) -> Arc<Self> {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = io::stderr().is_terminal() && !refused;
        Arc::new(Self { verbose, colour, started: Instant::now(), tally: Mutex::default() })
    }

    /// As a listener of a host.
    pub(super) fn listener(self: &Arc<Self>) -> Listener {
        let transcript = self.clone();
        Box::new(move |event| transcript.show(event))
    }

    /// A line of the host itself.
    pub(super) fn say(&self, text: &str) {
        self.line(&self.paint("2", text));
    }

    /// A line that must not be missed.
    pub(super) fn complain(&self, text: &str) {
        self.line(&self.paint("31;1", text));
    }

    /// The last line.
    pub(super) fn summary(&self) {
        let tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let text = format!(
            "-- {}, {} ({} denied, {} failed), {} forwarded, {} in {}",
            count(tally.rounds, "model round"),
            count(tally.calls, "call"),
            tally.denied,
            tally.failed,
            tally.forwarded,
            count(tally.violations, "violation"),
            duration(self.started.elapsed()),
        );
        self.line(&self.paint(if tally.violations > 0 { "31;1" } else { "1" }, &text));
    }

    fn show(&self, event: &Event) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Request { action, value } if action == "llm_call" => self.refused(&mut tally, value),
            Event::Model { text, calls } => {
                tally.rounds += 1;
                tally.open = calls.len();
                tally.asked.clear();
                self.model(text, calls);
            }
            Event::Judged { request, verdict } => self.judged(&mut tally, request, verdict),
            Event::Reported { request } => self.reported(&mut tally, request),
            Event::Forwarded { action, reply } => {
                tally.forwarded += 1;
                tally.open = tally.open.saturating_sub(1);
                let reply = if self.verbose { format!("  {reply}") } else { String::new() };
                self.line(&format!("  {action:<10} forwarded{}", self.paint("2", &reply)));
            }
            Event::Answer { content } if self.verbose => self.line(&self.paint("2", &format!("  answer: {content}"))),
            Event::Violation(message) => {
                tally.violations += 1;
                self.complain(&format!("! violation: {message}"));
            }
            Event::Fault(fault) => self.line(&self.paint("35", &format!("~ fault: {fault}"))),
            Event::Stderr(text) if self.verbose => self.line(&self.paint("2", &format!("  | {}", plain(text)))),
            Event::Connected if self.verbose => self.say("  connected"),
            Event::Disconnected if self.verbose => self.say("  disconnected"),
            _ => {}
        }
    }

    fn model(&self, text: &str, calls: &[String]) {
        for line in text.lines() {
            self.line(&self.paint("36", &format!("> {}", plain(line))));
        }
        if self.verbose && !calls.is_empty() {
            self.say(&format!("  calls {}", calls.join(", ")));
        }
    }

    fn judged(&self, tally: &mut Tally, request: &Value, verdict: &str) {
        tally.calls += 1;
        tally.open = tally.open.saturating_sub(1);
        tally.asked.push(subject(request).to_owned());
        if verdict == "allowed" {
            tally.running.entry(key(request)).or_default().push(Instant::now());
            if self.verbose {
                self.say(&format!("  {} allowed", key(request)));
            }
            return;
        }
        tally.denied += 1;
        self.line(&format!("{}  {}", self.call(request), self.paint("33", &plain(verdict))));
    }

    fn reported(&self, tally: &mut Tally, request: &Value) {
        let since = tally.running.get_mut(&key(request)).and_then(Vec::pop).map(|start| duration(start.elapsed()));
        let (good, outcome) = match (request["exitCode"].as_i64(), request["success"].as_bool()) {
            (Some(code), _) => (code == 0, format!("exit {code}")),
            (None, Some(true)) => (true, "ok".to_owned()),
            (None, _) => (false, format!("failed: {}", plain(request["error"].as_str().unwrap_or("no reason given")))),
        };
        tally.failed += usize::from(!good);
        let time = since.unwrap_or_else(|| "never approved".to_owned());
        let outcome = self.paint(if good { "32" } else { "31" }, &outcome);
        self.line(&format!("{}  allowed  {time:>8}  {outcome}", self.call(request)));
        if self.verbose {
            let output = request["output"].as_str().unwrap_or_default();
            output.lines().for_each(|line| self.line(&self.paint("2", &format!("  | {}", plain(line)))));
        }
    }

    /// Calls that the runner refused by itself: the host sees them only as results that it has not been asked about.
    fn refused(&self, tally: &mut Tally, request: &Value) {
        let open = std::mem::take(&mut tally.open);
        let asked = std::mem::take(&mut tally.asked);
        for (call, result) in
            last_round(request).filter(|(call, _)| !asked.iter().any(|s| s == subject(&call["input"]))).take(open)
        {
            tally.calls += 1;
            tally.failed += 1;
            let reason = result.lines().next().unwrap_or_default();
            let reason = self.paint("33", &format!("refused by the runner: {}", plain(reason)));
            self.line(&format!(
                "{}  {reason}",
                self.shown(call["name"].as_str().unwrap_or_default(), subject(&call["input"]))
            ));
        }
    }

    fn call(&self, request: &Value) -> String {
        self.shown(request["operation"].as_str().unwrap_or_default(), subject(request))
    }

    fn shown(&self, operation: &str, subject: &str) -> String {
        let operation = plain(operation);
        let mut shown: String = plain(subject).chars().take(SUBJECT_COLUMNS).collect();
        if shown.chars().count() == SUBJECT_COLUMNS {
            shown = shown.chars().take(SUBJECT_COLUMNS - 1).chain(['…']).collect();
        }
        format!("  {} {shown:<width$}", self.paint("1", &format!("{operation:<5}")), width = SUBJECT_COLUMNS)
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn line(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{text}");
    }
}

fn key(request: &Value) -> String {
    format!("{} {}", request["operation"].as_str().unwrap_or_default(), plain(subject(request)))
}

/// What a call is about: its command or path.
fn subject(request: &Value) -> &str {
    request["command"].as_str().or(request["path"].as_str()).unwrap_or_default()
}

/// The calls of the last assistant message with the texts of their results.
fn last_round(request: &Value) -> impl Iterator<Item = (&Value, &str)> {
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let spoken = messages.iter().rposition(|message| message["role"] == "assistant").unwrap_or(messages.len());
    let blocks =
        |at: usize| messages[at.min(messages.len())..].iter().filter_map(|m| m["content"].as_array()).flatten();
    let result = move |id: &Value| {
        let found = blocks(spoken + 1).find(|block| block["tool_use_id"] == *id)?;
        found["content"].as_str()
    };
    blocks(spoken)
        .filter(|block| block["type"] == "tool_use")
        .filter_map(move |call| Some((call, result(&call["id"])?)))
}

/// What comes from a model or a program must not steer the terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if steers(c) { ' ' } else { c }).collect()
}

/// Control characters, and those that reorder or hide text.
pub(super) fn steers(c: char) -> bool {
    let reorders = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}');
    let hides = matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' | '\u{ad}' | '\u{2028}' | '\u{2029}');
    c.is_control() || reorders || hides
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn duration(time: Duration) -> String {
    match time.as_millis() {
        ms @ 0..10_000 => format!("{ms} ms"),
        ms => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(plain("a\u{202e}b"), "a b");
        assert_eq!(plain("a\x1b[2Jb\r\u{9b}c"), "a [2Jb  c");
        assert_eq!(duration(Duration::from_millis(9999)), "9999 ms");
        assert_eq!(duration(Duration::from_millis(12345)), "12.3 s");
        assert_eq!(count(1, "call"), "1 call");
    }
}
