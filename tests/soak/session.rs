//! A long HTTP session with tools: memory and descriptors stay, every turn is answered once, a restart costs nothing.

use super::measure::{Look, children};
use super::{program, row};
use crate::support::{LIMIT, lines, tools_then_done};
use ax_runner::devhost::{FakeHost, Running};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Turns that only warm up: pools fill, caches grow once.
const WARM_UP: usize = 20;
/// Growth from the end of the warm-up on, whatever the number of turns.
const GROWTH_KB: u64 = 4096;

fn tools() -> Value {
    json!([
        {"name": "bash", "args": {"command": "echo x >>count; (sleep 0.01 &); head -c 50000 /dev/zero | tr '\\0' x"}},
        {"name": "write_file", "args": {"path": "notes/a.txt", "content": "hello\n".repeat(2000)}},
        {"name": "grep", "args": {"pattern": "hello", "max_results": 50}},
        {"name": "read_file", "args": {"path": "count"}},
        {"name": "memory", "args": {"type": "query", "scope": "s", "query": "q"}}])
}

#[test]
fn a_session_of_many_turns() {
    if !nix::unistd::geteuid().is_root() {
        println!(
            "SKIP a_session_of_many_turns: the memory of a process that made itself unreadable is shown to root only"
        );
        return;
    }
    let turns = full_turns().unwrap_or(60);
    let host = FakeHost::http(tools_then_done(tools())).start();
    let running = host.runner(program()).deadline(LIMIT * 40).spawn().unwrap();
    let (mut asked, mut looks) = (BTreeSet::new(), Vec::new());
    for turn in 1..=turns {
        let mut payload = host.payload(&format!("turn {turn}"));
        payload["singleTurn"] = json!(turn == turns);
        asked.insert(payload["requestId"].as_str().unwrap_or_default().to_owned());
        if turn == turns / 3 {
            restart_while_a_model_is_asked(&host, &running, &payload, turn);
        } else {
            host.push_work(&payload);
        }
        let answer = host.wait_answer(turn, LIMIT).unwrap_or_else(|| panic!("no answer to turn {turn}"));
        assert_eq!(answer.content, "done", "turn {turn}");
        if turn == turns * 2 / 3 {
            restart_between_turns(&host);
        }
        if turn >= WARM_UP && turn < turns && turn % (turns / 20) == 0 {
            looks.push(settled(&running));
        }
    }
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(host.violations(), []);
    let answers = host.answers();
    let answered: BTreeSet<String> = answers.iter().filter_map(|answer| answer.request_id.clone()).collect();
    assert_eq!((answers.len(), answered), (turns, asked), "an answer is lost or doubled");
    // `count` is read by the next turn, so it is there in full.
    assert_eq!(lines(&host, "count").len(), turns, "a command ran twice or not at all");
    judge(turns, &looks);
}

/// `AX_SOAK` may ask for more than the usual number.
fn full_turns() -> Option<usize> {
    let wanted = std::env::var("AX_SOAK").ok()?;
    Some(wanted.parse().unwrap_or_default()).map(|turns: usize| turns.max(500))
}

fn restart_while_a_model_is_asked(host: &FakeHost, running: &Running, payload: &Value, turn: usize) {
    let before = host.requests_of("llm_call").len();
    host.push_work(payload);
    host.wait_request("llm_call", before + 1, LIMIT).unwrap_or_else(|| panic!("no model call in turn {turn}"));
    host.stop();
    assert!(!running.ended());
    std::thread::sleep(Duration::from_millis(700));
    host.restart().unwrap();
}

fn restart_between_turns(host: &FakeHost) {
    host.stop();
    std::thread::sleep(Duration::from_millis(1500));
    host.restart().unwrap();
}

/// Between two turns, once what the last one started is gone.
fn settled(running: &Running) -> Look {
    let begun = Instant::now();
    while children(running.pid()) != (0, 0) {
        assert!(begun.elapsed() < LIMIT, "(children, zombies) stay: {:?}", children(running.pid()));
        std::thread::sleep(Duration::from_millis(50));
    }
    // A connection may be on its way out; what stays is there at each look.
    let looks = (0..5).map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        Look::at(running.pid())
    });
    looks.min_by_key(|look| look.descriptors).unwrap()
}

fn judge(turns: usize, looks: &[Look]) {
    let (first, last) = (looks[0], looks[looks.len() - 1]);
    let own = |pick: fn(&Look) -> u64| looks.iter().map(pick);
    let descriptors: Vec<usize> = looks.iter().map(|look| look.descriptors).collect();
    row(
        &format!("session of {turns} turns: RSS after {WARM_UP} turns, at the end, at most (KB)"),
        format!("{}, {}, {}", first.rss, last.rss, own(|look| look.rss).max().unwrap_or(0)),
    );
    row("its own memory, at each look (KB)", format!("{:?}", own(|look| look.own).collect::<Vec<_>>()));
    row("descriptors, at each look", format!("{descriptors:?}"));
    row("children and zombies, at each look", 0);
    assert!(last.own <= first.own + GROWTH_KB, "memory grows: {looks:?}");
    // The kept connections to the host come and go.
    let (least, most) = (descriptors.iter().min().unwrap(), descriptors.iter().max().unwrap());
    assert!(most - least <= ax_runner::limits::HTTP_IDLE_CONNECTIONS + 1, "{descriptors:?}");
}
