//! The development host's tour with the model behind the Messages API: the built runner, `--proxy-socket`, approvals and
//! reports by the host as ever. It must end as it does when the host answers the model calls itself.

use super::*;
use crate::support::{BIN, LIMIT};
use ax_runner::devhost::{FakeHost, Script};
use std::collections::BTreeSet;
use std::path::Path;

const SCRIPT: &str = include_str!("../../../fixtures/tour/script.json");
const MESSAGE: &str = "The tests of this project fail. Find out why and fix it.";

/// What a tour leaves behind.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    answer: String,
    code: Option<i32>,
    files: Vec<(String, String)>,
    /// Operation and its subject, as the host was asked to allow them.
    asked: Vec<String>,
    /// Operation and output, as the host was told.
    reported: Vec<String>,
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Plays it; with a socket the model is there, without the host is the model.
fn play(proxy: Option<&Path>) -> Outcome {
    let script = Script::parse(SCRIPT).unwrap();
    let host = FakeHost::socket(script).start();
    let workspace = host.workspace();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tour/project"), &workspace);
    let mut runner = host.runner(BIN).deadline(LIMIT).payload(&host.payload(MESSAGE));
    if let Some(socket) = proxy {
        runner = runner.arg("--proxy-socket").arg(socket);
    }
    let output = runner.run();
    assert!(!output.timed_out, "the runner hangs: {}", output.stderr);
    assert_eq!(host.violations(), []);
    assert_eq!(host.requests_of("llm_call").is_empty(), proxy.is_some(), "who was asked for the model's words");
    let files = ["README.md", "src/slug.sh", "tests/run.sh", "NOTES.md"]
        .map(|name| (name.to_owned(), std::fs::read_to_string(workspace.join(name)).unwrap_or_default()));
    let told = |action: &str, keys: &[&str]| {
        let line = |value: &Value| keys.iter().map(|key| value[key].to_string()).collect::<Vec<_>>().join(" ");
        host.requests_of(action).iter().map(|request| line(&request.value)).collect()
    };
    Outcome {
        answer: output.text(),
        code: output.code,
        files: files.into(),
        asked: told("sandbox_approve", &["operation", "command", "path", "old_string", "new_string", "content"]),
        reported: told("sandbox_result", &["operation", "output", "exitCode", "success"]),
    }
}

/// The model's reply to a request, by the tour's script: the reply of its round, if what it waits for has come.
fn reply(body: &Value) -> Vec<u8> {
    let script: Value = serde_json::from_str(SCRIPT).unwrap();
    let replies = script["replies"].as_array().unwrap();
    let messages = body["messages"].as_array().unwrap();
    let round = messages.iter().filter(|message| message["role"] == "assistant").count();
    let results = messages.last().unwrap()["content"].to_string().replace("\\\"", "\"");
    let wanted = replies[round]["when"].as_str().unwrap_or_default().replace("\\s*", "");
    let reply = if results.contains(&wanted) { &replies[round] } else { replies.last().unwrap() };
    let words = match &reply["text"] {
        Value::Array(pieces) => pieces.iter().filter_map(Value::as_str).collect(),
        text => vec![text.as_str().unwrap()],
    };
    let mut parts = vec![text(0, &words)];
    for (at, tool) in reply["tools"].as_array().into_iter().flatten().enumerate() {
        let index = u32::try_from(at).unwrap() + 1;
        let input = tool["args"].to_string();
        let halves = input.split_at(input.len() / 2);
        let mut events = call(index, &format!("toolu_{round}_{index}"), &[halves.0, halves.1]);
        events[0]["content_block"]["name"] = tool["name"].clone();
        parts.push(events);
    }
    let stop = if parts.len() > 1 { "tool_use" } else { "end_turn" };
    stream(&message(parts, stop))
}

async fn played(socket: PathBuf) -> Outcome {
    tokio::task::spawn_blocking(move || play(Some(&socket))).await.unwrap()
}

async fn by_the_host() -> Outcome {
    tokio::task::spawn_blocking(|| play(None)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tour_ends_the_same_over_the_messages_api() {
    let service = Service::start(|body, _| reply(body));
    let (there, here) = tokio::join!(played(service.socket()), by_the_host());
    assert!(there.answer.trim_end().ends_with("All tests pass."), "{}", there.answer);
    assert_eq!((there.code, service.count()), (Some(0), 6));
    assert_eq!(there, here);
    let requests = service.requests.lock().unwrap();
    let names = |request: &Value| -> BTreeSet<String> {
        request["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(
        names(&requests[0]).is_superset(&["bash", "read_file", "edit_file", "write_file"].map(str::to_owned).into())
    );
    assert!(requests[0]["system"].as_str().unwrap().len() > 500, "the system prompt is there");
}

/// Each reply of the tour is cut at one byte the first time, another byte in each tour: some by default, with `AX_SOAK`
/// every byte of the longest reply.
#[tokio::test(flavor = "multi_thread")]
async fn the_tour_ends_the_same_wherever_its_replies_are_cut() {
    let wanted = Arc::new(by_the_host().await);
    let lengths: Arc<Mutex<Vec<usize>>> = Arc::default();
    let noted = lengths.clone();
    let service = Service::start(move |body, _| {
        let whole = reply(body);
        noted.lock().unwrap().push(whole.len());
        whole
    });
    assert_eq!(played(service.socket()).await, *wanted);
    let longest = *lengths.lock().unwrap().iter().max().unwrap();
    let (step, at_once) = if std::env::var_os("AX_SOAK").is_some() { (1, 4) } else { (longest / 4, 4) };
    let cuts: Vec<usize> = (0..longest).step_by(step).collect();
    let mut seen = 0;
    for batch in cuts.chunks(at_once) {
        let mut tours = tokio::task::JoinSet::new();
        for cut in batch.iter().copied() {
            let wanted = wanted.clone();
            tours.spawn(async move {
                let cut_already = Mutex::new(HashSet::new());
                let service = Service::start(move |body, _| {
                    let whole = reply(body);
                    let first = cut_already.lock().unwrap().insert(body["messages"].as_array().unwrap().len());
                    if first { whole[..cut.min(whole.len() - 1)].to_vec() } else { whole }
                });
                assert_eq!(played(service.socket()).await, *wanted, "cut at {cut}");
                assert_eq!(service.count(), 12, "cut at {cut}: each of six was asked for twice");
            });
        }
        while let Some(tour) = tours.join_next().await {
            tour.unwrap();
            seen += 1;
        }
    }
    println!("MEASURED {seen} tours, six replies cut in each");
}
