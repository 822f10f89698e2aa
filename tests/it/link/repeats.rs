//! What may run twice, and what may not (CASES I05, I08), through the built binary on each transport.

use crate::support::{BIN, LIMIT, bash_then_done, comes_true, has_ended, lines, result, runner, tools_then_done, turn};
use ax_runner::devhost::{FakeHost, Fault, Output, Point, Script, Transport};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const COUNT: &str = "echo x >>count";

const TRANSPORTS: [Transport; 3] = [Transport::Socket, Transport::Listen, Transport::Http];

fn answer(host: &FakeHost, output: &Output) -> String {
    host.answer().unwrap_or_else(|| output.text())
}

/// Waits for a file that a command of the turn makes.
fn wait_file(host: &FakeHost, name: &str) {
    let until = Instant::now() + LIMIT;
    while !host.workspace().join(name).exists() {
        assert!(Instant::now() < until, "{name} does not appear");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A command that says when it has begun and goes on when it is told to.
const HELD: &str = "echo >begun; while [ ! -e go ]; do sleep 0.02; done; echo x >>count";

#[test]
fn i05_a_dropped_before_the_report_runs_once() {
    for away in [0, 700] {
        let host = FakeHost::socket(bash_then_done(HELD)).start();
        let running = runner(&host).spawn().unwrap();
        wait_file(&host, "begun");
        host.stop();
        std::fs::write(host.workspace().join("go"), "").unwrap();
        std::thread::sleep(Duration::from_millis(away));
        host.restart().unwrap();
        let output = running.wait();
        assert_eq!((output.text().as_str(), output.code), ("done", Some(0)), "{}", output.stderr);
        assert_eq!(lines(&host, "count").len(), 1);
        assert_eq!(host.requests_of("sandbox_approve").len(), 1);
        assert_eq!(host.requests_of("sandbox_result").len(), 1, "the report is not lost with the link");
        assert_eq!(host.violations(), []);
    }
}

#[test]
fn i05_b_dropped_after_the_report_runs_once() {
    for transport in TRANSPORTS {
        let builder = FakeHost::builder(transport, bash_then_done(COUNT));
        let (host, output) = turn(builder.fault("sandbox_result", 1, Fault::Close(Point::Read)));
        assert_eq!(lines(&host, "count").len(), 1);
        assert_eq!(host.requests_of("sandbox_result").len(), 1);
        if host.transport() != Transport::Listen {
            assert_eq!(answer(&host, &output), "done", "{:?} {}", host.transport(), output.stderr);
        }
        assert_eq!(host.violations(), []);
    }
}

#[test]
fn i05_c_d_a_second_approval_starts_nothing() {
    for transport in TRANSPORTS {
        let builder = FakeHost::builder(transport, bash_then_done(COUNT));
        let (host, output) = turn(builder.fault("sandbox_approve", 1, Fault::Duplicate));
        assert_eq!(lines(&host, "count").len(), 1);
        assert_eq!(answer(&host, &output), "done", "{:?} {}", host.transport(), output.stderr);
    }
}

#[test]
fn i05_e_a_write_on_the_host_is_never_sent_twice() {
    let cases: [(&str, &str, Value); 4] = [
        ("memory_write", "memory", json!({"type": "write", "scope": "s", "content": "c"})),
        ("scheduler_add_cron", "scheduler", json!({"type": "add_cron", "schedule": "* * * * *", "prompt": "p"})),
        ("save_artifact", "save_artifact", json!({"tier": "user", "path": "a.txt", "content": "c"})),
        ("agent_delegate", "agent", json!({"type": "delegate", "task": "t"})),
    ];
    for (action, tool, args) in cases {
        for transport in [Transport::Socket, Transport::Http] {
            for point in [Point::Read, Point::Reply(5)] {
                let script = tools_then_done(json!([{"name": tool, "args": args}]));
                let builder = FakeHost::builder(transport, script);
                let (host, output) = turn(builder.fault(action, 1, Fault::Close(point)));
                assert_eq!(host.requests_of(action).len(), 1, "{action} {transport:?} {point:?}");
                let told = result(&host);
                assert!(told.starts_with("Error:") && told.contains("unknown"), "{action}: {told}");
                assert_eq!(answer(&host, &output), "done", "{}", output.stderr);
                assert_eq!(host.violations(), []);
            }
        }
    }
}

#[test]
fn i05_f_a_question_is_repeated_at_most_once() {
    for transport in [Transport::Socket, Transport::Http] {
        for action in ["llm_call", "sandbox_approve"] {
            for faults in 1..=2 {
                let mut builder = FakeHost::builder(transport, bash_then_done(COUNT));
                for nth in 1..=faults {
                    builder = builder.fault(action, nth, Fault::Close(Point::Read));
                }
                let (host, output) = turn(builder);
                let title = format!("{transport:?} {action} {faults}: {}", output.stderr);
                let first = host.requests_of(action);
                let same = first.iter().filter(|request| !request.value.to_string().contains("tool_result")).count();
                assert_eq!(same, 2, "{title}");
                match (action, faults) {
                    ("llm_call", 2) => {
                        assert_eq!(lines(&host, "count").len(), 0, "{title}");
                        // On a socket nothing has happened, so the host may run the turn again; a pod says what is wrong.
                        match transport {
                            Transport::Socket => {
                                assert_eq!((output.text().as_str(), output.code), ("", Some(1)), "{title}")
                            }
                            _ => assert!(answer(&host, &output).contains("could not be finished"), "{title}"),
                        }
                    }
                    ("sandbox_approve", 2) => {
                        assert_eq!(lines(&host, "count").len(), 0, "{title}");
                        let told = result(&host);
                        assert!(
                            told.contains("no approval was received") && !told.contains("unknown"),
                            "{told} {title}"
                        );
                        assert_eq!(answer(&host, &output), "done", "{title}");
                    }
                    _ => {
                        assert_eq!(lines(&host, "count").len(), 1, "{title}");
                        assert_eq!(answer(&host, &output), "done", "{title}");
                    }
                }
            }
        }
    }
}

#[test]
fn i05_g_the_same_work_is_not_run_again() {
    let host = FakeHost::http(bash_then_done(COUNT)).fault("/internal/work", 1, Fault::DuplicateWork).start();
    let mut payload = host.payload("go");
    payload["singleTurn"] = false.into();
    let running = host.runner(BIN).deadline(LIMIT).payload(&payload).spawn().unwrap();
    assert!(host.wait_answer(1, LIMIT).is_some());
    // The repeated item is taken before this one: there is one slot.
    std::thread::sleep(Duration::from_millis(600));
    host.push_raw_work(r#"{"_type":"session_expiring","secondsRemaining":5}"#);
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(lines(&host, "count").len(), 1);
    assert_eq!(host.answers().len(), 1, "{:?}", host.answers());
    assert_eq!(host.violations(), []);
}

#[test]
fn i08_a_host_that_never_comes_back_leaves_nothing_behind() {
    let host = FakeHost::socket(bash_then_done(&format!("sleep 1000 & echo $! $$ >pids; {HELD}"))).start();
    let running = runner(&host).spawn().unwrap();
    wait_file(&host, "begun");
    host.stop();
    std::fs::write(host.workspace().join("go"), "").unwrap();
    let output = running.wait();
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    // The command has run, so the turn must not be run again.
    assert!(output.text().contains("could not be finished"), "{}", output.text());
    assert_eq!(lines(&host, "count").len(), 1);
    for pid in lines(&host, "pids").join(" ").split_whitespace() {
        assert!(comes_true(|| has_ended(pid)), "{pid} is still there");
    }
}

/// Nobody asks the host anything while a command runs, and yet the loss is noticed and made good.
#[test]
fn i08_a_lost_link_is_replaced_while_a_command_runs() {
    let soak = std::env::var_os("AX_SOAK").is_some();
    for &away in if soak { &[0, 1000, 5000, 20_000][..] } else { &[0] } {
        let host = FakeHost::socket(bash_then_done(HELD)).start();
        let running = runner(&host).spawn().unwrap();
        wait_file(&host, "begun");
        host.stop();
        std::thread::sleep(Duration::from_millis(away));
        host.restart().unwrap();
        assert!(host.wait_connections(2, LIMIT), "no second connection");
        std::fs::write(host.workspace().join("go"), "").unwrap();
        let output = running.wait();
        assert_eq!((output.text().as_str(), output.code), ("done", Some(0)), "away {away}: {}", output.stderr);
        assert_eq!((lines(&host, "count").len(), host.connections().0), (1, 2), "away {away}");
        assert_eq!(host.violations(), []);
    }
}

/// A host that is gone for good does not leave a command at work: at once where it never dials twice, after a while where
/// it may come back.
#[test]
fn i08_a_command_does_not_outlive_its_host() {
    let transports = match std::env::var_os("AX_SOAK") {
        Some(_) => &[Transport::Listen, Transport::Socket][..],
        None => &[Transport::Listen],
    };
    for &transport in transports {
        let mark = format!("{}.75", 910_000 + std::process::id());
        let command = format!("setsid -f sleep {mark}; echo >begun; trap '' TERM; sleep {mark}; sleep {mark}");
        let host = FakeHost::builder(transport, bash_then_done(&command)).start();
        let running = runner(&host).spawn().unwrap();
        wait_file(&host, "begun");
        host.stop();
        let begun = Instant::now();
        let output = running.wait();
        println!("| a runner with a stubborn command, {transport:?}: gone after its host | {:?} |", begun.elapsed());
        assert_eq!((output.code, output.timed_out), (Some(1), false), "{}", output.stderr);
        assert!(
            output.stderr.contains("ECONNRESET") && output.stderr.contains("did not come back"),
            "{}",
            output.stderr
        );
        if transport == Transport::Socket {
            assert!(output.text().contains("could not be finished: the host went away"), "{}", output.text());
        }
        assert!(crate::pid1::none_living(&mark), "{transport:?}: {:?}", crate::pid1::living(&mark));
    }
}

#[test]
fn i08_a_host_that_is_away_for_a_moment_gets_the_answer_once() {
    // The link breaks while the answer is delivered: over HTTP it is sent again.
    for fault in [Fault::Close(Point::Unread), Fault::Reset(Point::Read), Fault::Close(Point::Reply(1))] {
        let (host, output) = turn(FakeHost::http(Script::text("hello")).fault("agent_response", 1, fault.clone()));
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        assert_eq!(host.answer().as_deref(), Some("hello"), "{fault:?}");
        assert_eq!(host.answers().len(), 1, "{fault:?}");
    }
}
