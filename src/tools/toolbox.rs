//! One turn's tools: which there are, and how a call becomes a result.

use super::arguments;
use super::breaker::Breaker;
use super::catalog::{self, Offer};
use super::forward::{self, Outcome, Presented, Spill};
use super::lanes::Lanes;
use super::{Finished, bash, edit_file, glob, grep, read_file, skill_write, write_file};
use crate::gate::{Approved, Gate, Proposal, Refusal};
use crate::link::{CallError, Host};
use crate::os::{self, ChildEnv, Shell};
use crate::wire::{Action, CatalogEntry, Dispatch, DispatchMode, Forward, ToolSpec};
use crate::workspace::{Fingerprint, Root, Workspace};
use crate::{limits, text};
use serde_json::json;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the tools of a turn work with.
pub struct Turn {
    /// The host, for forwarded tools.
    pub host: Host,
    /// The gate, for local ones.
    pub gate: Gate,
    /// Where files are.
    pub workspace: Workspace,
    /// Where commands run.
    pub shell: Arc<Shell>,
    /// What commands are given.
    pub env: ChildEnv,
    /// The conversation: tells whether a person takes part in it (PROTOCOL §9.4).
    pub session_id: Option<String>,
    /// File, shell and search tools run here; otherwise the host runs them (PROTOCOL §7.5).
    pub local: bool,
    /// Catalog tools.
    pub catalog: Vec<CatalogEntry>,
    /// How they are offered.
    pub dispatch: Option<Dispatch>,
}

/// The tools of one turn.
pub struct Toolbox {
    turn: Turn,
    specs: Arc<[ToolSpec]>,
    /// Catalog tools under the name they are offered by, and the host's own name for each.
    direct: BTreeMap<String, String>,
    spill_threshold: u64,
    breaker: Breaker,
    lanes: Lanes,
    root: Arc<Root>,
    acted: AtomicBool,
}

impl Toolbox {
    /// Puts the turn's tools together, in the order of PROTOCOL §7.
    pub fn new(turn: Turn) -> Self {
        let mode = turn.dispatch.map_or(DispatchMode::Indirect, |dispatch| dispatch.mode);
        let Offer { direct, indirect } = catalog::offer(&turn.catalog, mode);
        let meta = mode == DispatchMode::Indirect || !indirect.is_empty();
        let fixed = super::TOOL_NAMES
            .into_iter()
            .filter(|name| meta || !["describe_tools", "call_tool"].contains(name))
            .filter_map(|name| spec(name, turn.local));
        let specs = fixed.chain(direct.iter().map(catalog::Direct::spec)).collect();
        let direct = direct.into_iter().map(|tool| (tool.name, tool.entry.name.clone())).collect();
        let spill_threshold = turn.dispatch.map_or(limits::SPILL_THRESHOLD_BYTES, |it| it.spill_threshold_bytes);
        let (breaker, lanes) = (Breaker::default(), Lanes::default());
        let root = Arc::new(Root::new(turn.workspace.clone()));
        Self { turn, specs, direct, spill_threshold, breaker, lanes, root, acted: AtomicBool::new(false) }
    }

    /// What the model is offered.
    pub fn specs(&self) -> &Arc<[ToolSpec]> {
        &self.specs
    }

    /// Call it between two rounds: see [`Gate::settle`].
    pub async fn settle(&self) {
        self.turn.gate.settle().await;
    }

    /// Can a tool have done anything? Not those that were refused, that the host was never asked about, or whose question
    /// brought no answer.
    pub fn acted(&self) -> bool {
        self.acted.load(Ordering::Relaxed)
    }

    fn act(&self) {
        self.acted.store(true, Ordering::Relaxed);
    }

    /// Is there a tool of this name?
    pub fn has(&self, name: &str) -> bool {
        self.specs.iter().any(|spec| spec.name == name)
    }

    /// What the model is told of a name that is no tool's (PROTOCOL §6.7).
    pub fn not_found(&self, name: &str) -> String {
        let name = text::cut_units(name, limits::TOOL_ID_MAX_UNITS);
        if name.is_empty() {
            return "Tool not found: the call names none".to_owned();
        }
        match self.has("call_tool") && self.turn.catalog.iter().any(|entry| entry.name == name) {
            true => format!("Tool {name} not found: call it through call_tool, with its name as `tool`"),
            false => format!("Tool {name} not found"),
        }
    }

    /// Does this tool write files here?
    pub fn writes(&self, name: &str) -> bool {
        self.turn.local && ["write_file", "edit_file", "skill_write"].contains(&name)
    }

    /// Runs a call to its end. The text is for the model and never empty.
    pub async fn invoke(&self, name: &str, args: &str) -> String {
        // Before a command can have taken the last one.
        os::keep_thread();
        let _lane = if self.writes(name) { self.lanes.enter(self.written(args)).await } else { None };
        let session = self.turn.session_id.clone();
        let cancel = self.turn.host.cancel().clone();
        let outcome = match (name, self.turn.local) {
            ("bash", true) => self.bash(args).await,
            ("read_file", true) => self.file("read_file", args, read_file::Call::prepare, read_file::run).await,
            ("write_file", true) => {
                let guarded =
                    move |args, ws: &Workspace| write_file::Call::prepare(args, ws)?.guarded(ws, session.as_deref());
                self.file("write_file", args, guarded, write_file::run).await
            }
            ("edit_file", true) => {
                let guarded =
                    move |args, ws: &Workspace| edit_file::Call::prepare(args, ws)?.guarded(ws, session.as_deref());
                self.file("edit_file", args, guarded, edit_file::run).await
            }
            ("skill_write", true) => {
                let prepare = move |args, ws: &Workspace| skill_write::Call::prepare(args, ws, session.as_deref());
                self.file("skill_write", args, prepare, skill_write::run).await
            }
            ("grep", true) => {
                let run = move |call, ws: &Workspace| grep::run(call, ws, &cancel);
                self.file("grep", args, grep::Call::prepare, run).await
            }
            ("glob", true) => {
                let run = move |call, ws: &Workspace| glob::run(call, ws, &cancel);
                self.file("glob", args, glob::Call::prepare, run).await
            }
            _ => self.forwarded(name, args).await,
        };
        outcome.unwrap_or_else(|error| match error.starts_with("Error ") {
            true => error,
            false => format!("Error: {error}"),
        })
    }

    /// The file that the arguments of a writing tool name, its links resolved as far as they go.
    async fn written(&self, args: &str) -> Option<PathBuf> {
        let fields = arguments::object("", Some(args)).ok()?;
        let named = |key| fields.get(key).and_then(serde_json::Value::as_str);
        let path = named("path").map(str::to_owned).or_else(|| named("name").map(skill_write::path))?;
        let root = self.root.clone();
        let look = move || {
            let (workspace, _) = root.current().ok()?;
            let path = workspace.path(&path).ok()?;
            Some(workspace.locate(&path).map_or_else(|_| path.as_path().to_owned(), |at| at.path))
        };
        blocking(look).await.ok()?
    }

    async fn bash(&self, args: &str) -> Result<String, String> {
        let call: bash::Args = arguments::read("bash", Some(args)).map_err(|error| error.to_string())?;
        let call = match self.turn.gate.approve(call).await {
            Ok(call) => call,
            Err(Refusal::Denied(reason)) => return Ok(json!({"output": format!("Denied: {reason}")}).to_string()),
            Err(refusal) => return Err(refusal.to_string()),
        };
        self.act();
        let turn = &self.turn;
        let (workspace, repair) = self.root.current().map_err(|error| error.to_string())?;
        let place = bash::Place { shell: &turn.shell, env: &turn.env, workspace: workspace.root(), repair };
        Ok(self.report(bash::run(call, place, turn.host.cancel()).await).await)
    }

    /// A tool that works on files: what must be known before the approval is taken first, the rest runs on a thread of its
    /// own so that a slow disk holds up nobody else.
    async fn file<A, C>(
        &self,
        name: &'static str,
        args: &str,
        prepare: impl FnOnce(A, &Workspace) -> Result<C, String> + Send + 'static,
        run: impl FnOnce(Approved<C>, &Workspace) -> Finished + Send + 'static,
    ) -> Result<String, String>
    where
        A: serde::de::DeserializeOwned + Send + 'static,
        C: Proposal + Send + 'static,
    {
        let args: A = arguments::read(name, Some(args)).map_err(|error| error.to_string())?;
        let root = self.root.clone();
        let prepared = blocking(move || {
            let (workspace, _) = root.current().map_err(|error| error.to_string())?;
            Ok::<_, String>((prepare(args, &workspace)?, workspace))
        });
        let (call, workspace) = match prepared.await? {
            Ok(prepared) => prepared,
            Err(error) => return Ok(json!({"error": error}).to_string()),
        };
        let call = match self.turn.gate.approve(call).await {
            Ok(call) => call,
            Err(refusal) => return Ok(json!({"error": refusal.to_string()}).to_string()),
        };
        self.act();
        Ok(self.report(blocking(move || run(call, &workspace)).await?).await)
    }

    async fn report(&self, finished: Finished) -> String {
        if let Some(report) = finished.report {
            self.turn.gate.report(report).await;
        }
        finished.text
    }

    async fn forwarded(&self, name: &str, args: &str) -> Result<String, String> {
        let forward = match self.direct.get(name) {
            Some(entry) => forward::decode_catalog(entry, Some(args))?,
            None => forward::decode(name, Some(args))?,
        };
        if let Some(fault) = self.lacking(&forward) {
            return Err(format!("{name}: {fault}"));
        }
        // Three catalog tools that fail once each are not one tool that fails three times (PROTOCOL T28), and a memory that
        // cannot be listed may still be written.
        let key = match forward.fields().get("tool").and_then(serde_json::Value::as_str) {
            Some(tool) if forward.name() == "call_tool" => tool.to_owned(),
            _ => forward.name().to_owned(),
        };
        if let Some(refusal) = self.breaker.refusal(&key) {
            return Err(refusal);
        }
        let presented = self.call(forward).await;
        self.breaker.record(&key, presented.failed);
        Ok(presented.text)
    }

    /// What a call of a catalog tool lacks, by whichever way it comes.
    fn lacking(&self, forward: &Forward) -> Option<String> {
        let fields = forward.fields();
        let tool = fields.get("tool").filter(|_| forward.name() == "call_tool")?.as_str()?;
        let entry = self.turn.catalog.iter().find(|entry| entry.name == tool)?;
        catalog::missing(entry, fields.get("args")?.as_object()?)
    }

    async fn call(&self, forward: Forward) -> Presented {
        let action = forward.name();
        let call = Action::Forward(forward);
        let reads = call.repeatable();
        let reply = self.turn.host.call(&call).await;
        match reply {
            Err(CallError::NotSent(_) | CallError::TooLarge { .. } | CallError::Unencodable) => {}
            Err(_) if reads => {}
            _ => self.act(),
        }
        match reply {
            Err(error) => forward::present_error(&error, reads),
            Ok(reply) => match forward::present(action, &reply, reads, self.spill_threshold) {
                Outcome::Text(presented) => presented,
                Outcome::Spill(spill) => self.spill(spill).await,
            },
        }
    }

    /// A result too large for the conversation goes to a file that `read_file` and `grep` can reach (PROTOCOL §7.2).
    async fn spill(&self, spill: Spill) -> Presented {
        let path = format!("{}/tool-{:016x}.{}", limits::SPILL_DIRECTORY, unguessable(), spill.extension);
        let (root, target, content) = (self.root.clone(), path.clone(), spill.content.clone());
        let store = move || {
            let (workspace, _) = root.current().map_err(|error| error.to_string())?;
            store(&workspace, &target, content.as_bytes())
        };
        let written = blocking(store).await.and_then(|it| it);
        match written {
            Ok(()) => spill.stored_at(&path),
            Err(error) => spill.not_stored(&error),
        }
    }
}

fn store(workspace: &Workspace, path: &str, content: &[u8]) -> Result<(), String> {
    // The agent's repository is committed after each turn; these files are not worth keeping.
    create(workspace, &format!("{}/.gitignore", limits::SPILL_DIRECTORY), b"*\n")?;
    create(workspace, path, content)
}

/// Makes a file, and leaves one that is there. Nobody approved this write, so it must not go where a link leads.
fn create(workspace: &Workspace, path: &str, content: &[u8]) -> Result<(), String> {
    let target = workspace.path(path).map_err(|error| error.to_string())?;
    if workspace.locate(&target).is_ok_and(|at| at.path != target.as_path()) {
        return Err(format!("{path} leads through a link; remove the link"));
    }
    match workspace.fingerprint(&target).map_err(|error| error.to_string())? {
        Fingerprint::Present { .. } => Ok(()),
        absent => workspace.write_atomic(&target, content, &absent).map(drop).map_err(|error| error.to_string()),
    }
}

/// A number nobody can guess: what is planted under the name of a file to come would be taken for it.
fn unguessable() -> u64 {
    RandomState::new().build_hasher().finish()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    os::blocking(work).await.map_err(|error| error.to_string())
}

fn spec(name: &str, local: bool) -> Option<ToolSpec> {
    match name {
        "bash" if local => Some(bash::spec()),
        "read_file" if local => Some(read_file::spec()),
        "write_file" if local => Some(write_file::spec()),
        "edit_file" if local => Some(edit_file::spec()),
        "skill_write" if local => Some(skill_write::spec()),
        "grep" if local => Some(grep::spec()),
        "glob" if local => Some(glob::spec()),
        _ => forward::spec(name),
    }
}
