//! Kept connections that the host has closed meanwhile (CASES I04).

use super::{Deed, answer, in_parallel, relayed, runner};
use crate::support::{bash_then_done, lines};
use ax_runner::devhost::{FakeHost, Fault, Script};
use serde_json::json;
use std::time::Duration;

/// The host closes an idle connection just when the runner, back from its tool, uses it again.
#[test]
fn i04_a_sweep_around_the_hosts_keep_alive_loses_nothing() {
    let runners: u32 = if std::env::var_os("AX_SOAK").is_some() { 30 } else { 8 };
    let seeds: Vec<u32> = (0..runners).collect();
    let repeated: usize = in_parallel(
        &seeds,
        |_| 0,
        |seed| {
            let mut rounds: Vec<_> = (0..10)
                .map(|step| {
                    let ms = 300 - 20 + 4 * step + seed % 4;
                    json!({"tools": [{"name": "bash", "args": {"command": format!("sleep 0.{ms:03}; echo {step} >>count")}}]})
                })
                .collect();
            rounds.push(json!({"text": "done"}));
            let host = FakeHost::http(Script::json(json!(rounds))).idle(Duration::from_millis(300)).start();
            let output = runner(&host).run();
            assert_eq!(answer(&host, &output), "done", "{}", output.stderr);
            assert_eq!(host.violations(), []);
            assert_eq!(lines(&host, "count").len(), 10);
            for (action, count) in [("sandbox_approve", 10), ("sandbox_result", 10), ("llm_call", 11)] {
                let carried = host.requests_of(action).iter().filter(|request| request.carried_out).count();
                assert_eq!(carried, count, "{action}: {}", output.stderr);
            }
            host.requests().len() - 32
        },
    )
    .into_iter()
    .sum();
    println!(
        "| tools that end around the host's keep-alive limit: calls of the host, lost, repeated | {}, 0, {repeated} |",
        runners * 32
    );
}

#[test]
fn i04_every_connection_is_stale() {
    for fault in [Fault::StaleAfter, Fault::ResetAfter] {
        let mut builder = FakeHost::http(bash_then_done("echo x >>count; sleep 0.2"));
        for nth in 1..=8 {
            builder = builder.fault("/internal/ipc", nth, fault.clone());
        }
        let host = builder.start();
        let output = runner(&host).run();
        assert_eq!(answer(&host, &output), "done", "{fault:?}: {}", output.stderr);
        assert_eq!((output.code, lines(&host, "count").len()), (Some(0), 1));
        assert_eq!(host.violations(), []);
    }
}

#[test]
fn i04_connections_that_close_after_each_reply() {
    for said in [true, false] {
        let host = FakeHost::http(bash_then_done("echo x >>count")).start();
        let (relay, output) = relayed(&host, move |_| Deed::Last { said });
        assert_eq!(answer(&host, &output), "done", "{}", output.stderr);
        assert_eq!((lines(&host, "count").len(), relay.written("sandbox_result")), (1, 1));
    }
}
