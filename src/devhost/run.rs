//! `ax-devhost run`: gathers what was asked for, plays the turns, says how it went.

use super::cli::Options;
use super::host::FakeHost;
use super::inside::owned_by;
use super::policy::Policy;
use super::provider::Provider;
use super::runner::Runner;
use super::script::Script;
use super::session::{Session, Turn};
use super::transcript::Transcript;
use super::{audit, payload, tour};
use serde_json::Value;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Runs; `true` if every turn ended with an answer and no rule was broken.
pub(super) fn run(options: &Options) -> Result<bool, String> {
    let transcript = Transcript::new(options.verbose);
    let host = host(options, &transcript)?;
    let workspace = workspace(options, &host)?;
    let turns = turns(options)?;
    let (runner_options, runner_workspace) = (options.clone(), workspace.clone());
    let program = program(options)?;
    let make = move |host: &FakeHost| runner(&runner_options, &program, &runner_workspace, host);
    if options.print {
        return print(options, &make(&host).payload(&host.payload(tour::MESSAGE))).map(|()| true);
    }
    hand_over(options, &host)?;
    transcript.say(&format!("workspace {}", workspace.display()));
    let mut session = Session::new(&host, &transcript, Box::new(make))?;
    let mut good = true;
    match turns {
        Turns::Listed(turns) => {
            let count = turns.len();
            for (at, turn) in turns.into_iter().enumerate() {
                good &= show(session.turn(turn, at + 1 == count))?;
            }
        }
        Turns::Typed => {
            let typed = Typed::start();
            while let Some(message) = typed.next(&session)? {
                good &= show(session.turn(Turn::Message(message), false))?;
            }
        }
    }
    good &= session.end();
    transcript.summary();
    let violations = host.violations();
    if !violations.is_empty() {
        transcript
            .complain(&format!("rules of the protocol were broken ({}), so the run has failed:", violations.len()));
        violations
            .iter()
            .for_each(|violation| transcript.complain(&format!("  {}: {}", violation.action, violation.message)));
    }
    Ok(good && violations.is_empty())
}

enum Turns {
    Listed(Vec<Turn>),
    Typed,
}

fn turns(options: &Options) -> Result<Turns, String> {
    if options.interactive {
        return Ok(Turns::Typed);
    }
    if let Some(path) = &options.payload {
        let bytes = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
        return Ok(Turns::Listed(vec![Turn::Payload(bytes)]));
    }
    let Some(path) = &options.turns else {
        let message = options.message.clone().unwrap_or_else(|| tour::MESSAGE.to_owned());
        return Ok(Turns::Listed(vec![Turn::Message(message)]));
    };
    let messages: Vec<String> = serde_json::from_str(&read(path)?)
        .map_err(|error| format!("{}: expected a JSON list of messages: {error}", path.display()))?;
    Ok(Turns::Listed(messages.into_iter().map(Turn::Message).collect()))
}

/// Messages from the terminal, read on a thread of its own so that ctrl-C is noticed while nobody types.
struct Typed(mpsc::Receiver<io::Result<String>>);

impl Typed {
    fn start() -> Self {
        let (lines, typed) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            for line in io::stdin().lines() {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        Self(typed)
    }

    /// The next one; `None` at the end of input or when the session is interrupted.
    fn next(&self, session: &Session<'_>) -> Result<Option<String>, String> {
        if io::stdin().is_terminal() {
            let _ = write!(io::stderr(), "you> ");
        }
        loop {
            match self.0.recv_timeout(Duration::from_millis(100)) {
                Ok(Ok(line)) if line.trim().is_empty() => {}
                Ok(Ok(line)) => return Ok(Some(line)),
                Ok(Err(error)) => return Err(format!("the message cannot be read: {error}")),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if session.interrupted() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// The answer on stdout; `false` if there is none.
fn show(answer: Option<String>) -> Result<bool, String> {
    let Some(answer) = answer else { return Ok(false) };
    if io::stdout().is_terminal() && io::stderr().is_terminal() {
        let _ = writeln!(io::stderr(), "-- the answer, which alone goes to stdout:");
    }
    let newline = if answer.ends_with('\n') { "" } else { "\n" };
    let written = write!(io::stdout(), "{answer}{newline}").and_then(|()| io::stdout().flush());
    written.map(|()| true).map_err(|error| format!("the answer cannot be written: {error}"))
}

fn host(options: &Options, transcript: &Arc<Transcript>) -> Result<FakeHost, String> {
    let script = match &options.script {
        Some(path) => Script::parse(&read(path)?).map_err(|error| format!("{}: {error}", path.display()))?,
        None => Script::parse(tour::SCRIPT).map_err(|error| error.to_string())?,
    };
    let policy = match &options.policy {
        Some(path) => Policy::parse(&read(path)?).map_err(|error| format!("{}: {error}", path.display()))?,
        None => Policy::allow(),
    };
    let provider = options.provider.unwrap_or(Provider::Process);
    let transport = options.transport.unwrap_or_else(|| provider.transport());
    let mut builder = FakeHost::builder(transport, script).policy(policy).listener(transcript.listener());
    if let Some(path) = &options.audit {
        builder = builder.listener(audit::to_file(path).map_err(|error| unreadable(path, &error))?);
    }
    builder.try_start().map_err(|error| format!("the host does not start: {error}"))
}

/// The directory given, or the host's own with the tour's project in it.
fn workspace(options: &Options, host: &FakeHost) -> Result<PathBuf, String> {
    match &options.workspace {
        Some(path) => {
            let path = path.canonicalize().map_err(|error| unreadable(path, &error))?;
            payload::seed(&path).map_err(|error| format!("{}: .ax cannot be made: {error}", path.display()))?;
            Ok(path)
        }
        None => {
            let path = host.workspace();
            tour::unpack(&path).map_err(|error| format!("the tour's project cannot be unpacked: {error}"))?;
            Ok(path)
        }
    }
}

/// The runner to start: the one given, or the one beside this program.
fn program(options: &Options) -> Result<Vec<OsString>, String> {
    if !options.runner.is_empty() || options.provider.is_some_and(Provider::is_container) {
        return Ok(options.runner.clone());
    }
    let own = std::env::current_exe().map_err(|error| format!("this program cannot find itself: {error}"))?;
    let beside = own.with_file_name("ax-runner");
    match beside.is_file() {
        true => Ok(vec![beside.into()]),
        false => Err(format!("there is no {}; name the runner after --", beside.display())),
    }
}

fn runner(options: &Options, program: &[OsString], workspace: &Path, host: &FakeHost) -> Runner {
    let provider = options.provider.unwrap_or(Provider::Process);
    let variable = match provider {
        Provider::Apple => "AX_CONTAINER_IMAGE",
        Provider::K8s => "K8S_POD_IMAGE",
        _ => "AX_DOCKER_IMAGE",
    };
    let image = std::env::var(variable).unwrap_or_else(|_| "ax/agent:latest".to_owned());
    host.command(program.to_vec()).provider(provider, image).workspace(workspace).verbose(options.verbose)
}

/// The image's user has uid 1000. What root made for it must belong to it; a directory the user named is left alone.
fn hand_over(options: &Options, host: &FakeHost) -> Result<(), String> {
    let engine = matches!(options.provider, Some(Provider::Docker | Provider::Podman));
    if !engine || !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let mut directories = vec![host.directory()];
    if options.workspace.is_none() {
        directories.push(host.workspace());
    }
    let owned = directories.iter().try_for_each(|directory| owned_by(directory, 1000));
    owned.map_err(|error| format!("the container's directories cannot be given to uid 1000: {error}"))
}

fn print(options: &Options, runner: &Runner) -> Result<(), String> {
    let text = match options.provider {
        Some(Provider::K8s) => serde_json::to_string_pretty(&runner.pod()).map_err(|error| error.to_string())?,
        _ => runner.shell(),
    };
    writeln!(io::stdout(), "{text}").map_err(|error| format!("the command line cannot be written: {error}"))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// The payload's JSON, if it is any.
pub(super) fn json(payload: &[u8]) -> Option<Value> {
    serde_json::from_slice(payload).ok()
}
