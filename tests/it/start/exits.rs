//! The table of `runner::exit`: for each failure the code, the output, and what the host decides (PROTOCOL §1.3, §1.6).

use crate::support::{BIN, Judgement, LIMIT, bash_then_done, comes_true, has_ended, judge, runner, triggers};
use ax_runner::devhost::{FakeHost, Fault, Output, Point, Runner, Script, Signal};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::json;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The end must be this, and the last line must say why.
fn ends(output: &Output, code: i32, word: &str, wanted: Judgement) {
    assert!(!output.timed_out, "hangs: {}", output.stderr);
    assert_eq!((output.text().as_str(), output.code), ("", Some(code)), "{}", output.stderr);
    let last = output.stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("Agent runner error: ") && last.contains(word), "{last}");
    assert_eq!(judge(code, "", &output.stderr), wanted, "{}", output.stderr);
}

fn host() -> FakeHost {
    FakeHost::socket(Script::text("done")).start()
}

fn started(host: &FakeHost) -> Runner {
    runner(host)
}

#[test]
fn b1_a_bad_launch_is_final() {
    for (name, word) in [("AX_WORKSPACE", "AX_WORKSPACE"), ("AX_IPC_SOCKET", "AX_IPC_SOCKET")] {
        let host = host();
        ends(&started(&host).env(name, "").run(), 1, word, Judgement::GivesUp);
        assert_eq!(host.connections().0, 0);
    }
    let host = host();
    let http = || started(&host).env("AX_HOST_URL", "http://127.0.0.1:1").env("AX_WORKSPACE", "");
    ends(&http().run(), 1, "AX_WORKSPACE", Judgement::GivesUp);
    for url in ["http://", "127.0.0.1:80", "ftp://127.0.0.1"] {
        ends(&started(&host).env("AX_HOST_URL", url).run(), 1, "AX_HOST_URL", Judgement::GivesUp);
    }
    for token in ["a b", "a\nb\n", "\u{e9}"] {
        let http = started(&host).env("AX_HOST_URL", "http://127.0.0.1:1").env("AX_IPC_TOKEN", token);
        ends(&http.run(), 1, "AX_IPC_TOKEN", Judgement::GivesUp);
    }
    // Too long for the kernel, whoever is to make the socket.
    let long = format!("/{}", "l".repeat(107));
    for listen in ["0", "1"] {
        let started = started(&host).env("AX_IPC_SOCKET", &long).env("AX_IPC_LISTEN", listen);
        ends(&started.run(), 1, "AX_IPC_SOCKET is longer than 107 bytes", Judgement::GivesUp);
    }
    for flag in ["--ipc-socket", "--proxy-socket"] {
        ends(&started(&host).arguments([flag, &long]).run(), 1, flag, Judgement::GivesUp);
    }
    for agent in ["nobody", "", "--verbose", "401 \u{1f600}\n"] {
        let output = started(&host).arguments(["/opt/ax/dist/agent/runner.js", "--agent", agent]).run();
        match agent {
            "" => assert_eq!((output.text().as_str(), output.code), ("done", Some(0)), "{}", output.stderr),
            _ => ends(&output, 1, "unknown agent", Judgement::GivesUp),
        }
    }
    ends(&started(&host).arguments(["--agent", "claude-code"]).run(), 1, "--proxy-socket", Judgement::GivesUp);
}

#[test]
fn a_diagnosis_in_the_words_of_others_is_none() {
    for url in ["file:///nonexistent/401-timeout/r.git", "http://127.0.0.1:1/sigkill/400.git"] {
        let host = host();
        let output = started(&host).env("WORKSPACE_REPO_URL", url).run();
        ends(&output, 1, "git: ", Judgement::Retries);
        assert_eq!(triggers(&output.stderr), [""; 0], "{}", output.stderr);
    }
    let mut runner = std::process::Command::new(BIN);
    let output = runner.args(["enter", "--policy", "/nonexistent/401-timeout", "--", "true"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), triggers(&told)), (Some(78), vec!["validation failed"]), "{told}");
}

#[test]
fn b1_flags_the_runner_does_not_know_are_no_fault() {
    for arguments in [
        vec![],
        vec!["--new-flag", "value", "stray"],
        vec!["--max-tokens"],
        vec!["--max-tokens", "NaN"],
        vec!["--max-tokens", "999999999999999999999"],
        vec!["--max-tokens", "+500"],
        vec!["--max-tokens", "-500"],
        vec!["--max-tokens=100", "--model=x"],
        vec!["/opt/ax/dist/agent/runner.js", "--agent", "pi-coding-agent", "--verbose"],
    ] {
        let host = host();
        let output = started(&host).arguments(arguments.clone()).run();
        assert_eq!((output.text().as_str(), output.code), ("done", Some(0)), "{arguments:?} {}", output.stderr);
        let tokens = host.requests_of("llm_call")[0].value["maxTokens"].as_u64().unwrap();
        let wanted = match arguments.get(1) {
            Some(&"+500") => 500,
            Some(&"999999999999999999999") => 200_000,
            _ if arguments.first() == Some(&"--max-tokens=100") => 100,
            _ => 8192,
        };
        assert_eq!(tokens, wanted, "{arguments:?}");
        assert_eq!(host.violations(), []);
    }
}

#[test]
fn a_host_that_cannot_be_reached_is_tried_again() {
    // Whatever the path is called: temporary directories have random names.
    for name in ["x", "ax-401", "403", "timeout", "a 400 bad request", "EPERM", "sigkill", "validation failed"] {
        let host = host();
        let socket = host.directory().join(name).join("proxy.sock");
        ends(&started(&host).env("AX_IPC_SOCKET", &socket).run(), 1, "ENOENT: cannot connect", Judgement::Retries);
    }
    let host = host();
    let file = host.directory().join("file");
    std::fs::write(&file, "").unwrap();
    ends(&started(&host).env("AX_IPC_SOCKET", &file).run(), 1, "ECONNREFUSED: cannot connect", Judgement::Retries);
    // A file that is no socket is nobody's to remove.
    let listen = started(&host).env("AX_IPC_LISTEN", "1").env("AX_IPC_SOCKET", &file).run();
    ends(&listen, 1, "EADDRINUSE: cannot listen", Judgement::Retries);
    assert!(file.exists());
}

#[test]
fn a_workspace_that_cannot_be_opened_is_final() {
    let host = host();
    let file = host.directory().join("file");
    std::fs::write(&file, "").unwrap();
    for workspace in [file.as_path(), std::path::Path::new("relative")] {
        let output = started(&host).env("AX_WORKSPACE", workspace).run();
        ends(&output, 1, "workspace", Judgement::GivesUp);
        // Where the answer is an action it tells the same, and so does the end.
        for builder in [FakeHost::listen(Script::text("done")), FakeHost::http(Script::text("done"))] {
            let host = builder.start();
            ends(&started(&host).env("AX_WORKSPACE", workspace).run(), 1, "workspace", Judgement::GivesUp);
            let answer = host.answer().unwrap_or_default();
            assert!(answer.starts_with("Agent error: validation failed: workspace"), "{answer}");
        }
    }
}

#[test]
fn a_link_lost_before_anything_happened_is_tried_again() {
    let builder = FakeHost::socket(Script::text("done"));
    let host = builder
        .fault("llm_call", 1, Fault::Close(Point::Read))
        .fault("llm_call", 2, Fault::Reset(Point::Unread))
        .start();
    ends(&started(&host).run(), 1, "ECONNRESET", Judgement::Retries);
    // The host is gone for good.
    let host = FakeHost::socket(Script::json(json!([{"text": "done", "delay_ms": 5000}]))).start();
    let running = started(&host).spawn().unwrap();
    assert!(host.wait_request("llm_call", 1, LIMIT).is_some());
    host.stop();
    ends(&running.wait(), 1, "ECONNRESET", Judgement::Retries);
    // Nor has a call done anything that nobody has approved, and blanks say nothing.
    for said in ["", " \n"] {
        let calls = json!([{"name": "bash", "args": {"command": "true"}}, {"name": "nothing", "args": {}},
            {"name": "edit_file", "args": {"path": "none", "old_string": "a", "new_string": "b"}}]);
        let script = Script::json(json!([{"text": said, "tools": calls}]));
        let host = FakeHost::socket(script).fault("sandbox_approve", 1, Fault::DelayMs(60_000)).start();
        let running = started(&host).spawn().unwrap();
        assert!(host.wait_request("sandbox_approve", 1, LIMIT).is_some());
        host.stop();
        let output = running.wait();
        assert_eq!((output.text().trim(), output.code), ("", Some(1)), "{}", output.stderr);
        assert_eq!(judge(1, &output.text(), &output.stderr), Judgement::Retries, "{}", output.stderr);
    }
}

/// Has this process a handler for the signal to stop?
fn handles_stop(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigCgt:")?.trim(), 16).ok());
    caught.is_some_and(|caught| caught & (1 << (Signal::SIGTERM as u32 - 1)) != 0)
}

#[test]
fn a_stop_together_with_the_end_of_stdin_is_a_stop() {
    let host = host();
    for _ in 0..5 {
        let mut child = Command::new(BIN)
            .env_clear()
            .env("AX_IPC_SOCKET", host.socket_path())
            .env("AX_WORKSPACE", host.workspace())
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        assert!(comes_true(|| handles_stop(child.id())), "never ready");
        let pid = Pid::from_raw(child.id().try_into().unwrap());
        // Both are there when it looks again.
        kill(pid, Signal::SIGSTOP).unwrap();
        kill(pid, Signal::SIGTERM).unwrap();
        drop(child.stdin.take());
        kill(pid, Signal::SIGCONT).unwrap();
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(143), "{told}");
        assert!(told.contains("Agent runner error: stopped by SIGTERM"), "{told}");
    }
}

#[test]
fn a_link_lost_after_a_tool_ran_is_told() {
    let script = json!([{"text": "Working.", "tools": [{"name": "bash", "args": {"command": "true"}}]}, {"text": "done", "repeat": true}]);
    for said in ["Working.", ""] {
        let mut script = script.clone();
        script[0]["text"] = said.into();
        let builder = FakeHost::socket(Script::json(script));
        let host = builder
            .fault("llm_call", 2, Fault::Close(Point::Read))
            .fault("llm_call", 3, Fault::Close(Point::Read))
            .start();
        let output = started(&host).run();
        assert_eq!(output.code, Some(1), "{}", output.stderr);
        assert!(
            output.text().starts_with(said) && output.text().contains("could not be finished"),
            "{}",
            output.text()
        );
        assert_eq!(judge(1, &output.text(), &output.stderr), Judgement::Accepts);
    }
}

#[test]
fn i11_a_closed_stdout_ends_cleanly() {
    let host = host();
    let pipe = "set -o pipefail; \"$0\" \"$@\" | true; exit ${PIPESTATUS[0]}";
    let output =
        host.runner("/bin/bash").arguments(["-c", pipe, BIN]).payload(&host.payload("go")).deadline(LIMIT).run();
    ends(&output, 1, "EPIPE", Judgement::Retries);
    assert_eq!(output.stderr.matches("EPIPE").count(), 1, "{}", output.stderr);
}

#[test]
fn i11_an_answer_that_cannot_be_written_is_no_success() {
    for (script, word, asked) in [
        ("exec \"$0\" \"$@\" >&-", "closed", 0),
        ("exec \"$0\" \"$@\" 1</dev/null", "closed", 0),
        ("exec \"$0\" \"$@\" 1<.", "closed", 0),
        ("exec \"$0\" \"$@\" >/dev/full", "No space left", 1),
        ("ulimit -f 0; exec \"$0\" \"$@\" >file", "too large", 1),
    ] {
        let host = host();
        let through = |script: &str| host.runner("/bin/bash").arguments(["-c", script, BIN]).deadline(LIMIT);
        let output = through(script).payload(&host.payload("go")).run();
        ends(&output, 1, "EPIPE", Judgement::Retries);
        assert!(output.stderr.to_lowercase().contains(&word.to_lowercase()), "{script}: {}", output.stderr);
        assert_eq!(host.count("llm_call"), asked, "{script}");
        // With nobody to tell.
        let output = through(&format!("{script} 2>&-")).payload(&host.payload("go")).run();
        assert_eq!((output.code, output.text().as_str()), (Some(1), ""), "{script}");
        // Nothing to write is written.
        let output = through(script).stdin(" ").run();
        assert_eq!(output.code, Some(0), "{script}: {}", output.stderr);
    }
    // An answer that is an action needs no stdout.
    let host = FakeHost::listen(Script::text("done")).start();
    let closed = host.runner("/bin/bash").arguments(["-c", "exec \"$0\" \"$@\" >&-", BIN]).deadline(LIMIT);
    let output = closed.payload(&host.payload("go")).run();
    assert_eq!((output.code, host.answer().as_deref()), (Some(0), Some("done")), "{}", output.stderr);
}

#[test]
fn a_signal_ends_it_at_any_stage() {
    let signals = [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGHUP, 129), (Signal::SIGQUIT, 131)];
    for (signal, code) in signals {
        // Waiting for stdin.
        let host = host();
        let running = host.runner(BIN).stdin("{\"mess").keep_stdin_open().deadline(LIMIT).spawn().unwrap();
        wait_handlers(running.pid());
        running.signal(signal);
        ends(&running.wait(), code, "shutdown", Judgement::GivesUp);
        // Waiting for the model.
        let host = FakeHost::socket(Script::json(json!([{"text": "done", "delay_ms": 60000}]))).start();
        let running = started(&host).spawn().unwrap();
        assert!(host.wait_request("llm_call", 1, LIMIT).is_some());
        running.signal(signal);
        ends(&running.wait(), code, "shutdown", Judgement::GivesUp);
        // In a command, with children that would rather stay.
        let stay =
            "trap '' TERM HUP INT; (trap '' TERM; setsid sleep 1000) & echo $! >pid; sleep 1000 & wait; sleep 1000";
        let host = FakeHost::socket(bash_then_done(stay)).start();
        let running = started(&host).spawn().unwrap();
        let until = Instant::now() + LIMIT;
        while std::fs::read_to_string(host.workspace().join("pid")).unwrap_or_default().is_empty() {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(10));
        }
        let pid = std::fs::read_to_string(host.workspace().join("pid")).unwrap();
        running.signal(signal);
        let output = running.wait();
        assert_eq!(output.code, Some(code), "{}", output.stderr);
        assert!(comes_true(|| has_ended(&pid)), "a child is left");
    }
}

/// Until the runner has taken over SIGTERM: before that the kernel's default ends it, which is fine but not the point.
fn wait_handlers(pid: i32) {
    let until = Instant::now() + LIMIT;
    loop {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim().to_owned();
        if u64::from_str_radix(&caught, 16).unwrap_or(0) & 4 != 0
            && u64::from_str_radix(&caught, 16).unwrap_or(0) & (1 << 14) != 0
        {
            std::thread::sleep(Duration::from_millis(100));
            return;
        }
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_ordinary_turns_stderr_is_free_of_triggers() {
    let tools = json!([
        {"name": "bash", "args": {"command": "echo 401 timeout; exit 4"}},
        {"name": "read_file", "args": {"path": "403-unauthorized"}},
        {"name": "memory", "args": {"type": "list", "scope": "s"}},
        {"name": "bash", "args": {"command": "kill -9 $$"}}]);
    for (id, level) in
        [("chatcmpl-4010403", "trace"), ("ch-timeout", "debug"), ("sched-EPERM400", "info"), ("502-spawn", "warn")]
    {
        let script = crate::support::tools_then_done(tools.clone());
        let builder = FakeHost::socket(script).fault("sandbox_result", 1, Fault::Close(Point::Read));
        let host = builder.start();
        host.set_reply(
            "memory_list",
            json!({"ok": false, "error": "Handler error: 401 Unauthorized, timed out, ECONNRESET"}),
        );
        let mut payload = host.payload("fix the 400 bad request timeout");
        payload["requestId"] = id.into();
        payload["profile"] = json!(["401"]);
        payload["credentialEnv"] = json!({"LD_PRELOAD": "403", "TIMEOUT 401=": "x"});
        let output = host.runner(BIN).payload(&payload).env("LOG_LEVEL", level).arg("--verbose").deadline(LIMIT).run();
        assert_eq!((output.text().as_str(), output.code), ("done", Some(0)), "{}", output.stderr);
        assert_eq!(triggers(&output.stderr), Vec::<&str>::new(), "{}", output.stderr);
        assert!(output.stderr.lines().all(|line| line.starts_with('{')), "{}", output.stderr);
    }
}
