//! Many idle runners on one node: what they take of its memory and its processors.

use super::measure::{Look, children};
use super::{full, program, row};
use crate::support::LIMIT;
use ax_runner::devhost::{FakeHost, Script};
use std::time::{Duration, Instant};

#[test]
fn idle_runners() {
    if !nix::unistd::geteuid().is_root() {
        let why = "the memory of a process that made itself unreadable is shown to root only";
        return crate::support::skip("idle_runners", why);
    }
    let (count, seconds) = if full() { (200, 60) } else { (8, 4) };
    let host = FakeHost::http(Script::text("never")).start();
    let begun = Instant::now();
    let running: Vec<_> = (0..count).map(|_| host.runner(program()).deadline(LIMIT * 10).spawn().unwrap()).collect();
    while host.count("/internal/work") < count {
        assert!(begun.elapsed() < LIMIT, "the runners do not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    row(&format!("{count} runners: all have asked for work after"), format!("{:?}", begun.elapsed()));
    if full() {
        // A pod looks often in its first minute.
        std::thread::sleep(Duration::from_secs(65).saturating_sub(begun.elapsed()));
    }
    let asked = host.count("/internal/work");
    let before: Vec<Look> = running.iter().map(|runner| Look::at(runner.pid())).collect();
    std::thread::sleep(Duration::from_secs(seconds));
    let after: Vec<Look> = running.iter().map(|runner| Look::at(runner.pid())).collect();
    let asked = host.count("/internal/work") - asked;
    let used: Duration = after.iter().zip(&before).map(|(after, before)| after.cpu - before.cpu).sum();
    let sum = |pick: fn(&Look) -> u64| after.iter().map(pick).sum::<u64>();
    row(
        &format!("{count} idle runners: PSS in all, each (KB)"),
        format!("{}, {}", sum(|look| look.pss), sum(|look| look.pss) / count as u64),
    );
    row("RSS of one, its own memory (KB)", format!("{}, {}", after[0].rss, sum(|look| look.own) / count as u64));
    row(
        &format!("processor time of all in {seconds} s"),
        format!("{used:?} ({:.2} % of one processor)", used.as_secs_f64() / seconds as f64 * 100.0),
    );
    row("requests for work of one in that time", format!("{:.1}", asked as f64 / count as f64));
    row("descriptors of one", after[0].descriptors);
    // Each looks every 2 s at rest and every 0.2 s while warm. More often than that is never right, however busy the machine:
    // a third more would be a pause forgotten. At rest it must not look less often by much either.
    let looks = if full() { seconds as usize / 2 } else { 5 * seconds as usize };
    assert!(asked > 0 && asked <= count * looks * 4 / 3, "{asked} requests");
    assert!(!full() || asked >= count * looks * 3 / 4, "{asked} requests");
    assert!(running.iter().all(|runner| children(runner.pid()) == (0, 0)));
    let first = after.iter().map(|look| look.descriptors).max();
    assert!(first.is_some_and(|most| most < 32), "{first:?}");
    for runner in &running {
        runner.signal(ax_runner::devhost::Signal::SIGTERM);
    }
    for runner in running {
        let output = runner.wait();
        assert_eq!((output.code, output.timed_out), (Some(143), false), "{}", output.stderr);
    }
}
