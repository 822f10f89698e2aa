//! The long tests. `tests/soak/run` does them in full and prints a table; without `AX_SOAK` each has a short form that can
//! still fail. `AX_RUNNER` names another program to measure, a release build say.

mod busy;
mod idle;
mod measure;
mod session;
mod stop;

use std::ffi::OsString;

/// The full form?
fn full() -> bool {
    std::env::var_os("AX_SOAK").is_some()
}

/// The program under test.
fn program() -> OsString {
    std::env::var_os("AX_RUNNER").unwrap_or_else(|| crate::support::BIN.into())
}

/// One line of the table.
fn row(name: &str, value: impl std::fmt::Display) {
    println!("| {name} | {value} |");
}
