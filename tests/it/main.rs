//! The integration tests: one binary, a module a theme.
mod net;
