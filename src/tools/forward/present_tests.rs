use super::*;

fn reply(body: &str) -> Reply {
    Reply::new(body.as_bytes().to_vec())
}

fn text(action: &str, body: &str) -> Presented {
    match present(action, &reply(body), action.ends_with("_read"), 100) {
        Outcome::Text(presented) => presented,
        Outcome::Spill(spill) => panic!("spilled {spill:?}"),
    }
}

#[test]
fn the_envelope_stays_outside() {
    for (action, body, wanted) in [
        ("memory_write", r#"{"ok":true,"id":"7","_msgId":"3"}"#, r#"{"id":"7"}"#),
        ("memory_delete", r#"{"ok":true,"_msgId":"3"}"#, r#"{"done":true}"#),
        ("memory_read", r#"{"ok":true,"entry":null}"#, r#"{"entry":null}"#),
        (
            "web_fetch",
            r#"{"ok":true,"status":200,"body":"b","taint":{"x":1},"headers":{"taint":"y","a":"b"}}"#,
            r#"{"status":200,"body":"b","headers":{"a":"b"}}"#,
        ),
        (
            "web_search",
            r#"{"ok":true,"1":{"title":"b","taint":1},"0":{"title":"a"},"10":{"title":"c"},"2":{"title":"d"},"_msgId":"1"}"#,
            r#"{"results":[{"title":"a"},{"title":"b"},{"title":"d"},{"title":"c"}]}"#,
        ),
        ("web_search", r#"{"ok":true}"#, r#"{"results":[]}"#),
        ("web_search", r#"{"ok":true,"results":[{"title":"a"}]}"#, r#"{"results":[{"title":"a"}]}"#),
        ("web_extract", r#"{"ok":true,"content":"a\ud83d"}"#, "{\"content\":\"a\u{fffd}\"}"),
        ("call_tool", r#"{"ok":true,"result":{"ok":false,"taint":1}}"#, r#"{"result":{"ok":false,"taint":1}}"#),
    ] {
        assert_eq!(text(action, body), Presented { text: wanted.into(), failed: false }, "{action}");
    }
}

#[test]
fn failures_say_so() {
    for (action, body, wanted) in [
        ("memory_read", r#"{"ok":false,"error":"no such entry"}"#, "Error: no such entry"),
        ("agent_delegate", r#"{"ok":false}"#, "Error: the host refused without a reason"),
        ("memory_read", r#"{"entry":{}}"#, "Error: the host's answer does not say whether the call succeeded"),
        (
            "memory_write",
            r#"{"ok":"true","error":"no"}"#,
            "Error: the host's answer does not say whether the call succeeded: no; whether the call was carried out is unknown",
        ),
        ("memory_read", "<html>", "Error: the host's answer could not be understood"),
        (
            "memory_write",
            "<html>",
            "Error: the host's answer could not be understood; whether the call was carried out is unknown; check",
        ),
        ("memory_read", r#"{"ok":false,"ok":true}"#, "Error: the host's answer could not be understood"),
        (
            "call_tool",
            r#"{"ok":true,"error":"no x","kind":"unknown_tool"}"#,
            "Error: unknown_tool: no x. Call describe_tools",
        ),
        ("scheduler_add_cron", r#"{"ok":false,"taintBlocked":true,"error":"0.4"}"#, "Error: blocked because"),
    ] {
        let presented = text(action, body);
        assert!(presented.failed && presented.text.starts_with(wanted), "{body}: {}", presented.text);
    }
    for (error, reads, doubt) in [
        (CallError::OutcomeUnknown, false, true),
        (CallError::TimedOut(1), false, true),
        (CallError::NoReply(1), false, true),
        (CallError::NoReply(1), true, false),
        (CallError::NotSent("gone".to_owned()), false, false),
    ] {
        assert_eq!(present_error(&error, reads).text.contains("check before you repeat"), doubt, "{error}");
    }
}

#[test]
fn large_catalog_results_are_for_a_file() {
    let long = "x".repeat(101);
    let lines = "line 1\\nline 2 ".repeat(100);
    for (body, extension, content) in [
        (
            r#"{"ok":true,"truncated":true,"full":{"a":[1]},"preview":"see /tmp/x"}"#.to_owned(),
            "json",
            "{\n  \"a\": [\n    1\n  ]\n}",
        ),
        (format!(r#"{{"ok":true,"result":"{long}"}}"#), "txt", long.as_str()),
        (format!(r#"{{"ok":true,"result":"{lines}"}}"#), "txt", "line 1\nline 2 line 1"),
    ] {
        let Outcome::Spill(spill) = present("call_tool", &reply(&body), false, 100) else { panic!("{body}") };
        assert_eq!(spill.extension, extension);
        assert!(spill.content.starts_with(content) && text::units(&spill.preview) <= PREVIEW_UNITS + 1);
        assert!(spill.stored_at("d/f").text.contains(r#""_path":"d/f""#));
        assert!(spill.not_stored("full").text.starts_with(r#"{"_spill_failed":"full","result":"#));
    }
    let small = present("call_tool", &reply(r#"{"ok":true,"truncated":true,"preview":"p"}"#), false, 100);
    assert!(matches!(small, Outcome::Text(_)));
}
