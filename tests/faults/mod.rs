//! Fault runs: the built program, the development host, and one thing after the other that fails. `tests/faults/run` does all of
//! them and writes the table `fixtures/fault-runs.md`; ordinary tests do the quick ones and compare them with it.

mod commands;
mod host;
mod resources;

use crate::support::{BIN, runner};
use ax_runner::devhost::{FakeHost, Output, Runner, Script};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/fault-runs.md");
/// What the runner may take beyond an ordinary turn, in kilobytes (CASES B04), with room for a build without optimisation.
const PEAK_KB: u64 = 140 * 1024;
/// A uid that nobody has.
const NOBODY: u32 = 61_234;

/// One line of the table.
struct Row {
    /// Did the turn go on to its own end?
    survived: bool,
    lost: String,
    ended: String,
    exit: String,
}

impl Row {
    fn new(played: &Played, lost: &str, ended: impl Into<String>) -> Self {
        let output = &played.output;
        let exit =
            output.code.map_or_else(|| format!("signal {}", output.signal.unwrap_or(0)), |code| code.to_string());
        Self { survived: output.text().trim() == "done", lost: lost.to_owned(), ended: ended.into(), exit }
    }

    fn line(&self, name: &str) -> String {
        let survived = if self.survived { "yes" } else { "no" };
        let tidy = |text: &str| text.replace('\n', " ").replace('|', "\\|");
        format!("| {name} | {survived} | {} | {} | {} |", tidy(&self.lost), tidy(&self.ended), self.exit)
    }
}

/// A fault: its name, whether it is quick enough for every run of the tests, and what it does. An error says what is missing
/// here.
struct Fault(&'static str, bool, fn() -> Result<Row, String>);

fn faults() -> impl Iterator<Item = Fault> {
    resources::FAULTS.into_iter().chain(host::FAULTS).chain(commands::FAULTS)
}

/// A turn that was played to its end.
struct Played {
    host: FakeHost,
    output: Output,
    /// The largest memory the runner ever had, in kilobytes.
    peak: u64,
}

impl Played {
    /// What the model was told of its calls.
    fn told(&self) -> Vec<String> {
        crate::rows::told(&self.host)
    }

    fn bounded(&self) {
        assert!(self.peak < PEAK_KB, "{} kB", self.peak);
    }
}

/// Plays a turn; `prefix` is a shell's text that ends by becoming the runner.
fn play(script: Script, prefix: &str, configure: impl FnOnce(Runner) -> Runner) -> Played {
    let host = FakeHost::socket(script).start();
    on(host, prefix, configure)
}

/// The same on a host that is there already.
fn on(host: FakeHost, prefix: &str, configure: impl FnOnce(Runner) -> Runner) -> Played {
    let running = configure(start(&host, prefix)).spawn().expect("the runner starts");
    let (peak, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let watching = {
        let (pid, peak, over) = (running.pid(), peak.clone(), over.clone());
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                peak.fetch_max(high_water(pid), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        })
    };
    let output = running.wait();
    over.store(true, Ordering::Relaxed);
    watching.join().unwrap();
    assert!(!output.timed_out, "the runner hangs: {}", output.stderr);
    Played { host, output, peak: peak.load(Ordering::Relaxed) }
}

fn start(host: &FakeHost, prefix: &str) -> Runner {
    if prefix.is_empty() {
        return runner(host);
    }
    let words = ["bash", "-c", &format!("{prefix}; exec \"$0\" \"$@\""), BIN];
    host.command(words.map(OsString::from).to_vec()).deadline(crate::support::LIMIT).payload(&host.payload("go"))
}

/// The `VmHWM` of a process.
fn high_water(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

/// What a tool's result says, without its JSON if it has any.
fn said(told: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(told).unwrap_or_default();
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    text("error").or_else(|| text("output")).unwrap_or_else(|| told.to_owned())
}

fn root() -> Result<(), String> {
    nix::unistd::geteuid().is_root().then_some(()).ok_or_else(|| "needs root".to_owned())
}

/// Can this be done here? Asked by doing it.
fn can(command: &str) -> Result<(), String> {
    let done = std::process::Command::new("bash").args(["-c", command]).output();
    match done {
        Ok(done) if done.status.success() => Ok(()),
        _ => Err(format!("`{command}` does not work here")),
    }
}

const HEAD: &str = "\
# What a fault costs

One turn each, played by the built program against the development host, with one thing that fails. *Survived*: the model
got its results and the turn came to its own end. Written by `tests/faults/run`; the tests do the quick ones again.

| fault | survived | lost | how it ended | exit |
|---|---|---|---|---|
";

/// All of them, into the table; one that goes wrong does not keep the others from being told.
fn write() {
    let committed = std::fs::read_to_string(FIXTURE).unwrap_or_default();
    let (mut table, mut wrong) = (HEAD.to_owned(), Vec::new());
    for Fault(name, _, play) in faults() {
        let known = committed.lines().find(|line| line.starts_with(&format!("| {name} |")));
        match std::panic::catch_unwind(play) {
            Ok(Ok(row)) => {
                println!("{}", row.line(name));
                table += &(row.line(name) + "\n");
                continue;
            }
            Ok(Err(why)) => crate::support::skip(name, why),
            Err(_) => wrong.push(name),
        }
        // What cannot be had here stays as it was found elsewhere.
        table += &known.map(|line| format!("{line}\n")).unwrap_or_default();
    }
    std::fs::write(FIXTURE, table).unwrap();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn quick_faults_end_as_the_table_says() {
    if std::env::var_os("AX_FAULTS").is_some() {
        return write();
    }
    let table = std::fs::read_to_string(FIXTURE).unwrap();
    for Fault(name, _, play) in faults().filter(|fault| fault.1) {
        match play() {
            Ok(row) => {
                assert!(table.contains(&row.line(name)), "another outcome than in the table: {}", row.line(name))
            }
            Err(why) => crate::support::skip(name, why),
        }
    }
}

#[test]
fn every_fault_is_in_the_table() {
    let table = std::fs::read_to_string(FIXTURE).unwrap();
    for Fault(name, ..) in faults() {
        assert!(table.contains(&format!("| {name} |")), "{name} is missing: run tests/faults/run");
    }
}
