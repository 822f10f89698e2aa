//! What the runner costs, beside the least that the same job can cost.
//!
//! Each row measures two things in one run, turn about, and shows both medians: a ratio survives a slow machine, a
//! figure alone does not. Nothing here fails because of a figure. Run by `tests/bench/run`.
//!
//! The host of these measurements is a blocking one of a few lines (`host`): the development host checks every request
//! against the protocol, which would be measured too.

mod bash;
mod files;
mod frames;
mod host;
mod memory;
mod place;
mod prompt;
mod search;
mod session;
mod start;
mod table;

use place::Programs;
use std::error::Error;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use table::Row;

/// What a measurement comes to.
type Outcome<T> = Result<T, Box<dyn Error>>;

/// How often each thing is done.
struct Effort {
    starts: usize,
    bash_calls: usize,
    file_calls: usize,
    frame_batches: usize,
    large_frames: usize,
    idle_runners: usize,
    calls_in_a_row: usize,
    files_searched: usize,
    searches: usize,
}

const FULL: Effort = Effort {
    starts: 100,
    bash_calls: 200,
    file_calls: 60,
    frame_batches: 60,
    large_frames: 15,
    idle_runners: 200,
    calls_in_a_row: 1000,
    files_searched: 50_000,
    searches: 15,
};

const SMOKE: Effort = Effort {
    starts: 10,
    bash_calls: 20,
    file_calls: 6,
    frame_batches: 5,
    large_frames: 2,
    idle_runners: 20,
    calls_in_a_row: 150,
    files_searched: 2_000,
    searches: 3,
};

type Section = fn(&Programs, &Effort) -> Outcome<Vec<Row>>;

const SECTIONS: [(&str, Section); 7] = [
    ("start", start::rows),
    ("bash", bash::rows),
    ("files", files::rows),
    ("frames", frames::rows),
    ("memory", memory::rows),
    ("search", search::rows),
    ("prompt", prompt::rows),
];

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let (mut runner, mut minimal, mut effort, mut wanted) = (None, None, &FULL, Vec::<OsString>::new());
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--runner") => runner = args.next(),
            Some("--minimal") => minimal = args.next(),
            Some("--smoke") => effort = &SMOKE,
            Some("--bench") => {}
            _ => wanted.push(arg),
        }
    }
    let mut out = std::io::stdout();
    let (Some(runner), Some(minimal)) = (runner, minimal) else {
        // `cargo test --all-targets` comes here.
        let _ = writeln!(out, "SKIP benchmarks: they are run by tests/bench/run");
        return ExitCode::SUCCESS;
    };
    let programs = Programs { runner: runner.into(), minimal: minimal.into() };
    let _ = writeln!(out, "{}", Row::HEAD);
    let (mut code, mut skipped) = (ExitCode::SUCCESS, Vec::new());
    for (name, section) in SECTIONS {
        if !wanted.is_empty() && !wanted.iter().any(|wish| wish == name) {
            continue;
        }
        match section(&programs, effort) {
            Ok(rows) => {
                let (left_out, rows): (Vec<_>, Vec<_>) =
                    rows.into_iter().partition(|row| matches!(row, Row::Skipped(_)));
                skipped.extend(left_out);
                rows.iter().for_each(|row| drop(writeln!(out, "{row}")));
            }
            Err(error) => {
                let _ = writeln!(out, "FAILED {name}: {error}");
                code = ExitCode::FAILURE;
            }
        }
        let _ = out.flush();
    }
    skipped.iter().for_each(|row| drop(writeln!(out, "{row}")));
    code
}
