//! The command line of `enter`.

use lexopt::{Arg, Parser};
use std::ffi::OsString;
use std::path::PathBuf;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Usage: ax-runner enter [OPTIONS] [--] [COMMAND...]

Closes the network as the policy says, gives up every privilege, and runs COMMAND
(the runner itself when there is none).

  --policy FILE          policy file, JSON or TOML; then AX_NET_POLICY and AX_NET_ALLOW must be unset
  --env-file FILE        NAME=value lines for the command; mode 0600; may be repeated
  --print                print the policy and the rules, touch nothing
  --insecure-keep-root   run COMMAND as root (still without capabilities)
  --help                 this text

Without --policy: AX_NET_POLICY is a mode (none, isolated, gate, allow, external, auto) or the path
of a policy file; AX_NET_ALLOW lists host:port,host:port for gate and allow.

Exit codes: 78 the policy is wrong, 77 it cannot be enforced, 126/127 COMMAND cannot be started,
128+n ended by signal n.
";

/// The options, as given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// `--policy`.
    pub policy: Option<PathBuf>,
    /// `--env-file`.
    pub env_files: Vec<PathBuf>,
    /// `--print`.
    pub print: bool,
    /// `--help`.
    pub help: bool,
    /// `--insecure-keep-root`.
    pub keep_root: bool,
    /// The command and its arguments.
    pub command: Vec<OsString>,
}

/// Reads the words after `enter`. The command begins at its first word, its options are its own.
pub(crate) fn read(args: Vec<OsString>) -> Result<Options, lexopt::Error> {
    let mut options = Options::default();
    let mut parser = Parser::from_args(args);
    loop {
        // `--` is taken by hand: everything behind it is the command, an option-like first word included.
        if let Some(raw) = parser.try_raw_args()
            && raw.peek().is_some_and(|word| word == "--")
        {
            options.command = raw.skip(1).collect();
            return Ok(options);
        }
        let Some(arg) = parser.next()? else { return Ok(options) };
        match arg {
            Arg::Long("policy") if options.policy.is_some() => return Err("--policy may be given once".into()),
            Arg::Long("policy") => options.policy = Some(parser.value()?.into()),
            Arg::Long("env-file") => options.env_files.push(parser.value()?.into()),
            Arg::Long("print") => options.print = true,
            Arg::Long("help") | Arg::Short('h') => options.help = true,
            Arg::Long("insecure-keep-root") => options.keep_root = true,
            Arg::Value(first) => {
                options.command = std::iter::once(first).chain(parser.raw_args()?).collect();
                return Ok(options);
            }
            other => return Err(other.unexpected()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, lexopt::Error> {
        read(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn options_end_where_the_command_begins() {
        let options = parsed("--policy /p --print cmd --policy x -- y").unwrap();
        assert_eq!(options.policy, Some("/p".into()));
        assert!(options.print);
        assert_eq!(options.command, ["cmd", "--policy", "x", "--", "y"]);
        assert_eq!(parsed("--print -- --weird -- x").unwrap().command, ["--weird", "--", "x"]);
        assert_eq!(parsed("--").unwrap(), Options::default());
        assert_eq!(parsed("").unwrap(), Options::default());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for line in ["--polcy /p", "-x", "--policy", "--policy /a --policy /b", "--print=yes", "--keep-root"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
