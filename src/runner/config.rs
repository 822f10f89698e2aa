//! The command line and the environment, read once (PROTOCOL §1.1, §1.2).

use super::exit::Fatal;
use crate::limits;
use crate::log::LogConfig;
use crate::os::guard::{Setting, UnknownSetting};
use crate::secret::Secret;
use crate::text::{self, javascript};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How the host is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// Connect to this socket; the answer goes to stdout.
    Connect(PathBuf),
    /// Listen on this socket; the answer is an action.
    Listen(PathBuf),
    /// Talk HTTP to this base URL; work is polled for, the answer is an action.
    Http(String),
}

/// Which agent implementation the host asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// `pi-coding-agent`.
    Pi,
    /// `claude-code`: the same loop over the Anthropic transport.
    Claude,
}

/// Everything the runner is told at its start.
#[derive(Debug, Clone)]
pub struct Config {
    /// `--agent` as given; judged after the payload has been read (PROTOCOL §1.3).
    pub agent: String,
    /// `--model`.
    pub model: String,
    /// `--max-tokens`.
    pub max_tokens: u32,
    /// `--proxy-socket`.
    pub proxy_socket: Option<PathBuf>,
    /// From `AX_HOST_URL`, `AX_IPC_LISTEN`, `--ipc-socket` and `AX_IPC_SOCKET`.
    pub transport: Transport,
    /// `AX_WORKSPACE`.
    pub workspace: PathBuf,
    /// `AX_IPC_TOKEN`: the pod's token.
    pub pod_token: Option<Secret>,
    /// `AX_REQUEST_ID`.
    pub request_id: Option<String>,
    /// `AX_LLM_TIMEOUT_MS`.
    pub llm_timeout: Duration,
    /// `AX_MAX_IDLE_POLLS`.
    pub max_idle_polls: u32,
    /// `AX_WEB_PROXY_SOCKET`.
    pub web_proxy_socket: Option<PathBuf>,
    /// `AX_WEB_PROXY_URL`.
    pub web_proxy_url: Option<String>,
    /// `AX_PROXY_LISTEN_PORT`.
    pub proxy_listen_port: Option<String>,
    /// `WORKSPACE_REPO_URL`.
    pub repo_url: Option<String>,
    /// `AX_GIT_SIDECAR_PORT`.
    pub sidecar_port: Option<String>,
    /// `AX_UNIX_SOCKETS`.
    pub unix_sockets: Setting,
    /// The whole environment: what children may have is chosen from it by an allow-list.
    pub environment: Vec<(OsString, OsString)>,
}

/// What the command line asks for.
#[derive(Debug)]
pub enum Request {
    /// Run.
    Run(Box<Config>),
    /// `--help`.
    Help,
    /// `--version`.
    Version,
}

/// Values of the flags that were given.
#[derive(Default)]
struct Flags {
    agent: Option<String>,
    model: Option<String>,
    ipc_socket: Option<PathBuf>,
    proxy_socket: Option<PathBuf>,
    max_tokens: Option<u32>,
}

/// Reads arguments (without the program's name) and environment. Unknown flags and stray words are ignored, the script
/// path among them; a flag takes the next word as it is (PROTOCOL §1.1).
pub fn read(args: &[OsString], environment: Vec<(OsString, OsString)>) -> Result<Request, Fatal> {
    let mut flags = Flags::default();
    let mut words = args.iter().map(|word| word.to_string_lossy().into_owned());
    while let Some(word) = words.next() {
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
            _ => (word, None),
        };
        let mut value = || inline.clone().or_else(|| words.next()).filter(|value| !value.is_empty());
        match name.as_str() {
            "--help" | "-h" => return Ok(Request::Help),
            "--version" | "-V" => return Ok(Request::Version),
            "--agent" => flags.agent = value(),
            "--model" => flags.model = value(),
            "--ipc-socket" => flags.ipc_socket = value().map(PathBuf::from),
            "--proxy-socket" => flags.proxy_socket = value().map(PathBuf::from),
            "--max-tokens" => flags.max_tokens = value().and_then(|text| leading_integer(&text)),
            _ => {}
        }
    }
    configure(flags, Environment(environment)).map(|config| Request::Run(Box::new(config)))
}

fn configure(flags: Flags, env: Environment) -> Result<Config, Fatal> {
    let host_url = env.text("AX_HOST_URL");
    let socket = flags.ipc_socket.map(|path| ("--ipc-socket", path));
    let socket = socket.or_else(|| Some(("AX_IPC_SOCKET", env.path("AX_IPC_SOCKET")?)));
    let listen = env.text("AX_IPC_LISTEN").as_deref() == Some("1");
    let transport = match (host_url, socket) {
        (Some(url), _) => Transport::Http(reachable(url)?),
        (None, Some((name, socket))) if listen => Transport::Listen(short(name, socket)?),
        (None, Some((name, socket))) => Transport::Connect(short(name, socket)?),
        (None, None) => return Err(Fatal::MissingArgument("AX_IPC_SOCKET (or --ipc-socket, or AX_HOST_URL)")),
    };
    let workspace = env.path("AX_WORKSPACE").ok_or(Fatal::MissingArgument("AX_WORKSPACE"))?;
    Ok(Config {
        agent: flags.agent.unwrap_or_else(|| "pi-coding-agent".to_owned()),
        model: flags.model.map_or_else(
            || limits::MODEL_DEFAULT.to_owned(),
            |model| text::cut_units(&model, limits::MODEL_MAX_UNITS).to_owned(),
        ),
        max_tokens: flags.max_tokens.unwrap_or(limits::MAX_TOKENS_DEFAULT).min(limits::MAX_TOKENS_MAX),
        proxy_socket: flags.proxy_socket.map(|path| short("--proxy-socket", path)).transpose()?,
        pod_token: pod_token(&env, &transport)?,
        transport,
        workspace,
        request_id: env.text("AX_REQUEST_ID"),
        llm_timeout: env
            .integer("AX_LLM_TIMEOUT_MS")
            .map_or(limits::LLM_TIMEOUT, |ms| Duration::from_millis(ms.into())),
        max_idle_polls: env.integer("AX_MAX_IDLE_POLLS").unwrap_or(limits::IDLE_POLLS),
        web_proxy_socket: env.path("AX_WEB_PROXY_SOCKET"),
        web_proxy_url: env.text("AX_WEB_PROXY_URL"),
        proxy_listen_port: env.text("AX_PROXY_LISTEN_PORT"),
        repo_url: env.text("WORKSPACE_REPO_URL"),
        sidecar_port: env.text("AX_GIT_SIDECAR_PORT"),
        unix_sockets: (env.text("AX_UNIX_SOCKETS").unwrap_or_default().parse())
            .map_err(|error: UnknownSetting| Fatal::UnixSockets(error.to_string()))?,
        environment: env.0,
    })
}

/// One that no request can go to would be asked for work for ten minutes, and one without a host would make a host of the
/// path, which gets the pod's token. A user name would go as a second `authorization`, and a path behind a `?` or `#`
/// would not go at all.
fn reachable(url: String) -> Result<String, Fatal> {
    let plain = |url: &url::Url| {
        let bare = url.username().is_empty() && url.password().is_none();
        bare && url.has_host() && url.query().is_none() && url.fragment().is_none()
    };
    match url::Url::parse(&url).ok().filter(plain).as_ref().map(url::Url::scheme) {
        Some("http" | "https") => Ok(url),
        _ => Err(Fatal::HostUrl),
    }
}

/// The kernel takes no longer path for a socket.
fn short(name: &'static str, path: PathBuf) -> Result<PathBuf, Fatal> {
    match path.as_os_str().len() <= limits::SOCKET_PATH_MAX_BYTES {
        true => Ok(path),
        false => Err(Fatal::SocketPath { name }),
    }
}

/// Made from a file it may end in a line break. It is sent only over HTTP.
fn pod_token(env: &Environment, transport: &Transport) -> Result<Option<Secret>, Fatal> {
    let token = env.text("AX_IPC_TOKEN").map(|token| Secret::new(token.trim_end()));
    match token.filter(|token| !token.expose().is_empty()) {
        Some(token) if matches!(transport, Transport::Http(_)) && !token.is_token() => Err(Fatal::Token),
        token => Ok(token),
    }
}

impl Config {
    /// The agent, or the error for a name nobody knows.
    pub fn agent(&self) -> Result<Agent, Fatal> {
        match self.agent.as_str() {
            "pi-coding-agent" => Ok(Agent::Pi),
            "claude-code" if self.proxy_socket.is_none() && !matches!(self.transport, Transport::Http(_)) => {
                Err(Fatal::MissingArgument("--proxy-socket (needed by --agent claude-code)"))
            }
            "claude-code" => Ok(Agent::Claude),
            other => Err(Fatal::UnknownAgent(crate::text::cut_units(other, 100).to_owned())),
        }
    }

    /// Is the answer an action instead of stdout?
    pub fn answers_by_action(&self) -> bool {
        !matches!(self.transport, Transport::Connect(_))
    }
}

/// How logs are set up: needed before anything can fail. `--verbose` asks for the lines of `debug`, unless a level is set.
pub fn log_config(args: &[OsString], environment: &[(OsString, OsString)]) -> LogConfig {
    let env = Environment(environment.to_vec());
    let home = env.text("AX_HOME").or_else(|| env.text("HOME").map(|home| format!("{home}/.ax")));
    let components = env.0.iter().filter_map(|(name, level)| {
        let component = name.to_str()?.strip_prefix("LOG_LEVEL_")?.to_ascii_lowercase().replace('_', "-");
        Some((component, level.to_str()?.to_owned()))
    });
    LogConfig {
        level: env
            .text("LOG_LEVEL")
            .or_else(|| args.iter().any(|word| word == "--verbose").then(|| "debug".to_owned())),
        components: components.collect(),
        sync: env.text("LOG_SYNC").as_deref() == Some("1"),
        file: home.map(|home| PathBuf::from(home).join("data/ax.log")),
    }
}

struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// The value, when set and not empty.
    fn text(&self, name: &str) -> Option<String> {
        self.value(name).map(|value| value.to_string_lossy().into_owned())
    }

    /// The same, whatever its bytes.
    fn path(&self, name: &str) -> Option<PathBuf> {
        self.value(name).map(PathBuf::from)
    }

    fn value(&self, name: &str) -> Option<&OsString> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value).filter(|value| !value.is_empty())
    }

    fn integer(&self, name: &str) -> Option<u32> {
        leading_integer(&self.text(name)?)
    }
}

/// `parseInt` with 0, less than 0 and nonsense as unset (PROTOCOL §1.1). What is too large is as large as can be.
fn leading_integer(text: &str) -> Option<u32> {
    let text = javascript::trim_start(text);
    let text = text.strip_prefix('+').unwrap_or(text);
    let digits = text.chars().map_while(|c| c.to_digit(10));
    Some(digits.fold(0_u32, |number, digit| number.saturating_mul(10).saturating_add(digit)))
        .filter(|&number| number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn run(args: &[&str], env: &[(&str, &str)]) -> Result<Config, Fatal> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let env = env.iter().map(|(key, value)| (OsString::from(key), OsString::from(value))).collect();
        match read(&args, env)? {
            Request::Run(config) => Ok(*config),
            _ => panic!("not a run"),
        }
    }

    const ENV: [(&str, &str); 2] = [("AX_WORKSPACE", "/w"), ("AX_IPC_SOCKET", "/s")];

    #[test]
    fn the_hosts_vectors_are_understood() {
        let args = [
            "/opt/ax/dist/agent/runner.js",
            "--agent",
            "pi-coding-agent",
            "--max-tokens",
            "4096",
            "--new",
            "x",
            "--verbose",
        ];
        let config = run(&args, &ENV).unwrap();
        assert_eq!(config.max_tokens, 4096);
        assert_eq!(config.transport, Transport::Connect("/s".into()));
        assert_eq!(config.agent(), Ok(Agent::Pi));
    }

    #[test]
    fn nonsense_numbers_are_unset() {
        for (text, wanted) in
            [("0", 8192), ("NaN", 8192), ("", 8192), ("-5", 8192), ("12x", 12), ("999999999", 200_000)]
        {
            assert_eq!(run(&["--max-tokens", text], &ENV).unwrap().max_tokens, wanted, "{text}");
        }
    }

    #[test]
    fn a_workspace_may_have_any_name() {
        let name = OsString::from_vec(b"/w\xff".to_vec());
        let environment = vec![("AX_WORKSPACE".into(), name.clone()), ("AX_IPC_SOCKET".into(), "/s".into())];
        let Ok(Request::Run(config)) = read(&[], environment) else { panic!("refused") };
        assert_eq!(config.workspace, PathBuf::from(name));
    }

    #[test]
    fn the_transport_is_chosen_in_order() {
        let mut env = ENV.to_vec();
        assert_eq!(run(&["--ipc-socket", "/other"], &env).unwrap().transport, Transport::Connect("/other".into()));
        env.push(("AX_IPC_LISTEN", "1"));
        assert_eq!(run(&[], &env).unwrap().transport, Transport::Listen("/s".into()));
        env.push(("AX_HOST_URL", "http://h"));
        assert_eq!(run(&[], &env).unwrap().transport, Transport::Http("http://h".into()));
        for url in [
            "http://",
            "http:///",
            "127.0.0.1:80",
            "ax-host",
            "ftp://h",
            "http://a b",
            "localhost:80",
            "unix:/s",
            "http://u@h",
            "http://u:p@h",
            "http://:p@h",
            "http://h?x",
            "http://h/#x",
        ] {
            env[3] = ("AX_HOST_URL", url);
            assert_eq!(run(&[], &env).unwrap_err(), Fatal::HostUrl, "{url}");
        }
        assert!(run(&[], &[("AX_WORKSPACE", "/w")]).is_err());
        assert!(run(&[], &[("AX_HOST_URL", "http://h")]).is_err());
        assert!(run(&["--agent", "claude-code"], &ENV).unwrap().agent().is_err());
        assert!(matches!(run(&["--agent", "nobody"], &ENV).unwrap().agent(), Err(Fatal::UnknownAgent(_))));
    }
}
