//! The integration tests: one binary, a module a theme.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, clippy::print_stdout)]

mod git;
mod net;
mod sidecar;
