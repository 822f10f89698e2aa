//! The multi-call command line: which job this process was started for (DESIGN §2).

use crate::runner::{self, Request};
use crate::{doctor, enter, log, os, prompt, sidecar};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::panic::AssertUnwindSafe;
use std::path::Path;

/// `EX_SOFTWARE` of sysexits.
const EXIT_PANIC: u8 = 70;

const HELP: &str = "\
ax-runner - the process inside an AX agent's sandbox container

usage:
  ax-runner [SCRIPT] [flags]      run: read the payload, run the turn, return the answer
  ax-runner enter [flags] [-- COMMAND]
                                  enforce the egress policy, give up privilege, then run
  ax-runner doctor [--json]       which confinement holds here, found by trying
  ax-runner git-sidecar           the git sidecar of a Kubernetes pod
  ax-runner prompt --payload FILE print the system prompt of a payload and its section sizes

Called as `node` with a script path that ends in agent/runner.js or agent/git-sidecar.js it does that job; any other
script goes to the Node.js found in PATH.

flags:
  --agent NAME          pi-coding-agent (default) or claude-code
  --model ID            model id put into llm_call; the host picks the real model
  --ipc-socket PATH     the host's Unix socket (default: AX_IPC_SOCKET)
  --proxy-socket PATH   Unix socket of the Anthropic credential proxy
  --max-tokens N        upper bound of one model reply (default 8192)
  --verbose             more lines on stderr
  --help, --version

environment:
  AX_WORKSPACE          workspace root, required
  AX_IPC_SOCKET         the host's socket; required unless AX_HOST_URL is set
  AX_IPC_LISTEN=1       listen on that socket instead, and answer by action
  AX_HOST_URL           talk HTTP to this host, and answer by action
  AX_IPC_TOKEN          HTTP: the pod's token
  AX_LLM_TIMEOUT_MS     silence after which a model call is given up (default 600000)
  AX_MAX_IDLE_POLLS     empty waits for work before exit 0 (default 2)
  AX_UNIX_SOCKETS       how the host's socket is kept from commands: auto (default), guard, deny or allow
  AX_WEB_PROXY_SOCKET, AX_WEB_PROXY_URL, WORKSPACE_REPO_URL, AX_GIT_SIDECAR_PORT
                        the way out of the container, as the host sets it
  AX_PASS_ENV           names of variables that tool children may have, comma separated
  AX_HOME, LOG_LEVEL, LOG_LEVEL_<COMPONENT>, LOG_SYNC

exit codes: 0 done, 1 failed (the last line on stderr says why), 70 a fault of the runner itself,
128+n ended by signal n
";

/// What to do.
#[derive(Debug, PartialEq, Eq)]
enum Job<'a> {
    Runner(&'a [OsString]),
    Enter(&'a [OsString]),
    Doctor(&'a [OsString]),
    Sidecar(&'a [OsString]),
    Prompt(&'a [OsString]),
    /// A script that is not ours.
    Node(&'a [OsString]),
}

/// Finds the job in the name the process was called by and in its first word: the host's literal command vectors name
/// scripts of the Node program (PROTOCOL §1.1).
fn job(argv: &[OsString]) -> Job<'_> {
    let (name, args) = argv.split_first().map_or((OsStr::new(""), argv), |(name, args)| (name.as_os_str(), args));
    let rest = args.get(1..).unwrap_or_default();
    let first = args.first().map_or(OsStr::new(""), OsString::as_os_str);
    let called_node = Path::new(name).file_name() == Some(OsStr::new("node"));
    match first.as_bytes() {
        b"enter" if !called_node => Job::Enter(rest),
        b"doctor" if !called_node => Job::Doctor(rest),
        b"git-sidecar" if !called_node => Job::Sidecar(rest),
        b"prompt" if !called_node => Job::Prompt(rest),
        _ if is_script(name, "git-sidecar.js") => Job::Sidecar(args),
        _ if is_script(first, "git-sidecar.js") => Job::Sidecar(rest),
        _ if called_node && !is_script(first, "runner.js") => Job::Node(args),
        _ => Job::Runner(args),
    }
}

/// Does the path end in `agent/<script>`?
fn is_script(path: &OsStr, script: &str) -> bool {
    Path::new(path).ends_with(Path::new("agent").join(script))
}

/// Runs the job that `argv` (the program's name first) asks for, and returns the exit code.
pub fn main(argv: Vec<OsString>, environment: Vec<(OsString, OsString)>) -> u8 {
    panics_are_lines();
    guarded(|| start(&argv, environment))
}

/// A panic that no tool contains ends the process with a code of its own (see `runner::exit`).
fn guarded(job: impl FnOnce() -> u8) -> u8 {
    std::panic::catch_unwind(AssertUnwindSafe(job)).unwrap_or(EXIT_PANIC)
}

fn start(argv: &[OsString], environment: Vec<(OsString, OsString)>) -> u8 {
    match job(argv) {
        Job::Runner(args) => run(args, environment),
        Job::Enter(args) => enter::main(args.to_vec()),
        Job::Doctor(args) => doctor::main(args.to_vec()),
        Job::Sidecar(args) if args.iter().any(|arg| arg == "--help" || arg == "-h") => print(sidecar::HELP),
        Job::Sidecar(args) => {
            log::start(runner::log_config(args, &environment));
            let code = sidecar::main(args.to_vec());
            log::finish();
            code
        }
        Job::Prompt(args) => prompt::main_prompt_command(args.iter().cloned()),
        Job::Node(args) => node(args, &environment),
    }
}

fn run(args: &[OsString], environment: Vec<(OsString, OsString)>) -> u8 {
    os::hide_environment();
    runner::hold_signals();
    log::start(runner::log_config(args, &environment));
    match runner::read(args, environment) {
        Ok(Request::Run(config)) => runner::main(*config),
        Ok(Request::Help) => print(HELP),
        Ok(Request::Version) => print(concat!("ax-runner ", env!("CARGO_PKG_VERSION"), "\n")),
        Err(fatal) => {
            tracing::error!(component = "runner", error = %fatal, "{}", fatal.event());
            log::finish();
            log::last_words(&format!("Agent runner error: {fatal}"));
            fatal.code()
        }
    }
}

/// Set for the program that takes over: our process number, which it keeps, and its place in PATH. Only a copy of ours reads
/// it, to look behind itself and not begin anew; in a child the number is another's.
const HANDED_OVER: &str = "AX_RUNNER_NODE";

/// Hands over to a real Node.js, which an image made from ours may have (the first `node` in PATH that is not us).
fn node(args: &[OsString], environment: &[(OsString, OsString)]) -> u8 {
    let value = |name: &str| environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str());
    let own = std::fs::canonicalize("/proc/self/exe").ok();
    let pid = std::process::id();
    let tried = value(HANDED_OVER).and_then(OsStr::to_str).map_or(0, |mark| tried(mark, pid));
    let found = std::env::split_paths(value("PATH").unwrap_or_default())
        .map(|directory| directory.join("node"))
        .enumerate()
        .skip(tried)
        .find(|(_, program)| executable(program) && std::fs::canonicalize(program).ok() != own);
    let reason = match found {
        Some((place, program)) => {
            os::replace(&program, args, (HANDED_OVER, &format!("{pid}:{}", place + 1))).to_string()
        }
        None => "this image has no Node.js; ax-runner answers to `node` only for its own scripts".to_owned(),
    };
    log::last_words(&format!("node: {}", log::escaped(&reason)));
    NOT_FOUND
}

/// Others are passed over, as a shell does.
fn executable(program: &Path) -> bool {
    program.is_file() && nix::unistd::access(program, nix::unistd::AccessFlags::X_OK).is_ok()
}

/// How many places of PATH this process has already been through.
fn tried(mark: &str, pid: u32) -> usize {
    let (whose, places) = mark.split_once(':').unwrap_or_default();
    if whose == pid.to_string() { places.parse().unwrap_or(0) } else { 0 }
}

/// What a shell answers for a program that does not exist.
const NOT_FOUND: u8 = 127;

fn print(text: &str) -> u8 {
    u8::from(os::write_stdout(text.as_bytes()).is_err())
}

/// A panic is one line on stderr in the shape of the log, never a backtrace in between (CASES I11).
fn panics_are_lines() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
        log::panic_line(&place);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_has_a_code_of_its_own() {
        assert_eq!((guarded(|| 3), guarded(|| panic!("on purpose"))), (3, 70));
    }

    #[test]
    fn the_hosts_vectors_find_their_job() {
        for (argv, wanted) in [
            (vec!["ax-runner"], "Runner([])"),
            (vec!["ax-runner", "--help"], r#"Runner(["--help"])"#),
            (
                vec!["/usr/bin/ax-runner", "/opt/ax/dist/agent/runner.js", "-x"],
                r#"Runner(["/opt/ax/dist/agent/runner.js", "-x"])"#,
            ),
            (vec!["/opt/ax/dist/agent/runner.js", "-x"], r#"Runner(["-x"])"#),
            (vec!["node", "/opt/ax/dist/agent/runner.js"], r#"Runner(["/opt/ax/dist/agent/runner.js"])"#),
            (vec!["node", "dist/agent/git-sidecar.js"], "Sidecar([])"),
            (vec!["dist/agent/git-sidecar.js"], "Sidecar([])"),
            (vec!["ax-runner", "git-sidecar", "-x"], r#"Sidecar(["-x"])"#),
            (vec!["ax-runner", "enter", "--print"], r#"Enter(["--print"])"#),
            (vec!["ax-runner", "doctor"], "Doctor([])"),
            (vec!["ax-runner", "prompt"], "Prompt([])"),
            (vec!["/usr/local/bin/node", "enter"], r#"Node(["enter"])"#),
            (vec!["node", "server.js"], r#"Node(["server.js"])"#),
            (vec!["node", "notagent/runner.js"], r#"Node(["notagent/runner.js"])"#),
            (vec!["node"], "Node([])"),
        ] {
            let argv: Vec<OsString> = argv.into_iter().map(OsString::from).collect();
            assert_eq!(format!("{:?}", job(&argv)), wanted);
        }
    }
}
