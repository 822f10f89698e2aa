//! Edits: the scenarios in `fixtures/edit`, strict arguments, files that change in between.

use super::*;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    arguments: Value,
    result: Expected,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Expected {
    Replacements(usize),
    Error(String),
}

#[test]
fn scenarios() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/edit");
    let mut scenarios: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    scenarios.retain(|path| path.is_dir());
    scenarios.sort();
    assert!(scenarios.len() >= 30);
    for folder in scenarios {
        let scenario: Scenario = serde_json::from_slice(&std::fs::read(folder.join("call.json")).unwrap()).unwrap();
        let place = Place::new();
        let input = std::fs::read(folder.join("input")).ok();
        if let Some(input) = &input {
            place.put("file", input);
        }
        let modified = || std::fs::metadata(place.at("file")).and_then(|file| file.modified()).ok();
        let before = modified();
        let outcome = place.edit(scenario.arguments);
        let name = folder.file_name().unwrap().display();
        match scenario.result {
            Expected::Replacements(count) => {
                assert_eq!(outcome.result, json!({"edited": true, "path": "file", "replacements": count}), "{name}");
            }
            Expected::Error(words) => {
                assert!(outcome.error().is_some_and(|error| error.contains(&words)), "{name}: {}", outcome.result);
                assert_eq!(modified(), before, "{name}");
            }
        }
        assert_eq!(std::fs::read(place.at("file")).ok(), std::fs::read(folder.join("expected")).ok(), "{name}");
    }
}

#[test]
fn arguments_are_strict() {
    let place = Place::new();
    place.put("f", "1 true");
    for args in [
        json!({"path": "f", "old_string": 1, "new_string": "2"}),
        json!({"path": "f", "old_string": "1"}),
        json!({"path": "f", "old_string": "1", "new_string": "2", "replace_all": "true"}),
        json!({"path": "f", "old_string": "1", "new_string": "2", "action": "x"}),
        json!({"path": ["f"], "old_string": "1", "new_string": "2"}),
    ] {
        assert!(place.edit(args.clone()).unasked, "{args}");
    }
    assert_eq!(place.bytes("f"), b"1 true");
}

#[test]
fn a_file_that_changed_since_the_approval_is_not_edited() {
    let place = Place::new();
    place.put("f", "one");
    let args = || serde_json::from_value(json!({"path": "f", "old_string": "one", "new_string": "two"})).unwrap();
    let call = edit_file::Call::prepare(args(), &place.ws).unwrap();
    let call = approved(call);
    place.put("f", "one, and more");
    let outcome = Outcome::of(Ok(edit_file::run(call, &place.ws)));
    outcome.fails_with("changed");
    assert_eq!(place.bytes("f"), b"one, and more");

    let call = approved(edit_file::Call::prepare(args(), &place.ws).unwrap());
    std::fs::remove_file(place.at("f")).unwrap();
    Outcome::of(Ok(edit_file::run(call, &place.ws))).fails_with("no such file");
    assert!(!place.at("f").exists());
}

#[test]
fn a_result_that_would_explode_is_refused() {
    let place = Place::new();
    place.put("f", "a".repeat(1 << 20));
    let args = json!({"path": "f", "old_string": "a", "new_string": "b".repeat(10_000), "replace_all": true});
    place.edit(args).fails_with("would have more than");
    std::fs::File::create(place.at("big")).unwrap().set_len(1 << 30).unwrap();
    place.edit(json!({"path": "big", "old_string": "a", "new_string": "b"})).fails_with("more than 33554432 bytes");
}
