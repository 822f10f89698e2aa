//! CASES L01–L07 and I14 through the built runner, and what a model does in its first ten minutes.

use crate::rows::*;
use crate::support::runner;
use ax_runner::devhost::{FakeHost, Policy, Script};
use serde_json::{Value, json};

const NOTHING: [&str; 0] = [];

fn approvals(host: &FakeHost, field: &str) -> Vec<String> {
    let text = |request: ax_runner::devhost::Request| request.value[field].as_str().unwrap_or_default().to_owned();
    host.requests_of("sandbox_approve").into_iter().map(text).collect()
}

#[test]
fn l01_arguments_that_are_not_right_run_nothing() {
    // Text of the arguments, and what the result names.
    let table = [
        ("read_file", "\"\"", "path"),
        ("read_file", "null", "object"),
        ("read_file", "[]", "object"),
        ("read_file", "\"str\"", "object"),
        ("read_file", "{}", "path"),
        ("read_file", "7", "object"),
        ("read_file", "true", "object"),
        ("read_file", "\"{\\\"path\\\":\"", "JSON"),
        ("read_file", "{\"path\":null}", "path"),
        ("read_file", "{\"path\":[\"a\"]}", "path"),
        ("read_file", "{\"path\":\"a\",\"limit\":\"2\"}", "limit"),
        ("read_file", "{\"path\":\"a\",\"limit\":0}", "limit"),
        ("read_file", "{\"path\":\"a\",\"limit\":-1}", "limit"),
        ("read_file", "{\"path\":\"a\",\"offset\":1.5}", "offset"),
        ("read_file", "{\"path\":\"a\",\"offset\":18446744073709551616}", "offset"),
        ("read_file", "{\"path\":\"a\",\"action\":\"llm_call\"}", "action"),
        ("read_file", "{\"path\":\"a\",\"_sessionId\":\"x\"}", "_sessionId"),
        ("bash", "{\"command\":\"touch RAN\",\"timeout\":\"2\"}", "timeout"),
        ("bash", "{\"command\":\"touch RAN\",\"timeout_ms\":-1}", "timeout_ms"),
        ("bash", "{\"command\":\"touch RAN\",\"timeout_ms\":\"2\"}", "timeout_ms"),
        ("bash", "{\"command\":\"touch RAN\",\"timeout_ms\":1e9}", "timeout_ms"),
        ("bash", "{\"command\":[\"touch\",\"RAN\"]}", "command"),
        ("bash", "{\"command\":{\"a\":\"touch RAN\"}}", "command"),
        ("bash", "{\"Command\":\"touch RAN\"}", "Command"),
        ("bash", "{\"cmd\":\"touch RAN\"}", "cmd"),
        ("bash", "{\"command\":null}", "command"),
        ("write_file", "{\"path\":\"RAN\"}", "content"),
        ("write_file", "{\"path\":\"RAN\",\"content\":{\"json\":1}}", "content"),
        ("write_file", "{\"content\":\"x\"}", "path"),
        ("edit_file", "{\"path\":\"f\",\"old_string\":\"keep\"}", "new_string"),
        (
            "edit_file",
            "{\"path\":\"f\",\"old_string\":\"keep\",\"new_string\":\"x\",\"replace_all\":\"yes\"}",
            "replace_all",
        ),
        ("edit_file", "{\"path\":\"f\",\"old_string\":\"\",\"new_string\":\"x\"}", "old_string"),
        ("grep", "{\"pattern\":\"x\",\"max_results\":0}", "max_results"),
        ("grep", "{\"pattern\":\"x\",\"context_lines\":21}", "context_lines"),
        ("grep", "{\"pattern\":\"x\",\"output_mode\":\"lines\"}", "output_mode"),
        ("glob", "{\"pattern\":[\"*\"]}", "pattern"),
        ("skill_write", "{\"name\":\"a\",\"description\":\"d\"}", "body"),
        ("memory", "{\"type\":\"burn\"}", "type"),
        ("no_such_tool", "{}", "not found"),
        ("bash ", "{\"command\":\"touch RAN\"}", "not found"),
        ("BASH", "{\"command\":\"touch RAN\"}", "not found"),
    ];
    let calls: Vec<_> = table.iter().map(|(name, args, _)| raw(name, args)).collect();
    let (host, told) = play_with(
        one_by_one(&calls),
        |host| std::fs::write(host.workspace().join("f"), "keep").unwrap(),
        |runner| runner,
    );
    for ((name, args, wanted), told) in table.iter().zip(&told) {
        assert!(told.contains(wanted) && told.len() < 500, "{name} {args}: {told}");
        assert!(told.to_lowercase().contains("error") || told.contains("not found"), "{name} {args}: {told}");
    }
    assert_eq!(approvals(&host, "operation"), NOTHING);
    assert!(!host.workspace().join("RAN").exists());
    assert_eq!(std::fs::read_to_string(host.workspace().join("f")).unwrap(), "keep");
}

#[test]
fn l01_text_that_two_readers_could_read_differently_runs_nothing() {
    let deep = format!("{{\"command\":{}1{}}}", "[".repeat(400), "]".repeat(400));
    let table = [
        r#"{"command":"echo safe","command":"touch EVIL"}"#,
        r#"{"command":"echo safe","\u0063ommand":"touch EVIL"}"#,
        r#"{"command":"echo safe","cmd":"touch EVIL"}"#,
        r#"{"command":"echo safe","Command":"touch EVIL"}"#,
        r#"{"command":"echo safe","COMMAND":"touch EVIL"}"#,
        r#"{"command":"echo safe","command ":"touch EVIL"}"#,
        r#"{"command":"echo safe","extra":{"command":"touch EVIL"}}"#,
        r#"{"command":"echo safe","timeout_ms":1,"timeout_ms":2}"#,
        r#"{"command":"echo safe","__proto__":{"command":"touch EVIL"}}"#,
        r#""{\"command\":\"echo safe\",\"command\":\"touch EVIL\"}""#,
        r#""{\"command\":\"echo safe\"} {\"command\":\"touch EVIL\"}""#,
        r#""\ufeff{\"command\":\"touch EVIL\"}""#,
        r#""[{\"command\":\"touch EVIL\"}]""#,
        r#"[{"command":"touch EVIL"}]"#,
        &deep,
    ];
    let calls: Vec<_> = table.iter().map(|args| raw("bash", args)).collect();
    let (host, told) = play(one_by_one(&calls));
    for (args, told) in table.iter().zip(&told) {
        assert!(told.starts_with("Error: "), "{args}: {told}");
    }
    assert_eq!(approvals(&host, "command"), NOTHING);
    assert!(!host.workspace().join("EVIL").exists());
    // One escaped spelling of one key is one value, and that is what is shown and run.
    let (host, told) = play(one_by_one(&[raw("bash", r#"{"\u0063ommand":"printf \u0041"}"#)]));
    assert_eq!((approvals(&host, "command"), output(&told[0])), (vec!["printf A".to_owned()], "A".to_owned()));
}

#[test]
fn l01_a_reply_that_is_not_json_is_asked_for_again() {
    for broken in
        [r#"{"path":"#, r#"{"path":"\ud83d"}"#, r#"{"limit":1e309}"#, "{}{}", "\u{feff}{}", "{'path':'a'}", ""]
    {
        let reply = format!(
            r#"{{"_msgId":"{{{{msgId}}}}","ok":true,"chunks":[{{"type":"tool_use","toolCall":{{"id":"t","name":"read_file","args":{broken}}}}},{{"type":"done"}}]}}"#
        );
        let host = FakeHost::socket(Script::json(json!([{"raw": reply}, {"text": "done"}]))).start();
        let ended = runner(&host).run();
        assert!(!ended.timed_out, "{broken}: {}", ended.stderr);
        assert_eq!((ended.code, ended.text().as_str()), (Some(0), "done"), "{broken}: {}", ended.stderr);
        assert_eq!(host.violations(), [], "{broken}");
        assert_eq!(approvals(&host, "path"), NOTHING);
    }
}

#[test]
fn l03_each_call_has_one_result_whatever_became_of_it() {
    let call = |id: &str, name: &str, args: Value| json!({"id": id, "name": name, "args": args});
    let round = [
        call("same", "bash", json!({"command": "echo one"})),
        call("same", "bash", json!({"command": "echo denied"})),
        call("", "bash", json!({"command": "echo silent"})),
        call("d", "nope", json!({})),
        call("e", "bash", json!({"command": 1})),
        call("f", "bash", json!({"command": "kill -9 $PPID; sleep 5"})),
        call("g", "read_file", json!({"path": "../x"})),
        call("h", "bash", json!({"command": "sleep 60", "timeout_ms": 300})),
        call("i", "bash", json!({"command": "true"})),
        call(&"x".repeat(300), "bash", json!({"command": "echo long id"})),
        call("", "write_file", json!({"path": "w", "content": "x"})),
        call("tu 1/ü", "memory", json!({"type": "list", "scope": "user"})),
    ];
    let policy = Policy::json(json!([
        {"command": "denied", "verdict": "deny"},
        {"command": "silent", "reply": {"approved": "yes"}},
        {"operation": "write", "reply": {"ok": false, "error": "Validation failed: content"}}]));
    let script =
        Script::json(json!([{"tools": round}, {"tools": [round[0], round[0]]}, {"repeat": true, "text": "done"}]));
    let host = FakeHost::socket(script).policy(policy).start();
    let ended = runner(&host).run();
    // The host checks each request: one result a call, in one place, no empty text, ids that fit.
    ended_well(&host, &ended);
    let last = host.requests_of("llm_call").pop().unwrap();
    let blocks = |kind: &str| -> Vec<Value> {
        let messages = last.value["messages"].as_array().unwrap().clone();
        let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten().cloned();
        blocks.filter(|block| block["type"] == kind).collect()
    };
    let (uses, results) = (blocks("tool_use"), blocks("tool_result"));
    assert_eq!((uses.len(), results.len()), (14, 14));
    for (tool, result) in uses.iter().zip(&results) {
        assert_eq!(tool["id"], result["tool_use_id"]);
    }
    let texts: Vec<&str> = results.iter().map(|result| result["content"].as_str().unwrap()).collect();
    let wanted = [
        "one",
        "Denied: denied by host policy",
        "Denied",
        "not found",
        "command",
        "was killed",
        "leads out",
        "Timed out after 300 ms",
        "(no output)",
        "long id",
        "could not judge",
        "",
        "one",
        "one",
    ];
    for (text, wanted) in texts.iter().zip(wanted) {
        assert!(text.contains(wanted), "wanted {wanted}: {text}");
    }
    assert!(!host.workspace().join("w").exists());
}

#[test]
fn l04_a_reply_cut_at_its_limit_runs_nothing_half() {
    let cut = |tools: Value, tokens: u64| json!({"tools": tools, "usage": {"inputTokens": 1, "outputTokens": tokens}});
    let whole = bash("echo ran >> first");
    let script = json!([
        cut(json!([whole, write("keep", "half of the conte")]), 8192),
        cut(json!([whole, raw("write_file", "{\"path\":\"keep\"}")]), 8192),
        cut(json!([raw("edit_file", "{}")]), 9000),
        cut(json!([bash("rm -rf /tmp/build")]), 8192),
        cut(json!([bash("echo fine")]), 8191),
        {"text": "done"}]);
    let (host, told) = play_with(
        Script::json(script),
        |host| std::fs::write(host.workspace().join("keep"), "old").unwrap(),
        |runner| runner,
    );
    let cut: Vec<&String> = told.iter().filter(|told| told.contains("cut at its limit of 8192 tokens")).collect();
    assert_eq!(cut.len(), 4, "{told:?}");
    assert!(cut.iter().all(|told| told.contains("smaller parts")));
    assert_eq!(approvals(&host, "command"), ["echo ran >> first", "echo ran >> first", "echo fine"]);
    assert_eq!(std::fs::read_to_string(host.workspace().join("keep")).unwrap(), "old");
}

#[test]
fn l06_nothing_said_is_no_empty_block() {
    let quiet = [
        bash("true"),
        bash("printf ' \\n'"),
        bash("printf '\\t'"),
        bash("printf '\\0'"),
        bash(":"),
        bash(" "),
        read("empty"),
        read("blank"),
        grep("no such words", "."),
        glob("*.none"),
        write("e2", ""),
        edit("one", "x", ""),
        read("one"),
        bash("printf '\\u200b'"),
        bash("exit 3"),
        bash("printf '\\xe2\\x80\\x8b \\xc2\\xa0'"),
    ];
    let rounds = [
        json!({"tools": [bash("true"), bash("denied")]}),
        json!({"text": "", "tools": [bash("true")]}),
        json!({"text": [" ", "\n"], "tools": [bash("true")]}),
        json!({"thinking": "hm", "tools": [bash("true")]}),
        json!({"tools": quiet}),
        json!({"chunks": [{"type": "thinking", "content": "only"}, {"type": "tool_use", "toolCall": {"id": "z", "name": "bash", "args": {"command": "true"}}}, {"type": "done"}]}),
        json!({"text": "done"}),
    ];
    let host = FakeHost::socket(Script::json(json!(rounds)))
        .policy(Policy::json(json!([{"command": "denied", "verdict": "deny", "reason": " "}])))
        .start();
    for (name, text) in [("empty", ""), ("blank", " \n"), ("one", "x")] {
        std::fs::write(host.workspace().join(name), text).unwrap();
    }
    let ended = runner(&host).run();
    assert_eq!(host.violations(), []);
    assert_eq!((ended.code, ended.text().trim()), (Some(0), "done"), "{}", ended.stderr);
    // A last reply without a word.
    for end in [
        json!({"text": ""}),
        json!({"chunks": []}),
        json!({"chunks": [{"type": "thinking", "content": "x"}, {"type": "done"}]}),
    ] {
        let host = FakeHost::socket(Script::json(json!([{"tools": [bash("true")]}, end]))).start();
        let ended = runner(&host).run();
        assert_eq!((ended.code, host.violations()), (Some(0), vec![]), "{}", ended.stderr);
    }
}

#[test]
fn l07_nothing_goes_out_with_half_a_character() {
    let calls = [
        bash("printf '\\xed\\xa0\\xbd'; touch \"$(printf 'n\\xed\\xa0\\xbdm')\" \"$(printf '\\xff\\xfe')\"; ls"),
        glob("**"),
        bash("printf 'x\\xed\\xa0\\xbdy\\n' > f; cat f; exit 1"),
        read("f"),
        grep("x", "f"),
        grep("y$", "."),
        edit("f", "x\u{fffd}", "z"),
        bash("echo '\\ud83d'; printf '\\\\ud83d\\\\udc00'"),
        raw("bash", r#"{"command":"echo \ud83d\ude00"}"#),
        raw("write_file", r#"{"path":"\ud83d\ude00","content":"\ud83d\ude00"}"#),
    ];
    let (host, told) = play(one_by_one(&calls));
    for request in host.requests() {
        let text = std::str::from_utf8(&request.raw).expect("UTF-8");
        assert!(serde_json::from_str::<Value>(text).is_ok());
    }
    assert_eq!(output(&told[8]), "😀\n");
    assert_eq!(std::fs::read_to_string(host.workspace().join("😀")).unwrap(), "😀");
}

#[test]
fn i14_what_is_approved_is_all_of_what_runs() {
    let hidden = [
        format!("echo safe;{}touch EVIL", " ".repeat(10_000)),
        "echo safe\rtouch EVIL".to_owned(),
        "echo safe #\u{202e}\u{2066}\ntouch EVIL".to_owned(),
        "echo safe\u{1b}[2K\u{1b}[1Gtouch\u{a0}EVIL".to_owned(),
        format!("echo {}", "a".repeat(99_000)),
        format!("{}\necho end", "# ü\n".repeat(20_000)),
        "echo safe \u{2028} touch EVIL".to_owned(),
    ];
    let calls: Vec<_> = hidden.iter().map(bash).collect();
    let (host, told) = play(one_by_one(&calls));
    assert_eq!(approvals(&host, "command"), hidden);
    assert!(output(&told[4]).len() == 99_001 && output(&told[5]) == "end\n");
    // Too long to be shown is too long to be run; the count is in UTF-16 units.
    let long =
        [bash(format!("touch EVIL2 {}", "a".repeat(100_000))), bash(format!("touch EVIL2 {}", "😀".repeat(50_000)))];
    let (host, told) = play(one_by_one(&long));
    assert!(told.iter().all(|told| told.contains("the limit is 100000") && told.contains("script")), "{told:?}");
    assert!(approvals(&host, "command").is_empty() && !host.workspace().join("EVIL2").exists());
}

#[test]
fn i14_only_a_plain_yes_is_a_yes() {
    let replies = [
        json!({"approved": "true"}),
        json!({"approved": 1}),
        json!({"approved": null}),
        json!({}),
        json!({"approved": [true]}),
        json!({"approved": {"value": true}}),
        json!({"Approved": true}),
        json!({"ok": false, "approved": true}),
        json!({"ok": "true", "approved": true}),
        json!({"ok": null, "approved": true}),
        json!({"approved": false, "reason": 7}),
        json!({"approved": false, "command": "touch EVIL"}),
    ];
    for reply in replies {
        let host =
            FakeHost::socket(at_once(&[bash("touch EVIL"), write("EVIL", "x"), edit("old", "a", "b"), read("old")]))
                .policy(Policy::json(json!([{"reply": reply}])))
                .start();
        std::fs::write(host.workspace().join("old"), "a").unwrap();
        let ended = runner(&host).run();
        assert_eq!((ended.code, ended.text().as_str()), (Some(0), "done"), "{reply}: {}", ended.stderr);
        assert!(!host.workspace().join("EVIL").exists(), "{reply}");
        assert_eq!(std::fs::read_to_string(host.workspace().join("old")).unwrap(), "a", "{reply}");
        assert!(host.requests_of("sandbox_result").is_empty(), "{reply}");
        assert!(told(&host).iter().all(|told| !told.contains("\"content\"")), "{reply}");
    }
    // What runs is never what a host has made of it.
    for edited in [json!({"approved": true, "command": "touch edited"}), json!({"approved": true, "operation": "read"})]
    {
        let host =
            FakeHost::socket(at_once(&[bash("touch asked")])).policy(Policy::json(json!([{"reply": edited}]))).start();
        ended_well(&host, &runner(&host).run());
        let told = told(&host);
        assert!(host.workspace().join("asked").exists() || told[0].contains("was not run"), "{told:?}");
        assert!(!host.workspace().join("edited").exists());
    }
}

#[test]
fn i14_a_file_that_changes_under_a_pending_approval_is_left_alone() {
    type Change = fn(&std::path::Path);
    let changes: [(&str, Change); 5] = [
        ("rewritten", |path| std::fs::write(path, "one\nEVIL\n").unwrap()),
        ("same size", |path| std::fs::write(path, "one\ntwp\n").unwrap()),
        ("replaced", |path| {
            std::fs::write(path.with_extension("n"), "one\ntwo\n").unwrap();
            std::fs::rename(path.with_extension("n"), path).unwrap();
        }),
        ("removed", |path| std::fs::remove_file(path).unwrap()),
        ("a link", |path| {
            std::fs::remove_file(path).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", path).unwrap();
        }),
    ];
    let calls = [edit("f", "two", "three"), write("f", "three")];
    let cases: Vec<_> = changes.iter().flat_map(|change| calls.iter().map(move |call| (*change, call))).collect();
    crate::http::in_parallel(
        &cases,
        |_| 0,
        |((what, change), call)| {
            let host = FakeHost::socket(at_once(std::slice::from_ref(*call)))
                // Time for the change, also on a busy machine.
                .policy(Policy::json(json!([{"verdict": "allow", "delay_ms": 3000}])))
                .start();
            let path = host.workspace().join("f");
            std::fs::write(&path, "one\ntwo\n").unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            let running = runner(&host).spawn().unwrap();
            host.wait_request("sandbox_approve", 1, crate::support::LIMIT).unwrap();
            change(&path);
            let changed = std::fs::read(&path).ok();
            let ended = running.wait();
            ended_well(&host, &ended);
            let told = &told(&host)[0];
            assert!(told.contains("error"), "{what} {call}: {told}");
            assert_eq!(std::fs::read(&path).ok(), changed, "{what} {call}");
            assert_eq!(host.requests_of("sandbox_result")[0].value["success"], false);
        },
    );
}

#[test]
fn a_reply_means_its_calls_in_their_order() {
    let calls = [
        write("run.sh", "echo one\n"),
        bash("bash run.sh"),
        read("run.sh"),
        edit("run.sh", "one", "two"),
        bash("bash run.sh"),
        grep("two", "run.sh"),
        edit("run.sh", "two", "three"),
        edit("./run.sh", "three", "four"),
        write("d/e/f", "x"),
        bash("bash run.sh; cat d/e/f; rm -r d run.sh"),
        write("run.sh", "echo five\n"),
        bash("bash run.sh"),
    ];
    for _ in 0..5 {
        let (_host, told) = play(at_once(&calls));
        let said: Vec<String> = [1, 4, 9, 11].iter().map(|at| output(&told[*at])).collect();
        assert_eq!(said, ["one\n", "two\n", "four\nx", "five\n"]);
        assert!(told[2].contains("echo one") && told[5].contains("run.sh:1:echo two"), "{told:?}");
    }
    // Those that only look, or are left to themselves, still run side by side.
    let meet =
        |mine: &str, other: &str| bash(format!("touch {mine}; until [ -e {other} ]; do sleep .02; done; echo met"));
    let (_host, told) = play(at_once(&[meet("a", "b"), meet("b", "c"), meet("c", "a"), glob("*")]));
    assert!(told[..3].iter().all(|told| output(told) == "met\n"), "{told:?}");
}

#[test]
fn a_file_with_several_names_is_edited_in_the_order_of_the_calls() {
    for _ in 0..3 {
        let (host, told) = play_with(
            at_once(&[
                edit("f", "one", "two"),
                edit("./d/../f", "two", "three"),
                edit("link", "three", "four"),
                edit("self/f", "four", "five"),
                write(".ax/skills/a/SKILL.md", "---\nname: a\ndescription: d\n---\nx"),
                call("skill_write", json!({"name": "a", "description": "second", "body": "b"})),
                edit(".ax/skills/a/SKILL.md", "second", "third"),
            ]),
            |host| {
                std::fs::write(host.workspace().join("f"), "one").unwrap();
                std::os::unix::fs::symlink("f", host.workspace().join("link")).unwrap();
                std::os::unix::fs::symlink(".", host.workspace().join("self")).unwrap();
            },
            |runner| runner,
        );
        assert!(told.iter().all(|told| !told.contains("error")), "{told:?}");
        assert_eq!(std::fs::read(host.workspace().join("f")).unwrap(), b"five");
    }
}

#[test]
fn the_first_ten_minutes() {
    let calls = [
        bash("pwd && ls -la"),
        bash("cd /tmp && export X=1; y=2"),
        bash("echo \"$PWD ${X-unset} ${y-unset}\""),
        read("."),
        read("missing.txt"),
        write("src/", "x"),
        write("src/main.py", "import sys\nprint('hé', sys.argv)\n"),
        bash("python3 src/main.py a 'b c'"),
        bash("git init -q -b main . && git add -A && git commit -m first 2>&1 | tail -3"),
        bash("git -c user.name=a -c user.email=b@c commit"),
        bash(
            "git config user.email a@b.c; git config user.name n; git commit -qam ok && git log --oneline | cat; git show --stat | cat",
        ),
        bash("GIT_SEQUENCE_EDITOR=: git rebase -i --root 2>&1 | tail -1"),
        bash("sudo -n true; echo $?"),
        bash("exit"),
        bash("set -eu; echo a; nope; echo b"),
        bash("cat <<'E' > h.txt\n$HOME `x` \\n\nE\ncat h.txt"),
        bash("printf 'a\\n%.0s' {1..3} | tee >(wc -l) >/dev/null; sleep .1"),
        bash("head -c 30000 /bin/bash"),
        read("src/pic.png"),
        bash("clear; tput cols; stty size"),
        bash("echo $- $0 $# $BASH_VERSION | cut -c1-20; shopt -q login_shell; echo $?"),
        bash("ulimit -c; nproc >/dev/null; date >/dev/null; echo ok"),
        bash("python3 -c 'while True: pass' & kill $!; wait; echo killed"),
        bash("rm -rf . ; echo $?; ls src"),
        bash("kill $PPID; kill -INT $PPID; kill -HUP 0; echo still"),
        bash("echo still here"),
        write("h.txt", "changed\n"),
        edit("src/main.py", "'hé'", "'hö'"),
        edit("src/main.py", "import os", "import re"),
        edit("src/main.py", "s", "S"),
        bash("yes | head -200000 | nl | tail -1"),
        bash("echo a >&2; (exit 4)"),
        call("bash", json!({"command": "echo x", "cwd": "/tmp"})),
        bash("exec 1>&-; echo gone"),
        bash("trap 'echo bye' EXIT; exit 9"),
        bash("tail -f /dev/null & echo $! > pid; disown"),
        bash("kill $(cat pid) && echo stopped"),
        bash("x=$(cat); echo \"[$x]\""),
        bash("mkfifo q; timeout 1 cat q; echo $?"),
    ];
    let (host, told) = play_with(
        one_by_one(&calls),
        |host| {
            std::fs::create_dir_all(host.workspace().join("src")).unwrap();
            let mut picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
            picture.extend((0..30_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8));
            std::fs::write(host.workspace().join("src/pic.png"), picture).unwrap();
        },
        |runner| runner,
    );
    let home = host.workspace().display().to_string();
    let says = |at: usize, wanted: &str| assert!(told[at].contains(wanted), "{}: {}", calls[at], told[at]);
    says(2, &format!("{home} unset unset"));
    says(3, "glob or `ls` lists");
    says(4, "no such file or directory");
    says(5, "remove the slash");
    says(7, "['src/main.py', 'a', 'b c']");
    says(8, "identity");
    says(9, "Aborting commit due to empty commit message");
    says(10, " ok\\n");
    says(13, "(no output)");
    says(14, "Exit code 127\\na\\n");
    says(15, "$HOME `x` \\\\n\\n");
    assert!(told[17].len() < 15_000 && told[17].contains("is not text"), "{}", told[17].len());
    assert!(told[18].len() < 15_000 && told[18].contains("is not text"), "{}", told[18].len());
    says(20, "hBc");
    says(22, "killed\\n");
    says(23, "main.py");
    says(25, "still here");
    says(26, "\"created\":false");
    says(28, "not found in file");
    says(29, "found 4 times");
    says(30, "200000\\ty");
    says(32, "cwd");
    says(34, "Exit code 9\\nbye");
    says(35, "1 process of this command is still running");
    says(36, "stopped");
    says(37, "[]");
    says(38, "124");
    assert!(!told.iter().any(|told| told.contains("Error: Error") || told.contains("os error")), "{told:?}");
}
