//! A conversation that outgrows its room (PROTOCOL §6.4–6.6): what is left of it is true, says what is missing, and leads on.

use crate::support::runner;
use ax_runner::devhost::{FakeHost, Script};
use serde_json::{Value, json};

/// A turn in a workspace with ten files of 3000 lines.
fn turn(script: Value, change: impl FnOnce(&mut Value)) -> FakeHost {
    let host = FakeHost::socket(Script::json(script)).start();
    host.set_reply("memory_write", json!({"id": "i".repeat(9000)}));
    host.set_reply("web_extract", json!({"content": "c".repeat(9000)}));
    for file in 0..10 {
        let lines: Vec<String> = (1..=3000).map(|line| format!("{line:05} {}\n", "x".repeat(93))).collect();
        std::fs::write(host.workspace().join(format!("f{file}")), lines.concat()).unwrap();
    }
    let mut payload = host.payload("go");
    change(&mut payload);
    let output = runner(&host).payload(&payload).run();
    assert_eq!(host.violations(), [], "{}", output.stderr);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    host
}

#[test]
fn a_message_of_nothing_but_a_reference_is_not_nothing() {
    let file = json!({"type": "file", "fileId": "f", "mimeType": "application/pdf", "filename": "report.pdf"});
    let host = turn(json!([{"text": "done"}]), |payload| {
        payload["message"] = json!([file]);
        payload["history"] = json!([{"role": "user", "content": [file]}, {"role": "assistant", "content": "a"}]);
    });
    let messages = host.requests_of("llm_call")[0].value["messages"].clone();
    let note = |why: &str| format!("[Attachment left out: file report.pdf (application/pdf): {why}.]");
    assert_eq!(messages[1]["content"], json!(note("sent with an earlier message")));
    assert_eq!(messages[3]["content"], json!([{"type": "text", "text": note("the host could not find it")}]));
}
