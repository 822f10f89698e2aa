//! How each provider launches a runner (PROTOCOL §1.7–1.9): command line and environment, value by value.

use super::runner::SCRIPT;
use super::validate::Transport;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Who starts the runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// A child process, without any confinement.
    Process,
    /// `docker run`.
    Docker,
    /// `podman run`, with docker's flags.
    Podman,
    /// Apple's `container run`.
    Apple,
    /// A pod; its manifest is printed, not created.
    K8s,
}

impl Provider {
    /// The transport its runners use.
    pub(crate) fn transport(self) -> Transport {
        match self {
            Self::Process | Self::Docker | Self::Podman => Transport::Socket,
            Self::Apple => Transport::Listen,
            Self::K8s => Transport::Http,
        }
    }

    /// Does the runner see other paths than the host?
    pub(crate) fn is_container(self) -> bool {
        self != Self::Process
    }
}

/// What a launch depends on.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) provider: Provider,
    pub(crate) transport: Transport,
    /// The directory with the host's sockets.
    pub(crate) ipc: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) request_id: Option<String>,
    pub(crate) verbose: bool,
    /// HTTP: the host's URL and the pod's token.
    pub(crate) http: (String, String),
    /// The image of a container.
    pub(crate) image: String,
    /// The container's name; also that of its bridge.
    pub(crate) name: String,
}

/// A command line with its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Vector {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// Set beside what is inherited; for a process nothing is inherited.
    pub(crate) environment: Vec<(String, OsString)>,
}

impl Launch {
    /// The runner's command, as an argument list after the image's entrypoint.
    pub(crate) fn command(&self) -> Vec<OsString> {
        let mut command: Vec<OsString> =
            [SCRIPT, "--agent", "pi-coding-agent", "--max-tokens", "8192"].map(OsString::from).to_vec();
        if self.verbose {
            command.push("--verbose".into());
        }
        command
    }

    /// Where the host finds the socket it listens on, or dials.
    pub(crate) fn socket(&self) -> PathBuf {
        match self.provider {
            Provider::Apple => self.ipc.join("bridges").join(format!("{}.sock", self.name)),
            _ => self.ipc.join("proxy.sock"),
        }
    }

    /// The environment as the runner sees it.
    pub(crate) fn environment(&self) -> Vec<(String, OsString)> {
        let container = self.provider.is_container();
        let (workspace, scratch) = match container {
            true => (PathBuf::from("/workspace"), Path::new("/tmp/.ax").to_owned()),
            false => (self.workspace.clone(), self.ipc.join("scratch").join(".ax")),
        };
        let beside = |suffix: &str| {
            let mut path = scratch.clone().into_os_string();
            path.push(suffix);
            path
        };
        let mut path = workspace.join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()));
        let mut environment: Vec<(&str, OsString)> = Vec::new();
        if self.transport != Transport::Http {
            let socket =
                if self.provider == Provider::Apple { PathBuf::from("/tmp/bridge.sock") } else { self.socket() };
            environment.push(("AX_IPC_SOCKET", socket.into()));
        }
        environment.extend([
            ("AX_WORKSPACE", workspace.into()),
            ("PATH", path),
            ("npm_config_cache", beside("-npm-cache")),
            ("XDG_CACHE_HOME", beside("-cache")),
            ("AX_HOME", beside("-agent")),
        ]);
        match self.transport {
            Transport::Http => environment.extend(self.http_environment()),
            transport => {
                environment.push(("AX_WEB_PROXY_SOCKET", self.ipc.join("web-proxy.sock").into()));
                if transport == Transport::Listen {
                    environment.push(("AX_IPC_LISTEN", "1".into()));
                }
            }
        }
        environment.extend(self.request_id.as_ref().map(|id| ("AX_REQUEST_ID", id.into())));
        environment.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn http_environment(&self) -> Vec<(&'static str, OsString)> {
        let mut environment = vec![
            ("LOG_LEVEL", if self.verbose { "debug".into() } else { "warn".into() }),
            ("AX_HOST_URL", self.http.0.clone().into()),
            ("AX_IPC_TOKEN", self.http.1.clone().into()),
            ("POD_NAME", self.name.clone().into()),
        ];
        environment.extend(self.request_id.as_ref().map(|id| ("AX_IPC_REQUEST_ID", id.into())));
        environment
    }

    /// The whole command line of a container provider; for a process `runner` starts it.
    pub(crate) fn vector(&self, runner: &[OsString]) -> Vector {
        match self.provider {
            Provider::Docker => self.docker("docker"),
            Provider::Podman => self.docker("podman"),
            Provider::Apple => self.apple(),
            Provider::Process | Provider::K8s => Vector {
                program: runner.first().cloned().unwrap_or_default(),
                arguments: runner.iter().skip(1).cloned().chain(self.command()).collect(),
                environment: self.environment(),
            },
        }
    }

    fn docker(&self, program: &str) -> Vector {
        let mut arguments = strings(&["run", "--rm", "-i", "--name", &self.name, "--network=none"]);
        arguments.extend(strings(&["--memory", "256m", "--cpus", "1", "--pids-limit", "256", "--cap-drop=ALL"]));
        arguments.extend(strings(&["--security-opt", "no-new-privileges", "--read-only"]));
        arguments.extend(strings(&["--tmpfs", "/tmp:rw,noexec,nosuid,size=64m"]));
        arguments.extend(["-v".into(), mount(&self.workspace, "/workspace".as_ref())]);
        arguments.extend(["-v".into(), mount(&self.ipc, &self.ipc), "-w".into(), "/workspace".into()]);
        self.finished(program, arguments)
    }

    fn apple(&self) -> Vector {
        let mut arguments = strings(&["run", "--rm", "-i", "--name", &self.name, "--memory", "256m", "--cpus", "1"]);
        arguments.extend(["-v".into(), mount(&self.workspace, "/workspace".as_ref())]);
        let mut published = self.socket().into_os_string();
        published.push(":/tmp/bridge.sock");
        arguments.extend(["--publish-socket".into(), published, "-w".into(), "/workspace".into()]);
        self.finished("container", arguments)
    }

    fn finished(&self, program: &str, mut arguments: Vec<OsString>) -> Vector {
        for (name, value) in self.environment() {
            let mut pair = OsString::from(name);
            pair.push("=");
            pair.push(value);
            arguments.extend(["-e".into(), pair]);
        }
        arguments.push(self.image.clone().into());
        arguments.extend(self.command());
        Vector { program: program.into(), arguments, environment: Vec::new() }
    }

    /// The pod that the host would create (PROTOCOL §1.9); JSON is YAML too. `url` is what the pod calls.
    pub(crate) fn pod(&self) -> Value {
        let environment: Vec<Value> = self
            .environment()
            .into_iter()
            .map(|(name, value)| json!({"name": name, "value": value.to_string_lossy()}))
            .collect();
        let mut command = strings(&["node"]);
        command.extend(self.command());
        let command: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let limits = json!({"cpu": "1", "memory": "1Gi"});
        let scratch = |name: &str, size: &str| json!({"name": name, "emptyDir": {"sizeLimit": size}});
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "labels": {
                    "app.kubernetes.io/name": "ax-sandbox",
                    "app.kubernetes.io/component": "execution",
                    "ax.io/plane": "execution",
                },
            },
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": false,
                "runtimeClassName": "gvisor",
                "activeDeadlineSeconds": 86_700,
                "containers": [{
                    "name": "sandbox",
                    "image": self.image,
                    "command": command,
                    "workingDir": "/workspace",
                    "env": environment,
                    "resources": {"requests": limits, "limits": limits},
                    "securityContext": {
                        "runAsUser": 1000,
                        "runAsNonRoot": true,
                        "allowPrivilegeEscalation": false,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [
                        {"name": "workspace", "mountPath": "/workspace"},
                        {"name": "tmp", "mountPath": "/tmp"},
                        {"name": "home", "mountPath": "/home/user"},
                    ],
                }],
                "volumes": [scratch("workspace", "2Gi"), scratch("tmp", "256Mi"), scratch("home", "256Mi")],
            },
        })
    }
}

impl Vector {
    /// The command line as one would type it. A process gets exactly this environment, so `env -i` stands before it.
    pub(crate) fn shell(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        if !self.environment.is_empty() {
            words.extend(["env".to_owned(), "-i".to_owned()]);
            words.extend(
                self.environment.iter().map(|(name, value)| format!("{name}={}", quoted(&value.to_string_lossy()))),
            );
        }
        words.push(quoted(&self.program.to_string_lossy()));
        words.extend(self.arguments.iter().map(|word| quoted(&word.to_string_lossy())));
        words.join(" ")
    }
}

fn strings(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn mount(outside: &Path, inside: &Path) -> OsString {
    let mut text = outside.as_os_str().to_owned();
    text.push(":");
    text.push(inside);
    text.push(":rw");
    text
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
#[path = "provider_tests.rs"]
mod tests;
