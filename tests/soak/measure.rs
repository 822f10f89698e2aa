//! What a process takes, as the kernel counts it.

use std::fs::{read_dir, read_to_string};
use std::time::Duration;

/// One look at a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// Kilobytes: resident; proportional; written by it and by nobody else. What is mapped from the program is not counted as its
    /// own: it becomes "private" whenever the last other runner ends.
    pub(super) rss: u64,
    pub(super) pss: u64,
    pub(super) own: u64,
    /// Open descriptors.
    pub(super) descriptors: usize,
    /// Processor time so far.
    pub(super) cpu: Duration,
}

impl Look {
    pub(super) fn at(pid: i32) -> Self {
        let memory = read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
        let kilobytes = |names: &[&str]| -> u64 {
            let lines = memory.lines().filter_map(|line| line.split_once(':'));
            let values = lines.filter(|(name, _)| names.contains(name));
            values.filter_map(|(_, value)| value.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()).sum()
        };
        Self {
            rss: kilobytes(&["Rss"]),
            pss: kilobytes(&["Pss"]),
            own: kilobytes(&["Private_Dirty"]),
            descriptors: read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
            cpu: cpu(pid),
        }
    }
}

/// Living and ended children.
pub(super) fn children(pid: i32) -> (usize, usize) {
    let states = read_dir("/proc").unwrap().filter_map(|entry| {
        let child: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let (state, parent) = state(child)?;
        (parent == pid).then_some(state)
    });
    let (ended, living): (Vec<char>, Vec<char>) = states.partition(|state| *state == 'Z');
    (living.len(), ended.len())
}

/// State and parent.
fn state(pid: i32) -> Option<(char, i32)> {
    let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// From the scheduler, in nanoseconds; the ticks of `stat` are too coarse for a process that sleeps.
fn cpu(pid: i32) -> Duration {
    let tasks = read_dir(format!("/proc/{pid}/task")).unwrap();
    let nanoseconds = tasks.filter_map(|task| {
        let text = read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}
