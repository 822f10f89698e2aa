//! Several turns with one user: a fresh runner for each, or one that lives on, as the transport has it.

use super::host::FakeHost;
use super::run::json as parsed;
use super::runner::{Output, Runner, Running};
use super::transcript::Transcript;
use super::validate::Transport;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A day, as the host gives a chat's turn (PROTOCOL §1.7).
const TURN_LIMIT: Duration = Duration::from_secs(86_400);

/// What a turn is about.
pub(super) enum Turn {
    /// A message; the payload is made for it.
    Message(String),
    /// A payload, byte for byte.
    Payload(Vec<u8>),
}

/// Makes a runner that is not started yet.
type Make<'a> = Box<dyn Fn(&FakeHost) -> Runner + 'a>;

/// The turns so far and the runner that may live on.
pub(super) struct Session<'a> {
    host: &'a FakeHost,
    transcript: &'a Transcript,
    make: Make<'a>,
    history: Vec<Value>,
    answers: usize,
    living: Option<Running>,
    /// The runner knows that no turn follows.
    told_last: bool,
    interrupted: Interrupt,
}

impl<'a> Session<'a> {
    pub(super) fn new(host: &'a FakeHost, transcript: &'a Arc<Transcript>, make: Make<'a>) -> Result<Self, String> {
        let interrupted = Interrupt::default();
        interrupted.watch(host).map_err(|error| format!("signals cannot be watched: {error}"))?;
        Ok(Self {
            host,
            transcript,
            make,
            history: Vec::new(),
            answers: 0,
            living: None,
            told_last: false,
            interrupted,
        })
    }

    /// Was the session interrupted?
    pub(super) fn interrupted(&self) -> bool {
        self.interrupted.happened()
    }

    /// One turn: its answer, or `None` if it has none.
    pub(super) fn turn(&mut self, turn: Turn, last: bool) -> Option<String> {
        if self.interrupted.happened() {
            return None;
        }
        let (payload, message) = self.payload(turn, last);
        let answer = match self.host.transport() {
            Transport::Http => self.over_http(&payload),
            _ => self.one_process(&payload),
        };
        if let (Some(answer), Some(message)) = (&answer, message) {
            self.history.push(json!({"role": "user", "content": message}));
            self.history.push(json!({"role": "assistant", "content": answer}));
        }
        answer.filter(|answer| !answer.trim().is_empty() || optional(&payload))
    }

    /// Ends the runner that lives on; `false` if it ended badly.
    pub(super) fn end(&mut self) -> bool {
        let Some(running) = self.living.take() else { return !self.interrupted.happened() };
        // After its last turn a runner ends by itself; one that waits for more is told to stop.
        let ends = self.told_last && self.ended_soon(&running);
        if !self.interrupted.happened() && !ends {
            running.signal(super::Signal::SIGTERM);
            let output = running.wait();
            return self.went_well(&output, true);
        }
        let output = running.wait();
        self.went_well(&output, false)
    }

    fn ended_soon(&self, running: &Running) -> bool {
        (0..50).any(|_| {
            if !running.ended() {
                std::thread::sleep(Duration::from_millis(20));
            }
            running.ended()
        })
    }

    fn payload(&mut self, turn: Turn, last: bool) -> (Vec<u8>, Option<String>) {
        let message = match turn {
            Turn::Payload(bytes) => return (bytes, None),
            Turn::Message(message) => message,
        };
        let mut payload = self.host.payload(&message);
        payload["history"] = self.history.clone().into();
        self.told_last = last && self.host.transport() == Transport::Http;
        payload["singleTurn"] = self.told_last.into();
        (payload.to_string().into_bytes(), Some(message))
    }

    fn one_process(&mut self, payload: &[u8]) -> Option<String> {
        let runner = (self.make)(self.host).deadline(TURN_LIMIT);
        let runner = match parsed(payload) {
            Some(value) => runner.payload(&value).stdin(payload),
            None => runner.stdin(payload),
        };
        let running = self.started(runner)?;
        // Apple's host waits for the answer alone, and ends the container when it has it (PROTOCOL T4).
        let listens = self.host.transport() == Transport::Listen;
        if listens {
            self.answered(&running);
            if !self.ended_soon(&running) {
                running.signal(super::Signal::SIGTERM);
            }
        }
        let output = running.wait();
        let fine = self.went_well(&output, listens);
        let answer = match listens {
            true => self.next_answer(),
            false => Some(output.text()),
        };
        // Even a failed run's text counts (PROTOCOL §1.4); it is shown, but the run has failed.
        answer.filter(|_| fine)
    }

    fn over_http(&mut self, payload: &[u8]) -> Option<String> {
        self.host.push_raw_work(&String::from_utf8_lossy(payload));
        if self.living.as_ref().is_none_or(Running::ended) {
            let runner = (self.make)(self.host).deadline(TURN_LIMIT);
            self.living = Some(self.started(runner)?);
        }
        let running = self.living.take()?;
        let answered = self.answered(&running);
        self.living = Some(running);
        let answer = self.next_answer().filter(|_| answered);
        if let Some(token) = parsed(payload).and_then(|value| value["ipcToken"].as_str().map(str::to_owned)) {
            self.host.close_turn(&token);
        }
        answer
    }

    fn started(&self, runner: Runner) -> Option<Running> {
        match runner.spawn() {
            Ok(running) => {
                self.interrupted.aim(running.stopper());
                Some(running)
            }
            Err(error) => {
                self.transcript.complain(&format!("! the runner does not start: {error}"));
                None
            }
        }
    }

    /// Waits for the turn's `agent_response`, as long as there is somebody to send it.
    fn answered(&self, running: &Running) -> bool {
        loop {
            let ended = running.ended();
            if self.host.wait_answer(self.answers + 1, Duration::from_millis(100)).is_some() {
                return true;
            }
            if ended {
                self.transcript.complain("! the runner ended without an answer");
                return false;
            }
        }
    }

    fn next_answer(&mut self) -> Option<String> {
        let answers = self.host.answers();
        let answer = answers.get(self.answers).map(|answer| answer.content.clone());
        if answers.len() > self.answers + 1 {
            self.transcript.complain("! more than one answer; the first one counts");
        }
        self.answers = answers.len();
        answer
    }

    /// Says what is wrong with a runner's end; after a SIGTERM of ours any end is fine.
    fn went_well(&self, output: &Output, stopped: bool) -> bool {
        if self.interrupted.happened() {
            self.transcript.complain("! interrupted; the runner was ended");
            return false;
        }
        if output.code == Some(0) || stopped {
            return true;
        }
        let how = match (output.code, output.signal) {
            (Some(code), _) => format!("with exit code {code}"),
            (None, Some(signal)) => format!("by signal {signal}"),
            (None, None) => "in an unknown way".to_owned(),
        };
        self.transcript.complain(&format!("! the runner ended {how}; its last words on stderr:"));
        let words: Vec<&str> = output.stderr.lines().rev().take(5).collect();
        words.iter().rev().for_each(|line| self.transcript.complain(&format!("  | {line}")));
        false
    }
}

fn optional(payload: &[u8]) -> bool {
    parsed(payload).is_some_and(|value| value["replyOptional"] == true)
}

/// Ends the current runner on ctrl-C and SIGTERM, so that it never outlives this program.
#[derive(Clone, Default)]
struct Interrupt {
    happened: CancellationToken,
    target: Arc<Mutex<CancellationToken>>,
}

impl Interrupt {
    fn watch(&self, host: &FakeHost) -> std::io::Result<()> {
        let handle = host.handle();
        let _runtime = handle.enter();
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let this = self.clone();
        handle.spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                this.happened.cancel();
                this.target.lock().unwrap_or_else(PoisonError::into_inner).cancel();
            }
        });
        Ok(())
    }

    fn happened(&self) -> bool {
        self.happened.is_cancelled()
    }

    fn aim(&self, target: CancellationToken) {
        if self.happened() {
            target.cancel();
        }
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }
}
