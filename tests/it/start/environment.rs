//! Where the pod's token and the operator's secrets can be seen from outside (CASES B10).

use crate::support::{result, runner, skip};
use ax_runner::devhost::{FakeHost, Script};
use serde_json::json;

/// Some sandboxes let every process of our user read what the kernel was given at our start; here root may.
#[test]
fn b10_what_the_kernel_shows_of_it_is_empty() {
    if !nix::unistd::geteuid().is_root() {
        return skip("b10_what_the_kernel_shows_of_it_is_empty", "needs root");
    }
    // The keeper, and the runner above it.
    let look = "r=$(sed -n 's/^PPid:\t//p' /proc/$PPID/status); cat /proc/$PPID/environ /proc/$r/environ | tr '\\0' '\\n' | grep . ; \
                tr '\\0' ' ' </proc/$r/cmdline";
    let calls = json!([{"tools": [{"name": "bash", "args": {"command": look}}]}, {"text": ["done"]}]);
    let host = FakeHost::socket(Script::json(calls)).start();
    let output = runner(&host).env("MY_SECRET", "canary-7f3a").run();
    assert_eq!(output.text(), "done", "{}", output.stderr);
    let told = result(&host);
    assert!(told.contains("ax-runner") && !told.contains("canary-7f3a") && !told.contains("AX_"), "{told}");
}
