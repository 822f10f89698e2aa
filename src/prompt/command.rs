//! `ax-runner prompt --payload FILE`: what the model would be told, and what each section costs.

use super::{Clock, Form, Prompt, PromptInput, build};
use crate::limits;
use crate::wire::{Identity, Payload};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: ax-runner prompt --payload FILE|- [--workspace DIR] [--agent TYPE]

Prints the system prompt that the payload would be given, and what each section costs.

  --payload FILE    the work item, - for standard input
  --workspace DIR   the workspace the prompt names (default: /workspace)
  --agent TYPE      pi-coding-agent (default) or claude-code
  --help            this text
";

/// Runs the subcommand; `args` are what follows its name. Returns the exit code: 0, 1 for a payload that cannot be used,
/// 2 for wrong arguments.
pub fn main_prompt_command(args: impl IntoIterator<Item = OsString>) -> u8 {
    let options = match options(args) {
        Ok(Some(options)) => options,
        Ok(None) => return u8::from(std::io::stdout().write_all(USAGE.as_bytes()).is_err()),
        Err(message) => {
            complain(&format!("{message}; see ax-runner prompt --help"));
            return 2;
        }
    };
    match run(&options, &mut std::io::stdout().lock()) {
        Ok(()) => 0,
        Err(message) => {
            complain(&message);
            1
        }
    }
}

struct Options {
    payload: OsString,
    workspace: String,
    agent: String,
}

/// `None` when only the help is wanted.
fn options(args: impl IntoIterator<Item = OsString>) -> Result<Option<Options>, String> {
    use lexopt::{Arg, Parser, ValueExt};
    let mut parser = Parser::from_args(args);
    let (mut payload, mut workspace, mut agent) = (None, "/workspace".to_owned(), "pi-coding-agent".to_owned());
    let text = |error: lexopt::Error| error.to_string();
    while let Some(arg) = parser.next().map_err(text)? {
        match arg {
            Arg::Long("payload") => payload = Some(parser.value().map_err(text)?),
            Arg::Long("workspace") => workspace = parser.value().and_then(|value| value.string()).map_err(text)?,
            Arg::Long("agent") => agent = parser.value().and_then(|value| value.string()).map_err(text)?,
            Arg::Long("help") | Arg::Short('h') => return Ok(None),
            other => return Err(other.unexpected().to_string()),
        }
    }
    Ok(Some(Options { payload: payload.ok_or("--payload is missing")?, workspace, agent }))
}

fn run(options: &Options, out: &mut impl Write) -> Result<(), String> {
    let bytes = read(&options.payload)?;
    let payload = Payload::read(&bytes).map_err(|error| error.to_string())?;
    let identity = Identity::default();
    let clock = Clock::now(std::env::var("TZ").ok().as_deref());
    let begun = Instant::now();
    let prompt = build(&PromptInput::from_payload(&payload, &identity, &options.agent, &options.workspace, clock));
    show(&prompt, begun.elapsed(), out).map_err(|error| format!("cannot write the prompt: {error}"))
}

fn read(path: &OsString) -> Result<Vec<u8>, String> {
    let fault = |error: std::io::Error| format!("cannot read payload {}: {error}", path.to_string_lossy());
    let mut source: Box<dyn Read> = if path == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(std::fs::File::open(path).map_err(fault)?)
    };
    let mut bytes = Vec::new();
    source.by_ref().take(limits::PAYLOAD_MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(fault)?;
    if bytes.len() > limits::PAYLOAD_MAX_BYTES {
        return Err(format!("payload has more than {} bytes", limits::PAYLOAD_MAX_BYTES));
    }
    Ok(bytes)
}

fn show(prompt: &Prompt, took: Duration, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "{}\n\n--- sections", prompt.text)?;
    for section in &prompt.sections {
        let form = match section.form {
            Form::Full => "full",
            Form::Cut => "cut",
            Form::Short => "short",
            Form::Dropped => "dropped",
        };
        writeln!(out, "{:<18} {:>7} chars  {form}", section.name, section.chars)?;
    }
    let (units, bytes) = (crate::text::units(&prompt.text), prompt.text.len());
    writeln!(out, "{:<18} {units:>7} chars  {bytes} bytes, built in {} us", "total", took.as_micros())?;
    out.flush()
}

fn complain(message: &str) {
    // Nobody is left to tell when stderr is closed.
    let _ = writeln!(std::io::stderr().lock(), "{message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_with(args: &[&str]) -> u8 {
        main_prompt_command(args.iter().map(OsString::from))
    }

    #[test]
    fn shows_the_prompt_and_what_each_section_costs() {
        let options = options(["--payload", "fixtures/payload-docker.json"].map(OsString::from)).unwrap().unwrap();
        let mut out = Vec::new();
        run(&options, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("careful with other people's files"));
        assert!(out.contains("--- sections\nidentity"));
        assert!(out.lines().last().unwrap().starts_with("total"));
    }

    #[test]
    fn wrong_arguments_and_unreadable_payloads_have_their_own_codes() {
        assert_eq!(run_with(&[]), 2);
        assert_eq!(run_with(&["--nope"]), 2);
        assert_eq!(run_with(&["--payload", "/no/such/file"]), 1);
    }
}
