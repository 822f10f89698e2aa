//! The workspace's history (PROTOCOL §12): cloned and pushed by the runner, or by the sidecar it asks.
//!
//! The git program does the work; here it is kept from doing more than asked. What it reads besides objects and the files
//! of the work tree is ours: no configuration, hook or attribute that the agent can write decides what runs.

mod client;
mod command;
mod commit;
mod date;
mod foreign;
mod login;
mod obstacles;
mod workspace;

pub use client::{Sidecar, SidecarError, TurnSaved};
pub use command::{Git, GitError, find_git};
pub(crate) use commit::{MAIN, TRACKED};
pub use commit::{Pushed, Save, Saver};
pub use date::iso_utc;
pub use workspace::{Settings, Workspace};
