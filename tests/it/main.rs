//! The integration tests: one binary, a module a theme.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test panics with what is wrong, prints what it skips, and starts what it needs"
)]

mod devhost;
mod floors;
// The lint's own exception for tests does not reach their helpers.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod files;
