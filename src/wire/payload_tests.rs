use super::*;

fn text(payload: &Payload) -> String {
    payload.message.to_text("\n")
}

#[test]
fn everything_without_a_message_is_plain_text() {
    for raw in
        ["just say hello\n", r#"{"foo":1}"#, r#"{"message":5}"#, "[1]", "3", r#"{"message":"m","history":[null]}"#]
    {
        let payload = Payload::read(raw.as_bytes()).unwrap();
        assert_eq!(text(&payload), raw);
        assert_eq!(payload.taint_threshold, 1.0);
    }
    assert_eq!(text(&Payload::read(b"").unwrap()), "");
}

#[test]
fn a_damaged_structured_payload_is_refused_without_showing_it() {
    for raw in [
        r#"{"message":"m","ipcToken":"hunter2""#,
        r#"{"message":"m"} x"#,
        r#"{"message":"m"}{"message":"n"}"#,
        r#"{"message":"m","taintRatio":NaN}"#,
    ] {
        let error = Payload::read(raw.as_bytes()).unwrap_err();
        assert!(matches!(error, PayloadError::Damaged { .. }), "{raw}");
        assert!(!error.to_string().contains("hunter2"));
    }
    assert_eq!(Payload::read(b"\xff").unwrap_err(), PayloadError::NotUtf8);
    assert_eq!(Payload::read(b"h\0i\0").unwrap_err(), PayloadError::Nul);
}

#[test]
fn tolerates_what_a_javascript_reader_tolerates() {
    let payload = Payload::read("\u{feff}{\"message\":\"a\\ud83d\",\"message\":\"b\\ud83d\"}".as_bytes()).unwrap();
    assert_eq!(text(&payload), "b\u{fffd}");
    let raw = br#"{"message":[{"type":"text","text":"a","cache":1},{"type":"hologram"},7],
        "history":[{"role":"user","content":5,"sender":8},{"role":"assistant","content":null},3],
        "taintRatio":"x","replyOptional":1,"credentialEnv":[],"identity":{"soul":"s"},"tool_dispatch":{"mode":"direct"}}"#;
    let payload = Payload::read(raw).unwrap();
    assert_eq!(text(&payload), "a");
    let contents: Vec<String> = payload.history.iter().map(|turn| turn.content.to_text("")).collect();
    assert_eq!(contents, ["5", "null", "undefined"]);
    assert_eq!(payload.history[0].sender, None);
    assert_eq!((payload.taint_ratio, payload.reply_optional), (1.0, false));
    assert_eq!(payload.identity.unwrap().soul, "s");
    assert!(payload.dispatch.is_none() && payload.skills.is_none());
    assert_eq!(payload.ignored, ["taintRatio", "replyOptional", "credentialEnv"]);
    // An empty id is none.
    let empty =
        br#"{"message":"m","history":[{"role":"user","content":-0.0}],"sessionId":"","userId":"","requestId":"",
        "sessionScope":"","agentId":"","ipcToken":""}"#;
    let payload = Payload::read(empty).unwrap();
    assert_eq!((payload.meta(), payload.ipc_token, payload.agent_id), (Meta::default(), None, None));
    assert_eq!(payload.history[0].content.to_text(""), "0");
}
