//! The host side, for development and tests: what `ax-devhost` is made of, and the fake host of the test suite.
//!
//! A test starts a [`FakeHost`] with a [`Script`], lets it run a runner, and looks at what arrived:
//!
//! ```no_run
//! use ax_runner::devhost::{FakeHost, Fault, Point, Script};
//! use serde_json::json;
//!
//! let script = Script::json(json!([{"tools": [{"name": "bash", "args": {"command": "ls"}}]}, {"text": "done"}]));
//! let host = FakeHost::socket(script).fault("sandbox_result", 1, Fault::Close(Point::Read)).start();
//! let output = host.runner("target/debug/ax-runner").payload(&host.payload("look around")).run();
//! assert_eq!(output.text(), "done");
//! assert!(host.violations().is_empty());
//! ```
//!
//! Everything here keeps to portable Unix: the host side also runs on a Mac.

mod ask;
mod audit;
mod body;
mod brain;
mod builder;
mod canned;
mod cli;
mod event;
mod fault;
mod host;
mod http;
mod http_body;
mod http_io;
mod inside;
mod model;
mod pattern;
mod payload;
mod policy;
mod provider;
mod run;
mod runner;
mod script;
mod seen;
mod session;
mod socket;
mod tour;
mod transcript;
mod validate;

pub use builder::Builder;
pub use cli::main;
pub use event::{Event, Listener};
pub use fault::{Fault, Point};
pub use host::FakeHost;
pub use nix::sys::signal::Signal;
pub use policy::{Policy, PolicyError, Verdict};
pub use provider::Provider;
pub use runner::{Output, Runner, Running};
pub use script::{Script, ScriptError};
pub use seen::{Answer, Request, Violation};
pub use validate::{Transport, broken_rules};

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
