//! What to start: our own runner or sidecar in any of the spellings a host uses, or a command of the operator's.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// A command, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Job {
    /// This program as the runner, with these arguments.
    Runner(Vec<OsString>),
    /// This program as the git sidecar.
    Sidecar(Vec<OsString>),
    /// Anything else.
    Command(Vec<OsString>),
}

impl Job {
    /// Reads the words after `enter`. None at all mean the runner; so do the command vectors an unmodified host passes
    /// (PROTOCOL §1.1): the script as the first word, or `node` and the script.
    pub(crate) fn read(mut words: Vec<OsString>) -> Self {
        if words.is_empty() {
            return Self::Runner(words);
        }
        let script = usize::from(named(&words[0], "node") && words.len() > 1);
        match words.get(script).map(OsString::as_os_str) {
            Some(path) if is_script(path, "runner.js") => Self::Runner(words.split_off(script + 1)),
            Some(path) if is_script(path, "git-sidecar.js") => Self::Sidecar(words.split_off(script + 1)),
            _ => Self::Command(words),
        }
    }
}

fn named(word: &OsStr, name: &str) -> bool {
    Path::new(word).file_name() == Some(OsStr::new(name))
}

fn is_script(word: &OsStr, name: &str) -> bool {
    Path::new(word).ends_with(Path::new("agent").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_hosts_vectors_and_others() {
        for (line, job) in [
            ("", Job::Runner(words(""))),
            ("/opt/ax/dist/agent/runner.js --agent x", Job::Runner(words("--agent x"))),
            ("node /opt/ax/dist/agent/runner.js --verbose", Job::Runner(words("--verbose"))),
            ("/usr/local/bin/node dist/agent/runner.js", Job::Runner(words(""))),
            ("node dist/agent/git-sidecar.js", Job::Sidecar(words(""))),
            ("node", Job::Command(words("node"))),
            ("node app/runner.js", Job::Command(words("node app/runner.js"))),
            ("node --version dist/agent/runner.js", Job::Command(words("node --version dist/agent/runner.js"))),
            ("nodejs dist/agent/runner.js", Job::Command(words("nodejs dist/agent/runner.js"))),
            ("bash -c x", Job::Command(words("bash -c x"))),
            ("/x/myagent/runner.js", Job::Command(words("/x/myagent/runner.js"))),
        ] {
            assert_eq!(Job::read(words(line)), job, "{line}");
        }
    }
}
