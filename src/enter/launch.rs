//! The last step: becoming the payload.

use super::Failure;
use super::command::Job;
use super::environment::Environment;
use super::init;
use super::signals::Signals;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

/// Replaces this process by the job, or stays as PID 1 of a command that is not ours.
pub(crate) fn launch(job: Job, environment: &Environment, signals: Signals) -> Result<u8, Failure> {
    // The runner unblocks signals itself once it has handlers: as PID 1 it would lose one that comes before.
    let (mut command, ours, unblocks) = match job {
        Job::Runner(args) => (own(None, args, environment), true, true),
        Job::Sidecar(args) => (own(Some("git-sidecar"), args, environment), true, false),
        Job::Command(mut words) => {
            let program = words.remove(0);
            (command(find(&program, environment)?.as_os_str(), words, environment), false, false)
        }
    };
    let name = command.get_program().to_owned();
    // The last look: from here on a signal meets what we start.
    if let Ok(Some(signal)) = signals.pending() {
        return Err(Failure::Signal(signal));
    }
    if std::process::id() == 1 && !ours {
        return init::run(command).map_err(|error| cannot_start(&name, &error));
    }
    if !unblocks {
        signals.unblock().map_err(|errno| Failure::Command(format!("signals cannot be unblocked: {errno}"), 126))?;
    }
    Err(cannot_start(&name, &command.exec()))
}

/// Our own program again: the same file, whatever its name or place.
fn own(sub: Option<&str>, args: Vec<OsString>, environment: &Environment) -> Command {
    let path = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
    let mut command = command(path.as_os_str(), sub.map(OsString::from).into_iter().chain(args), environment);
    command.arg0("ax-runner");
    command
}

/// Looks a bare name up in `PATH` as a shell does: a directory we cannot enter does not make the command "denied".
fn find(program: &OsStr, environment: &Environment) -> Result<PathBuf, Failure> {
    if program.is_empty() {
        return Err(cannot_start(program, &io::Error::from_raw_os_error(libc::ENOENT)));
    }
    if program.as_encoded_bytes().contains(&b'/') {
        return Ok(PathBuf::from(program));
    }
    let places = environment.path("PATH").map(std::env::split_paths).into_iter().flatten().map(|dir| dir.join(program));
    let files: Vec<_> = places.filter(|path| path.is_file()).collect();
    let runnable = files.iter().find(|path| nix::unistd::access(*path, nix::unistd::AccessFlags::X_OK).is_ok());
    runnable
        .or(files.first())
        .cloned()
        .ok_or_else(|| cannot_start(program, &io::Error::from_raw_os_error(libc::ENOENT)))
}

#[allow(clippy::disallowed_methods)] // the command this process becomes; its environment is built here
fn command(program: &OsStr, args: impl IntoIterator<Item = OsString>, environment: &Environment) -> Command {
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(environment.iter());
    command
}

/// Exit codes as a shell has them.
fn cannot_start(program: &OsStr, error: &io::Error) -> Failure {
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    Failure::Command(format!("{} cannot be started: {error}", program.display()), code)
}
