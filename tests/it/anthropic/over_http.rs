//! `claude-code` in a pod: the model behind the host's own proxy, with the turn's token (PROTOCOL §4.6, §15).

use super::*;
use crate::support::{BIN, LIMIT, comes_true};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

/// One request: method and path, the credential that came with it, the body.
#[derive(Debug, Clone)]
struct Seen {
    line: String,
    credential: String,
    body: Value,
}

fn receive(stream: &mut TcpStream) -> Option<Seen> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length, mut credential) = (String::new(), 0, String::new());
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|read| *read > 0)?;
        let Some((name, value)) = header.trim().split_once(": ") else { break };
        match name.to_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "authorization" | "x-api-key" => credential.push_str(value),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let line = line.rsplit_once(' ')?.0.to_owned();
    Some(Seen { line, credential, body: serde_json::from_slice(&body).unwrap_or_default() })
}

/// Runs one turn against a host whose proxy answers with `model`. What the host saw, and the runner's exit code.
fn turn(model: impl Fn(usize) -> Vec<u8> + Send + 'static) -> (Vec<Seen>, Option<i32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let kept = seen.clone();
    std::thread::spawn(move || {
        let (mut handed_out, mut calls) = (false, 0);
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let Some(request) = receive(&mut stream) else { continue };
            let json = |status: u16, body: Value| {
                let body = body.to_string();
                format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
                    .into_bytes()
            };
            let reply = match request.line.as_str() {
                "GET /internal/work" if !handed_out => {
                    handed_out = true;
                    json(200, json!({"message": "go", "ipcToken": "turn-token", "singleTurn": true}))
                }
                "GET /internal/work" => json(404, json!({"error": "no pending work for token"})),
                "POST /internal/ipc" if request.body["action"] == "sandbox_approve" => {
                    json(200, json!({"ok": true, "approved": true}))
                }
                "POST /internal/ipc" => json(200, json!({"ok": true})),
                "POST /internal/llm-proxy/v1/messages" => {
                    calls += 1;
                    model(calls)
                }
                _ => json(400, json!({"error": "not asked for"})),
            };
            kept.lock().unwrap().push(request);
            let _ = stream.write_all(&reply);
        }
    });
    let workspace = tempfile::tempdir().unwrap();
    // What the host puts there; the runner waits for it.
    std::fs::create_dir(workspace.path().join(".ax")).unwrap();
    let mut child = Command::new(BIN)
        .args(["--agent", "claude-code"])
        .env_clear()
        .envs([("PATH", "/usr/bin:/bin"), ("AX_HOST_URL", &url), ("AX_IPC_TOKEN", "pod-token")])
        .env("AX_WORKSPACE", workspace.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ended = comes_true(|| child.try_wait().unwrap().is_some());
    let _ = child.kill();
    let code = child.wait().unwrap().code();
    assert!(ended, "the runner does not end within {LIMIT:?}");
    let seen = seen.lock().unwrap().clone();
    (seen, code)
}

#[test]
fn the_model_is_asked_through_the_hosts_proxy_with_the_turns_token() {
    let (seen, code) = turn(|call_number| match call_number {
        1 => stream(&message(vec![call(0, "tu_1", &["{\"command\":\"echo from-bash\"}"])], "tool_use")),
        _ => stream(&message(vec![text(0, &["all ", "done"])], "end_turn")),
    });
    assert_eq!(code, Some(0));
    let model: Vec<_> = seen.iter().filter(|request| request.line.contains("llm-proxy")).collect();
    assert_eq!(model.len(), 2);
    for request in &model {
        assert_eq!(request.credential, "turn-token");
        assert_eq!(objection(&request.body), None);
    }
    assert!(model[1].body["messages"].to_string().contains("from-bash"));
    let actions: Vec<_> =
        seen.iter().filter(|request| request.line == "POST /internal/ipc").map(|request| &request.body).collect();
    let names: Vec<_> = actions.iter().map(|action| action["action"].as_str().unwrap()).collect();
    assert_eq!(names, ["sandbox_approve", "sandbox_result", "agent_response"]);
    assert_eq!(actions[2]["content"], "all done");
}

/// As with every other call of a turn whose token is no longer valid: the host has ended it, and takes no answer.
#[test]
fn a_token_the_proxy_does_not_know_ends_the_turn() {
    let refuse = |_| {
        let body = r#"{"error":"invalid token"}"#;
        format!("HTTP/1.1 401 X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    let (seen, code) = turn(refuse);
    let asked = seen.iter().filter(|request| request.line.starts_with("POST")).count();
    assert_eq!((asked, code), (1, Some(0)), "{seen:?}");
    // The API's own refusal is told.
    let (seen, _) = turn(|_| error(401, "authentication_error", "invalid x-api-key"));
    let answer = seen.iter().find(|request| request.body["action"] == "agent_response").unwrap();
    assert!(answer.body["content"].as_str().unwrap().contains("no valid credentials"), "{answer:?}");
}
