//! One git command: a program found where only root writes, an environment made from nothing, a deadline, an end for
//! everything it started.

use super::login::{self, Login};
use super::obstacles;
use crate::limits;
use crate::os::{self, Known, guard};
use crate::secret::Secret;
use crate::text::cut_units;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// Directories in which git is looked for. Not `PATH`: the workspace's own `bin` is in it (PROTOCOL T35).
const DIRECTORIES: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/bin"];

/// Settings in force over every file, and inherited by the commands git starts itself. The files are ours already where
/// the runner owns the repository; these hold where they are not, and where git would look into a nested repository.
const FORCED: [(&str, &str); 25] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.sshCommand", "false"),
    ("core.gitProxy", "none"),
    ("core.askPass", ""),
    ("core.editor", "false"),
    ("core.pager", "cat"),
    ("core.quotePath", "false"),
    ("credential.helper", ""),
    ("diff.ignoreSubmodules", "all"),
    ("gpg.program", "false"),
    ("commit.gpgSign", "false"),
    ("push.gpgSign", "false"),
    ("push.recurseSubmodules", "no"),
    ("fetch.recurseSubmodules", "false"),
    ("submodule.recurse", "false"),
    ("merge.verifySignatures", "false"),
    ("advice.addEmbeddedRepo", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("user.name", "agent"),
    ("user.email", "agent@ax.local"),
];

/// Why a command brought no result.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// No git in the system's directories.
    #[error("no git in /usr/bin, /usr/local/bin or /bin; install it in the image")]
    Missing,
    /// It could not be started or read.
    #[error("git {command}: {error}")]
    Start {
        /// The subcommand.
        command: String,
        /// What the system says.
        error: io::Error,
    },
    /// It ran longer than [`limits::GIT_DEADLINE`] and was ended.
    #[error("git {0} did not end within {seconds} s and was stopped", seconds = limits::GIT_DEADLINE.as_secs())]
    TooSlow(String),
    /// It failed.
    #[error("git {command} failed (exit {code}): {words}")]
    Failed {
        /// The subcommand.
        command: String,
        /// Its exit code; 128 and above for a signal.
        code: i32,
        /// The end of what it said, without credentials.
        words: String,
    },
    /// A file of the repository could not be read or written.
    #[error("the repository's {0}: {1}")]
    File(PathBuf, io::Error),
}

/// Finds git by absolute path.
pub fn find_git() -> Result<PathBuf, GitError> {
    DIRECTORIES
        .iter()
        .map(|directory| Path::new(directory).join("git"))
        .find(|path| path.is_file())
        .ok_or(GitError::Missing)
}

/// The name of the remote that is given by URL. Not `origin`: a second URL under that name would be pushed to as well.
const REMOTE: &str = "ax";

/// Left behind by a git that was killed. Nobody else works on a repository of ours, so they are never in use when a new
/// piece of work begins, and each would make all later work fail.
const LOCKS: [&str; 5] = ["index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "refs/heads/main.lock"];

/// A repository and the way to run git on it.
#[derive(Clone)]
pub struct Git {
    program: PathBuf,
    environment: Vec<(OsString, OsString)>,
    /// Texts that must not be shown: user name and password of the remote.
    hidden: Vec<Secret>,
    git_dir: PathBuf,
    work_tree: PathBuf,
    remote: &'static str,
}

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Output {
    /// The first line of what it printed.
    pub(crate) fn line(&self) -> String {
        String::from_utf8_lossy(&self.stdout).lines().next().unwrap_or_default().trim().to_owned()
    }
}

impl Git {
    /// Git on `git_dir` with `work_tree`. `remote` is the URL of the remote; without it the repository's own `origin` is
    /// used. `extra` is added to the environment (proxy and certificates).
    pub fn new(
        program: PathBuf,
        git_dir: &Path,
        work_tree: &Path,
        remote: Option<&str>,
        extra: &[(String, String)],
    ) -> Self {
        let (url, login) = remote.map(Login::take).unzip();
        let login = login.flatten();
        let helped = login.as_ref().map(|login| format!("credential.{}.helper", login.place));
        let mut forced: Vec<(&str, &str)> = FORCED.to_vec();
        forced.extend(url.as_deref().map(|url| ("remote.ax.url", url)));
        forced.extend(helped.as_deref().map(|key| (key, login::HELPER)));
        let mut environment: Vec<(OsString, OsString)> = extra.iter().map(|(k, v)| (k.into(), v.into())).collect();
        let count = forced.len().to_string();
        let mut put = |name: &str, value: &OsStr| environment.push((name.into(), value.into()));
        for (name, value) in [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("LC_ALL", "C"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_LITERAL_PATHSPECS", "1"),
            ("GIT_EDITOR", "false"),
            ("GIT_PAGER", "cat"),
            // A URL of any other scheme may name a program (`ext::`).
            ("GIT_ALLOW_PROTOCOL", "http:https:git:file"),
            ("GIT_CONFIG_COUNT", &count),
        ] {
            put(name, OsStr::new(value));
        }
        for (at, (key, value)) in forced.iter().enumerate() {
            put(&format!("GIT_CONFIG_KEY_{at}"), OsStr::new(key));
            put(&format!("GIT_CONFIG_VALUE_{at}"), OsStr::new(value));
        }
        put("HOME", git_dir.as_os_str());
        put("GIT_DIR", git_dir.as_os_str());
        put("GIT_WORK_TREE", work_tree.as_os_str());
        let mut hidden = remote.map(user_info).unwrap_or_default();
        if let Some(Login { user, password, .. }) = login {
            put("AX_GIT_USER", user.expose().as_ref());
            put("AX_GIT_PASSWORD", password.expose().as_ref());
            hidden.extend([password].into_iter().filter(|password| !password.expose().is_empty()));
        }
        let remote = if remote.is_some() { REMOTE } else { "origin" };
        Self { program, environment, hidden, git_dir: git_dir.to_owned(), work_tree: work_tree.to_owned(), remote }
    }

    /// The same with one more variable.
    pub(super) fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Where commits go to and come from.
    pub(super) fn remote(&self) -> &'static str {
        self.remote
    }

    /// Removes what stands in the way: the locks of an earlier, killed git, and pipes where git would open a file. Only for
    /// the sole user of the repository.
    pub(crate) async fn clear_the_way(&self) {
        for lock in LOCKS {
            if std::fs::remove_file(self.git_dir.join(lock)).is_ok() {
                tracing::warn!(component = "git", lock, "git_lock_removed");
            }
        }
        let work_tree = self.work_tree.clone();
        let removed = os::blocking(move || obstacles::remove(&work_tree)).await.unwrap_or(0);
        if removed > 0 {
            tracing::warn!(component = "git", removed, "git_pipes_removed");
        }
    }

    /// Runs a command that must succeed.
    pub(crate) async fn ok(&self, arguments: &[&str]) -> Result<Output, GitError> {
        let output = self.run(arguments, None).await?;
        match output.code {
            0 => Ok(output),
            code => Err(self.failure(arguments, code, &output.stderr)),
        }
    }

    /// The error for a command that was expected to succeed.
    pub(crate) fn failure(&self, arguments: &[&str], code: i32, words: &str) -> GitError {
        GitError::Failed { command: name(arguments), code, words: words.to_owned() }
    }

    /// Runs a command whose failure is an answer too.
    pub(crate) async fn run(&self, arguments: &[&str], input: Option<&[u8]>) -> Result<Output, GitError> {
        let start = |error| GitError::Start { command: name(arguments), error };
        let mut command = self.command(arguments, input.is_some());
        // It needs none, and whatever the agent might make it run after all shall have no more than a command has.
        guard::without_unix_sockets(&mut command);
        os::with_given_descriptors(&mut command);
        let (mut child, _known) = Known::start(|| {
            let child = command.spawn()?;
            let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0);
            Ok((child, pid))
        })
        .map_err(start)?;
        let mut group = Group(child.id());
        let exchange = exchange(&mut child, input);
        let outcome = match tokio::time::timeout(limits::GIT_DEADLINE, exchange).await {
            Ok(outcome) => outcome.map_err(start),
            Err(_) => Err(GitError::TooSlow(name(arguments))),
        };
        if outcome.is_ok() {
            group.0 = None;
        } else {
            // The helpers first, while the leader still holds the group's number; then the leader's status.
            group.end();
            let _ = child.wait().await;
        }
        let (code, stdout, stderr) = outcome?;
        Ok(Output { code, stdout, stderr: self.presentable(&stderr) })
    }

    #[allow(clippy::disallowed_methods, reason = "git is the one program started outside the keeper")]
    fn command(&self, arguments: &[&str], input: bool) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.work_tree)
            .stdin(if input { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    /// The end of git's words, on one line, without credentials.
    fn presentable(&self, stderr: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(stderr).into_owned();
        for hidden in &self.hidden {
            text = text.replace(hidden.expose(), "[redacted]");
        }
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let text = lines.join("; ");
        cut_units(&text, limits::GIT_ERROR_UNITS).to_owned()
    }
}

/// The subcommand, for messages.
fn name(arguments: &[&str]) -> String {
    (*arguments.first().unwrap_or(&"")).to_owned()
}

/// What stands before the `@` of a URL, whole and in parts.
fn user_info(url: &str) -> Vec<Secret> {
    let Some((_, rest)) = url.split_once("://") else { return Vec::new() };
    let authority = rest.split('/').next().unwrap_or_default();
    let Some((info, _)) = authority.rsplit_once('@') else { return Vec::new() };
    let mut hidden = vec![info.to_owned()];
    hidden.extend(info.split_once(':').map(|(_, password)| password.to_owned()));
    hidden.into_iter().filter(|text| !text.is_empty()).map(Secret::new).collect()
}

async fn exchange(child: &mut Child, input: Option<&[u8]>) -> io::Result<(i32, Vec<u8>, Vec<u8>)> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // Git may end without reading it all; its status says what that means.
            let _ = stdin.write_all(input).await;
        }
    };
    let ((), stdout, stderr, status) = tokio::join!(write, drain(stdout), drain(stderr), child.wait());
    use std::os::unix::process::ExitStatusExt;
    let status = status?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok((code, stdout?, stderr?))
}

/// Reads to the end and keeps the first [`limits::GIT_OUTPUT_MAX_BYTES`]: a full pipe would stop git.
async fn drain(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let Some(mut pipe) = pipe else { return Ok(Vec::new()) };
    let mut kept = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = pipe.read(&mut buffer).await?;
        if read == 0 {
            return Ok(kept);
        }
        let room = limits::GIT_OUTPUT_MAX_BYTES.saturating_sub(kept.len());
        kept.extend_from_slice(&buffer[..read.min(room)]);
    }
}

/// Ends the process group of a command that was given up, also when its future is dropped.
struct Group(Option<u32>);

impl Group {
    fn end(&mut self) {
        if let Some(leader) = self.0.take().and_then(|leader| i32::try_from(leader).ok()) {
            let _ = killpg(Pid::from_raw(leader), Signal::SIGKILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
