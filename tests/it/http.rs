//! HTTP mode under fire (PROTOCOL §4, §5.1): stale connections, hosts that are away, replies that are none.

mod away;
mod matrix;
mod polling;
mod relay;
mod replies;
mod stale;
mod state;
mod tls;

pub(crate) use matrix::in_parallel;

use crate::support::{BIN, LIMIT};
use ax_runner::devhost::{FakeHost, Output, Runner};
pub(crate) use relay::Message;
use relay::{Asked, Deed, Relay};

/// A runner with one turn of work.
fn runner(host: &FakeHost) -> Runner {
    host.runner(BIN).deadline(LIMIT).payload(&host.payload("go"))
}

/// One turn through a relay.
fn relayed(host: &FakeHost, rule: impl Fn(&Asked) -> Deed + Send + Sync + 'static) -> (Relay, Output) {
    let relay = Relay::start(&host.url(), rule);
    let output = runner(host).env("AX_HOST_URL", relay.url()).env("AX_LLM_TIMEOUT_MS", "8000").run();
    assert!(!output.timed_out, "the runner hangs: {}", output.stderr);
    (relay, output)
}

/// The only answer.
fn answer(host: &FakeHost, output: &Output) -> String {
    let mut answers = host.answers();
    assert_eq!(answers.len(), 1, "{}", output.stderr);
    answers.remove(0).content
}
