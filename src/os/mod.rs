//! The operating system: the only place with `unsafe`.
//!
//! Everything that starts a process, signals one, reaps one or changes what the kernel lets this process do is here, so
//! that a reader who wants to judge those parts reads one room. What runs on Linux only is marked; the rest is portable
//! Unix, for the development host.

mod basics;
mod blocking;
mod environment;
mod stdin;
mod stdout;

#[cfg(target_os = "linux")]
pub mod guard;
#[cfg(target_os = "linux")]
mod harden;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(target_os = "linux")]
mod keeper_child;
#[cfg(target_os = "linux")]
mod known;
mod lack;
#[cfg(all(target_os = "linux", target_feature = "crt-static"))]
mod no_resolver;
#[cfg(target_os = "linux")]
mod output;
#[cfg(target_os = "linux")]
mod script;
#[cfg(target_os = "linux")]
mod shell;
#[cfg(target_os = "linux")]
pub mod signals;
#[cfg(target_os = "linux")]
mod start_error;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod watch;

pub use basics::{need_descriptors, raise_descriptors, replace, with_given_descriptors};
pub use blocking::{WorkFailed, blocking, keep_thread};
pub use environment::{ChildEnv, RefusedName};
pub use lack::is_lack;
pub use stdin::{StdinError, read_stdin};
pub use stdout::{stdout_open, write_stdout, write_stdout_here};

#[cfg(target_os = "linux")]
pub use harden::{HardenError, close_inherited, harden, hear_children, hide_environment};
#[cfg(target_os = "linux")]
pub use known::{Known, adopt_orphans};
#[cfg(target_os = "linux")]
pub use shell::{End, Ended, Shell};
#[cfg(target_os = "linux")]
pub use start_error::StartError;
#[cfg(target_os = "linux")]
pub use tree::is_foreign;
#[cfg(target_os = "linux")]
pub use watch::end_everything;

pub mod privileges;

/// Has a signal to stop come, told or not yet?
pub fn stopping() -> bool {
    #[cfg(target_os = "linux")]
    return signals::stopped_by().is_some();
    #[cfg(not(target_os = "linux"))]
    return false;
}
