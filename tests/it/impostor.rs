//! A command cannot take the host's place (CASES B11): on the runner's way back to the host it would be asked for consent.

use crate::everywhere::python;
use crate::support::runner;
use ax_runner::devhost::{FakeHost, Fault, Point, Script};
use serde_json::json;

/// Moves the host's socket away, listens in its place, and notes whatever is asked there.
const TAKE_OVER: &str = r#"
import os, socket, sys
path = sys.argv[1]
os.rename(path, path + ".moved")
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen()
print("in place", flush=True)
if os.fork() == 0:
    os.setsid()
    os.close(1); os.close(2)
    peer, _ = server.accept()
    peer.settimeout(2)
    try:
        asked = peer.recv(65536)
    except OSError:
        asked = b""
    if asked:
        open("ASKED", "wb").write(asked)
"#;

#[test]
fn b11_a_command_that_takes_the_sockets_place_is_not_asked() {
    if !python("b11_a_command_that_takes_the_sockets_place_is_not_asked") {
        return;
    }
    let take_over = json!([{"name": "bash", "args": {"command": "python3 take.py \"$SOCKET\""}}]);
    let script = json!([{"tools": take_over}, {"text": "never"}]);
    // The host drops the connection when the command's report has come.
    let host = FakeHost::socket(Script::json(script)).fault("sandbox_result", 1, Fault::Close(Point::Read)).start();
    let workspace = host.workspace();
    std::fs::write(workspace.join("take.py"), TAKE_OVER).unwrap();
    let output = runner(&host).env("SOCKET", host.socket_path()).env("AX_PASS_ENV", "SOCKET").run();
    let report = host.requests_of("sandbox_result").pop().expect("a report of the command");
    assert_eq!(report.value["output"], "in place\n");
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert!(output.stderr.contains("ipc_socket_replaced"), "{}", output.stderr);
    assert!(!workspace.join("ASKED").exists(), "the impostor was asked");
}
