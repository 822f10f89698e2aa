use super::*;
use crate::wire::PayloadError;

const TOKEN: &str = "canary-7f3a";

/// A host's payload with one thing after the other done to it.
fn damaged() -> Vec<(&'static str, Vec<u8>)> {
    let whole = format!(
        r#"{{"message":"hello","history":[],"taintRatio":0,"taintThreshold":0.3,"sessionId":"s","ipcToken":"{TOKEN}","credentialEnv":{{"KEY":"{TOKEN}"}}}}"#
    );
    let swap = |from: &str, to: &str| whole.replace(from, to).into_bytes();
    let before = |text: &str| format!("{text}{whole}").into_bytes();
    let around = |open: &str, close: &str| format!("{open}{whole}{close}").into_bytes();
    let utf16: Vec<u8> = whole.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let deep = format!(",\"z\":{}{}}}", "[".repeat(200), "]".repeat(200));
    vec![
        ("message null", swap("\"hello\"", "null")),
        ("message a number", swap("\"hello\"", "5")),
        ("message an object", swap("\"hello\"", "{\"text\":\"x\"}")),
        ("no message", swap("\"message\":\"hello\",", "")),
        ("no message, and cut", whole.replace("\"message\":\"hello\",", "").into_bytes()[..60].to_vec()),
        ("message in capitals", swap("\"message\"", "\"Message\"")),
        (
            "names in snake case",
            swap("message\":\"hello\"", "text\":\"\"").split(|byte| *byte == b'T').collect::<Vec<_>>().join(&b"_t"[..]),
        ),
        ("a line comment", before("// from the host\n")),
        ("a shell comment", before("# from the host\n")),
        ("a block comment", before("/* v1 */ ")),
        ("a comment of HTML", before("<!-- v1 -->")),
        ("two comments", before("// a\n /* b\n */\n")),
        ("NUL", before("\0")),
        ("a control character", before("\u{1}")),
        ("a space of no width", before("\u{200b}")),
        ("a line of a log", before("starting\n")),
        ("a guard of the web", before(")]}',\n")),
        ("a call", around("cb(", ")")),
        ("an array", around("[", "]")),
        ("a later member of an array", around("[1,", "]")),
        ("an object", around("{\"payload\":", "}")),
        ("quotes", serde_json::to_vec(&whole).unwrap()),
        ("quotes twice", serde_json::to_vec(&serde_json::to_string(&whole).unwrap()).unwrap()),
        ("escaped quotes", swap("\"", "\\\"")),
        ("quotes of HTML", swap("\"", "&quot;")),
        ("quotes of HTML in numbers", swap("\"", "&#34;")),
        ("quotes of JavaScript", swap("\"", "\\u0022")),
        ("quotes of a shell", swap("\"", "\\x22")),
        (
            "a form",
            swap("\"", "%22")
                .iter()
                .flat_map(|byte| match byte {
                    b':' => b"%3A".to_vec(),
                    b'{' => b"%7B".to_vec(),
                    other => vec![*other],
                })
                .collect(),
        ),
        ("YAML", format!("message: hello\nipcToken: {TOKEN}\n").into_bytes()),
        ("single quotes", swap("\"", "'")),
        ("typographic quotes", swap("\"", "\u{201d}")),
        ("names without quotes", swap("\"ipcToken\"", "ipcToken")),
        ("the front cut off", whole.as_bytes()[12..].to_vec()),
        ("the end cut off", whole.as_bytes()[..whole.len() - 1].to_vec()),
        ("cut inside the token", whole.as_bytes()[..whole.find(TOKEN).unwrap() + 5].to_vec()),
        ("a comma too many", swap("\"}}", "\"},}")),
        ("a text after it", around("", " x")),
        ("twice", format!("{whole}{whole}").into_bytes()),
        ("a line of JSON before it", before("{\"level\":30}\n")),
        ("depth", [&whole.as_bytes()[..whole.len() - 1], deep.as_bytes()].concat()),
        ("UTF-16", utf16),
    ]
}

#[test]
fn what_was_meant_as_a_payload_is_never_a_message() {
    for (what, item) in damaged() {
        let error = Payload::read(&item).map(|payload| payload.message).expect_err(what);
        assert!(!error.to_string().contains(TOKEN), "{what}");
    }
    let read = |text: &[u8]| Payload::read(text).unwrap_err();
    assert_eq!(read(br#"{"message":null,"ipcToken":"t"}"#), PayloadError::NoMessage);
    assert_eq!(read(b"\0{\"message\":\"m\"}"), PayloadError::Nul);
    let deep = format!("{{\"message\":\"m\",\"z\":{}{}}}", "[".repeat(200), "]".repeat(200));
    assert_eq!(read(deep.as_bytes()), PayloadError::TooDeep);
}

#[test]
fn a_payload_without_its_head_is_never_a_message() {
    // Secrets stand in the middle of a host's payload.
    let whole = format!(
        r#"{{"message":"hello there","history":[],"taintRatio":0,"sessionId":"s","ipcToken":"{TOKEN}","agentId":"ax","identity":{{"agents":"A"}},"credentialEnv":{{"KEY":"{TOKEN}"}},"singleTurn":false,"skills":[]}}"#
    );
    let last = whole.rfind(TOKEN).unwrap() + TOKEN.len();
    for cut in 1..last {
        for spaced in [whole[cut..].to_owned(), whole[cut..].replace(",\"", ",\n  \"").replace("\":", "\": ")] {
            assert!(Payload::read(spaced.as_bytes()).is_err(), "{spaced}");
        }
    }
}

#[test]
fn a_token_that_no_header_carries_makes_a_payload_unusable() {
    for (token, usable) in
        [("t-1", true), ("", true), ("t\\n", false), ("t t", false), ("\\u00e9", false), ("t\\r\\nX: y", false)]
    {
        let item = format!(r#"{{"message":"m","ipcToken":"{token}"}}"#);
        let read = Payload::read(item.as_bytes());
        assert_eq!(read.as_ref().err(), (!usable).then_some(&PayloadError::Token), "{token}");
        assert_eq!(read.is_ok_and(|payload| payload.ipc_token.is_some()), usable && !token.is_empty(), "{token}");
    }
}

#[test]
fn what_a_host_may_well_send_is_taken() {
    let whole = format!(r#"{{"message":"hello","taintRatio":0,"ipcToken":"{TOKEN}"}}"#);
    for before in ["\u{feff}", "\u{feff}\u{feff}", "\n\u{feff}", "\u{feff} \u{feff}\r\n", "\u{a0}", "\u{2028}"] {
        let payload = Payload::read(format!("{before}{whole}").as_bytes()).expect(before);
        assert_eq!(payload.message.to_text(""), "hello", "{before:?}");
    }
    // A turn that is not there.
    let item =
        r#"{"message":"m","history":[null,{"role":"user","content":"a"},null],"ipcToken":"t","taintThreshold":0.1}"#;
    let payload = Payload::read(item.as_bytes()).unwrap();
    assert_eq!((payload.history.len(), payload.taint_threshold), (1, 0.1));
    assert_eq!(payload.ipc_token.unwrap().expose(), "t");
}

#[test]
fn words_about_a_payload_are_words() {
    for text in [
        "what is an ipcToken: a secret?",
        "Is \"ipcToken\" secret?",
        "In the docs: `ipcToken`: the turn's token.",
        "{ipcToken} is a placeholder",
        "rename credentialEnv: use env",
        "Set \"taintRatio\": 0.5 in the fixture",
        "# Notes\n{a} and {b}: sandbox types",
        "{\"foo\":1}",
        "[{\"message\":\"hi\"}]",
        "// a comment\nlet x = {};",
        "\"just a string\"",
        "what does {\"message\":\"x\",\"agentId\":\"y\"} mean?",
        "the list is \"a\", \"message\": b",
        "\"message\",\"history\"",
    ] {
        let payload = Payload::read(text.as_bytes()).expect(text);
        assert_eq!(payload.message.to_text(""), text);
    }
}

#[test]
fn the_turns_token_is_found_in_what_cannot_be_used() {
    let token = |item: &[u8]| Payload::guess_token(item).map(|token| token.expose().to_owned());
    assert_eq!(token(br#"{"ipcToken" : "t-1","message":"cut"#).as_deref(), Some("t-1"));
    assert_eq!(token(b"{\"message\":\"\xff\",\"ipcToken\":\"t-2\"}").as_deref(), Some("t-2"));
    // A message that talks about a token has escaped quotes.
    assert_eq!(token(br#"{"message":"\"ipcToken\":\"x\"","ipcToken":"real"}"#).as_deref(), Some("real"));
    assert_eq!(token(br#"{"message":"\"ipcToken\":\"x\"","ipcToken":"real""#).as_deref(), Some("real"));
    for nothing in [&br#"{"ipcToken":"cut of"#[..], br#"{"ipcToken":5}"#, br#"{"ipcToken":""}"#, b"", b"not json"] {
        assert_eq!(token(nothing), None);
    }
    for what in ["an array", "a later member of an array", "an object", "quotes", "quotes twice", "single quotes"] {
        let (_, item) = damaged().into_iter().find(|(name, _)| *name == what).unwrap();
        assert_eq!(token(&item).as_deref(), Some(TOKEN), "{what}");
    }
}
