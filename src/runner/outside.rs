//! What a turn's commands need of the world outside: proxy, certificates, credentials and the workspace's repository
//! (PROTOCOL §11, §12). Made anew each turn, but for the bridge and the directories, which live as long as the session.

use super::config::Config;
use super::exit::Fatal;
use crate::git::{self, Pushed, Sidecar};
use crate::net::{Bridge, CaFiles, TurnNet, choose};
use crate::redact::Redactor;
use crate::wire::{Payload, SandboxType};
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// The session's way out.
pub(super) struct Outside {
    bridge: Option<Bridge>,
    certificates: CaFiles,
    places: Vec<PathBuf>,
}

/// Who commits the workspace (PROTOCOL §12.1).
enum Repository {
    /// The host does, or nobody.
    Elsewhere,
    /// The pod's sidecar.
    Sidecar(Sidecar),
    /// We do.
    Own(git::Workspace),
}

/// A turn's way out.
pub(super) struct Way {
    repository: Repository,
    /// Name and value of each variable for the commands.
    pub variables: Vec<(String, crate::net::Value)>,
    /// Knows the turn's credentials.
    pub redactor: Redactor,
}

impl Outside {
    /// Opens the bridge before any child exists: nobody can have taken its port (CASES N15).
    pub(super) fn open(config: &Config) -> Self {
        let bridge = config.web_proxy_socket.clone().and_then(|socket| match Bridge::start(socket) {
            Ok(bridge) => Some(bridge),
            Err(error) => {
                tracing::warn!(component = "web-proxy", error = %error, "web_proxy_bridge_failed");
                None
            }
        });
        let places = places(config);
        Self { bridge, certificates: CaFiles::new(places.clone()), places }
    }

    /// Prepares a turn: environment first, then the repository, which may need the proxy (PROTOCOL §5.3, T33).
    pub(super) async fn enter(
        &mut self,
        config: &Config,
        payload: &Payload,
        cancel: &CancellationToken,
    ) -> Result<Way, Fatal> {
        let net = self.net(config, payload);
        let (variables, refused) = net.environment();
        if !refused.is_empty() {
            tracing::warn!(component = "runner", names = refused.join(" ").as_str(), "credential_names_refused");
        }
        let repository = match &config.repo_url {
            None => Repository::Elsewhere,
            Some(_) if payload.sandbox_type == SandboxType::K8s => pulled(config, cancel).await,
            Some(url) => Repository::Own(self.clone_from(config, url, &net, cancel).await?),
        };
        Ok(Way { repository, variables, redactor: Redactor::new(payload.credential_env.values()) })
    }

    fn net(&mut self, config: &Config, payload: &Payload) -> TurnNet {
        let bridge = self.bridge.as_ref().map(Bridge::url);
        let (proxy, warnings) = choose(
            bridge.as_deref(),
            config.web_proxy_url.as_deref(),
            payload.web_proxy_url.as_deref(),
            config.proxy_listen_port.as_deref(),
        );
        for warning in warnings {
            tracing::warn!(component = "web-proxy", warning, "web_proxy_setting_ignored");
        }
        if proxy.is_some() {
            tracing::debug!(component = "web-proxy", bridged = bridge.is_some(), "web_proxy_env_set");
        }
        let ca = payload.ca_cert.as_deref().and_then(|pem| match self.certificates.write(pem) {
            Ok(paths) => {
                if paths.partly_bad {
                    tracing::warn!(component = "web-proxy", "ca_certificate_partly_bad");
                }
                Some(paths)
            }
            Err(error) => {
                tracing::warn!(component = "web-proxy", error = %error, "ca_certificate_unusable");
                None
            }
        });
        TurnNet { proxy, ca, credentials: payload.credential_env.clone() }
    }

    async fn clone_from(
        &self,
        config: &Config,
        url: &str,
        net: &TurnNet,
        cancel: &CancellationToken,
    ) -> Result<git::Workspace, Fatal> {
        let environment = net.own_names().into_iter().map(|(name, value)| (name, value.expose().to_owned())).collect();
        let settings = git::Settings {
            workspace: config.workspace.clone(),
            url: url.to_owned(),
            private: self.places.clone(),
            environment,
        };
        tokio::select! {
            opened = git::Workspace::open(&settings) => opened.map_err(|error| Fatal::Git(error.to_string())),
            () = cancel.cancelled() => Err(Fatal::Git("stopped before the repository was ready".to_owned())),
        }
    }

    /// Tells what went through the bridge.
    pub(super) fn log(&self) {
        if let Some(bridge) = &self.bridge {
            bridge.log();
        }
    }

    /// Closes the bridge.
    pub(super) async fn close(self) {
        if let Some(bridge) = self.bridge {
            bridge.stop().await;
        }
    }
}

impl Way {
    /// Is the workspace saved by us?
    pub(super) fn is_ours(&self) -> bool {
        matches!(self.repository, Repository::Own(_))
    }

    /// Saves the workspace, before the answer is sent (PROTOCOL §5.3). What does not work is logged: the answer is worth
    /// more than the commit, and the next turn commits what is left.
    pub(super) async fn leave(self) {
        match self.repository {
            Repository::Elsewhere => {}
            Repository::Sidecar(sidecar) => match sidecar.turn_complete().await {
                Ok(saved) => {
                    tracing::info!(component = "git-sidecar", files = saved.files, "sidecar_commit_complete");
                    if saved.skill_validation_error.is_some() {
                        tracing::warn!(component = "git-sidecar", "skill_rejected");
                    }
                }
                Err(error) => tracing::warn!(component = "git-sidecar", error = %error, "sidecar_commit_failed"),
            },
            Repository::Own(workspace) => match workspace.save().await {
                Ok(git::Save { pushed: Pushed::Failed(error), .. }) => {
                    tracing::warn!(component = "git", error = error.as_str(), "git_push_failed");
                }
                Ok(save) => tracing::info!(component = "git", files = save.files, "git_saved"),
                Err(error) => tracing::warn!(component = "git", error = %error, "git_save_failed"),
            },
        }
    }
}

/// A sidecar that does not answer costs the turn its pull, not its life (PROTOCOL §12.3).
async fn pulled(config: &Config, cancel: &CancellationToken) -> Repository {
    let sidecar = Sidecar::new(config.sidecar_port.as_deref());
    if let Err(error) = sidecar.pull(cancel).await {
        tracing::warn!(component = "git-sidecar", error = %error, "sidecar_pull_failed");
    }
    Repository::Sidecar(sidecar)
}

/// Where small files of ours may go, best first: one of them is writable even on a read-only root.
fn places(config: &Config) -> Vec<PathBuf> {
    let named = ["AX_HOME", "TMPDIR"].into_iter().filter_map(|name| {
        let (_, value) = config.environment.iter().find(|(key, value)| key == name && !value.is_empty())?;
        Some(PathBuf::from(value))
    });
    named.chain([PathBuf::from("/tmp"), config.workspace.join(".ax/tmp")]).collect()
}
