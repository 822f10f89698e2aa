//! ax-runner: the process inside an AX agent's sandbox container.
//!
//! It reads a piece of work, asks the host for model turns, runs the tools that the host approves, and returns the answer.
//! The contract with the host is called PROTOCOL in the comments, the design DESIGN, the table of field failures CASES.
//!
//! # The house
//!
//! A room uses only rooms on lower floors; `tests/it/floors.rs` holds it to that.
//!
//! | floor | rooms |
//! |---|---|
//! | 0 values | [`limits`] every number; [`secret`] what must not be shown; [`redact`]; [`text`] cuts and counts; [`wire`] the host's language |
//! | 1 system | [`os`] processes, the only `unsafe`; [`workspace`] the confined directory; [`http`] clients; [`log`] lines |
//! | 2 link | [`link`] questions and answers over any transport; [`gate`] the only maker of consent |
//! | 3 tools | [`tools`] a verb a file |
//! | 4 turn | [`prompt`]; [`agent`] the model loop; [`net`] proxy and certificates; [`git`] the repository |
//! | 5 life | [`runner`]; [`enter`] the entrypoint; [`sidecar`]; [`doctor`]; [`devhost`] the other side; [`cli`] picks one |
//!
//! # Trust
//!
//! Three borders, each with one door: what the model says becomes a call only in `tools::arguments`; a call becomes an
//! effect only through [`gate::Gate::approve`]; a path becomes a file only through [`workspace::Workspace`]. Children get
//! their environment from [`os::ChildEnv`] and nothing else of ours.
//!
//! # Exit codes
//!
//! 0 done; 1 failed, the last line on stderr says why; 2 wrong arguments of a subcommand; 70 a panic outside a tool;
//! 128 + n ended by signal n. `enter` adds 77, the policy cannot be enforced; 78, it is wrong; 126 and 127, the command
//! cannot be started or is not there.

pub mod agent;
pub mod cli;
pub mod devhost;
pub mod doctor;
pub mod enter;
#[cfg(any(test, fuzzing))]
#[path = "../tests/fuzz/mod.rs"]
pub mod fuzz;
pub mod gate;
pub mod git;
pub mod http;
pub mod limits;
pub mod link;
pub mod log;
pub mod net;
pub mod os;
pub mod prompt;
pub mod redact;
pub mod runner;
pub mod secret;
pub mod sidecar;
pub mod text;
pub mod tools;
pub mod wire;
pub mod workspace;
