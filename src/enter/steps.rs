//! The start, step by step.

use super::command::Job;
use super::environment::Environment;
use super::policy::{Mode, Policy};
use super::report::{Level, Reporter};
use super::signals::Signals;
use super::{
    Failure, cli, engine, env_file, home, hosts, interfaces, launch, nft, probe, resolve, ruleset, trust, workdir,
};
use crate::os::privileges::{self, Bounding, Holdings, Identity};
use crate::{limits, os};
use caps::Capability;
use nix::sys::statvfs::{FsFlags, statvfs};
use serde_json::json;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Whom the payload runs as when we are root.
const AGENT: Identity = Identity { uid: 1000, gid: 1000 };
/// Seed of the home directory when the policy names none.
const HOME_SEED: &str = "/etc/ax/home";
/// Read-only skills and instructions shared with the agent, below its home directory.
const AGENTS: &str = ".agents";

/// Tells the payload, and `doctor` in it, who closes the network.
const ENFORCED_BY: &str = "AX_NET_ENFORCED_BY";

/// Everything, in order.
pub(crate) fn run(args: Vec<OsString>) -> Result<u8, Failure> {
    // A socket below the packet rules, or a directory of the machine's, that whoever started us forgot to close.
    os::close_inherited();
    os::hear_children().map_err(|error| Failure::Privilege(error.to_string()))?;
    os::signals::disregard_others();
    os::signals::disregard_file_size();
    let signals =
        Signals::block(&[]).map_err(|errno| Failure::Privilege(format!("signals cannot be blocked: {errno}")))?;
    let options = cli::read(args).map_err(|error| Failure::Policy(format!("{error}; see ax-runner enter --help")))?;
    if options.help {
        return print(cli::HELP);
    }
    let mut environment = Environment::current();
    let report = Reporter::new(environment.get("LOG_LEVEL").unwrap_or(None));
    let holdings = Holdings::read()
        .map_err(|errno| Failure::Privilege(format!("the kernel does not say what we hold: {errno}")))?;
    let networks = interfaces::beyond_loopback();
    let policy = Policy::find(options.policy.as_deref(), &environment)
        .and_then(|policy| {
            let isolated = networks.as_ref().is_ok_and(BTreeSet::is_empty);
            policy.decided(isolated, holdings.can(Capability::CAP_NET_ADMIN), &environment)
        })
        .map_err(Failure::policy)?;
    let workspace = environment.path("AX_WORKSPACE").map(Path::to_owned);
    let identity = identity(&holdings, options.keep_root);
    let agent = agent(identity, &holdings, workspace.clone());
    if options.print {
        let refusal = load_files(&policy, &options.env_files, &agent, &mut environment).err();
        return print(&printed(&policy, refusal.as_ref()));
    }
    let drop = plan_drop(&holdings, &policy, identity)?;
    let home = home_of(agent.uid);
    if let Some(workspace) = &workspace {
        workdir::check(workspace, home.as_deref()).map_err(Failure::policy)?;
    }
    load_files(&policy, &options.env_files, &agent, &mut environment)?;
    close_network(&policy, networks, &mut environment, &signals, report)?;
    give_up(&drop, &policy, report)?;
    environment.set(ENFORCED_BY, enforcer(&policy));
    settle(&mut environment, workspace.as_deref(), home, &drop, &policy, report);
    launch::launch(Job::read(options.command), &environment, signals)
}

/// Whom the payload runs as when it is not who we are.
fn identity(holdings: &Holdings, keep_root: bool) -> Option<Identity> {
    (holdings.uids.contains(&0) && !keep_root).then_some(AGENT)
}

fn agent(identity: Option<Identity>, holdings: &Holdings, workspace: Option<PathBuf>) -> trust::Agent {
    let (uid, gids) = match identity {
        Some(identity) => (identity.uid, vec![identity.gid]),
        None => (holdings.uids[1], holdings.gids.iter().chain(&holdings.groups).copied().collect()),
    };
    trust::Agent { uid, gids, workspace }
}

/// Takes the environment files, and sees that neither they nor the policy are the agent's to write. When we are the agent
/// an environment file must be: others could not read it.
fn load_files(
    policy: &Policy,
    more: &[PathBuf],
    agent: &trust::Agent,
    environment: &mut Environment,
) -> Result<(), Failure> {
    let env_files = || policy.env_files.iter().chain(more);
    env_files().try_for_each(|file| env_file::load(file, environment)).map_err(Failure::policy)?;
    let is_agent = nix::unistd::geteuid().as_raw() == agent.uid;
    let judged = env_files().filter(|_| !is_agent).map(|file| ("environment file", file));
    let mut judged = policy.file.iter().map(|file| ("policy file", file)).chain(judged);
    judged.try_for_each(|(what, file)| trust::check(what, file, agent)).map_err(Failure::policy)
}

fn enforcer(policy: &Policy) -> String {
    match policy.mode {
        Mode::Isolated => "isolated: there is no network".to_owned(),
        Mode::External | Mode::Auto => {
            format!("external: {}", policy.enforced_by.as_deref().unwrap_or("the platform (not checked here)"))
        }
        mode => format!("{}: packet rules loaded by ax-runner enter", mode.name()),
    }
}

struct Drop {
    identity: Option<Identity>,
    bounding: Bounding,
}

/// Decides what is given up and refuses early what could not be, while nothing has been touched.
fn plan_drop(holdings: &Holdings, policy: &Policy, identity: Option<Identity>) -> Result<Drop, Failure> {
    if engine::is_privileged_container() {
        let remedy = "start it without --privileged, with --cap-drop=ALL and only the capabilities it needs";
        return Err(Failure::Privilege(format!("the container is privileged, so nothing here could hold: {remedy}")));
    }
    let root = holdings.uids.contains(&0);
    let unprivileged = !root && holdings.set("permitted") == 0;
    let mut needed = Vec::new();
    if policy.mode.is_enforced_here() {
        needed.push(Capability::CAP_NET_ADMIN);
    }
    if identity.is_some() {
        needed.extend([Capability::CAP_SETUID, Capability::CAP_SETGID]);
    }
    if (root || policy.mode.is_enforced_here()) && holdings.set("bounding") != 0 {
        needed.push(Capability::CAP_SETPCAP);
    }
    let missing: Vec<_> = needed
        .into_iter()
        .filter(|capability| !holdings.can(*capability))
        .map(|capability| capability.to_string().trim_start_matches("CAP_").to_owned())
        .collect();
    if !missing.is_empty() {
        return Err(lacking(&missing.join(", "), policy, holdings));
    }
    let bounding = if unprivileged { Bounding::Leave } else { Bounding::Empty };
    Ok(Drop { identity, bounding })
}

fn lacking(missing: &str, policy: &Policy, holdings: &Holdings) -> Failure {
    let (mode, uid) = (policy.mode.name(), holdings.uids[1]);
    let kernel = if engine::is_gvisor() { ", and this kernel is gVisor, which has no nftables" } else { "" };
    if policy.mode.is_enforced_here() {
        Failure::Enforce(format!(
            "the mode {mode} needs {missing}, which uid {uid} lacks here{kernel}: start as root with --cap-add \
             NET_ADMIN,SETUID,SETGID,SETPCAP, or let the platform enforce and say AX_NET_POLICY=external"
        ))
    } else {
        Failure::Privilege(format!(
            "uid {uid} lacks {missing}: start with --user 1000:1000, or add SETUID,SETGID,SETPCAP"
        ))
    }
}

/// Makes the policy true, or proves that it is.
fn close_network(
    policy: &Policy,
    networks: Result<BTreeSet<String>, nix::errno::Errno>,
    environment: &mut Environment,
    signals: &Signals,
    report: Reporter,
) -> Result<(), Failure> {
    match policy.mode {
        Mode::Isolated => match networks {
            Ok(found) if found.is_empty() => report.event(Level::Info, "egress_isolated", json!({"mode": "isolated"})),
            Ok(found) => {
                let found = found.into_iter().collect::<Vec<_>>().join(", ");
                return Err(Failure::Enforce(format!(
                    "the mode isolated is set, but there is a network ({found}): start with --network=none, or name a mode that enforces"
                )));
            }
            Err(errno) => return Err(Failure::Enforce(format!("the network interfaces cannot be listed: {errno}"))),
        },
        Mode::External | Mode::Auto => {
            let by = policy.enforced_by.as_deref().unwrap_or("the platform (not checked here)");
            // Said by the operator, it is for the record; decided for want of anything better, it is a warning.
            let level = if policy.declared { Level::Info } else { Level::Warn };
            report.event(
                level,
                "egress_external",
                json!({"mode": "external", "enforcedBy": by, "source": policy.source, "gvisor": engine::is_gvisor()}),
            );
        }
        Mode::None | Mode::Gate | Mode::Allow => enforce(policy, environment, signals, report)?,
    }
    Ok(())
}

fn enforce(policy: &Policy, env: &mut Environment, signals: &Signals, report: Reporter) -> Result<(), Failure> {
    let end = Instant::now() + limits::ENFORCE_DEADLINE;
    let program = nft::find().map_err(enforcement)?;
    let addresses = resolve::resolve(&policy.allow, signals).map_err(|error| match error {
        resolve::ResolveError::Signal(signal) => Failure::Signal(signal),
        other => Failure::Enforce(other.to_string()),
    })?;
    let allowed = resolve::socket_addresses(&policy.allow, &addresses);
    keep_names_usable(policy, env, &addresses, report)?;
    nft::run(&program, &["-f", "-"], &ruleset::render(&allowed), signals, end).map_err(enforcement)?;
    listing(&program, &allowed, signals, end)?;
    let attempts = probe::forbidden_is_refused().map_err(|error| Failure::Enforce(error.to_string()))?;
    let after = listing(&program, &allowed, signals, end)?;
    if after.refused < attempts.min(1) {
        return Err(Failure::Enforce("a probe was refused, but not by the rules that were loaded".to_owned()));
    }
    let shown: Vec<_> = allowed.iter().map(ToString::to_string).collect();
    report.event(
        Level::Info,
        "egress_enforced",
        json!({"mode": policy.mode.name(), "source": policy.source, "allowed": shown, "probesRefused": attempts}),
    );
    Ok(())
}

fn enforcement(error: nft::NftError) -> Failure {
    match error {
        nft::NftError::Signal(signal) => Failure::Signal(signal),
        other if engine::is_gvisor() => Failure::Enforce(format!(
            "{other}; this kernel is gVisor, which does not support the rules: let the platform enforce and say AX_NET_POLICY=external"
        )),
        other => Failure::Enforce(other.to_string()),
    }
}

fn listing(
    program: &Path,
    allowed: &BTreeSet<SocketAddr>,
    signals: &Signals,
    end: Instant,
) -> Result<ruleset::Listing, Failure> {
    let words = ["-j", "list", "table", "inet", ruleset::TABLE];
    let text = nft::run(program, &words, "", signals, end).map_err(enforcement)?;
    ruleset::check(&text, allowed)
        .map_err(|what| Failure::Enforce(format!("nft loaded the rules, but reading them back differs: {what}")))
}

fn keep_names_usable(
    policy: &Policy,
    environment: &mut Environment,
    addresses: &resolve::Addresses,
    report: Reporter,
) -> Result<(), Failure> {
    let https = hosts::rewrite_urls(environment, addresses);
    if addresses.is_empty() || (policy.mode == Mode::Gate && https.is_empty()) {
        return Ok(());
    }
    match hosts::add(Path::new("/etc/hosts"), addresses) {
        Ok(()) => Ok(()),
        Err(error) if https.is_empty() => {
            report.event(
                Level::Warn,
                "hosts_file_not_written",
                json!({"error": error.to_string(), "remedy": "use addresses, or mount a writable /etc/hosts"}),
            );
            Ok(())
        }
        Err(error) => Err(Failure::Enforce(format!(
            "{} is reached over https by name, and /etc/hosts cannot be written ({error}): add the name there",
            https.join(", ")
        ))),
    }
}

fn give_up(drop: &Drop, policy: &Policy, report: Reporter) -> Result<(), Failure> {
    privileges::drop_all(drop.identity, drop.bounding).map_err(|error| Failure::Privilege(error.to_string()))?;
    match privileges::confine_sockets() {
        Ok(()) => Ok(()),
        Err(error) if policy.mode == Mode::External => {
            report.event(Level::Warn, "socket_families_open", json!({"error": error}));
            Ok(())
        }
        Err(error) => Err(Failure::Enforce(format!(
            "socket families that no packet filter sees cannot be refused: {error}; use a kernel with seccomp filters"
        ))),
    }
}

/// Makes the place comfortable. Nothing here can fail the start: the payload says itself what it misses.
fn settle(
    environment: &mut Environment,
    workspace: Option<&Path>,
    home: Option<PathBuf>,
    drop: &Drop,
    policy: &Policy,
    report: Reporter,
) {
    environment.complete_path();
    for name in ["AX_NET_POLICY", "AX_NET_ALLOW", "AX_AGENTS_DIR"] {
        environment.remove(name);
    }
    let given = environment.path("HOME").filter(|path| *path != Path::new("/")).map(Path::to_owned);
    // Root's home is of no use to whom we have become.
    let home = if drop.identity.is_some() { home } else { given.or(home) }.or_else(|| workspace.map(Path::to_owned));
    if let Some(home) = &home {
        environment.set("HOME", home.as_os_str());
        seed_home(home, policy, report);
        announce_agents(home, environment, report);
    }
    if let Some(workspace) = workspace {
        let _ = nix::unistd::chdir(workspace);
        if let Some(trouble) = workdir::trouble(workspace) {
            report.event(Level::Warn, "workspace_unusable", json!({"error": trouble}));
        }
    }
}

fn seed_home(home: &Path, policy: &Policy, report: Reporter) {
    let seed = policy.home_seed.clone().unwrap_or_else(|| PathBuf::from(HOME_SEED));
    if policy.home_seed.is_none() && !seed.is_dir() {
        return;
    }
    match home::seed(&seed, home) {
        Ok(done) if done == home::Seeded::default() => {}
        Ok(done) => {
            let level = if done.failed.is_empty() { Level::Info } else { Level::Warn };
            let failed: Vec<_> =
                done.failed.iter().map(|(path, why)| format!("{}: {why}", path.display())).take(10).collect();
            let kept: Vec<_> = done.kept.iter().map(|path| path.display().to_string()).take(50).collect();
            report.event(level, "home_seeded", json!({"written": done.written, "kept": kept, "failed": failed}));
        }
        Err(error) => report.event(Level::Warn, "home_not_seeded", json!({"seed": seed, "error": error.to_string()})),
    }
}

/// A share the agent could write would be a way to plant instructions for later runs, so only one on a read-only mount
/// counts: permissions its owner can change back, and a link the agent can put elsewhere.
fn announce_agents(home: &Path, environment: &mut Environment, report: Reporter) {
    let share = home.join(AGENTS);
    let Ok(metadata) = share.symlink_metadata() else { return };
    let read_only = || statvfs(&share).is_ok_and(|stat| stat.flags().contains(FsFlags::ST_RDONLY));
    if metadata.is_dir() && read_only() {
        environment.set("AX_AGENTS_DIR", share.as_os_str());
    } else {
        report.event(Level::Warn, "agents_dir_writable", json!({"path": share, "remedy": "mount it read-only"}));
    }
}

/// The home directory in the image's own user list.
fn home_of(uid: u32) -> Option<PathBuf> {
    // Comment fields in some old encoding must not hide the other lines.
    let bytes = std::fs::read("/etc/passwd").ok()?;
    let list = String::from_utf8_lossy(&bytes);
    let line = list
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.len() >= 6 && fields[2].parse() == Ok(uid))?;
    Some(PathBuf::from(line[5])).filter(|home| home.is_absolute() && home != Path::new("/"))
}

/// Policy and rules as one text that `nft -c -f -` takes. It may be read where the start will not be, so what would refuse
/// the start is said in it and fails nothing.
fn printed(policy: &Policy, refusal: Option<&Failure>) -> String {
    let shown: Vec<_> = policy.allow.iter().map(ToString::to_string).collect();
    let line = json!({
        "mode": policy.mode.name(), "source": policy.source, "allow": shown, "enforcedBy": policy.enforced_by,
        "enforcedHere": policy.mode.is_enforced_here(), "envFiles": policy.env_files, "homeSeed": policy.home_seed,
    });
    let mut text = format!("# policy: {line}\n");
    if let Some(failure) = refusal {
        let words = failure.to_string().replace(char::is_control, " ");
        text.push_str(&format!("# a start here would end with {}: {words}\n", failure.code()));
    }
    if policy.mode.is_enforced_here() {
        for name in super::policy::names(&policy.allow) {
            text.push_str(&format!("# {name} is resolved at the start; its addresses are not in this text\n"));
        }
        text.push_str(&ruleset::render(&resolve::socket_addresses(&policy.allow, &resolve::Addresses::new())));
    } else {
        text.push_str("# no rules are loaded in this mode\n");
    }
    text
}

fn print(text: &str) -> Result<u8, Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => Ok(0),
        Err(error) => Err(Failure::Command(format!("standard output cannot be written: {error}"), 1)),
    }
}
