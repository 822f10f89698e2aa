//! Hosts that are slow, silent or malicious.

use super::{Fault, Played, Row, on, play, said};
use crate::rows::{bash, one_by_one};
use ax_runner::devhost::{FakeHost, Point, Script};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

pub(super) const FAULTS: [Fault; 12] = [
    Fault("slow host: a byte at a time, heartbeats for 3 s", false, slow),
    Fault("silent host", true, silent),
    Fault("heartbeats for ever, no reply", false, only_heartbeats),
    Fault("heartbeats as fast as they can be written", false, flood),
    Fault("half a frame of 60 MB, then a byte now and then", false, half_a_frame),
    Fault("a frame of 4 GiB announced", true, announced),
    Fault("50 frames of 9.9 MB for nobody", false, for_nobody),
    Fault("a reply of 9.9 MB", false, large_reply),
    Fault("a reply of 100,000 brackets", true, deep),
    Fault("arguments of 100,000 brackets", true, deep_arguments),
    Fault("HTML in place of a reply", true, html),
    Fault("2,000 calls in one reply", false, many_calls),
];

fn slow() -> Result<Row, String> {
    let rounds = json!([
        {"tools": [{"name": "bash", "args": {"command": "echo ok"}}], "delay_ms": 3000},
        {"text": "done", "fault": {"pieces": 1}}]);
    let host = FakeHost::socket(Script::json(rounds)).heartbeat(Duration::from_millis(200)).start();
    let played = on(host, "", |runner| runner.env("AX_LLM_TIMEOUT_MS", "1000"));
    Ok(Row::new(&played, "nothing", "answered"))
}

fn silent() -> Result<Row, String> {
    let host = FakeHost::socket(one_by_one(&[bash("echo ok")]));
    let host = host.fault("llm_call", 2, ax_runner::devhost::Fault::Silence(Point::Read)).start();
    let played = on(host, "", |runner| runner.env("AX_LLM_TIMEOUT_MS", "1000"));
    Ok(Row::new(&played, "the rest of the turn", played.output.text()))
}

/// A host of one connection that does what it likes; the runner is ended after a while if it does not end itself.
fn malicious(talk: impl FnOnce(UnixStream) + Send + 'static, end_after: Option<Duration>, silence: &str) -> Played {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("host.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let talking = std::thread::spawn(move || {
        if let Ok((stream, _)) = listener.accept() {
            talk(stream);
        }
    });
    let host = FakeHost::socket(Script::text("never")).start();
    let ender = end_after
        // Its parent ends at once, so that it is nobody's command: those may not stop the runner.
        .map(|pause| {
            format!("({{ sleep {}; kill -TERM $$; }} >/dev/null 2>&1 </dev/null &); true", pause.as_secs_f32())
        });
    let prefix = ender.unwrap_or_default();
    let played =
        on(host, &prefix, |runner| runner.env("AX_IPC_SOCKET", path.as_os_str()).env("AX_LLM_TIMEOUT_MS", silence));
    played.bounded();
    talking.join().unwrap();
    played
}

fn frame(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
}

/// Reads the first request, so that the runner waits for its reply.
fn request(stream: &mut UnixStream) {
    let mut header = [0; 4];
    stream.read_exact(&mut header).unwrap();
    stream.read_exact(&mut vec![0; u32::from_be_bytes(header) as usize]).unwrap();
}

const BEAT: &[u8] = br#"{"_heartbeat":true,"ts":1}"#;
const ENDED: &str = "waits, as the protocol has it; ends at SIGTERM";

fn only_heartbeats() -> Result<Row, String> {
    let talk = |mut stream: UnixStream| {
        request(&mut stream);
        while stream.write_all(&frame(BEAT)).is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    Ok(Row::new(&malicious(talk, Some(Duration::from_secs(4)), "2000"), "the turn", ENDED))
}

fn flood() -> Result<Row, String> {
    let talk = |mut stream: UnixStream| {
        request(&mut stream);
        let many = frame(BEAT).repeat(1000);
        while stream.write_all(&many).is_ok() {}
    };
    Ok(Row::new(&malicious(talk, Some(Duration::from_secs(4)), "2000"), "the turn", ENDED))
}

fn half_a_frame() -> Result<Row, String> {
    let talk = |mut stream: UnixStream| {
        request(&mut stream);
        let _ = stream.write_all(&60_000_000_u32.to_be_bytes());
        let _ = stream.write_all(&vec![b' '; 30_000_000]);
        while stream.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let played = malicious(talk, None, "2000");
    Ok(Row::new(&played, "the turn", played.output.text()))
}

fn announced() -> Result<Row, String> {
    let host = FakeHost::socket(one_by_one(&[bash("echo ok")]));
    let host = host.fault("llm_call", 2, ax_runner::devhost::Fault::Oversized).start();
    let played = on(host, "", |runner| runner);
    played.bounded();
    Ok(Row::new(&played, "the connection; the call is asked again on a new one", "answered"))
}

fn for_nobody() -> Result<Row, String> {
    let talk = |mut stream: UnixStream| {
        request(&mut stream);
        let body = format!(r#"{{"_msgId":"4711","ok":true,"junk":"{}"}}"#, "x".repeat(9_900_000));
        let large = frame(body.as_bytes());
        for _ in 0..50 {
            let _ = stream.write_all(&large);
        }
        let reply = br#"{"_msgId":"1","ok":true,"chunks":[{"type":"text","content":"done"},{"type":"done"}]}"#;
        let _ = stream.write_all(&frame(reply));
        let _ = stream.read(&mut [0]);
    };
    Ok(Row::new(&malicious(talk, None, "60000"), "nothing", "answered: what belongs to no call is dropped"))
}

fn large_reply() -> Result<Row, String> {
    let rounds = json!([
        {"chunks": [{"type": "text", "content": "x"}, {"type": "thinking", "content": "y".repeat(9_900_000)},
            {"type": "tool_use", "toolCall": {"id": "1", "name": "bash", "args": {"command": "echo ok"}}}, {"type": "done"}]},
        {"repeat": true, "text": "done"}]);
    let played = play(Script::json(rounds), "", |runner| runner);
    played.bounded();
    let mut row = Row::new(&played, "nothing", "answered");
    row.survived = played.output.text().ends_with("done");
    Ok(row)
}

fn raw(body: &str) -> Played {
    let rounds = json!([{"raw": body, "repeat": 3}, {"repeat": true, "text": "done"}]);
    let played = play(Script::json(rounds), "", |runner| runner.env("AX_LLM_TIMEOUT_MS", "2000"));
    played.bounded();
    played
}

fn deep() -> Result<Row, String> {
    let body =
        format!(r#"{{"_msgId":"{{{{msgId}}}}","ok":true,"chunks":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let played = raw(&body);
    Ok(Row::new(&played, "the turn, after the call was asked once more", played.output.text()))
}

fn deep_arguments() -> Result<Row, String> {
    let args = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let call: Value = json!({"name": "bash", "args_raw": args});
    let played = play(one_by_one(&[call, bash("echo ok")]), "", |runner| runner);
    let told = played.told();
    played.bounded();
    Ok(Row::new(&played, "that call", format!("told to the model: {}", said(&told[0]))))
}

fn html() -> Result<Row, String> {
    let played = raw("<html><body>502 Bad Gateway</body></html>");
    Ok(Row::new(&played, "the turn", played.output.text()))
}

fn many_calls() -> Result<Row, String> {
    let calls: Vec<Value> = (0..2000).map(|_| bash("echo ok")).collect();
    let played = play(crate::rows::at_once(&calls), "", |runner| runner);
    played.bounded();
    assert_eq!(played.told().len(), 2000);
    let ran = played.host.requests_of("sandbox_approve").len();
    Ok(Row::new(&played, "calls beyond the limit, each told so", format!("answered; {ran} calls ran")))
}
