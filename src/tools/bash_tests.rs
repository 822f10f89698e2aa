use super::*;
use crate::text::{HeadTail, units};
use serde_json::json;

fn args(text: &str) -> Result<Args, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[test]
fn arguments_are_strict() {
    assert_eq!(args(r#"{"command":"ls"}"#).unwrap().time(), limits::BASH_TIMEOUT_DEFAULT);
    assert_eq!(args(r#"{"command":"ls","timeout_ms":null}"#).unwrap().timeout_ms, None);
    for time in [1, 2000, 600_000] {
        assert_eq!(args(&format!(r#"{{"command":"ls","timeout_ms":{time}}}"#)).unwrap().timeout_ms, Some(time));
    }
    for time in ["0", "-1", "600001", "1.5", "1e3", "\"5\"", "true", "18446744073709551616"] {
        let error = args(&format!(r#"{{"command":"ls","timeout_ms":{time}}}"#)).unwrap_err();
        assert!(error.contains("must be a whole number from 1 to 600000"), "{time}: {error}");
    }
    for bad in [r#"{}"#, r#"{"command":1}"#, r#"{"command":"a","cmd":"b"}"#, r#"{"command":"a","command":"b"}"#, "[]"] {
        assert!(args(bad).is_err(), "{bad}");
    }
}

fn end(end: End, output: &[u8]) -> (serde_json::Value, Report) {
    let mut kept = HeadTail::new(limits::OUTPUT_HEAD_BYTES, limits::OUTPUT_TAIL_BYTES);
    kept.push(output);
    let done = finished("cmd".to_owned(), Duration::from_millis(2000), Ended::new(end, kept), None, || 0);
    (serde_json::from_str(&done.text).unwrap(), done.report.unwrap())
}

#[test]
fn each_end_has_its_words_and_its_code() {
    let cases = [
        (End::Exit(0), "x", "x", 0),
        (End::Exit(0), "", "(no output)", 0),
        (End::Exit(7), "x", "Exit code 7\nx", 7),
        (End::Signal(9), "", "Exit code 137 (killed by SIGKILL)\n(no output)", 137),
        (End::Signal(40), "", "Exit code 168 (killed by signal 40)\n(no output)", 168),
    ];
    for (how, output, text, code) in cases {
        let (answer, report) = end(how, output.as_bytes());
        assert_eq!(answer, json!({ "output": text }));
        assert_eq!(report.exit_code, Some(code));
        assert_eq!(report.command.as_deref(), Some("cmd"));
    }
    let (timed_out, report) = end(End::TimedOut, b"part");
    assert!(timed_out["output"].as_str().unwrap().starts_with("Timed out after 2000 ms and was stopped"));
    assert!(timed_out["output"].as_str().unwrap().ends_with("\npart"));
    assert_eq!((report.exit_code, report.output.as_deref()), (Some(124), Some("part")));
    let (cancelled, report) = end(End::Cancelled, b"part");
    assert!(cancelled["output"].as_str().unwrap().starts_with("Cancelled"));
    assert_eq!((report.exit_code, report.output.as_deref()), (Some(130), Some("part")));
    let (lost, report) = end(End::Lost, b"part");
    assert!(lost["output"].as_str().unwrap().starts_with("Command error: "));
    assert!(report.output.unwrap().starts_with("Command error: "));
}

#[test]
fn what_was_ended_for_a_command_is_said_beside_what_it_leaves() {
    for (room, words) in [
        (1, "1 process that an earlier command had left running was ended"),
        (7, "7 processes that earlier commands had left running were ended"),
    ] {
        let ended = Ended { room, background: 2, ..Ended::new(End::Exit(0), HeadTail::new(10, 10)) };
        let done = finished("cmd".to_owned(), Duration::from_millis(1), ended, None, || 0);
        let both =
            format!("the limit of processes was reached: {words}. 2 processes of this command are still running");
        assert!(done.text.contains(&both), "{}", done.text);
    }
}

#[test]
fn a_result_fits_whatever_the_bytes_are() {
    let kinds: [&[u8]; 6] = [b"\x01", b"\0", b"\"", b"\xff", "😀".as_bytes(), "\u{1}é\\".as_bytes()];
    for kind in kinds {
        for size in [1, 1000, 99_999, 400_000] {
            let output: Vec<u8> = kind.iter().copied().cycle().take(size).collect();
            for how in [End::Exit(0), End::Exit(3), End::TimedOut] {
                let mut kept = HeadTail::new(limits::OUTPUT_HEAD_BYTES, limits::OUTPUT_TAIL_BYTES);
                kept.push(&output);
                let ended = Ended { background: 3, ..Ended::new(how, kept) };
                let done = finished("cmd".to_owned(), Duration::from_millis(1), ended, None, || 0);
                assert!(units(&done.text) <= limits::TOOL_RESULT_MAX_UNITS);
                let answer: serde_json::Value = serde_json::from_str(&done.text).unwrap();
                assert!(!done.text.contains('\0') && !answer["output"].as_str().unwrap().contains('\0'));
                assert!(answer["note"].as_str().unwrap().starts_with("3 processes"));
            }
        }
    }
}

#[test]
fn a_shell_that_can_start_nothing_is_told_who_holds_the_places() {
    let told = |output: &str, running| {
        let mut kept = HeadTail::new(1000, 1000);
        kept.push(output.as_bytes());
        finished("cmd".to_owned(), Duration::from_millis(1), Ended::new(End::Exit(254), kept), None, || running).text
    };
    let refused = "bash: fork: retry: Resource temporarily unavailable\n";
    assert!(told(refused, 2).contains("commands have left 2 processes running: end what is not needed with kill"));
    assert!(told(refused, 1).contains("left 1 process running"));
    assert!(!told(refused, 0).contains("limit of processes") && !told("fork: no such file\n", 2).contains("limit"));
}
