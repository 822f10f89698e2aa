//! The development host: hands the arguments to the library, nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    ax_runner::devhost::main(std::env::args_os().skip(1)).into()
}
