//! The integration tests: one binary, a module a theme.

#[cfg(target_os = "linux")]
mod processes;
