//! The command line of `ax-devhost`.

use super::provider::Provider;
use super::run;
use super::validate::Transport;
use lexopt::prelude::{Long, Short, Value, ValueExt};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

const HELP: &str = "\
ax-devhost - the host side of ax-runner, for development

usage:
  ax-devhost run [OPTIONS] [MESSAGE] [-- RUNNER [ARG]...]

Starts a runner as its host would and plays the host: the model's replies come from a script, approvals from a policy,
every request is checked against the protocol. Without options it gives a tour: a small project with a failing test is
repaired in a temporary directory. RUNNER is by default the ax-runner beside this program.

options:
  --workspace DIR    work in DIR itself, instead of a temporary copy of the tour's project
  --script FILE      what the model says: a JSON list of replies
  --policy FILE      which calls may run: a JSON list of rules; without it all of them
  --payload FILE     send this payload, instead of one made from MESSAGE
  --turns FILE       a JSON list of messages, one turn each
  --interactive      ask for messages on the terminal, until end of input
  --audit FILE       append a JSON line for everything that happens
  --transport T      socket, listen or http; by default the provider's own
  --provider P       process (default), docker, podman, apple or k8s
  --print            print the command line and stop; k8s always prints its pod and creates none
  --verbose          show outputs, forwarded replies and the runner's stderr
  --help, --version

A reply of the script:   {\"text\": [\"One \", \"file\"], \"tools\": [{\"name\": \"bash\", \"args\": {\"command\": \"ls\"}}],
                          \"when\": \"regex on the last tool results\", \"usage\": {}, \"delay_ms\": 0, \"fault\": \"no_id\"}
A rule of the policy:    {\"operation\": \"bash\", \"command\": \"regex\", \"path\": \"glob\",
                          \"verdict\": \"allow | deny | ask | no_answer\", \"reason\": \"why not\"}

environment: AX_DOCKER_IMAGE, AX_CONTAINER_IMAGE, K8S_POD_IMAGE (default ax/agent:latest), NO_COLOR

The answer goes to stdout, the transcript to stderr.
exit codes: 0 every turn ended with an answer and no rule was broken; 1 otherwise; 2 wrong usage
";

/// What `run` was asked to do.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    pub(super) workspace: Option<PathBuf>,
    pub(super) script: Option<PathBuf>,
    pub(super) policy: Option<PathBuf>,
    pub(super) payload: Option<PathBuf>,
    pub(super) turns: Option<PathBuf>,
    pub(super) interactive: bool,
    pub(super) audit: Option<PathBuf>,
    pub(super) transport: Option<Transport>,
    pub(super) provider: Option<Provider>,
    pub(super) print: bool,
    pub(super) verbose: bool,
    pub(super) message: Option<String>,
    pub(super) runner: Vec<OsString>,
}

enum Request {
    Run(Box<Options>),
    Help,
    Version,
}

/// Does what the arguments (without the program's name) ask for and returns the exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    match parse(arguments.into_iter().collect()) {
        Ok(Request::Help) => print(HELP),
        Ok(Request::Version) => print(concat!("ax-devhost ", env!("CARGO_PKG_VERSION"), "\n")),
        Ok(Request::Run(options)) => match run::run(&options) {
            Ok(good) => u8::from(!good),
            Err(error) => complain(&error, 1),
        },
        Err(error) => complain(&format!("{error}; see ax-devhost --help"), 2),
    }
}

fn print(text: &str) -> u8 {
    u8::from(io::stdout().write_all(text.as_bytes()).is_err())
}

fn complain(text: &str, code: u8) -> u8 {
    let _ = writeln!(io::stderr(), "ax-devhost: {text}");
    code
}

fn parse(mut arguments: Vec<OsString>) -> Result<Request, String> {
    let runner = match arguments.iter().position(|word| word == "--") {
        Some(at) => {
            let runner = arguments.split_off(at);
            if runner.len() == 1 {
                return Err("-- is followed by no runner".to_owned());
            }
            runner[1..].to_vec()
        }
        None => Vec::new(),
    };
    let mut options = Options { runner, ..Options::default() };
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut command = None;
    while let Some(word) = parser.next().map_err(|error| error.to_string())? {
        let flag = match word {
            Long("help") | Short('h') => return Ok(Request::Help),
            Long("version") | Short('V') => return Ok(Request::Version),
            Long(name) => name.to_owned(),
            Value(word) if command.is_none() => {
                command = Some(word);
                continue;
            }
            Value(word) if options.message.is_none() => {
                options.message = Some(word.into_string().map_err(|_| "the message is not UTF-8".to_owned())?);
                continue;
            }
            Value(word) => return Err(format!("one message too many: {}; quote it", word.to_string_lossy())),
            other => return Err(other.unexpected().to_string()),
        };
        set(&mut options, &flag, &mut parser)?;
    }
    match command {
        Some(command) if command == "run" => consistent(options).map(|options| Request::Run(Box::new(options))),
        Some(other) => Err(format!("unknown command \"{}\"", other.to_string_lossy())),
        None => Err("a command is missing: run".to_owned()),
    }
}

fn set(options: &mut Options, flag: &str, parser: &mut lexopt::Parser) -> Result<(), String> {
    let path = |parser: &mut lexopt::Parser| {
        parser.value().map(|value| Some(PathBuf::from(value))).map_err(|error| error.to_string())
    };
    match flag {
        "workspace" => options.workspace = path(parser)?,
        "script" => options.script = path(parser)?,
        "policy" => options.policy = path(parser)?,
        "payload" => options.payload = path(parser)?,
        "turns" => options.turns = path(parser)?,
        "audit" => options.audit = path(parser)?,
        "transport" => options.transport = Some(transport(&text(parser)?)?),
        "provider" => options.provider = Some(provider(&text(parser)?)?),
        "interactive" => options.interactive = true,
        "print" => options.print = true,
        "verbose" => options.verbose = true,
        other => return Err(format!("unknown option --{other}")),
    }
    Ok(())
}

fn text(parser: &mut lexopt::Parser) -> Result<String, String> {
    parser.value().and_then(|value| value.string()).map_err(|error| error.to_string())
}

fn transport(name: &str) -> Result<Transport, String> {
    match name {
        "socket" => Ok(Transport::Socket),
        "listen" => Ok(Transport::Listen),
        "http" => Ok(Transport::Http),
        other => Err(format!("unknown transport \"{other}\"; known are socket, listen, http")),
    }
}

fn provider(name: &str) -> Result<Provider, String> {
    match name {
        "process" => Ok(Provider::Process),
        "docker" => Ok(Provider::Docker),
        "podman" => Ok(Provider::Podman),
        "apple" => Ok(Provider::Apple),
        "k8s" => Ok(Provider::K8s),
        other => Err(format!("unknown provider \"{other}\"; known are process, docker, podman, apple, k8s")),
    }
}

fn consistent(options: Options) -> Result<Options, String> {
    let sources = [options.message.is_some(), options.payload.is_some(), options.turns.is_some(), options.interactive];
    if sources.into_iter().filter(|given| *given).count() > 1 {
        return Err("MESSAGE, --payload, --turns and --interactive exclude each other".to_owned());
    }
    let provider = options.provider.unwrap_or(Provider::Process);
    if provider != Provider::Process {
        if options.transport.is_some_and(|transport| transport != provider.transport()) {
            return Err("this provider has a transport of its own; leave --transport out".to_owned());
        }
        if !options.runner.is_empty() {
            return Err("a container's image holds its runner; leave -- RUNNER out".to_owned());
        }
    }
    // A pod is shown, never created.
    let print = options.print || provider == Provider::K8s;
    Ok(Options { print, ..options })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Options, String> {
        match parse(line.split_whitespace().map(OsString::from).collect())? {
            Request::Run(options) => Ok(*options),
            _ => Err("not run".to_owned()),
        }
    }

    #[test]
    fn the_runner_stands_after_two_dashes() {
        let options = run("run --verbose hello -- ./ax-runner --help --workspace x").unwrap();
        assert_eq!(options.runner, ["./ax-runner", "--help", "--workspace", "x"]);
        assert_eq!((options.message.as_deref(), options.verbose), (Some("hello"), true));
        assert!(options.workspace.is_none());
    }

    #[test]
    fn mistakes_are_named() {
        for (line, wanted) in [
            ("", "a command is missing"),
            ("walk", "unknown command"),
            ("run a b", "one message too many"),
            ("run --bogus", "bogus"),
            ("run --script", "script"),
            ("run --transport carrier-pigeon", "unknown transport"),
            ("run --provider apple --transport http", "transport of its own"),
            ("run --provider docker -- x", "leave -- RUNNER out"),
            ("run --turns a --interactive", "exclude each other"),
            ("run --", "no runner"),
        ] {
            assert!(run(line).unwrap_err().contains(wanted), "{line}");
        }
    }
}
