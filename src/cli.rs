//! The multi-call command line: which job this process was started for.

use crate::runner::{self, Request};
use crate::{log, prompt};
use std::ffi::OsString;
use std::io::{self, Write};

const HELP: &str = "\
ax-runner - the process inside an AX agent's sandbox container

usage:
  ax-runner [SCRIPT] [flags]      run: read the payload, run the turn, return the answer
  ax-runner prompt --payload FILE print the system prompt of a payload and its section sizes

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
  AX_PASS_ENV           names of variables that tool children may have, comma separated
  AX_HOME, LOG_LEVEL, LOG_LEVEL_<COMPONENT>, LOG_SYNC

exit codes: 0 done, 1 failed (the last line on stderr says why), 128+n ended by signal n
";

/// Runs the job that `args` (the program's name first) asks for, and returns the exit code.
pub fn main(args: Vec<OsString>, environment: Vec<(OsString, OsString)>) -> u8 {
    panics_are_lines();
    let args = args.get(1..).unwrap_or_default();
    if args.first().is_some_and(|word| word == "prompt") {
        return prompt::main_prompt_command(args[1..].iter().cloned());
    }
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

fn print(text: &str) -> u8 {
    u8::from(io::stdout().write_all(text.as_bytes()).is_err())
}

/// A panic is one line on stderr in the shape of the log, never a backtrace in between (CASES I11).
fn panics_are_lines() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
        log::panic_line(&place);
    }));
}
