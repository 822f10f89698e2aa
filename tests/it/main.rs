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
mod cases;
mod catalogue;
mod checkout;
#[cfg(target_os = "linux")]
mod connects;
mod credentials;
mod devhost;
mod enter;
mod everywhere;
#[path = "../faults/mod.rs"]
mod faults;
mod fifteen;
mod files;
mod floors;
mod git;
mod guard;
mod http;
mod impostor;
mod life;
mod link;
mod listen;
mod net;
#[cfg(target_os = "linux")]
mod old_kernels;
mod paths;
#[cfg(target_os = "linux")]
mod pid1;
#[cfg(target_os = "linux")]
mod processes;
mod rows;
mod search;
mod sidecar;
#[cfg(target_os = "linux")]
mod signals;
mod skills;
#[cfg(target_os = "linux")]
#[path = "../soak/mod.rs"]
mod soak;
mod start;
mod support;
mod tools;
mod turn;
