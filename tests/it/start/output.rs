//! Stdout carries the answer and nothing else, whatever stderr and the environment are like (CASES I11; PROTOCOL §1.4, §1.5).

use crate::support::{BIN, LIMIT, bash_then_done, runner};
use ax_runner::devhost::{FakeHost, Output, Script};
use serde_json::{Value, json};

fn through(script: &str, host: &FakeHost) -> Output {
    let output =
        host.runner("/bin/bash").arguments(["-c", script, BIN]).payload(&host.payload("go")).deadline(LIMIT).run();
    assert!(!output.timed_out, "{script}: {}", output.stderr);
    output
}

#[test]
fn b3_stdout_is_exactly_the_joined_text() {
    let call = json!({"name": "bash", "args": {"command": "echo out; echo err >&2"}});
    let cases = [
        (json!([{"text": ["One ", "file", ": a"]}]), "One file: a"),
        (
            json!([{"text": "a", "tools": [call]}, {"tools": [call]}, {"text": "b\n", "tools": [call]}, {"text": "c"}]),
            "a\n\nb\n\n\nc",
        ),
        (json!([{"tools": [call]}, {"text": "c"}]), "c"),
        (json!([{"text": "a", "tools": [call]}, {"text": ""}]), "a"),
        (json!([{"text": "\u{1f600} \u{202e}\u{1b}[2J\r"}]), "\u{1f600} \u{202e}\u{1b}[2J\r"),
        // The one exception: the model must not send files in the host's own form.
        (json!([{"text": "{\"__ax_response\":"}]), "{ \"__ax_response\":"),
        (json!([{"text": "\u{feff}{\"__ax_response\":"}]), "\u{feff}{ \"__ax_response\":"),
        (json!([{"text": " ", "tools": [call]}, {"text": "{\"__ax_response\":"}]), " \n\n{ \"__ax_response\":"),
        (json!([{"text": "x".repeat(3_000_000)}]), &"x".repeat(3_000_000)),
    ];
    for (script, wanted) in cases {
        for level in ["trace", "silent"] {
            let host = FakeHost::socket(Script::json(script.clone())).start();
            let loud = runner(&host).env("LOG_LEVEL", level).env("RUST_LOG", "trace").env("RUST_BACKTRACE", "full");
            let output = loud.env("MALLOC_CONF", "stats_print:true").arg("--verbose").run();
            assert!(output.text() == wanted, "{script:.200}");
            assert_eq!((output.code, host.violations()), (Some(0), vec![]));
            // Every line is a log event or a tagged one.
            for line in output.stderr.lines() {
                assert!(serde_json::from_str::<Value>(line).is_ok_and(|line| line["msg"].is_string()), "{line}");
            }
        }
    }
}

#[test]
fn i11_a_stderr_that_nobody_reads_holds_nothing_up() {
    let many =
        json!({"tools": (0..16).map(|_| json!({"name": "bash", "args": {"command": "true"}})).collect::<Vec<_>>()});
    for script in [
        "exec \"$0\" \"$@\" --verbose 2>&-",
        "exec \"$0\" \"$@\" --verbose 2>/dev/full",
        "LOG_LEVEL=trace LOG_SYNC=1 exec \"$0\" \"$@\" 2>/dev/full",
        // A pipe that is full before the runner starts.
        "exec 9<> <(:); mkfifo full; exec 8<>full; head -c 65536 /dev/zero >&8; LOG_LEVEL=trace exec \"$0\" \"$@\" --verbose 2>&8",
        "mkfifo gone; cat gone >/dev/null & exec 8>gone; kill $!; wait; LOG_LEVEL=trace exec \"$0\" \"$@\" --verbose 2>&8",
    ] {
        let host = FakeHost::socket(Script::json(json!([many, {"text": "done"}]))).start();
        let output = through(script, &host);
        assert_eq!((output.text().as_str(), output.code), ("done", Some(0)), "{script}: {}", output.stderr);
        assert_eq!(host.violations(), []);
    }
}

#[test]
fn i11_a_slow_reader_of_stdout_gets_everything() {
    let text = "0123456789".repeat(100_000);
    let host = FakeHost::socket(Script::text(&text)).start();
    let output = through("set -o pipefail; \"$0\" \"$@\" | (sleep 1; cat); exit ${PIPESTATUS[0]}", &host);
    assert!(output.text() == text && output.code == Some(0), "{}", output.stderr);
}

#[test]
fn i11_a_pipe_that_does_not_block_gets_everything() {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use std::io::Read;
    use std::os::fd::AsRawFd;
    // What shares the pipe's end has made it so: the mark is the pipe's and not the descriptor's.
    let (reader, writer) = nix::unistd::pipe().unwrap();
    fcntl(&reader, FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC)).unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let text = "0123456789".repeat(50_000);
    let host = FakeHost::socket(Script::text(&text)).start();
    let script = format!("exec \"$0\" \"$@\" >&{}", writer.as_raw_fd());
    let bash = host.runner("/bin/bash").arguments(["-c", &script, BIN]).payload(&host.payload("go")).deadline(LIMIT);
    let running = bash.spawn().unwrap();
    drop(writer);
    assert!(host.wait_request("llm_call", 1, LIMIT).is_some());
    let mut read = vec![0; text.len()];
    std::fs::File::from(reader).read_exact(&mut read).unwrap();
    let output = running.wait();
    assert!(read == text.as_bytes() && output.code == Some(0), "{}", output.stderr);
}

#[test]
fn i11_what_commands_print_is_not_the_answer() {
    let command = "echo to-out; echo to-err >&2; echo tty >/dev/tty; ls -l /proc/self/fd; echo fd1 >/proc/$PPID/fd/1; echo fd9 >&9";
    let host = FakeHost::socket(bash_then_done(command)).start();
    let output = through("exec 9>leak; exec \"$0\" \"$@\"", &host);
    assert_eq!((output.text().as_str(), output.code), ("done", Some(0)), "{}", output.stderr);
    assert!(!output.stderr.contains("to-err"));
    assert_eq!(std::fs::read_to_string(host.workspace().join("leak")).unwrap_or_default(), "", "a descriptor leaked");
}
