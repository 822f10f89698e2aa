//! Why a command did not start, in words for the model.

use super::environment::ChildEnv;
use super::lack::{in_words, is_lack, plain};
use crate::limits;
use std::io;
use std::path::PathBuf;

/// Why a command did not start. Nothing of it has run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot be passed to a program.
    #[error("the command holds a NUL character; remove it and try again")]
    Nul,
    /// The directory to run in is not there.
    #[error("the workspace {} cannot be entered: {}; restore it", path.display(), plain(error))]
    Workspace {
        /// The workspace.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// No process or descriptor could be had.
    #[error("no process could be started{}: {}", ended_in_vain(*ended), in_words(error))]
    Resources {
        /// What the kernel said.
        error: io::Error,
        /// Processes that earlier commands had left running and that were ended for it, in vain.
        ended: usize,
    },
    /// The image has none.
    #[error("bash was not found at /bin/bash, /usr/bin/bash or /usr/local/bin/bash; install it in the image")]
    NoBash,
    /// One variable alone is more than the system passes to a program.
    #[error(
        "no command can run: the variable {name} has {bytes} bytes, and the system passes at most {} in one; tell the \
         user to shorten that credential or to give it in a file",
        limits::VARIABLE_MAX_BYTES
    )]
    Variable {
        /// Its name.
        name: String,
        /// Its size, name included.
        bytes: usize,
    },
    /// Everything together is.
    #[error(
        "the command ({command} bytes) and its variables ({variables} bytes, the largest is {name}) are together more than \
         the system passes to a program; make the command shorter, or tell the user to give fewer or shorter credentials"
    )]
    TooLarge {
        /// Bytes of the command.
        command: usize,
        /// Bytes of all variables.
        variables: usize,
        /// The largest one.
        name: String,
    },
    /// It is there but cannot run.
    #[error("bash could not be executed: {}", plain(.0))]
    Exec(io::Error),
    /// The host's socket cannot be kept from it.
    #[error("the command was not run, since the host's socket cannot be kept from it: {0}")]
    Unguarded(String),
    /// The kernel lacks what the design rests on.
    #[error("this system cannot track the processes of a command: {}; tell the user to start the runner as the first process of its container", plain(.0))]
    Unsupported(io::Error),
}

impl StartError {
    /// What the kernel does not say of a program's arguments and variables.
    pub(super) fn too_large(command: &str, env: &ChildEnv) -> Self {
        let (name, bytes) = env.sizes().max_by_key(|(_, bytes)| *bytes).unwrap_or_default();
        let name = name.display().to_string();
        match bytes > limits::VARIABLE_MAX_BYTES {
            true => Self::Variable { name, bytes },
            false => {
                let variables = env.sizes().map(|(_, bytes)| bytes).sum();
                Self::TooLarge { command: command.len(), variables, name }
            }
        }
    }

    pub(super) fn resources(error: io::Error) -> Self {
        Self::Resources { error, ended: 0 }
    }

    /// The same after so many processes were ended for it.
    pub(super) fn after(self, ended: usize) -> Self {
        match self {
            Self::Resources { error, .. } => Self::Resources { error, ended },
            other => other,
        }
    }

    /// Could there be room for it a moment later, or when others have ended? Then nothing of it has run.
    pub(super) fn is_lack(&self) -> bool {
        matches!(self, Self::Resources { error, .. } if is_lack(error))
    }
}

fn ended_in_vain(count: usize) -> String {
    match count {
        0 => String::new(),
        count => format!(", though {count} of the processes that earlier commands had left running were ended for it"),
    }
}
