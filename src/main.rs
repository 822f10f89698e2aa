//! The runner: hands the arguments to the library, nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    ax_runner::cli::main(std::env::args_os().collect(), std::env::vars_os().collect()).into()
}
