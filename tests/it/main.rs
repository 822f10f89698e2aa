//! The integration tests: one binary, a module a theme.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test panics with what is wrong, prints what it skips, and starts what it needs"
)]

mod devhost;
mod files;
mod floors;
mod git;
mod guard;
mod net;
mod sidecar;
