//! The egress policy: where it comes from, what it may say, and that a doubtful one is refused.
//!
//! One source only. With `--policy FILE` the environment cannot widen or switch off anything; a variable that tries is an
//! error, not a hint.

use super::destination::{Destination, DestinationError, HostPart};
use super::environment::{Environment, NotText};
use crate::limits;
use serde::{Deserialize, Serialize};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What is allowed out, and who sees to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Loopback only, enforced here.
    None,
    /// There is nothing but loopback; refuse otherwise.
    Isolated,
    /// Only the web proxy and the host, enforced here.
    Gate,
    /// A named set of destinations, enforced here.
    Allow,
    /// Somebody else enforces.
    External,
    /// Decided at the start from what is there.
    Auto,
}

impl Mode {
    /// The name an operator writes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Isolated => "isolated",
            Self::Gate => "gate",
            Self::Allow => "allow",
            Self::External => "external",
            Self::Auto => "auto",
        }
    }

    fn named(text: &str) -> Option<Self> {
        [Self::None, Self::Isolated, Self::Gate, Self::Allow, Self::External, Self::Auto]
            .into_iter()
            .find(|mode| mode.name() == text)
    }

    /// Whether this process loads packet rules for it.
    pub(crate) fn is_enforced_here(self) -> bool {
        matches!(self, Self::None | Self::Gate | Self::Allow)
    }
}

/// A policy that is complete and consistent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Policy {
    /// The mode.
    pub mode: Mode,
    /// Destinations beyond loopback.
    pub allow: Vec<Destination>,
    /// Whether an operator named the mode, or it was decided here.
    pub declared: bool,
    /// Who enforces an external policy, in the operator's words.
    pub enforced_by: Option<String>,
    /// Files whose variables the command gets.
    pub env_files: Vec<PathBuf>,
    /// Directory whose files are copied into the home directory.
    pub home_seed: Option<PathBuf>,
    /// The file it was read from.
    pub file: Option<PathBuf>,
    /// Where the policy came from, for messages.
    pub source: String,
}

/// Why a policy was refused. All of these end with 78.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PolicyError {
    /// The file cannot be had.
    #[error("the policy file {0} cannot be read: {1}")]
    Read(String, String),
    /// The file is not a policy.
    #[error("the policy file {0} is not a policy: {1}")]
    Syntax(String, String),
    /// A file and variables at once.
    #[error("{0} is set although --policy names a file: unset it, the file alone decides")]
    TwoSources(&'static str),
    /// Not a mode and not a path.
    #[error(
        "AX_NET_POLICY is {0:?}: use none, isolated, gate, allow, external, auto, or the absolute path of a policy file"
    )]
    Unknown(String),
    /// A list where none belongs.
    #[error("{0} takes no destinations, but some are named: remove them or use the mode allow")]
    ListNotTaken(String),
    /// No list where one belongs.
    #[error("{0} names no destination: {1}")]
    ListMissing(String, &'static str),
    /// More destinations than a readable rule set has.
    #[error("{0} destinations are named; at most {max} are taken", max = limits::POLICY_DESTINATIONS_MAX)]
    ListTooLong(usize),
    /// A bad destination.
    #[error(transparent)]
    Destination(#[from] DestinationError),
    /// Name service behind the gate.
    #[error("{0} is a name service, which the mode gate closes: remove it, or use the mode allow")]
    NameService(String),
    /// `enforced_by` where this process enforces.
    #[error("enforced_by is for the mode external; the mode {0} is enforced here")]
    EnforcedBy(&'static str),
    /// A relative path.
    #[error("{0} must be an absolute path, not {1:?}")]
    Relative(&'static str, String),
    /// A variable that is not text.
    #[error(transparent)]
    NotText(#[from] NotText),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    mode: Mode,
    allow: Option<Vec<String>>,
    enforced_by: Option<String>,
    #[serde(default)]
    env_files: Vec<PathBuf>,
    home_seed: Option<PathBuf>,
}

const HOST_URL: &str = "AX_HOST_URL";
const PROXY_URL: &str = "AX_WEB_PROXY_URL";
const POLICY: &str = "AX_NET_POLICY";
const ALLOW: &str = "AX_NET_ALLOW";

impl Policy {
    /// Finds the policy and checks all of it.
    pub(crate) fn find(file: Option<&Path>, environment: &Environment) -> Result<Self, PolicyError> {
        let list = environment.get(ALLOW)?;
        if let Some(path) = file {
            for (name, value) in [(POLICY, environment.get(POLICY)?), (ALLOW, list)] {
                if value.is_some() {
                    return Err(PolicyError::TwoSources(name));
                }
            }
            return Self::from_file(path, environment);
        }
        match environment.get(POLICY)? {
            None => Self::from_words(Mode::Auto, list, "the default".to_owned(), environment),
            Some(path) if path.starts_with('/') => {
                if list.is_some() {
                    return Err(PolicyError::TwoSources(ALLOW));
                }
                Self::from_file(Path::new(path), environment)
            }
            Some(word) => {
                let mode = Mode::named(word).ok_or_else(|| PolicyError::Unknown(word.to_owned()))?;
                Self::from_words(mode, list, POLICY.to_owned(), environment)
            }
        }
    }

    fn from_words(mode: Mode, list: Option<&str>, source: String, env: &Environment) -> Result<Self, PolicyError> {
        let allow =
            list.map(|list| list.split(',').map(Destination::parse).collect::<Result<Vec<_>, _>>()).transpose()?;
        let policy = Self {
            mode,
            allow: vec![],
            declared: mode != Mode::Auto,
            enforced_by: None,
            env_files: vec![],
            home_seed: None,
            file: None,
            source,
        };
        policy.completed(allow, env)
    }

    fn from_file(path: &Path, env: &Environment) -> Result<Self, PolicyError> {
        let name = path.display().to_string();
        let text = read(path).map_err(|error| PolicyError::Read(name.clone(), error.to_string()))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let file: File = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| one_line(&error))
        } else {
            toml::from_str(text).map_err(|error| one_line(&error))
        }
        .map_err(|error| PolicyError::Syntax(name.clone(), error))?;
        for (key, path) in file
            .env_files
            .iter()
            .map(|path| ("env_files", path))
            .chain(file.home_seed.iter().map(|path| ("home_seed", path)))
        {
            if !path.is_absolute() {
                return Err(PolicyError::Relative(key, path.display().to_string()));
            }
        }
        let allow =
            file.allow.map(|list| list.iter().map(|text| Destination::parse(text)).collect::<Result<Vec<_>, _>>());
        let policy = Self {
            mode: file.mode,
            allow: vec![],
            declared: file.mode != Mode::Auto,
            enforced_by: file.enforced_by,
            env_files: file.env_files,
            home_seed: file.home_seed,
            file: Some(path.to_owned()),
            source: name,
        };
        policy.completed(allow.transpose()?, env)
    }

    /// Puts mode and list together.
    fn completed(mut self, allow: Option<Vec<Destination>>, env: &Environment) -> Result<Self, PolicyError> {
        if self.enforced_by.is_some() && self.mode != Mode::External {
            return Err(PolicyError::EnforcedBy(self.mode.name()));
        }
        let named = allow.is_some();
        self.allow = allow.unwrap_or_default();
        match self.mode {
            Mode::None | Mode::Isolated | Mode::External | Mode::Auto if named => {
                return Err(PolicyError::ListNotTaken(format!("the mode {} ({})", self.mode.name(), self.source)));
            }
            Mode::None | Mode::Isolated | Mode::External | Mode::Auto => {}
            Mode::Gate => {
                if !named {
                    self.allow = gate_destinations(env)?;
                }
                if self.allow.is_empty() {
                    let remedy = "set AX_NET_ALLOW to proxy-ip:port,host-ip:port, or AX_HOST_URL or AX_WEB_PROXY_URL";
                    return Err(PolicyError::ListMissing("the mode gate".to_owned(), remedy));
                }
                refuse_name_service(&self.allow)?;
            }
            Mode::Allow if self.allow.is_empty() => {
                let remedy = "list host:port in AX_NET_ALLOW or under allow, or use the mode none";
                return Err(PolicyError::ListMissing("the mode allow".to_owned(), remedy));
            }
            Mode::Allow => {}
        }
        if self.allow.len() > limits::POLICY_DESTINATIONS_MAX {
            return Err(PolicyError::ListTooLong(self.allow.len()));
        }
        self.allow.sort();
        self.allow.dedup();
        Ok(self)
    }

    /// What `auto` becomes.
    pub(crate) fn decided(mut self, isolated: bool, enforceable: bool, env: &Environment) -> Result<Self, PolicyError> {
        if self.mode != Mode::Auto {
            return Ok(self);
        }
        self.mode = match (isolated, enforceable) {
            (true, _) => Mode::Isolated,
            (false, true) => {
                self.allow = gate_destinations(env)?;
                refuse_name_service(&self.allow)?;
                if self.allow.is_empty() { Mode::None } else { Mode::Gate }
            }
            (false, false) => Mode::External,
        };
        Ok(self)
    }
}

/// Destinations the host's own variables name.
fn gate_destinations(env: &Environment) -> Result<Vec<Destination>, PolicyError> {
    let mut found = Vec::new();
    for name in [HOST_URL, PROXY_URL] {
        if let Some(url) = env.get(name)?.filter(|url| !url.is_empty()) {
            found.push(Destination::from_url(url, name)?);
        }
    }
    Ok(found)
}

fn refuse_name_service(list: &[Destination]) -> Result<(), PolicyError> {
    match list.iter().find(|to| matches!(to.port, 53 | 853 | 5353 | 5355)) {
        Some(to) => Err(PolicyError::NameService(to.to_string())),
        None => Ok(()),
    }
}

/// Names among the destinations.
pub(crate) fn names(list: &[Destination]) -> impl Iterator<Item = &str> {
    list.iter().filter_map(|to| match &to.host {
        HostPart::Name(name) => Some(name.as_str()),
        HostPart::Address(_) => None,
    })
}

/// Reads a small regular file; a pipe or device would hold the start up for ever.
fn read(path: &Path) -> std::io::Result<String> {
    let file = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    file.take(limits::POLICY_MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > limits::POLICY_MAX_BYTES {
        return Err(std::io::Error::other("it is too large for a policy"));
    }
    Ok(text)
}

fn one_line(error: &impl ToString) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
