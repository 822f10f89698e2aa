//! A session: what outlives a turn, and the order of things within one (PROTOCOL §2.4, §5.3).

use super::config::{Config, Transport};
use super::exit::Fatal;
use super::outside::{Outside, Way};
use crate::agent::{self, Brief, Failure};
use crate::gate::Gate;
use crate::link::{CallContext, CallError, Host, HostLink};
use crate::os::guard::Setting;
use crate::os::{ChildEnv, Shell, StartError};
use crate::prompt::{self, Clock, Form, PromptInput};
use crate::text::cut_units;
use crate::tools::{Toolbox, Turn};
use crate::wire::{CatalogEntry, Dispatch, DispatchMode, Identity, Meta, Payload, SkillInfo};
use crate::workspace::Workspace;
use crate::{limits, log};
use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a session keeps from turn to turn.
pub(super) struct Session {
    config: Config,
    link: Arc<dyn HostLink>,
    shell: Arc<Shell>,
    outside: Outside,
    carried: Carried,
    /// Opened in the first turn and never looked up again: by then a command may have put a link in its place.
    workspace: Option<Workspace>,
}

/// What a payload replaces only where it has something to say (PROTOCOL §2.4).
#[derive(Default)]
struct Carried {
    context: CallContext,
    identity: Identity,
    skills: Vec<SkillInfo>,
    catalog: Vec<CatalogEntry>,
    dispatch: Option<Dispatch>,
}

/// How a turn ended.
pub(super) struct TurnEnd {
    /// What the model said.
    pub answer: String,
    /// What kept it from finishing.
    pub failure: Option<Failure>,
    /// A tool can have done something. While none has, running the turn again does no harm.
    pub acted: bool,
}

impl TurnEnd {
    /// The connection to the host is gone.
    pub(super) fn link_lost(&self) -> Option<CallError> {
        match &self.failure {
            Some(Failure::Link(error @ (CallError::NotSent(_) | CallError::OutcomeUnknown))) => Some(error.clone()),
            Some(failure @ Failure::HostGone) => Some(CallError::NotSent(failure.to_string())),
            _ => None,
        }
    }

    /// The turn was cancelled.
    pub(super) fn stopped(&self) -> bool {
        matches!(self.failure, Some(Failure::Link(CallError::Cancelled)))
    }

    /// What the user is told beyond the model's words: a failed turn is never an empty success (PROTOCOL T1).
    pub(super) fn told(&self) -> String {
        let gap = if self.answer.is_empty() { "" } else { "\n\n" };
        match &self.failure {
            None => String::new(),
            Some(_) if self.stopped() => format!("{gap}[The turn was stopped before it was finished.]"),
            Some(failure) => format!("{gap}[The turn could not be finished: {failure}]"),
        }
    }
}

impl Session {
    pub(super) fn new(config: Config, link: Arc<dyn HostLink>) -> Result<Self, Fatal> {
        let context = CallContext { meta: Meta::default(), token: config.pod_token.clone() };
        let carried = Carried { context, ..Carried::default() };
        let outside = Outside::open(&config);
        let shell = Arc::new(shell(&config)?);
        Ok(Self { config, link, shell, outside, carried, workspace: None })
    }

    /// Takes over what the payload says and returns the host as this turn calls it.
    pub(super) fn apply(&mut self, payload: &Payload, stop: &CancellationToken) -> Host {
        let carried = &mut self.carried;
        let replace = |old: &mut Option<String>, new: &Option<String>| {
            if new.is_some() {
                old.clone_from(new);
            }
        };
        let meta = &mut carried.context.meta;
        replace(&mut meta.session_id, &payload.session_id);
        replace(&mut meta.request_id, &payload.request_id);
        replace(&mut meta.user_id, &payload.user_id);
        replace(&mut meta.session_scope, &payload.session_scope);
        if payload.ipc_token.is_some() {
            carried.context.token.clone_from(&payload.ipc_token);
        }
        if let Some(identity) = &payload.identity {
            carried.identity.clone_from(identity);
        }
        if let Some(skills) = &payload.skills {
            carried.skills.clone_from(skills);
        }
        if let Some(catalog) = &payload.catalog {
            carried.catalog.clone_from(catalog);
        }
        if payload.dispatch.is_some() {
            carried.dispatch = payload.dispatch;
        }
        if let Some(authority) = &payload.ca_cert {
            self.link.trust(authority);
        }
        if let Some(id) = &payload.request_id {
            log::set_request_id(id);
        }
        Host::new(self.link.clone(), carried.context.clone(), stop.child_token())
    }

    /// Runs one turn on the host that [`Self::apply`] gave; `say` gets the model's text as it comes.
    pub(super) async fn turn(
        &mut self,
        host: &Host,
        payload: &Payload,
        say: &mut (dyn FnMut(&str) + Send),
    ) -> Result<TurnEnd, Fatal> {
        let mut way = self.outside.enter(&self.config, payload, host.cancel()).await?;
        let workspace = self.workspace(host.cancel()).await?;
        let gate = Gate::new(host.clone(), std::mem::take(&mut way.redactor));
        let tools = Arc::new(Toolbox::new(Turn {
            host: host.clone(),
            gate: gate.clone(),
            workspace,
            shell: self.shell.clone(),
            env: self.environment(&way),
            session_id: self.carried.context.meta.session_id.clone(),
            local: payload.sandbox_type.is_container(),
            catalog: self.carried.catalog.clone(),
            dispatch: self.carried.dispatch,
        }));
        let brief = Brief {
            model: self.config.model.clone(),
            max_tokens: self.config.max_tokens,
            system: self.prompt(payload),
        };
        // Not at the level of everyday: the first line starts the log's thread, and the model call should go out before.
        tracing::debug!(component = "runner", history = payload.history.len(), "turn_started");
        let ended = attended(agent::run(&brief, payload, host, &tools, say), host).await;
        gate.flush().await;
        if !host.cancel().is_cancelled() {
            if way.is_ours() && matches!(self.config.transport, Transport::Connect(_)) {
                // The session ends anyway. Nothing writes while the workspace is saved, nor looks into git, which knows the
                // repository's password.
                self.end_commands().await;
            }
            way.leave().await;
        }
        self.outside.log();
        tracing::info!(
            component = "runner",
            tools = ended.tools_started,
            input_tokens = ended.usage.input_tokens,
            output_tokens = ended.usage.output_tokens,
            finished = ended.failure.is_none(),
            "turn_finished"
        );
        Ok(TurnEnd { answer: ended.answer, failure: ended.failure, acted: tools.acted() })
    }

    /// Ends the commands the turns have left running.
    pub(super) async fn end_commands(&self) {
        self.shell.shutdown().await;
    }

    /// Ends everything the turns have left running.
    pub(super) async fn shutdown(self) {
        self.shell.shutdown().await;
        self.outside.close().await;
    }

    /// The workspace, once the host has seeded it (PROTOCOL §1.11).
    async fn workspace(&mut self, cancel: &CancellationToken) -> Result<Workspace, Fatal> {
        if let Some(workspace) = &self.workspace {
            return Ok(workspace.clone());
        }
        let root = &self.config.workspace;
        let unusable = |reason: &str| Fatal::Workspace { path: root.clone(), reason: reason.to_owned() };
        if !root.is_absolute() {
            return Err(unusable("AX_WORKSPACE is not an absolute path"));
        }
        // It may come late, but what is there and is no directory will not become one.
        if root.exists() && !root.is_dir() {
            return Err(unusable("not a directory"));
        }
        let ready = async {
            while !root.join(".ax").exists() {
                tokio::time::sleep(limits::WORKSPACE_POLL).await;
            }
        };
        tokio::select! {
            () = ready => {}
            () = tokio::time::sleep(limits::WORKSPACE_WAIT) => {
                tracing::warn!(component = "runner", "workspace_not_seeded");
            }
            () = cancel.cancelled() => {}
        }
        let opened = Workspace::open(root).map_err(|error| unusable(&error.to_string()))?;
        self.workspace = Some(opened.clone());
        Ok(opened)
    }

    /// What commands get: the allow-list, then what the turn brings.
    fn environment(&self, way: &Way) -> ChildEnv {
        let mut env = ChildEnv::new(&self.config.workspace, self.config.environment.iter().cloned());
        let refused = env.extend(way.variables.iter().map(|(name, value)| (name.as_str(), value.expose())));
        if !refused.is_empty() {
            tracing::warn!(component = "runner", names = refused.join(" ").as_str(), "variable_names_refused");
        }
        env
    }

    fn prompt(&self, payload: &Payload) -> String {
        let workspace = self.config.workspace.to_string_lossy();
        let tz = self.config.environment.iter().find(|(name, _)| name == "TZ");
        let clock = Clock::now(tz.and_then(|(_, value)| value.to_str()));
        let mut input =
            PromptInput::from_payload(payload, &self.carried.identity, &self.config.agent, &workspace, clock);
        // Set by `enter`, never by a payload.
        let agents = self.config.environment.iter().find(|(name, _)| name == "AX_AGENTS_DIR");
        input.agents_dir = agents.and_then(|(_, value)| value.to_str());
        input.skills = &self.carried.skills;
        input.catalog = &self.carried.catalog;
        input.dispatch = self.carried.dispatch.map_or(DispatchMode::Indirect, |dispatch| dispatch.mode);
        let prompt = prompt::build(&input);
        if !input.catalog.is_empty() {
            catalog_received(input.catalog, prompt.form("tool-catalog"));
        }
        prompt.text
    }
}

/// How many tools there are by skill, and what the prompt says of them (PROTOCOL §13).
fn catalog_received(catalog: &[CatalogEntry], section: Option<Form>) {
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    catalog.iter().for_each(|entry| *sizes.entry(&entry.skill).or_default() += 1);
    let sizes = sizes.iter().map(|(skill, size)| format!("{skill}: {size}")).collect::<Vec<_>>().join(", ");
    tracing::info!(
        component = "agent-setup",
        tools = catalog.len(),
        skills = cut_units(&sizes, limits::PROMPT_SUMMARY_MAX_UNITS),
        section = section.map(|form| format!("{form:?}").to_lowercase()),
        "agent_catalog_received"
    );
}

/// The turn, stopped when the host is gone: a command can take ten minutes, and until it ends nothing is asked.
async fn attended(turn: impl Future<Output = agent::Ended>, host: &Host) -> agent::Ended {
    tokio::pin!(turn);
    tokio::select! {
        biased;
        ended = &mut turn => ended,
        () = host.gone() => {
            tracing::error!(component = "runner", "host_gone");
            host.cancel().cancel();
            let ended = turn.await;
            agent::Ended { failure: ended.failure.map(|_| Failure::HostGone), ..ended }
        }
    }
}

/// Where commands run. Only in connect mode has the host a socket that they could reach (DESIGN §4.11).
fn shell(config: &Config) -> Result<Shell, Fatal> {
    let Transport::Connect(socket) = &config.transport else { return Ok(Shell::new()) };
    let sockets = [socket].into_iter().chain(&config.proxy_socket).cloned().chain(beside(socket)).collect();
    let shell = Shell::secluding(config.unix_sockets, sockets);
    if config.unix_sockets == Setting::Guard {
        // Asked for by name: without it nothing runs.
        shell.seclusion().map_err(|error| match error {
            StartError::Resources { error, .. } => Fatal::Resources(error.to_string()),
            StartError::Unguarded(reason) => Fatal::UnixSockets(reason),
            other => Fatal::UnixSockets(other.to_string()),
        })?;
    }
    Ok(shell)
}

/// The host's other sockets: its directory is shared with the container whole (PROTOCOL §1.7), a credential proxy's among
/// them. Those of a known name count even where they come later.
fn beside(socket: &Path) -> Vec<PathBuf> {
    let Some(directory) = socket.parent() else { return Vec::new() };
    let there = [directory.to_owned(), directory.join("bridges")].into_iter().filter_map(|place| place.read_dir().ok());
    let sockets = there.flatten().filter_map(|entry| {
        let entry = entry.ok()?;
        entry.file_type().ok()?.is_socket().then(|| entry.path())
    });
    sockets.chain(["anthropic-proxy.sock", "web-proxy.sock"].map(|name| directory.join(name))).collect()
}
