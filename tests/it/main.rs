//! The integration tests: one binary, a module a theme.

// The lint's own exception for tests does not reach their helpers.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod files;
