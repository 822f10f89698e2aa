//! `ax-runner git-sidecar`: keeps the workspace of a pod (PROTOCOL §12.3).
//!
//! The repository lies outside the work tree, on a volume the agent's container does not have. What the agent can do is
//! put any file in the work tree and call these few operations on loopback, which the runner calls anyway.

mod keeper;
mod server;
mod verdict;

use crate::git::find_git;
use crate::os;
use keeper::Keeper;
use std::ffi::OsString;
use std::path::PathBuf;
use verdict::Judge;

/// What `--help` prints.
pub const HELP: &str = "\
usage: ax-runner git-sidecar

Keeps the workspace of a Kubernetes pod in git; the runner calls it on 127.0.0.1.

environment:
  AX_WORKSPACE          the work tree, required
  AX_GITDIR             the repository, outside the work tree, required
  AX_GIT_SIDECAR_PORT   where to listen (default 9099)
  WORKSPACE_REPO_URL    the remote (default: the repository's origin)
  AX_HOST_URL           the host that judges commits; without it nothing is judged
  LOG_LEVEL
";

/// The port when `AX_GIT_SIDECAR_PORT` names none.
const PORT: u16 = 9099;

/// Why the sidecar did not start.
#[derive(Debug, thiserror::Error)]
pub enum SidecarFault {
    /// A variable the pod must set.
    #[error("{0} is not set; the pod must name it")]
    Unset(&'static str),
    /// A port that is none.
    #[error("AX_GIT_SIDECAR_PORT is not a port number")]
    Port,
    /// Git.
    #[error(transparent)]
    Git(#[from] crate::git::GitError),
    /// The port is taken, or the runtime cannot start.
    #[error("the sidecar cannot listen on 127.0.0.1:{0}: {1}")]
    Listen(u16, std::io::Error),
}

/// What the pod tells the sidecar.
#[derive(Clone)]
pub struct Config {
    /// `AX_WORKSPACE`.
    pub workspace: PathBuf,
    /// `AX_GITDIR`.
    pub git_dir: PathBuf,
    /// `AX_GIT_SIDECAR_PORT`; 0 takes a free one.
    pub port: u16,
    /// `WORKSPACE_REPO_URL`; without it the repository's `origin`.
    pub url: Option<String>,
    /// `AX_HOST_URL`; without it nothing is validated.
    pub host: Option<String>,
}

impl Config {
    /// Reads the variables.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Self, SidecarFault> {
        let set = |name: &str| get(name).filter(|value| !value.trim().is_empty());
        Ok(Self {
            workspace: set("AX_WORKSPACE").ok_or(SidecarFault::Unset("AX_WORKSPACE"))?.into(),
            git_dir: set("AX_GITDIR").ok_or(SidecarFault::Unset("AX_GITDIR"))?.into(),
            port: match set("AX_GIT_SIDECAR_PORT") {
                Some(port) => port.trim().parse().map_err(|_| SidecarFault::Port)?,
                None => PORT,
            },
            url: set("WORKSPACE_REPO_URL"),
            host: set("AX_HOST_URL"),
        })
    }
}

/// The subcommand. Takes no arguments; unknown ones are ignored as the original does (PROTOCOL §1.1). Returns the exit
/// code.
pub fn main(_arguments: Vec<OsString>) -> u8 {
    let outcome = Config::read(|name| std::env::var(name).ok()).and_then(|config| {
        let runtime = os::need_descriptors()
            .and_then(|()| tokio::runtime::Builder::new_current_thread().enable_all().build())
            .map_err(|error| SidecarFault::Listen(config.port, error))?;
        runtime.block_on(async { Server::start(&config)?.run().await })
    });
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            tracing::error!(component = "git-sidecar", error = %error, "sidecar_failed");
            1
        }
    }
}

pub use server::Server;

fn keeper(config: &Config) -> Result<Keeper, SidecarFault> {
    let judge = config.host.as_deref().map(Judge::new);
    Ok(Keeper::new(find_git()?, config, judge))
}
