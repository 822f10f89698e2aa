//! The command, as a person starts it.

use crate::everywhere;
use ax_runner::devhost::{Policy, Script};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn devhost(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ax-devhost")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name).to_str().unwrap().to_owned()
}

#[test]
fn the_tour_repairs_its_project_on_every_transport() {
    for transport in ["socket", "listen", "http"] {
        let output = devhost(&["run", "--transport", transport]);
        let told = told(&output);
        assert_eq!(output.status.code(), Some(0), "{told}");
        assert!(String::from_utf8_lossy(&output.stdout).ends_with("All tests pass.\n"), "{told}");
        assert!(told.contains("exit 1") && told.contains("0 violations"), "{told}");
        assert!(!told.contains('\x1b'), "colour without a terminal");
        let workspace = told.lines().find_map(|line| line.strip_prefix("workspace ")).unwrap();
        assert!(!Path::new(workspace).exists(), "{workspace} is left behind");
    }
}

#[test]
fn a_policy_denies_and_the_script_takes_its_other_ending() {
    let output = devhost(&["run", "--policy", &fixture("policies/read-only.json")]);
    let told = told(&output);
    assert!(told.contains("denied: this session is read-only"), "{told}");
    assert!(told.contains("Something did not go as planned"), "{told}");
}

#[test]
fn a_call_that_the_runner_refuses_itself_is_shown() {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("script.json");
    let tools = r#"[{"name":"read_file","args":{"path":"../x"}},{"name":"bash","args":{"command":"echo hi"}},{"name":"nope","args":{}}]"#;
    std::fs::write(&script, format!(r#"[{{"tools":{tools}}},{{"text":"done"}}]"#)).unwrap();
    let output = devhost(&["run", "--script", script.to_str().unwrap(), "hi"]);
    let told = told(&output);
    let refused: Vec<&str> = told.lines().filter(|line| line.contains("refused by the runner: ")).collect();
    assert!(refused.len() == 2 && refused[0].contains("read_file ../x") && refused[1].contains("nope"), "{told}");
    assert!(told.contains("3 calls (0 denied, 2 failed)"), "{told}");
}

#[test]
fn a_named_workspace_is_worked_in_and_everything_is_audited() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script.json");
    fs::write(&script, r#"[{"tools":[{"name":"write_file","args":{"path":"a.txt","content":"x"}}]},{"text":"wrote"}]"#)
        .unwrap();
    let (work, audit) = (directory.path().join("work"), directory.path().join("audit.jsonl"));
    fs::create_dir(&work).unwrap();
    let paths = [&work, &script, &audit].map(|path| path.to_str().unwrap());
    let output = devhost(&["run", "--workspace", paths[0], "--script", paths[1], "--audit", paths[2], "do it"]);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"wrote\n"[..]), "{}", told(&output));
    assert_eq!(fs::read(work.join("a.txt")).unwrap(), b"x");
    let lines = fs::read_to_string(&audit).unwrap();
    let events: Vec<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["event"].as_str().unwrap().to_owned())
        .collect();
    for event in ["connected", "request", "model", "judged", "disconnected"] {
        assert!(events.iter().any(|known| known == event), "{event} is not in {events:?}");
    }
}

#[test]
fn several_turns_are_one_conversation() {
    let directory = tempfile::tempdir().unwrap();
    let turns = directory.path().join("turns.json");
    fs::write(&turns, r#"["one", "two", "three"]"#).unwrap();
    for transport in ["socket", "listen", "http"] {
        let audit = directory.path().join(transport);
        let (turns, log) = (turns.to_str().unwrap(), audit.to_str().unwrap());
        let output = devhost(&[
            "run",
            "--turns",
            turns,
            "--script",
            &fixture("scripts/chat.json"),
            "--transport",
            transport,
            "--audit",
            log,
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout).matches("script").count(), 3);
        let last = fs::read_to_string(&audit).unwrap();
        let last = last.lines().rfind(|line| line.contains("\"llm_call\"")).unwrap();
        assert!(last.contains("one") && last.contains("I am a script, not a model."), "{transport}: {last}");
    }
}

#[test]
fn a_runner_that_breaks_a_rule_fails_the_run() {
    if !everywhere::python("a_runner_that_breaks_a_rule_fails_the_run") {
        return;
    }
    let program = r#"
import os, socket, struct
peer = socket.socket(socket.AF_UNIX); peer.connect(os.environ["AX_IPC_SOCKET"])
body = b'{"_msgId":"1","action":"web_search","query":"q","surprise":1}'
peer.sendall(struct.pack(">I", len(body)) + body); peer.recv(1000); print("done")
"#;
    let output = devhost(&["run", "--", "python3", "-c", program]);
    let told = told(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("done") && told.contains("surprise: unrecognized key"), "{told}");
}

#[test]
fn other_ends_have_their_codes() {
    for (arguments, code, words) in [
        (&["run", "--bogus"][..], 2, "unknown option --bogus"),
        (&["run", "--script", "/nonexistent/script"], 1, "/nonexistent/script"),
        (&["run", "--", "/bin/sh", "-c", "exit 3"], 1, "exit code 3"),
        (&["run", "--", "/bin/sh", "-c", "kill -9 $$"], 1, "signal 9"),
        (&["run", "--", "/bin/true"], 1, "0 model rounds"),
        (&["run", "--", "/nonexistent/runner"], 1, "does not start"),
        (&["--help"], 0, "usage"),
        (&["--version"], 0, "ax-devhost "),
        (&["run", "--provider", "podman", "--print"], 0, "podman run --rm -i"),
        (&["run", "--provider", "k8s"], 0, "\"kind\": \"Pod\""),
    ] {
        let output = devhost(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", told(&output));
        assert!(told(&output).contains(words), "{arguments:?}: {}", told(&output));
    }
}

#[test]
fn an_interrupt_ends_the_runner_too() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("pid");
    let program = format!("echo $$ > {}; exec sleep 300", mark.display());
    let mut child = Command::new(env!("CARGO_BIN_EXE_ax-devhost"))
        .args(["run", "--", "/bin/sh", "-c", &program])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while fs::read(&mark).unwrap_or_default().is_empty() && start.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let runner: i32 = fs::read_to_string(&mark).unwrap().trim().parse().unwrap();
    let send = |pid: i32, signal| nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal);
    send(i32::try_from(child.id()).unwrap(), Some(nix::sys::signal::Signal::SIGINT)).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(send(runner, None).is_err(), "the runner outlived its host");
}

#[test]
fn the_fixtures_are_valid() {
    for folder in ["scripts", "policies", "tour"] {
        for entry in fs::read_dir(fixture(folder)).unwrap() {
            let path = entry.unwrap().path();
            let Ok(text) = fs::read_to_string(&path) else { continue };
            match folder {
                "policies" => drop(Policy::parse(&text).unwrap()),
                _ => drop(Script::parse(&text).unwrap()),
            }
        }
    }
}
