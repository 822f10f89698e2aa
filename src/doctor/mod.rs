//! `ax-runner doctor [--json] [--no-probe] [--require LAYER[,LAYER...]]`: what confinement holds here.
//!
//! Each layer is tried, not read from a configuration: a packet is sent that must be refused, a file is written, a socket
//! connected. Whether packets leave can be learned in no other way, least of all from inside a container whose rules its
//! user may not read; so that is the default. It costs one datagram and one connection attempt to each of two addresses
//! reserved for documentation, and nothing where there is only loopback. Where somebody watches for denied packets, or a
//! health check runs every minute, `--no-probe` leaves them out; the layer then counts as absent, never as enforced.
//!
//! Exit codes: 0; 1 a layer named with `--require` is not enforced; 2 the command line is wrong.

mod cgroup;
mod files;
mod host;
mod network;
mod process;
mod unix_sockets;

use crate::enter::environment::Environment;
use lexopt::{Arg, Parser};
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;

const HELP: &str = "\
Usage: ax-runner doctor [--json] [--no-probe] [--require LAYER[,LAYER...]]

Tries each layer of confinement and says whether it is enforced, absent or failed.
Sends packets: unless there is nothing but loopback, one datagram and one connection attempt to
192.0.2.1 and to 2001:db8::1, port 9 (addresses reserved for documentation, nobody's), to see whether
they leave; and it connects to the host and the web proxy, if their variables are set.

  --json             one JSON object instead of a table
  --no-probe         send nothing to those two addresses; the layer network is then not tried
                     and counts as absent, unless there is nothing but loopback
  --require LAYERS   exit with 1 unless these are enforced; may be repeated; `all` names every layer
  --help             this text
";

/// How a layer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// It holds.
    Enforced,
    /// It is not there.
    Absent,
    /// It should be there and does not hold.
    Failed,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Absent => "absent",
            Self::Failed => "FAILED",
        }
    }
}

/// One layer and what was found.
#[derive(Debug, Clone, Serialize)]
struct Layer {
    name: &'static str,
    state: State,
    detail: String,
}

impl Layer {
    fn new(name: &'static str, state: State, detail: impl Into<String>) -> Self {
        Self { name, state, detail: detail.into() }
    }

    fn enforced(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, State::Enforced, detail)
    }

    fn absent(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, State::Absent, detail)
    }

    fn failed(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, State::Failed, detail)
    }
}

#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    missing: &'a [String],
    layers: &'a [Layer],
}

#[derive(Default)]
struct Options {
    json: bool,
    help: bool,
    no_probe: bool,
    require: Vec<String>,
}

/// Runs the sub-command with the words after `doctor`.
pub fn main(args: Vec<OsString>) -> u8 {
    let options = match read(args) {
        Ok(options) => options,
        Err(error) => return complain(&format!("{error}; see ax-runner doctor --help")),
    };
    if options.help {
        return print(HELP, 0);
    }
    let layers = examine(&Environment::current(), !options.no_probe);
    let (missing, unknown) = missing(&layers, &options.require);
    if let Some(name) = unknown {
        let known: Vec<_> = layers.iter().map(|layer| layer.name).collect();
        return complain(&format!("there is no layer {name:?}; the layers are {}", known.join(", ")));
    }
    let code = u8::from(!missing.is_empty());
    let text = if options.json { json(&layers, &missing) } else { table(&layers, &missing) };
    print(&text, code)
}

fn examine(environment: &Environment, probe: bool) -> Vec<Layer> {
    let mut layers = vec![network::look(environment, probe)];
    layers.extend(examine_locally(environment));
    layers
}

/// All layers whose trial stays on this machine.
fn examine_locally(environment: &Environment) -> Vec<Layer> {
    [
        process::look(),
        files::look(environment),
        host::look(environment),
        vec![unix_sockets::look(environment)],
        cgroup::look(),
    ]
    .concat()
}

fn read(args: Vec<OsString>) -> Result<Options, lexopt::Error> {
    let mut options = Options::default();
    let mut parser = Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("json") => options.json = true,
            Arg::Long("no-probe") => options.no_probe = true,
            Arg::Long("help") | Arg::Short('h') => options.help = true,
            Arg::Long("require") => {
                let list = parser.value()?.into_string().map_err(lexopt::Error::NonUnicodeValue)?;
                options.require.extend(list.split(',').map(|name| name.trim().to_owned()));
            }
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}

/// Required layers that do not hold, and the first name that is no layer: a misspelt requirement must not pass.
fn missing(layers: &[Layer], required: &[String]) -> (Vec<String>, Option<String>) {
    let all = required.iter().any(|name| name == "all");
    let unknown =
        required.iter().find(|name| *name != "all" && layers.iter().all(|layer| layer.name != name.as_str())).cloned();
    let missing = layers
        .iter()
        .filter(|layer| layer.state != State::Enforced)
        .filter(|layer| all || required.iter().any(|name| name == layer.name))
        .map(|layer| layer.name.to_owned())
        .collect();
    (missing, unknown)
}

fn table(layers: &[Layer], missing: &[String]) -> String {
    let mut text = String::new();
    for layer in layers {
        let _ = writeln!(text, "{:<9} {:<16} {}", layer.state.word(), layer.name, layer.detail);
    }
    if !missing.is_empty() {
        let _ = writeln!(text, "required and not enforced: {}", missing.join(", "));
    }
    text
}

fn json(layers: &[Layer], missing: &[String]) -> String {
    let report = Report { ok: missing.is_empty(), missing, layers };
    serde_json::to_string(&report).map_or_else(|_| "{\"ok\":false}\n".to_owned(), |text| text + "\n")
}

fn print(text: &str, code: u8) -> u8 {
    if std::io::stdout().write_all(text.as_bytes()).is_ok() { code } else { 1 }
}

fn complain(text: &str) -> u8 {
    let _ = writeln!(std::io::stderr(), "ax-runner doctor: {text}");
    2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers() -> Vec<Layer> {
        vec![Layer::enforced("a", ""), Layer::absent("b", "x"), Layer::failed("c", "")]
    }

    fn required(names: &[&str]) -> (Vec<String>, Option<String>) {
        missing(&layers(), &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn only_enforced_layers_satisfy_a_requirement() {
        assert_eq!(required(&[]).0, [""; 0]);
        assert_eq!(required(&["a"]).0, [""; 0]);
        assert_eq!(required(&["a", "b", "c"]).0, ["b", "c"]);
        assert_eq!(required(&["all"]).0, ["b", "c"]);
    }

    #[test]
    fn a_misspelt_requirement_is_an_error() {
        for names in [&["network "][..], &[""], &["a", "A"]] {
            assert!(required(names).1.is_some(), "{names:?}");
        }
        assert!(required(&["a"]).1.is_none());
    }

    #[test]
    fn every_layer_is_examined_and_the_json_says_so() {
        let layers = examine_locally(&Environment::default());
        let text = json(&layers, &["network".to_owned()]);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["ok"], false);
        let names: Vec<_> =
            value["layers"].as_array().unwrap().iter().map(|layer| layer["name"].as_str().unwrap()).collect();
        for name in [
            "user",
            "capabilities",
            "bounding-set",
            "no-new-privs",
            "seccomp",
            "socket-families",
            "landlock",
            "gvisor",
            "root-read-only",
            "tmp",
            "workspace",
            "ca",
            "host",
            "proxy",
            "unix-sockets",
            "memory-limit",
            "pids-limit",
            "cpu-limit",
        ] {
            assert!(names.contains(&name), "{name} is missing from {names:?}");
        }
    }
}
