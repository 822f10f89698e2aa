//! CASES L01, L03, L04, L06 and L07 with every tool: the fifteen and a catalog tool offered as one of its own.

use crate::support::runner;
use ax_runner::agent::{self, Brief, Ended};
use ax_runner::devhost::{FakeHost, Fault, Policy, Script};
use ax_runner::gate::Gate;
use ax_runner::link::{BoxFuture, CallContext, CallError, Host, HostLink, SocketLink};
use ax_runner::os::{ChildEnv, Shell};
use ax_runner::redact::Redactor;
use ax_runner::tools::{TOOL_NAMES, Toolbox, Turn};
use ax_runner::wire::{Action, Meta, Payload, Reply};
use ax_runner::workspace::Workspace;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const CATALOG: &str = "mcp_tracker_get_ticket";

/// One tool as the tests use it.
struct Tool {
    name: &'static str,
    /// A call that works; `MARK` stands where the model may write what it likes.
    good: Value,
    /// A field without which it does not.
    required: &'static str,
    /// Where it goes: the host's action, or a local one.
    action: &'static str,
}

fn tools() -> Vec<Tool> {
    let tool = |name, required, action, good| Tool { name, good, required, action };
    let local = "sandbox_approve";
    let all = vec![
        tool("memory", "content", "memory_write", json!({"type": "write", "scope": "s", "content": "MARK"})),
        tool("web", "query", "web_search", json!({"type": "search", "query": "MARK"})),
        tool("scheduler", "id", "scheduler_remove_cron", json!({"type": "remove", "id": "MARK"})),
        tool("save_artifact", "content", "save_artifact", json!({"tier": "user", "path": "a.md", "content": "MARK"})),
        tool("audit", "", "audit_query", json!({"action": "MARK"})),
        tool("agent", "task", "agent_delegate", json!({"type": "delegate", "task": "MARK"})),
        tool("bash", "command", local, json!({"command": "echo MARK >>RAN"})),
        tool("read_file", "path", local, json!({"path": "MARK"})),
        tool("write_file", "content", local, json!({"path": "new", "content": "MARK"})),
        tool("edit_file", "new_string", local, json!({"path": "f", "old_string": "keep", "new_string": "MARK"})),
        tool("skill_write", "body", local, json!({"name": "s", "description": "d", "body": "MARK"})),
        tool("grep", "pattern", local, json!({"pattern": "MARK"})),
        tool("glob", "pattern", local, json!({"pattern": "MARK"})),
        tool("describe_tools", "names", "describe_tools", json!({"names": ["MARK"]})),
        tool("call_tool", "tool", "call_tool", json!({"tool": "MARK", "args": {}})),
        tool(CATALOG, "id", "call_tool", json!({"id": "MARK"})),
    ];
    assert_eq!(all.iter().map(|tool| tool.name).take(15).collect::<Vec<_>>(), TOOL_NAMES);
    all
}

/// A catalog with an entry too large for a tool of its own, so that the two tools for the others are offered too.
fn payload(host: &FakeHost) -> Value {
    let entry = |name: &str, schema: Value| {
        json!({"name": name, "skill": "tracker", "summary": "Fetches.", "schema": schema,
            "dispatch": {"kind": "mcp", "server": "tracker", "toolName": "get"}})
    };
    let mut payload = host.payload("go");
    payload["catalog"] = json!([
        entry(CATALOG, json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]})),
        entry("mcp_tracker_heavy", json!({"type": "object", "description": "x".repeat(300_000)}))
    ]);
    payload["tool_dispatch"] = json!({"mode": "direct", "spill_threshold_bytes": 20_480});
    payload
}

fn seed(workspace: &Path) {
    std::fs::write(workspace.join("f"), "keep").unwrap();
    std::fs::write(workspace.join("empty"), "").unwrap();
}

fn call(id: &str, name: &str, args: &Value) -> Value {
    json!({"id": id, "name": name, "args": args})
}

fn raw(id: &str, name: &str, args: &str) -> Value {
    json!({"id": id, "name": name, "args_raw": args})
}

/// The results of the turn in the order of the calls, each of which has exactly one, in that order.
fn results(host: &FakeHost) -> Vec<String> {
    let last = host.requests_of("llm_call").pop().unwrap().value;
    let blocks: Vec<&Value> =
        last["messages"].as_array().unwrap().iter().filter_map(|it| it["content"].as_array()).flatten().collect();
    let of = |kind: &str| blocks.iter().filter(|block| block["type"] == kind).copied().collect::<Vec<_>>();
    let (uses, results) = (of("tool_use"), of("tool_result"));
    let ids = |blocks: &[&Value], key: &str| blocks.iter().map(|block| block[key].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&uses, "id"), ids(&results, "tool_use_id"));
    let texts: Vec<String> = results.iter().map(|block| block["content"].as_str().unwrap().to_owned()).collect();
    assert!(texts.iter().all(|text| !text.trim().is_empty()));
    texts
}

/// A turn of these rounds, which ends well.
fn play(rounds: Vec<Vec<Value>>, prepare: impl FnOnce(&FakeHost)) -> (FakeHost, Vec<String>) {
    let replies: Vec<Value> = rounds.into_iter().map(|calls| json!({"tools": calls})).collect();
    script(replies, Policy::json(json!([])), prepare)
}

fn script(mut replies: Vec<Value>, policy: Policy, prepare: impl FnOnce(&FakeHost)) -> (FakeHost, Vec<String>) {
    replies.push(json!({"text": "done", "repeat": true}));
    let host = FakeHost::socket(Script::json(json!(replies))).policy(policy).start();
    seed(&host.workspace());
    prepare(&host);
    let payload = payload(&host);
    let output = runner(&host).payload(&payload).run();
    assert!(!output.timed_out, "the runner hangs: {}", output.stderr);
    assert_eq!(
        (output.code, output.text().as_str(), host.violations()),
        (Some(0), "done", vec![]),
        "{}",
        output.stderr
    );
    let offered = host.requests_of("llm_call")[0].value["tools"].as_array().unwrap().len();
    assert_eq!(offered, 16);
    let told = results(&host);
    (host, told)
}

/// What reached the host besides model calls.
fn asked(host: &FakeHost) -> Vec<String> {
    host.requests().into_iter().map(|request| request.action).filter(|action| action != "llm_call").collect()
}

fn untouched(host: &FakeHost) {
    let workspace = host.workspace();
    assert!(!workspace.join("RAN").exists() && !workspace.join("new").exists());
    assert!(!workspace.join(".ax/skills/s").exists());
    assert_eq!(std::fs::read_to_string(workspace.join("f")).unwrap(), "keep");
}

#[test]
fn l01_no_tool_runs_on_arguments_that_are_not_right() {
    let mut table: Vec<(&str, String, String)> = Vec::new();
    for tool in tools() {
        let good = tool.good.to_string();
        let inside = good.trim_start_matches('{');
        for (args, wanted) in [
            ("null", "JSON object"),
            ("[]", "JSON object"),
            ("7", "JSON object"),
            ("\"MARK\"", "JSON object"),
            ("\"{\\\"path\\\":\"", "JSON"),
            (&format!("{{\"x\":{}1{}}}", "[".repeat(300), "]".repeat(300)), "recursion"),
            (&format!("{{\"n\":1e309,{inside}"), "out of range"),
        ] {
            table.push((tool.name, args.to_owned(), wanted.to_owned()));
        }
        let (first, value) = tool.good.as_object().unwrap().iter().next_back().unwrap();
        table.push((tool.name, format!("{{\"{first}\":{value},{inside}"), "twice".to_owned()));
        if tool.name != CATALOG {
            for key in ["nope", "_msgId", "Content"] {
                table.push((tool.name, format!("{{\"{key}\":1,{inside}"), key.to_owned()));
            }
        }
        if !tool.required.is_empty() {
            let mut without = tool.good.as_object().unwrap().clone();
            without.remove(tool.required);
            table.push((tool.name, json!(without).to_string(), tool.required.to_owned()));
            if tool.name != CATALOG {
                for odd in [Value::Null, json!({"a": 1}), json!([[7]]), json!(1.5)] {
                    let mut wrong = tool.good.clone();
                    wrong[tool.required] = odd;
                    table.push((tool.name, wrong.to_string(), tool.required.to_owned()));
                }
            }
        }
    }
    assert!(table.len() > 200, "{}", table.len());
    for part in table.chunks(45) {
        let calls: Vec<Value> =
            part.iter().enumerate().map(|(at, (name, args, _))| raw(&format!("c{at}"), name, args)).collect();
        let (host, told) = play(vec![calls], |_| {});
        for ((name, args, wanted), told) in part.iter().zip(&told) {
            assert!(told.starts_with("Error: ") && told.contains(wanted.as_str()), "{name} {args}: {told}");
            assert!(told.len() < 700 && !told.contains("sequence") && !told.contains("invalid type"), "{name}: {told}");
        }
        assert_eq!(asked(&host), [""; 0]);
        untouched(&host);
    }
}

#[test]
fn l03_each_tool_denied_failed_unknown_or_named_twice_has_its_result() {
    let deny = Policy::json(json!([{"verdict": "deny", "reason": "not today"}]));
    let refuse = |host: &FakeHost| {
        for tool in tools().iter().filter(|tool| tool.action != "sandbox_approve") {
            host.set_reply(tool.action, json!({"ok": false, "error": "not today"}));
        }
    };
    let (host, told) = {
        let same = tools().iter().map(|tool| call("same", tool.name, &tool.good)).collect::<Vec<_>>();
        let empty = tools().iter().map(|tool| call("", tool.name, &tool.good)).collect::<Vec<_>>();
        script(vec![json!({"tools": same}), json!({"tools": empty})], deny, refuse)
    };
    assert_eq!(told.len(), 32);
    assert!(told.iter().all(|text| text.contains("not today")), "{told:#?}");
    untouched(&host);

    // Failures of their own, and between them names that are nearly right and calls that are not.
    let bad = [
        ("memory", json!({"type": "read", "id": "6f1c2f04-4d0e-4a53-9a53-0d6f2f7b9c11"})),
        ("bash", json!({"command": "exit 3"})),
        ("read_file", json!({"path": "none"})),
        ("write_file", json!({"path": ".ax", "content": "x"})),
        ("edit_file", json!({"path": "f", "old_string": "none", "new_string": "x"})),
        ("skill_write", json!({"name": "f", "description": "d", "body": "b"})),
        ("grep", json!({"pattern": "x", "path": "none"})),
        ("glob", json!({"pattern": "x", "path": "none"})),
    ];
    let mut round = Vec::new();
    for (at, tool) in tools().iter().enumerate() {
        let args = bad.iter().find(|(name, _)| *name == tool.name).map_or(&tool.good, |(_, args)| args);
        round.push(call(&format!("a{at}"), tool.name, args));
        let names = [
            tool.name.to_uppercase(),
            format!("{} ", tool.name),
            format!("{}\0", tool.name),
            format!("/{}", tool.name),
        ];
        round.push(call(&format!("b{at}"), &names[at % 4], &tool.good));
        round.push(raw(&format!("c{at}"), tool.name, "[]"));
    }
    let (host, told) = play(vec![round], |host| {
        refuse(host);
        std::fs::create_dir_all(host.workspace().join(".ax/skills")).unwrap();
        std::fs::write(host.workspace().join(".ax/skills/f"), "a file").unwrap();
    });
    for (tool, told) in tools().iter().zip(told.chunks(3)) {
        let words = ["not today", "rror", "Exit code 3", "null"];
        assert!(words.iter().any(|word| told[0].contains(word)), "{}: {}", tool.name, told[0]);
        assert!(told[1].contains("not found"), "{}: {}", tool.name, told[1]);
        assert!(told[2].contains("JSON object"), "{}: {}", tool.name, told[2]);
    }
    untouched(&host);
}

#[test]
fn l04_no_tool_runs_on_a_call_that_was_cut() {
    let mut rounds = Vec::new();
    for tool in tools() {
        let text = tool.good.to_string();
        let half = Value::String(text[..text.len() / 2].to_owned()).to_string();
        for args in [text.as_str(), "{}", half.as_str()] {
            let usage = json!({"inputTokens": 5, "outputTokens": 8192});
            rounds.push(json!({"tools": [raw("", tool.name, args)], "usage": usage}));
        }
    }
    let (host, told) = script(rounds, Policy::json(json!([])), |_| {});
    assert_eq!(told.len(), 48);
    assert!(told.iter().all(|text| text.contains("cut at its limit of 8192 tokens")), "{told:#?}");
    assert_eq!(asked(&host), [""; 0]);
    untouched(&host);
}

#[test]
fn l06_no_tool_leaves_an_empty_result() {
    let quiet = |name: &str, good: &Value| match name {
        "bash" => json!({"command": "true"}),
        "read_file" => json!({"path": "empty"}),
        "write_file" => json!({"path": "e", "content": ""}),
        "edit_file" => json!({"path": "f", "old_string": "keep", "new_string": ""}),
        "skill_write" => json!({"name": "s", "description": "d", "body": ""}),
        _ => good.clone(),
    };
    let round: Vec<Value> = tools().iter().map(|tool| call("", tool.name, &quiet(tool.name, &tool.good))).collect();
    for reply in [
        json!({}),
        json!({"result": null}),
        json!({"result": "", "content": "", "body": "", "response": "", "id": ""}),
        json!({"result": [], "results": [], "entries": [], "tools": [], "unknown": []}),
        json!({"result": {}, "taint": {}}),
        json!({"result": " \n", "response": "\u{200b}", "0": null}),
        json!({"error": null, "kind": null}),
        json!({"error": ""}),
        json!({"ok": false}),
        json!({"ok": false, "error": " "}),
        json!({"truncated": true, "full": "", "preview": ""}),
        json!({"truncated": true, "full": null}),
        json!({"truncated": true}),
    ] {
        let (_, told) = play(vec![round.clone()], |host| {
            for tool in tools().iter().filter(|tool| tool.action != "sandbox_approve") {
                host.set_reply(tool.action, reply.clone());
            }
        });
        assert_eq!(told.len(), 16, "{reply}");
    }
}

#[test]
fn l07_no_tool_passes_on_half_a_character() {
    let mut round = Vec::new();
    for tool in tools() {
        let good = tool.good.to_string();
        round.push(raw("", tool.name, &good.replace("MARK", "x\\ud83d")));
        round.push(raw("", tool.name, &good.replacen('{', "{\"\\udc00\":1,", 1)));
        round.push(raw("", tool.name, &Value::String(good.replace("MARK", "\\udc00x")).to_string()));
    }
    let (host, told) = play(vec![round], |_| {});
    assert!(told.iter().all(|text| text.starts_with("Error: ")), "{told:#?}");
    assert_eq!(asked(&host), [""; 0]);
    untouched(&host);
    // In what comes back.
    let round: Vec<Value> = tools().iter().map(|tool| call("", tool.name, &tool.good)).collect();
    let (host, told) = play(vec![round], |host| {
        let body = |text: &str| format!(r#"{{"ok":true,"_msgId":"{{{{msgId}}}}",{text}}}"#);
        for tool in tools() {
            let fields = match tool.action {
                "sandbox_approve" => r#""approved":true,"reason":"a\ud83d""#,
                _ => r#""result":"a\ud83db","content":"\udc00","\ud83d":{"\ud83d":["\ud83d"]}"#,
            };
            let nth = if tool.name == CATALOG { 2 } else { 1 };
            host.fault(tool.action, nth, Fault::Body(body(fields)));
        }
        std::fs::write(host.workspace().join("MARK"), b"MARK \xed\xa0\xbd\xff\n").unwrap();
    });
    assert_eq!(told.len(), 16);
    for request in host.requests() {
        let text = std::str::from_utf8(&request.raw).unwrap();
        assert!(serde_json::from_str::<Value>(text).is_ok() && !text.to_lowercase().contains("\\ud83d\""));
    }
}

/// A host whose link fails at everything but model calls.
struct Broken {
    link: SocketLink,
    trouble: Trouble,
}

#[derive(Clone)]
enum Trouble {
    Error(CallError),
    Panic,
    Reply(&'static str),
}

impl HostLink for Broken {
    fn call<'a>(&'a self, action: &'a Action, context: &'a CallContext) -> BoxFuture<'a, Result<Reply, CallError>> {
        match (&self.trouble, action.name()) {
            (_, "llm_call") => self.link.call(action, context),
            (Trouble::Error(error), _) => Box::pin(std::future::ready(Err(error.clone()))),
            // Without the hook that prints a trace for each.
            (Trouble::Panic, _) => Box::pin(async { std::panic::resume_unwind(Box::new("on purpose")) }),
            (Trouble::Reply(body), _) => Box::pin(std::future::ready(Ok(Reply::new(*body)))),
        }
    }

    fn request_max_bytes(&self) -> usize {
        self.link.request_max_bytes()
    }
}

fn broken(trouble: &Trouble) -> (FakeHost, Ended) {
    let same: Vec<Value> = tools().iter().map(|tool| call("same", tool.name, &tool.good)).collect();
    let replies = json!([{"tools": same}, {"text": "done", "repeat": true}]);
    let fake = FakeHost::socket(Script::json(replies)).start();
    seed(&fake.workspace());
    let payload = payload(&fake);
    fake.expect(&payload);
    let payload = Payload::read(payload.to_string().as_bytes()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let ended = runtime.block_on(async {
        let link = SocketLink::connect(&fake.socket_path(), crate::support::LIMIT).await.unwrap();
        let meta = Meta {
            session_id: payload.session_id.clone(),
            request_id: payload.request_id.clone(),
            user_id: payload.user_id.clone(),
            session_scope: payload.session_scope.clone(),
        };
        let context = CallContext { meta, token: None };
        let link = Arc::new(Broken { link, trouble: trouble.clone() });
        let host = Host::new(link, context, CancellationToken::new());
        let tools = Arc::new(Toolbox::new(Turn {
            host: host.clone(),
            gate: Gate::new(host.clone(), Redactor::default()),
            workspace: Workspace::open(&fake.workspace()).unwrap(),
            shell: Arc::new(Shell::new()),
            env: ChildEnv::new(&fake.workspace(), []),
            session_id: None,
            local: true,
            catalog: payload.catalog.clone().unwrap(),
            dispatch: payload.dispatch,
        }));
        let brief = Brief { model: "m".into(), max_tokens: 8192, system: String::new() };
        agent::run(&brief, &payload, &host, &tools, &mut |_| {}).await
    });
    (fake, ended)
}

#[test]
fn l03_each_tool_that_panics_or_is_not_answered_has_its_result() {
    for (trouble, wanted) in [
        (Trouble::Panic, "failed inside the runner"),
        (Trouble::Error(CallError::TimedOut(30_000)), "timed out"),
        (Trouble::Error(CallError::OutcomeUnknown), "the connection to the host was lost"),
        (Trouble::Error(CallError::NotSent("gone".into())), "could not be reached"),
        (Trouble::Error(CallError::TooLarge { bytes: 2, max: 1 }), "shorten it"),
        (Trouble::Error(CallError::BadAnswer("<html>".into())), "<html>"),
        (Trouble::Error(CallError::Unencodable), "could not be encoded"),
        (Trouble::Reply(""), "understood"),
        (Trouble::Reply("[]"), "understood"),
        (Trouble::Reply("{\"ok\":tru"), "understood"),
    ] {
        let (host, ended) = broken(&trouble);
        assert_eq!((ended.answer.as_str(), ended.failure, ended.tools_started), ("done", None, 16), "{wanted}");
        let told = results(&host);
        assert_eq!(told.len(), 16);
        for (tool, told) in tools().iter().zip(&told) {
            assert!(told.contains(wanted), "{}: {told}", tool.name);
            // What was asked for and not consented to was not run, whatever became of the question.
            let asked = tool.action == "sandbox_approve";
            assert!(!asked || !told.contains("whether the call was carried out"), "{}: {told}", tool.name);
        }
        assert_eq!(host.violations(), []);
        untouched(&host);
    }
}
