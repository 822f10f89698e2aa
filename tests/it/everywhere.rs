//! What many tests share: a turn of the built runner against a fake host.

use ax_runner::devhost::{Builder, FakeHost, Output, Runner, Script};
use serde_json::Value;

/// The built runner, about to be started against this host.
pub(crate) fn runner(host: &FakeHost) -> Runner {
    host.runner(env!("CARGO_BIN_EXE_ax-runner"))
}

/// One whole turn on a host that is still to be started.
pub(crate) fn turn(builder: Builder) -> (FakeHost, Output) {
    let host = builder.start();
    let output = runner(&host).payload(&host.payload("go")).run();
    (host, output)
}

/// One turn on each transport that must end well: `check` gets the host and the answer.
pub(crate) fn everywhere(script: &Value, check: impl Fn(&FakeHost, &str)) {
    let script = || Script::json(script.clone());
    for builder in [FakeHost::socket(script()), FakeHost::listen(script()), FakeHost::http(script())] {
        let (host, output) = turn(builder);
        let transport = host.transport();
        assert_eq!(output.code, Some(0), "{transport:?}: {}", output.stderr);
        assert_eq!(host.violations(), [], "{transport:?}");
        check(&host, &host.answer().unwrap_or_else(|| output.text()));
    }
}

/// Is Python there? Says that `test` is skipped if not.
pub(crate) fn python(test: &str) -> bool {
    let there = std::process::Command::new("python3").arg("-V").output().is_ok();
    if !there {
        crate::support::skip(test, "python3 is not installed");
    }
    there
}
