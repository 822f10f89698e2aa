//! One life over three transports (PROTOCOL §1, §3.9, §4, §5): the same turn, the same answer, the same end.

use crate::support::{LIMIT, comes_true};
use ax_runner::devhost::{FakeHost, Fault, Output, Point, Policy, Script, Signal, Transport};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const RUNNER: &str = env!("CARGO_BIN_EXE_ax-runner");
const TRANSPORTS: [Transport; 3] = [Transport::Socket, Transport::Listen, Transport::Http];

/// Runs one turn to the runner's end and returns what the user gets.
fn turn(host: &FakeHost, mut payload: Value) -> (String, Output) {
    payload["singleTurn"] = json!(true);
    if host.transport() == Transport::Http {
        host.push_work(&payload);
    }
    let output = host.runner(RUNNER).payload(&payload).deadline(LIMIT).run();
    let answer = match host.transport() {
        Transport::Socket => output.text(),
        _ => host.answer().unwrap_or_else(|| panic!("no answer; stderr: {}", output.stderr)),
    };
    (answer, output)
}

/// A payload of a session that goes on.
fn one_of_many(host: &FakeHost, message: &str) -> Value {
    let mut payload = host.payload(message);
    payload["singleTurn"] = json!(false);
    payload
}

struct Scenario {
    name: &'static str,
    script: Value,
    policy: Value,
    message: Value,
    /// What the answer is, or begins with when it ends in `…`.
    answer: &'static str,
    /// Text of the tool results, in order, as pieces each must contain.
    results: &'static [&'static str],
}

fn scenarios() -> Vec<Scenario> {
    let bash = |command: &str| json!({"name": "bash", "args": {"command": command}});
    let plain = |name, script, answer, results| Scenario {
        name,
        script,
        policy: json!([]),
        message: json!("go"),
        answer,
        results,
    };
    vec![
        plain("only text", json!([{"text": ["Hel", "lo"]}]), "Hello", &[]),
        plain(
            "text around tools",
            json!([{"text": "Looking.", "tools": [bash("printf one"), bash("printf two")]}, {"text": "Found."}]),
            "Looking.\n\nFound.",
            &["{\"output\":\"one\"}", "{\"output\":\"two\"}"],
        ),
        Scenario {
            policy: json!([{"operation": "bash", "command": "rm", "verdict": "deny", "reason": "not here"}]),
            ..plain(
                "a denial",
                json!([{"tools": [bash("rm x"), bash("printf ok")]}, {"text": "Done."}]),
                "Done.",
                &["{\"output\":\"Denied: not here\"}", "{\"output\":\"ok\"}"],
            )
        },
        plain(
            "files",
            json!([
                {"tools": [{"name": "write_file", "args": {"path": "a/b.txt", "content": "x\n"}}]},
                {"tools": [{"name": "edit_file", "args": {"path": "a/b.txt", "old_string": "x", "new_string": "y"}}]},
                {"tools": [{"name": "read_file", "args": {"path": "./a/b.txt"}}]},
                {"text": "ok"}
            ]),
            "ok",
            &["\"written\":true", "\"edited\":true", "{\"content\":\"y\\n\"}"],
        ),
        plain(
            "an unknown tool and broken arguments",
            json!([{"tools": [{"name": "nope", "args": {}}, {"name": "bash", "args": []}]}, {"text": "ok"}]),
            "ok",
            &["Tool nope not found", "must be a JSON object"],
        ),
        plain(
            "the model fails",
            json!([{"error": "Handler error: overloaded"}]),
            "[The turn could not be finished: the model call failed: Handler error: overloaded]",
            &[],
        ),
        plain(
            "the model fails late",
            json!([{"text": "First.", "tools": [bash("true")]}, {"error": "gone"}]),
            "First.\n\n[The turn could not be finished: the model call failed: gone]",
            &["(no output)"],
        ),
        plain(
            "a model that never stops",
            json!([{"tools": [bash("true")], "repeat": true}]),
            "[The turn could not be finished: stopped after …",
            &[],
        ),
        Scenario {
            message: json!([{"type": "image_data", "mimeType": "image/png", "data": "iVBORw0KGgo="}]),
            ..plain("only an image", json!([{"text": "A picture."}]), "A picture.", &[])
        },
    ]
}

#[test]
fn one_table_over_three_transports() {
    for scenario in scenarios() {
        for transport in TRANSPORTS {
            let at = format!("{} over {transport:?}", scenario.name);
            let host = FakeHost::builder(transport, Script::json(scenario.script.clone()))
                .policy(Policy::json(scenario.policy.clone()))
                .start();
            let mut payload = host.payload("go");
            payload["message"] = scenario.message.clone();
            let (answer, output) = turn(&host, payload);
            match scenario.answer.strip_suffix('…') {
                Some(start) => assert!(answer.starts_with(start), "{at}: {answer}"),
                None => assert_eq!(answer, scenario.answer, "{at}: {}", output.stderr),
            }
            assert_eq!(output.code, Some(0), "{at}: {}", output.stderr);
            assert_eq!(host.violations(), [], "{at}");
            let results = tool_results(&host);
            for (wanted, seen) in scenario.results.iter().zip(&results) {
                assert!(seen.contains(wanted), "{at}: {seen}");
            }
            assert!(results.len() >= scenario.results.len(), "{at}: {results:?}");
            if transport != Transport::Socket {
                assert_eq!(output.text(), "", "{at}");
                assert_eq!(host.answers().len(), 1, "{at}");
            }
        }
    }
}

/// The texts of all tool results in the last model call.
fn tool_results(host: &FakeHost) -> Vec<String> {
    let Some(last) = host.requests_of("llm_call").pop() else { return Vec::new() };
    let messages = last.value["messages"].as_array().cloned().unwrap_or_default();
    messages
        .iter()
        .filter_map(|message| message["content"].as_array())
        .flatten()
        .filter(|block| block["type"] == "tool_result")
        .map(|block| block["content"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn blank_messages_are_answered_where_an_answer_is_waited_for() {
    for message in ["", " \n\t "] {
        for transport in [Transport::Listen, Transport::Http] {
            let host = FakeHost::builder(transport, Script::text("never")).start();
            let (answer, output) = turn(&host, host.payload(message));
            assert_eq!(answer, "The message was empty, so there was nothing to do.");
            assert_eq!((output.code, host.requests_of("llm_call").len()), (Some(0), 0));
        }
        // In docker mode nothing is said and nobody is called (PROTOCOL §1.3).
        let host = FakeHost::socket(Script::text("never")).start();
        let output = host.runner(RUNNER).payload(&host.payload(message)).run();
        assert_eq!((output.text().as_str(), output.code, host.requests().len()), ("", Some(0), 0));
    }
}

#[test]
fn fatal_errors_are_answers_where_an_answer_is_waited_for() {
    for transport in [Transport::Listen, Transport::Http] {
        let host = FakeHost::builder(transport, Script::text("never")).start();
        // Where the runner listens, such an answer has no names in it: the one connection says whose it is.
        host.forgive();
        let payload = host.payload("hi");
        if transport == Transport::Http {
            host.push_work(&payload);
        }
        let output = host.runner(RUNNER).arguments(["--agent", "nobody"]).payload(&payload).deadline(LIMIT).run();
        assert_eq!(output.code, Some(1), "{}", output.stderr);
        let answer = host.answer().expect("an answer");
        assert!(answer.starts_with("Agent error: ") && answer.contains("unknown agent \"nobody\""), "{answer}");
    }
}

#[test]
fn work_that_cannot_be_read_is_an_answer_and_the_loop_goes_on() {
    let host = FakeHost::http(Script::text("fine")).start();
    host.push_raw_work("not json");
    let running = host.runner(RUNNER).deadline(LIMIT).spawn().unwrap();
    let first = host.wait_answer(1, LIMIT).expect("an answer to the broken item");
    assert!(first.content.starts_with("Agent error: the work item is not valid JSON"), "{}", first.content);
    let mut payload = host.payload("hi");
    payload["singleTurn"] = json!(true);
    host.push_work(&payload);
    assert_eq!(running.wait().code, Some(0));
    assert_eq!(host.answers().pop().unwrap().content, "fine");
}

/// Only the turn's own token opens a call (PROTOCOL T21), so it is looked for in the ruins.
#[test]
fn damaged_work_is_answered_with_the_turns_token() {
    let host = FakeHost::http(Script::json(json!([{"repeat": true, "text": "fine"}]))).start();
    let running = host.runner(RUNNER).deadline(LIMIT).spawn().unwrap();
    for (nth, item) in [
        r#"{"message":"hi","ipcToken":"turn-one","history":[{"role":"us"#,
        r#"{"message":"hi","history":[null],"ipcToken":"turn-two"}"#,
        r#"{"message":"cut \ud83d emoji","ipcToken":"turn-three","singleTurn":true}"#,
    ]
    .into_iter()
    .enumerate()
    {
        host.push_raw_work(item);
        let answer = host.wait_answer(nth + 1, LIMIT).unwrap_or_else(|| panic!("no answer to {item}"));
        assert_eq!(answer.content.starts_with("Agent error: "), nth == 0, "{}", answer.content);
    }
    assert_eq!(running.wait().code, Some(0));
    assert_eq!(host.violations(), []);
}

#[test]
fn the_tokens_are_never_mixed() {
    let host = FakeHost::http(Script::json(json!([{"text": "one"}, {"text": "two"}]))).start();
    host.push_work(&one_of_many(&host, "first"));
    let running = host.runner(RUNNER).deadline(LIMIT).spawn().unwrap();
    assert_eq!(host.wait_answer(1, LIMIT).unwrap().content, "one");
    let mut second = host.payload("second");
    second["singleTurn"] = json!(true);
    host.push_work(&second);
    let output = running.wait();
    assert_eq!(host.answers().last().unwrap().content, "two", "{}", output.stderr);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(host.violations(), []);
    assert!(!output.stderr.contains(host.pod_token()));
}

#[test]
fn the_same_work_is_not_run_twice() {
    let host = FakeHost::http(Script::json(json!([{"text": "one"}, {"text": "two"}])))
        .fault("/internal/work", 1, Fault::DuplicateWork)
        .start();
    host.push_work(&one_of_many(&host, "first"));
    let running = host.runner(RUNNER).deadline(LIMIT).spawn().unwrap();
    assert_eq!(host.wait_answer(1, LIMIT).unwrap().content, "one");
    let mut second = host.payload("second");
    second["singleTurn"] = json!(true);
    // A newer item takes the place of one that waits, so the second is offered until it is answered.
    while host.wait_answer(2, Duration::from_millis(300)).is_none() && !running.ended() {
        host.push_work(&second);
    }
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let answers: Vec<String> = host.answers().into_iter().map(|answer| answer.content).collect();
    assert_eq!(answers, ["one", "two"]);
}

#[test]
fn a_closed_turn_ends_the_work_and_not_the_session() {
    let script =
        json!([{"tools": [{"name": "bash", "args": {"command": "sleep 30 & echo x > mark; wait"}}]}, {"text": "next"}]);
    let host = FakeHost::http(Script::json(script)).start();
    let payload = host.payload("first");
    host.push_work(&payload);
    let running = host.runner(RUNNER).deadline(LIMIT).spawn().unwrap();
    host.wait_request("sandbox_approve", 1, LIMIT).expect("the command's approval");
    host.close_turn(payload["ipcToken"].as_str().unwrap());
    running.signal(Signal::SIGTERM);
    let output = running.wait();
    assert_eq!(output.code, Some(143), "{}", output.stderr);
}

#[test]
fn session_expiring_ends_the_process() {
    let host = FakeHost::http(Script::text("never")).start();
    host.push_raw_work(r#"{"_type":"session_expiring","secondsRemaining":30}"#);
    let output = host.runner(RUNNER).deadline(LIMIT).run();
    assert_eq!((output.code, host.answers().len()), (Some(0), 0));
}

#[test]
fn an_answer_too_large_for_http_is_shortened_and_says_so() {
    let text = "é\u{1}".repeat(300_000);
    let host = FakeHost::http(Script::text(&text)).start();
    let (answer, _) = turn(&host, host.payload("go"));
    assert!(answer.starts_with("é\u{1}é"), "starts as the model's text");
    assert!(answer.ends_with("[This answer was shortened: it has 600000 characters, more than the host takes.]"));
    assert_eq!(host.violations(), []);
}

#[test]
fn sigterm_ends_every_phase_with_its_code_and_an_answer_where_one_is_due() {
    let script = || {
        Script::json(
            json!([{"tools": [{"name": "bash", "args": {"command": "trap '' TERM; touch ready; sleep 60; sleep 300"}}]}]),
        )
    };
    for transport in TRANSPORTS {
        for phase in ["llm_call", "sandbox_approve", "running"] {
            let at = format!("{phase} over {transport:?}");
            let mut builder = FakeHost::builder(transport, script());
            if phase != "running" {
                builder = builder.fault(phase, 1, Fault::Silence(Point::Read));
            }
            let host = builder.start();
            let payload = host.payload("go");
            if transport == Transport::Http {
                host.push_work(&payload);
            }
            let running = host.runner(RUNNER).payload(&payload).deadline(LIMIT).spawn().unwrap();
            let awaited = if phase == "running" { "sandbox_approve" } else { phase };
            host.wait_request(awaited, 1, LIMIT).unwrap_or_else(|| panic!("{at}: no {awaited}"));
            let ready = host.workspace().join("ready");
            assert!(phase != "running" || comes_true(|| ready.exists()), "{at}: the command does not start");
            let begun = Instant::now();
            running.signal(Signal::SIGTERM);
            let output = running.wait();
            assert_eq!((output.code, output.timed_out), (Some(143), false), "{at}: {}", output.stderr);
            // On a busy machine the time may be over before the answer has gone.
            if begun.elapsed() > ax_runner::limits::SHUTDOWN {
                continue;
            }
            if transport != Transport::Socket {
                assert_eq!(host.answer().as_deref(), Some("[The turn was stopped before it was finished.]"), "{at}");
            }
            if phase == "running" {
                let report = host.requests_of("sandbox_result").pop().unwrap_or_else(|| panic!("{at}: no report"));
                assert_eq!(report.value["exitCode"], 130, "{at}");
            }
        }
    }
}

/// Leaves processes behind until no more can be had, and takes each place that becomes free.
const FILL: &str = "import os, time
def fill(until):
    while time.time() < until:
        try:
            if os.fork() == 0:
                time.sleep(20)
                os._exit(0)
        except OSError:
            if until == 1e18: return
            time.sleep(.0005)
if os.fork() == 0:
    fill(time.time() + 20)
    os._exit(0)
fill(1e18)
os._exit(0)
";

/// The file tools work on the event loop then, and a command says what is missing.
#[test]
fn without_room_for_a_thread_the_turn_still_ends() {
    let test = "without_room_for_a_thread_the_turn_still_ends";
    if !nix::unistd::geteuid().is_root() {
        return crate::support::skip(test, "a limit on processes needs a user of its own");
    }
    let look = json!([
        {"tools": [{"name": "read_file", "args": {"path": "a"}}, {"name": "grep", "args": {"pattern": "of"}}]},
        {"tools": [{"name": "bash", "args": {"command": "echo ran"}}]},
        {"text": "done"}]);
    for transport in TRANSPORTS {
        for limit in 1..=4 {
            let host = FakeHost::builder(transport, Script::json(look.clone())).start();
            std::fs::write(host.workspace().join("a"), "text of a").unwrap();
            let mut payload = host.payload("go");
            payload["singleTurn"] = json!(true);
            let limited = host.runner("/bin/bash").arguments([
                "-c",
                &format!("ulimit -u {limit}; exec \"$0\" \"$@\""),
                RUNNER,
                "/opt/ax/dist/agent/runner.js",
            ]);
            // Whose processes are counted: nobody else's may be among them.
            let output = limited.user(crate::support::lone_user()).payload(&payload).deadline(LIMIT).run();
            let at = format!("{transport:?}, {limit}: {}", output.stderr);
            assert_eq!(output.code, Some(0), "{at}");
            assert_eq!(host.answer().unwrap_or_else(|| output.text()), "done", "{at}");
            let told: Vec<String> = crate::support::results(&host).into_values().collect();
            let told = told.join("\n");
            assert!(told.contains("text of a") && told.contains("a:1:text of a"), "{at}: {told}");
            let refused = told.contains("no process could be started: the limit of processes is reached; run fewer");
            assert!(refused || told.contains("ran"), "{at}: {told}");
            assert!(limit > 1 || refused, "{at}: {told}");
            assert!(!output.stderr.contains("\"panic\""), "{at}");
        }
    }
}

/// A moment without a place for the guard's threads says nothing about the kernel: the host shall run the turn again.
#[test]
fn a_guard_that_finds_no_room_is_a_lack_and_no_fault() {
    let test = "a_guard_that_finds_no_room_is_a_lack_and_no_fault";
    if !nix::unistd::geteuid().is_root() {
        return crate::support::skip(test, "a limit on processes needs a user of its own");
    }
    let host = FakeHost::socket(Script::text("done")).start();
    let limited = host.runner("/bin/bash").arguments(["-c", "ulimit -u 1; exec \"$0\"", RUNNER]);
    let limited = limited.env("AX_UNIX_SOCKETS", "guard").user(crate::support::lone_user());
    let output = limited.payload(&host.payload("go")).deadline(LIMIT).run();
    assert_eq!((output.code, output.text().as_str()), (Some(1), ""), "{}", output.stderr);
    let last = output.stderr.lines().last().unwrap_or_default();
    assert!(last.ends_with("raise the container's limits of processes and open files"), "{last}");
    assert_eq!(crate::support::judge(1, "", &output.stderr), crate::support::Judgement::Retries, "{}", output.stderr);
}

#[test]
fn a_start_without_descriptors_says_so() {
    for transport in TRANSPORTS {
        for limit in [3, 4, 6, 8, 12, 16, 24, 28, 32, 64] {
            let host = FakeHost::builder(transport, Script::text("done")).start();
            let mut payload = host.payload("go");
            payload["singleTurn"] = json!(true);
            let script = format!("ulimit -n {limit}; exec \"$0\" \"$@\"");
            let limited = host.runner("/bin/bash").arguments(["-c", &script, RUNNER, "/opt/ax/dist/agent/runner.js"]);
            let output = limited.payload(&payload).deadline(LIMIT).run();
            let at = format!("{transport:?}, {limit}: {output:?}");
            match output.code {
                Some(0) => assert_eq!(host.answer().unwrap_or_else(|| output.text()), "done", "{at}"),
                code => {
                    // The program's loader is not ours: it ends with 127.
                    assert!(code == Some(1) || (limit == 3 && code == Some(127)), "{at}");
                    assert!(output.stderr.lines().last().is_some_and(|line| line.len() > 20), "{at}");
                }
            }
            assert!(limit < 64 || output.code == Some(0), "{at}");
            assert!(!output.stderr.contains("\"panic\"") && !output.timed_out, "{at}");
        }
    }
}

/// The runner takes what the hard limit allows it; a command has what the container was given.
#[test]
fn the_soft_limit_of_descriptors_is_for_commands() {
    let runner = "read -r line </proc/$PPID/stat; line=${line##*) }; set -- $line; grep 'open files' /proc/$2/limits";
    let bash = json!([{"name": "bash", "args": {"command": format!("ulimit -Sn; ulimit -Hn; {runner}")}}]);
    for transport in TRANSPORTS {
        let host = FakeHost::builder(transport, Script::json(json!([{"tools": bash}, {"text": "done"}]))).start();
        let mut payload = host.payload("go");
        payload["singleTurn"] = json!(true);
        let script = "ulimit -Sn 20; ulimit -Hn 600; exec \"$0\" \"$@\"";
        let limited = host.runner("/bin/bash").arguments(["-c", script, RUNNER, "/opt/ax/dist/agent/runner.js"]);
        let output = limited.payload(&payload).deadline(LIMIT).run();
        let at = format!("{transport:?}: {output:?}");
        assert_eq!(host.answer().unwrap_or_else(|| output.text()), "done", "{at}");
        let told = crate::support::result(&host).replace("\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains("\"20 600 Max open files 600 600 files"), "{told} {at}");
    }
}

#[test]
fn the_answer_comes_though_commands_fill_the_process_limit() {
    let test = "the_answer_comes_though_commands_fill_the_process_limit";
    if !crate::everywhere::python(test) {
        return;
    }
    if !nix::unistd::geteuid().is_root() {
        return crate::support::skip(test, "the limit counts all processes of a user, so it needs a user of its own");
    }
    let bash = |command| json!([{"name": "bash", "args": {"command": command}}]);
    let rounds = json!([{"tools": bash("python3 fill.py")}, {"tools": bash("echo back")}, {"text": "done"}]);
    let host = FakeHost::socket(Script::json(rounds)).start();
    std::fs::write(host.workspace().join("fill.py"), FILL).unwrap();
    let limited = host.runner("prlimit").arguments(["--nproc=40", RUNNER, "/opt/ax/dist/agent/runner.js"]);
    let output = limited.user(crate::support::lone_user()).payload(&host.payload("go")).deadline(LIMIT).run();
    assert_eq!((output.text().as_str(), output.code), ("done", Some(0)), "{}", output.stderr);
    // Nobody but the runner could end them: there is no command to do it with.
    let told: Vec<String> = crate::support::results(&host).into_values().collect();
    let after = told.iter().find(|text| text.contains("back")).unwrap_or_else(|| panic!("{told:?}"));
    // On a busy machine the command may have been faster than the one that takes each free place.
    let made_room = output.stderr.contains("background_ended_for_room");
    assert_eq!(after.contains("the limit of processes was reached: "), made_room, "{told:?} {}", output.stderr);
}
