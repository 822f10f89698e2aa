//! Runs `nft`: a fixed path, nothing of our environment, and a deadline.

use super::signals::{Signals, Woken};
use crate::limits;
use crate::os::privileges;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where `nft` may be. `PATH` is not asked: its first entry is a directory the agent can write (PROTOCOL T35).
const PLACES: [&str; 4] = ["/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft", "/usr/local/sbin/nft"];

/// Why a run gave nothing to rely on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NftError {
    /// No such program.
    #[error("nft was not found in /usr/sbin, /sbin, /usr/bin or /usr/local/sbin: install nftables in the image")]
    Missing,
    /// It could not be started or waited for.
    #[error("{0} could not be run: {1}")]
    Start(PathBuf, String),
    /// A limit we were started with.
    #[error("the rules for nft cannot be written down: raise the limit on file sizes (ulimit -f, --ulimit fsize)")]
    FileSize,
    /// It said no.
    #[error("nft ended with {0}: {1}")]
    Refused(String, String),
    /// It did not end.
    #[error("nft did not end in time and was killed")]
    Hung,
    /// It wrote more than a rule listing has.
    #[error("nft wrote more than {max} bytes", max = limits::NFT_OUTPUT_MAX_BYTES)]
    Flooded,
    /// We were asked to end while it ran.
    #[error("{0} while nft was running")]
    Signal(Signal),
}

/// The program, if it is installed.
pub(crate) fn find() -> Result<PathBuf, NftError> {
    PLACES.iter().map(Path::new).find(|path| path.is_file()).map(Path::to_owned).ok_or(NftError::Missing)
}

/// Runs it with `input` on its standard input and returns its standard output; not longer than until `end`.
pub(crate) fn run(
    program: &Path,
    args: &[&str],
    input: &str,
    signals: &Signals,
    end: Instant,
) -> Result<Vec<u8>, NftError> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::FileTooLarge => NftError::FileSize,
        _ => NftError::Start(program.to_owned(), error.to_string()),
    };
    let deadline = end.min(Instant::now() + limits::NFT_DEADLINE);
    let mut child = start(program, args, input).map_err(failed)?;
    let ended = supervise(&mut child, signals, deadline)
        .and_then(|(out, err)| Ok((out, err, wait(&mut child, signals, deadline)?)));
    if ended.is_err() {
        // The whole group, so that a wrapper script takes along what it started.
        let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
        let _ = child.wait();
    }
    let (out, err, status) = ended?;
    if !status.success() {
        return Err(NftError::Refused(status.to_string(), first_line(&err)));
    }
    Ok(out)
}

#[allow(clippy::disallowed_methods)] // the one place that starts nft: absolute path, empty environment, own group
fn start(program: &Path, args: &[&str], input: &str) -> std::io::Result<Child> {
    // A memory file, so that a program that reads nothing cannot block us on a full pipe.
    let mut stdin = File::from(memfd_create("ruleset", MFdFlags::MFD_CLOEXEC)?);
    stdin.write_all(input.as_bytes())?;
    stdin.rewind()?;
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    privileges::unblock_signals_in_child(&mut command);
    privileges::end_with_parent(&mut command);
    command.spawn()
}

/// Reads both streams to their ends.
fn supervise(child: &mut Child, signals: &Signals, deadline: Instant) -> Result<(Vec<u8>, Vec<u8>), NftError> {
    let mut streams: [(Option<File>, Vec<u8>); 2] = [
        (child.stdout.take().map(|pipe| File::from(OwnedFd::from(pipe))), Vec::new()),
        (child.stderr.take().map(|pipe| File::from(OwnedFd::from(pipe))), Vec::new()),
    ];
    let mut chunk = vec![0; 64 * 1024];
    while let Some((stream, kept)) = streams.iter_mut().find(|(stream, _)| stream.is_some()) {
        let Some(file) = stream else { break };
        // One stream at a time is enough: nft writes little, and a flood on the other one meets the deadline.
        match signals
            .wait(&[file.as_fd()], deadline)
            .map_err(|errno| NftError::Start(PathBuf::from("nft"), errno.to_string()))?
        {
            Woken::Signal(signal) => return Err(NftError::Signal(signal)),
            Woken::Deadline => return Err(NftError::Hung),
            Woken::Ready => match file.read(&mut chunk) {
                Ok(0) | Err(_) => *stream = None,
                Ok(count) => kept.extend_from_slice(&chunk[..count]),
            },
        }
        if kept.len() > limits::NFT_OUTPUT_MAX_BYTES {
            return Err(NftError::Flooded);
        }
    }
    let [(_, out), (_, err)] = streams;
    Ok((out, err))
}

/// Waits for the end of a program that has closed its streams.
fn wait(child: &mut Child, signals: &Signals, deadline: Instant) -> Result<std::process::ExitStatus, NftError> {
    const PAUSE: Duration = Duration::from_millis(2);
    loop {
        if let Some(status) =
            child.try_wait().map_err(|error| NftError::Start(PathBuf::from("nft"), error.to_string()))?
        {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            return Err(NftError::Hung);
        }
        match signals.wait(&[], Instant::now() + PAUSE) {
            Ok(Woken::Signal(signal)) => return Err(NftError::Signal(signal)),
            Ok(_) => {}
            Err(errno) => return Err(NftError::Start(PathBuf::from("nft"), errno.to_string())),
        }
    }
}

/// The first line that says something.
fn first_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it gave no reason");
    line.chars().take(200).collect()
}
