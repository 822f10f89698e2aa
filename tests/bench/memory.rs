//! Memory: at the peak of a turn, at rest, of many at once; and what a thousand calls leave behind.

use crate::host::Listener;
use crate::place::{Connected, Place, Process, Programs, payload};
use crate::session::Session;
use crate::table::{Row, median};
use crate::{Effort, Outcome};
use serde_json::json;
use std::fs;
use std::process::Command;
use std::time::Duration;

/// Threads for blocking work end after five idle seconds; at rest means after that.
const REST: Duration = Duration::from_secs(6);

pub(crate) fn rows(programs: &Programs, effort: &Effort) -> Outcome<Vec<Row>> {
    let place = Place::new()?;
    let rows = || -> Outcome<Vec<Row>> {
        let mut rows = idle(&place, programs, effort)?;
        fs::remove_file(place.socket())?;
        rows.extend(in_a_row(&place, programs, effort)?);
        Ok(rows)
    };
    rows().map_err(|error| place.explain(&*error).into())
}

/// Many runners that wait for the model, and as many minimal programs; and the peak of one turn.
fn idle(place: &Place, programs: &Programs, effort: &Effort) -> Outcome<Vec<Row>> {
    let listener = Listener::bind(&place.socket())?;
    let many = |start: &dyn Fn() -> Outcome<Command>| -> Outcome<Vec<Connected>> {
        (0..effort.idle_runners).map(|_| Connected::start(start()?, &payload("docker")?, &listener)).collect()
    };
    let runners = many(&|| place.runner(programs))?;
    let minimal = many(&|| place.minimal(programs))?;
    std::thread::sleep(REST);
    let of = |all: &[Connected], key: &'static str| -> Outcome<u64> {
        let values = all.iter().map(|one| status(&one.process, key)).collect::<Outcome<Vec<_>>>()?;
        Ok(median(values))
    };
    let beside = "minimal static program";
    let peak = one_call_peak(programs)?;
    let mut rows = vec![
        Row::bytes("peak RSS of a turn with one `bash` call", peak, beside, of(&minimal, "VmHWM")?, "<= 12 MB"),
        Row::bytes(
            "RSS while the model is thinking",
            of(&runners, "VmRSS")?,
            beside,
            of(&minimal, "VmRSS")?,
            "<= 6 MB",
        ),
    ];
    for (what, kind) in [("PSS", Share::Proportional), ("USS", Share::Unique)] {
        let what = format!("{what} of each of {} idle runners", effort.idle_runners);
        let average = |all: &[Connected]| -> Option<u64> {
            let sum = all.iter().map(|one| share(&one.process, kind)).sum::<Option<u64>>()?;
            sum.checked_div(all.len() as u64)
        };
        rows.push(match (average(&runners), average(&minimal)) {
            (Some(ours), Some(theirs)) => Row::bytes(&what, ours, beside, theirs, "<= 1.5 MB"),
            _ => Row::skipped(&what, "needs root to read /proc/PID/smaps_rollup of a process that is not dumpable"),
        });
    }
    Ok(rows)
}

fn one_call_peak(programs: &Programs) -> Outcome<u64> {
    let mut peaks = Vec::new();
    for _ in 0..3 {
        let place = Place::new()?;
        let mut session = Session::start(&place, programs)?;
        session.single("bash", &json!({"command": "true"}))?;
        peaks.push(status(session.process(), "VmHWM")?);
    }
    Ok(median(peaks))
}

/// Call after call in one process: nothing may grow.
fn in_a_row(place: &Place, programs: &Programs, effort: &Effort) -> Outcome<Vec<Row>> {
    let calls = effort.calls_in_a_row;
    let first = calls / 10;
    let mut session = Session::start(place, programs)?;
    let mut early = None;
    for done in 0..calls {
        let path = format!("file-{}.txt", done % 7);
        match done % 4 {
            0 | 1 => session.call("bash", &json!({"command": "echo some output; (exit 0) &"}))?,
            2 => session.call("write_file", &json!({"path": path, "content": "some lines\n".repeat(100)}))?,
            _ => session.call("bash", &json!({"command": "ls | head -c 1000"}))?,
        };
        if done + 1 == first {
            session.end_turn()?;
            early = Some(Left::of(&session)?);
        }
    }
    session.end_turn()?;
    let (Some(early), late) = (early, Left::of(&session)?) else { return Err("too few calls".into()) };
    let (what, then) = (format!("after {calls:} tool calls"), format!("after {first}"));
    let mut rows = vec![Row::bytes(&format!("RSS {what}"), late.rss, &then, early.rss, "flat")];
    rows.push(match (late.descriptors, early.descriptors) {
        (Some(late), Some(early)) => Row::counts(&format!("descriptors {what}"), late, &then, early, "constant"),
        _ => Row::skipped("descriptors", "needs root to read /proc/PID/fd of a process that is not dumpable"),
    });
    rows.push(Row::counts(&format!("children {what}"), late.children, &then, early.children, "none"));
    rows.push(Row::counts(&format!("zombies {what}"), late.zombies, &then, early.zombies, "none"));
    Ok(rows)
}

/// What a runner holds between two turns.
struct Left {
    rss: u64,
    descriptors: Option<usize>,
    children: usize,
    zombies: usize,
}

impl Left {
    fn of(session: &Session) -> Outcome<Self> {
        // The last keeper may be on its way out.
        std::thread::sleep(Duration::from_millis(100));
        let process = session.process();
        let states = children(process.pid())?;
        Ok(Self {
            rss: status(process, "VmRSS")?,
            descriptors: fs::read_dir(format!("/proc/{}/fd", process.pid())).ok().map(Iterator::count),
            children: states.len(),
            zombies: states.iter().filter(|state| **state == 'Z').count(),
        })
    }
}

/// States of the processes whose parent is `pid`.
fn children(pid: u32) -> Outcome<Vec<char>> {
    let mut states = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        // Most entries are no processes, and a process may end at any time.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let mut fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ')).into_iter().flatten();
        if let (Some(state), Some(parent)) = (fields.next(), fields.next())
            && parent.parse() == Ok(pid)
        {
            states.extend(state.chars().next());
        }
    }
    Ok(states)
}

/// A figure of `/proc/PID/status`, in bytes.
fn status(process: &Process, key: &str) -> Outcome<u64> {
    let text = fs::read_to_string(format!("/proc/{}/status", process.pid()))?;
    kilobytes(&text, key).ok_or_else(|| format!("/proc/PID/status has no {key}").into())
}

#[derive(Clone, Copy)]
enum Share {
    /// Shared pages count by how many share them.
    Proportional,
    /// Only what nobody shares.
    Unique,
}

fn share(process: &Process, kind: Share) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid())).ok()?;
    match kind {
        Share::Proportional => kilobytes(&text, "Pss"),
        Share::Unique => Some(kilobytes(&text, "Private_Clean")? + kilobytes(&text, "Private_Dirty")?),
    }
}

fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}
