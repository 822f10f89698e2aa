//! The answer: to stdout in connect mode, as an action otherwise (PROTOCOL §1.4, §5.3).

use super::exit::Fatal;
use crate::limits;
use crate::link::{CallError, Host};
use crate::log;
use crate::os;
use crate::text::{cut_units, units};
use crate::wire::Action;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Where a turn's text goes while it is made.
pub(super) enum Sink {
    /// Straight to stdout: if the container is killed, the host still has what was said (PROTOCOL §1.4).
    Stdout {
        /// Starts with the first words, so that nothing stands before the first model call.
        writer: Option<Writer>,
        /// What was said while no thread could be had, because the commands' processes fill the container.
        kept: String,
    },
    /// Kept until the turn ends.
    Action,
}

impl Sink {
    pub(super) fn stdout() -> Self {
        Self::Stdout { writer: None, kept: String::new() }
    }

    /// Passes a piece on; never waits.
    pub(super) fn say(&mut self, text: &str) {
        let Self::Stdout { writer, kept } = self else { return };
        if writer.is_none() && kept.is_empty() && !text.is_empty() {
            *writer = Writer::start().ok();
        }
        match writer {
            Some(writer) => writer.write(text),
            None => kept.push_str(text),
        }
    }

    /// Waits until everything has reached its reader, or until nobody wants to wait any longer. To be called when the
    /// commands' processes have ended.
    pub(super) async fn finish(self, stop: &CancellationToken) -> Result<(), Fatal> {
        let Self::Stdout { mut writer, kept } = self else { return Ok(()) };
        let failed = |error: io::Error| Fatal::Stdout(error.to_string());
        if !kept.is_empty() {
            match Writer::start() {
                Ok(late) => writer.insert(late).write(&kept),
                Err(_) => return os::write_stdout_here(kept.as_bytes()).map_err(failed),
            }
        }
        let Some(Writer { pieces, done }) = writer else { return Ok(()) };
        drop(pieces);
        let written = tokio::select! {
            written = done => written,
            () = stop.cancelled() => return Err(Fatal::Stdout("nobody reads it".to_owned())),
        };
        match written {
            Ok(written) => written.map_err(failed),
            Err(_) => Err(Fatal::Stdout("the writer failed".to_owned())),
        }
    }
}

/// A thread that writes to stdout: a full pipe must not keep the runner from hearing a signal.
pub(super) struct Writer {
    pieces: SyncSender<String>,
    done: oneshot::Receiver<io::Result<()>>,
}

impl Writer {
    fn start() -> io::Result<Self> {
        let (pieces, queue) = sync_channel::<String>(limits::ANSWER_PIECES);
        let (finished, done) = oneshot::channel();
        std::thread::Builder::new().name("stdout".to_owned()).spawn(move || {
            let _ = finished.send(queue.iter().try_for_each(|piece| os::write_stdout(piece.as_bytes())));
        })?;
        Ok(Self { pieces, done })
    }

    fn write(&self, text: &str) {
        // Refused when the thread has given up; `done` says why.
        let _ = self.pieces.try_send(text.to_owned());
    }
}

/// Sends the answer, shortened with a note when the transport does not carry it whole (PROTOCOL T36). Failure is logged,
/// and returned for those whose last turn this was.
pub(super) async fn deliver(host: &Host, answer: &str) -> Result<(), Fatal> {
    // The turn may be over because it was cancelled; its answer is owed all the same.
    let host = host.uncancelled();
    let mut content = fitted(answer, limits::ANSWER_MAX_UNITS);
    let mut outcome = host.call(&Action::AgentResponse { content: content.clone() }).await;
    while let Err(CallError::TooLarge { bytes, max }) = outcome {
        // Escapes make a body longer than its text, so the next length is estimated from this one and tried.
        let keep = units(&content).saturating_mul(max) / bytes.max(1);
        content = fitted(answer, keep.saturating_sub(keep / 20));
        outcome = host.call(&Action::AgentResponse { content: content.clone() }).await;
    }
    let error = match outcome {
        Ok(reply) => match reply.accepted() {
            Ok(()) => return Ok(()),
            Err(error) => error,
        },
        Err(CallError::TurnOver) => {
            // The host has the answer – this was its repetition – or waits for it no longer.
            tracing::warn!(component = "runner", "turn_closed_by_host");
            return Ok(());
        }
        Err(error) => error.to_string(),
    };
    tracing::error!(component = "runner", error = error.as_str(), "agent_response_failed");
    log::last_words(&format!("Failed to send agent_response: {}", log::escaped(&error)));
    Err(Fatal::LinkLost(format!("the answer could not be delivered: {error}")))
}

fn fitted(answer: &str, max: usize) -> String {
    let length = units(answer);
    if length <= max {
        return answer.to_owned();
    }
    let note = format!("\n\n[This answer was shortened: it has {length} characters, more than the host takes.]");
    format!("{}{note}", cut_units(answer, max.saturating_sub(units(&note))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_is_cut_with_a_note_inside_the_limit() {
        let cut = fitted(&"é".repeat(5_000), 1_000);
        assert!(cut.ends_with("5000 characters, more than the host takes.]") && units(&cut) <= 1_000);
        assert_eq!(fitted("short", 1_000), "short");
    }
}
