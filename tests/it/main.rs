//! The integration tests: one binary, a module a theme.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test panics with what is wrong, prints what it skips, and starts what it needs"
)]

mod anthropic;
mod bash;
mod catalogue;
mod checkout;
mod devhost;
mod enter;
mod everywhere;
mod files;
mod floors;
mod git;
mod guard;
mod impostor;
mod life;
mod link;
mod net;
mod paths;
#[cfg(target_os = "linux")]
mod processes;
mod rows;
mod search;
mod sidecar;
mod start;
mod support;
mod tools;
mod turn;
