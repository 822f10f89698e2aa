//! Rows of the table, medians, and the order in which things are measured.

use crate::Outcome;
use std::fmt::{self, Display};
use std::time::Duration;

/// Measures several things `times` times, turn about and each time beginning with another, and returns their medians.
/// One round before that does not count: caches fill.
pub(crate) fn interleaved<const N: usize>(
    times: usize,
    things: [&mut dyn FnMut() -> Outcome<Duration>; N],
) -> Outcome<[Duration; N]> {
    let mut taken: [Vec<Duration>; N] = std::array::from_fn(|_| Vec::with_capacity(times));
    for round in 0..=times {
        for turn in 0..N {
            let index = (round + turn) % N;
            let time = things[index]()?;
            // What the last one left to do, such as reaping, must not be counted as the next one's.
            std::thread::sleep(Duration::from_millis(1));
            if round > 0 {
                taken[index].push(time);
            }
        }
    }
    Ok(taken.map(median))
}

/// The middle one; the smaller of the two in the middle.
pub(crate) fn median<T: Ord + Copy + Default>(mut values: Vec<T>) -> T {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

/// One line of the table, or why there is none.
pub(crate) enum Row {
    /// The cells.
    Measured([String; 7]),
    /// What was left out, and why.
    Skipped(String),
}

impl Row {
    /// The table's first two lines.
    pub(crate) const HEAD: &str =
        "| measured | ax-runner | beside it | its figure | ratio | difference | aim |\n|---|--:|---|--:|--:|--:|---|";

    /// Two times.
    pub(crate) fn times(what: &str, ours: Duration, beside: &str, theirs: Duration, aim: &str) -> Self {
        let difference = match ours.checked_sub(theirs) {
            Some(more) => format!("+{}", time(more)),
            None => format!("-{}", time(theirs.abs_diff(ours))),
        };
        let ratio = ratio(ours.as_secs_f64(), theirs.as_secs_f64());
        Self::Measured([what.into(), time(ours), beside.into(), time(theirs), ratio, difference, aim.into()])
    }

    /// Two amounts of memory in bytes.
    pub(crate) fn bytes(what: &str, ours: u64, beside: &str, theirs: u64, aim: &str) -> Self {
        let megabytes = |bytes: f64| format!("{:.2} MB", bytes / 1e6);
        let (a, b) = (ours as f64, theirs as f64);
        let difference = format!("{}{}", if a < b { "" } else { "+" }, megabytes(a - b));
        Self::Measured([what.into(), megabytes(a), beside.into(), megabytes(b), ratio(a, b), difference, aim.into()])
    }

    /// Two numbers of things.
    pub(crate) fn counts(what: &str, ours: usize, beside: &str, theirs: usize, aim: &str) -> Self {
        let difference = format!("{:+}", ours as i64 - theirs as i64);
        let ratio = if theirs == 0 { "-".to_owned() } else { ratio(ours as f64, theirs as f64) };
        Self::Measured([
            what.into(),
            ours.to_string(),
            beside.into(),
            theirs.to_string(),
            ratio,
            difference,
            aim.into(),
        ])
    }

    /// Something that cannot be measured here.
    pub(crate) fn skipped(what: &str, why: &str) -> Self {
        Self::Skipped(format!("SKIP {what}: {why}"))
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Measured(cells) => write!(f, "| {} |", cells.join(" | ")),
            Self::Skipped(why) => f.write_str(why),
        }
    }
}

fn ratio(ours: f64, theirs: f64) -> String {
    format!("{:.2}x", ours / theirs)
}

fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 1e-3 => format!("{:.1} us", seconds * 1e6),
        seconds if seconds < 1.0 => format!("{:.2} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}
