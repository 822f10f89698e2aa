//! `bash`: runs one command (PROTOCOL §8.3).

use super::Finished;
use super::arguments::whole;
use super::fields::{Field, Kind, optional, required};
use super::schema::Schema;
use crate::gate::{Approved, Proposal};
use crate::limits;
use crate::os::{ChildEnv, End, Ended, Shell};
use crate::text::{self, elide_json, json_units};
use crate::wire::{Approve, Report, ToolSpec, check};
use crate::workspace::Repair;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What a shell reports for a time limit and for an interrupt.
const EXIT_TIMED_OUT: i32 = 124;
const EXIT_CANCELLED: i32 = 130;
/// What the model is told of a silent command.
const NO_OUTPUT: &str = "(no output)";
/// Added to a signal's number.
const EXIT_SIGNAL: i32 = 128;
/// The command did not run, or how it ended is unknown.
const EXIT_FAILED: i32 = 1;

/// The arguments, as the model gives them and as they are approved.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// What bash runs.
    pub command: String,
    /// Its time limit; [`limits::BASH_TIMEOUT_DEFAULT`] when there is none.
    #[serde(default, deserialize_with = "timeout_ms")]
    pub timeout_ms: Option<u64>,
}

impl Args {
    fn time(&self) -> Duration {
        self.timeout_ms.map_or(limits::BASH_TIMEOUT_DEFAULT, Duration::from_millis).min(limits::BASH_TIMEOUT_MAX)
    }
}

fn timeout_ms<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Option<u64>, D::Error> {
    let time = whole(source, 1..=limits::BASH_TIMEOUT_MAX.as_millis() as usize)?;
    Ok(time.map(|time| time as u64))
}

impl Proposal for Args {
    fn approve(&self) -> Approve {
        Approve::command(self.command.as_str())
    }
}

const FIELDS: &[Field] = &[
    required("command", Kind::Text(limits::COMMAND_MAX_UNITS), "The command; may have several lines."),
    optional("timeout_ms", Kind::Int(1, limits::BASH_TIMEOUT_MAX.as_millis() as i64), "Time limit in milliseconds."),
];

/// The tool as the model sees it.
pub fn spec() -> ToolSpec {
    ToolSpec::new(
        "bash",
        format!(
            "Run a command with bash in the workspace directory. Every call is a new shell: `cd` and variables do not \
             carry over. There is no standard input and no terminal. Standard output and standard error come back \
             together in order; of a long output the beginning and the end are kept. A process started with `&` keeps \
             running after the call, until the session ends; send its output to a file. The time limit is {} ms unless \
             timeout_ms says otherwise; when it is over, everything the command started is stopped.",
            limits::BASH_TIMEOUT_DEFAULT.as_millis()
        ),
        &Schema(FIELDS),
    )
}

/// Where a command runs.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// Runs it.
    pub shell: &'a Shell,
    /// Its variables.
    pub env: &'a ChildEnv,
    /// Its directory.
    pub workspace: &'a Path,
    /// What had to be done to the directory first.
    pub repair: Option<Repair>,
}

/// Runs an approved command.
pub async fn run(call: Approved<Args>, place: Place<'_>, cancel: &CancellationToken) -> Finished {
    let time = call.get().time();
    let Args { command, .. } = call.into_inner();
    match place.shell.run(&command, place.env, place.workspace, time, cancel).await {
        Ok(ended) => finished(command, time, ended, place.repair, || place.shell.background()),
        Err(error) => {
            let output = format!("Command error: {error}");
            Finished {
                text: result(&format!("Exit code {EXIT_FAILED}\n"), &output, None),
                report: Some(Report::command(command, output, EXIT_FAILED)),
            }
        }
    }
}

fn finished(
    command: String,
    time: Duration,
    ended: Ended,
    repair: Option<Repair>,
    running: impl FnOnce() -> usize,
) -> Finished {
    let mut notes: Vec<String> = repair.map(repaired).into_iter().chain(room(&ended)).chain(note(&ended)).collect();
    const ENDS: usize = limits::BINARY_SHOWN_BYTES / 2;
    let narrow = (ended.output.total() > limits::BINARY_SHOWN_BYTES as u64).then(|| ended.output.narrowed(ENDS, ENDS));
    let output = ended.output.finish();
    let narrow = narrow.filter(|_| text::is_binary(&output)).map(|ends| check::fitted(&ends.finish(), usize::MAX));
    if narrow.is_some() {
        notes.push(
            "the output is not text, so only its ends are shown; to look at binary data use file, xxd or strings, and \
             write large output to a file"
                .to_owned(),
        );
    }
    notes.extend(crowded(&output, running));
    let note = (!notes.is_empty()).then(|| notes.join(". "));
    let silent = output.is_empty();
    let output = if silent { NO_OUTPUT.to_owned() } else { check::fitted(&output, limits::CONTENT_MAX_UNITS) };
    let (code, heading) = match ended.end {
        End::Exit(0) => (0, String::new()),
        End::Exit(code) => (code, format!("Exit code {code}\n")),
        End::Signal(number) => {
            let code = EXIT_SIGNAL + number;
            (code, format!("Exit code {code} (killed by {})\n", signal_name(number)))
        }
        End::TimedOut => (
            EXIT_TIMED_OUT,
            format!(
                "Timed out after {} ms and was stopped, with everything it had started. If it needs longer, set timeout_ms \
                 (at most {}) or start it with & and its output in a file; if it waits for keys, give it options \
                 instead. The output so far:\n",
                time.as_millis(),
                limits::BASH_TIMEOUT_MAX.as_millis()
            ),
        ),
        End::Cancelled => (
            EXIT_CANCELLED,
            "Cancelled before it ended and stopped, with everything it had started; the output so far:\n".to_owned(),
        ),
        End::Lost => (
            EXIT_FAILED,
            "Command error: the process that watched over this command was killed, so how it ended is unknown; \
             everything it had started was stopped. The output so far:\n"
                .to_owned(),
        ),
    };
    let text = result(&heading, narrow.as_ref().unwrap_or(&output), note.as_deref());
    let reported = match ended.end {
        End::Lost => format!("{heading}{output}"),
        // In the host's own words (PROTOCOL §8.3).
        End::TimedOut if silent => "Command timed out".to_owned(),
        End::Exit(0) => output,
        _ if silent => "Command failed".to_owned(),
        _ => output,
    };
    Finished { text, report: Some(Report::command(command, reported, code)) }
}

/// What was ended so that this command could start.
fn room(ended: &Ended) -> Option<String> {
    let were = match ended.room {
        0 => return None,
        1 => "1 process that an earlier command had left running was".to_owned(),
        count => format!("{count} processes that earlier commands had left running were"),
    };
    Some(format!("the limit of processes was reached: {were} ended"))
}

/// The shell has started, but could start nothing itself, and what holds the places is not its own.
fn crowded(output: &str, running: impl FnOnce() -> usize) -> Option<String> {
    if !(output.contains("fork: ") && output.contains("Resource temporarily unavailable")) {
        return None;
    }
    let them = match running() {
        0 => return None,
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    };
    Some(format!(
        "the limit of processes is reached, and commands have left {them} running: end what is not needed with kill, which \
         bash does by itself"
    ))
}

/// What the model would not see from the output.
fn note(ended: &Ended) -> Option<String> {
    match (ended.background, ended.left) {
        (0, 0) => None,
        (1, 0) => Some("1 process of this command is still running; it ends with the session".to_owned()),
        (count, 0) => Some(format!("{count} processes of this command are still running; they end with the session")),
        (_, left) => Some(format!("{left} processes of this command could not be stopped")),
    }
}

fn repaired(repair: Repair) -> String {
    match repair {
        Repair::MadeAnew => "the workspace directory was gone, so it was made anew, empty, before this command",
        Repair::Opened => {
            "the workspace directory was closed to its own user, so it was opened again (chmod u+rwx) before this command"
        }
    }
    .to_owned()
}

fn signal_name(number: i32) -> String {
    match Signal::try_from(number) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("signal {number}"),
    }
}

/// Compact JSON within [`limits::TOOL_RESULT_MAX_UNITS`]. Escapes can make an output six times as long, so it is measured
/// as it will stand there.
fn result(heading: &str, output: &str, note: Option<&str>) -> String {
    /// More than the braces, keys and quotes around the texts take.
    const FRAME_UNITS: usize = 64;
    #[derive(Serialize)]
    struct Answer<'a> {
        output: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<&'a str>,
    }
    let around = FRAME_UNITS + json_units(heading) + note.map_or(0, json_units);
    let output = elide_json(output, limits::TOOL_RESULT_MAX_UNITS - around);
    // A struct of two strings always has a JSON form.
    serde_json::to_string(&Answer { output: &format!("{heading}{output}"), note }).unwrap_or_default()
}

#[cfg(test)]
#[path = "bash_tests.rs"]
mod tests;
