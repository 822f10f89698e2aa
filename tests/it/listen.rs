//! Listen mode (PROTOCOL §3.9, §5.2): the socket's life, what follows the answer, and a bridge that breaks.

mod matrix;

use crate::support::{BIN, LIMIT, bash_then_done, judged, lines};
use ax_runner::devhost::{FakeHost, Fault, Script, Transport};
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A runner that listens at a path, with nothing on its stdin yet.
struct Listening {
    child: Child,
    directory: tempfile::TempDir,
}

impl Listening {
    fn start(prepare: impl FnOnce(&std::path::Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("workspace/.ax")).unwrap();
        let socket = directory.path().join("bridge.sock");
        prepare(&socket);
        let child = Command::new(BIN)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("AX_IPC_SOCKET", &socket)
            .env("AX_IPC_LISTEN", "1")
            .env("AX_WORKSPACE", directory.path().join("workspace"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, directory }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.directory.path().join("bridge.sock")
    }

    /// The first piece that comes on stderr.
    fn first_words(&mut self) -> String {
        let mut piece = [0; 4096];
        let count = self.child.stderr.as_mut().unwrap().read(&mut piece).unwrap();
        String::from_utf8_lossy(&piece[..count]).into_owned()
    }

    fn end(mut self) -> (Option<i32>, String) {
        drop(self.child.stdin.take());
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if begun.elapsed() > LIMIT {
                self.child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut rest = String::new();
        let _ = self.child.stderr.take().unwrap().read_to_string(&mut rest);
        (self.child.wait().unwrap().code(), rest)
    }
}

#[test]
fn the_socket_is_there_before_stdin_is_read_and_said_in_one_piece() {
    // With what another runner has left at the path, dead or not.
    for stale in [false, true] {
        let mut runner = Listening::start(|path| {
            if stale {
                drop(UnixListener::bind(path).unwrap());
                assert!(path.exists());
            }
        });
        assert_eq!(runner.first_words(), "[signal] ipc_ready\n", "stale {stale}");
        let mut bridge = UnixStream::connect(runner.socket()).unwrap();
        bridge.set_read_timeout(Some(LIMIT)).unwrap();
        // Exactly one: the file goes, and nobody else can come.
        let begun = Instant::now();
        while runner.socket().exists() {
            assert!(begun.elapsed() < LIMIT);
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(UnixStream::connect(runner.socket()).is_err());
        runner.child.stdin.as_mut().unwrap().write_all(b"not even JSON: a message").unwrap();
        drop(runner.child.stdin.take());
        let mut length = [0; 4];
        bridge.read_exact(&mut length).unwrap();
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        bridge.read_exact(&mut frame).unwrap();
        assert_eq!(judged(&frame, Transport::Listen)["action"], "llm_call");
        // A bridge that breaks in the middle of a turn: no answer can be given, and the exit code says so.
        drop(bridge);
        let (code, rest) = runner.end();
        assert_eq!(code, Some(1), "{rest}");
    }
}

#[test]
fn what_is_no_socket_stays_and_ends_the_start() {
    let runner = Listening::start(|path| std::fs::write(path, "precious").unwrap());
    let socket = runner.socket();
    let directory = runner.directory.path().to_owned();
    let mut runner = runner;
    let kept = std::mem::replace(&mut runner.directory, tempfile::tempdir().unwrap());
    let (code, told) = runner.end();
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("cannot listen at") && !told.contains("ipc_ready"), "{told}");
    assert_eq!(std::fs::read_to_string(socket).unwrap(), "precious");
    assert!(directory.exists());
    drop(kept);
}

#[test]
fn more_work_is_asked_for_and_done_when_the_host_has_some() {
    let host = FakeHost::listen(Script::json(json!([{"repeat": true, "text": "done"}]))).start();
    // The host takes the names of a payload it only hands over for wrong ones.
    host.forgive();
    let mut second = host.payload("second");
    second["singleTurn"] = json!(true);
    host.set_reply("fetch_work", json!({"payload": second.to_string()}));
    let first = host.payload("first");
    let running = host.runner(BIN).payload(&first).deadline(LIMIT).spawn().unwrap();
    host.wait_answer(1, LIMIT).expect("an answer");
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let ids: Vec<_> = host.answers().into_iter().map(|answer| answer.request_id).collect();
    assert_eq!(ids, [&first, &second].map(|payload| payload["requestId"].as_str().map(str::to_owned)));
    let calls = host.requests_of("llm_call");
    assert!(calls[1].value["messages"].to_string().contains("second"));
    assert_eq!(host.requests_of("fetch_work").len(), 1);
}

#[test]
fn no_more_work_is_the_end() {
    // A host that serves the question and has nothing, and one that does not serve it.
    for (reply, asked, answers) in
        [(Some(json!({"payload": null})), 2, 1), (Some(json!({"payload": ""})), 2, 1), (None, 1, 1)]
    {
        let host = FakeHost::listen(Script::text("done")).start();
        if let Some(reply) = &reply {
            host.set_reply("fetch_work", reply.clone());
        }
        let output = host.runner(BIN).payload(&host.payload("go")).deadline(LIMIT).run();
        assert_eq!(output.code, Some(0), "{reply:?}: {}", output.stderr);
        assert_eq!(host.answer().as_deref(), Some("done"));
        assert_eq!((host.requests_of("fetch_work").len(), host.answers().len()), (asked, answers), "{reply:?}");
    }
}

#[test]
fn work_that_cannot_be_used_is_answered_and_the_next_is_done() {
    for unusable in [json!("{\"message\":"), json!({"message": "no text"}), json!("a\u{0}b")] {
        let host = FakeHost::listen(Script::json(json!([{"repeat": true, "text": "done"}]))).start();
        host.forgive();
        let mut next = host.payload("next");
        next["singleTurn"] = json!(true);
        let reply = json!({"ok": true, "payload": unusable, "_msgId": "{{msgId}}"}).to_string();
        host.fault("fetch_work", 1, Fault::Body(reply));
        host.set_reply("fetch_work", json!({"payload": next.to_string()}));
        let output = host.runner(BIN).payload(&host.payload("go")).deadline(LIMIT).env("LOG_LEVEL", "error").run();
        assert_eq!(output.code, Some(0), "{unusable}: {}", output.stderr);
        let answers: Vec<_> = host.answers().into_iter().map(|answer| answer.content).collect();
        assert!(answers.len() == 3 && answers[1].starts_with("Agent error: "), "{unusable}: {answers:?}");
        assert_eq!((answers[0].as_str(), answers[2].as_str()), ("done", "done"));
        assert!(output.stderr.contains("work_loop_error"), "{}", output.stderr);
    }
}

#[test]
fn the_same_work_is_not_run_twice() {
    let host = FakeHost::listen(bash_then_done("echo x >>count")).start();
    let payload = host.payload("go");
    host.set_reply("fetch_work", json!({"payload": payload.to_string()}));
    let running = host.runner(BIN).payload(&payload).deadline(LIMIT).spawn().unwrap();
    host.wait_request("fetch_work", 2, LIMIT).expect("a second question");
    host.set_reply("fetch_work", json!({"payload": null}));
    let output = running.wait();
    assert_eq!((output.code, host.answers().len(), lines(&host, "count").len()), (Some(0), 1, 1), "{}", output.stderr);
}
