//! The house keeps its shape (DESIGN §3): a room uses only rooms on lower floors, and `unsafe` lives in `os/` alone.

use std::fs;
use std::path::{Path, PathBuf};

/// Rooms by floor, lowest first. Rooms on one floor do not use each other.
const FLOORS: [&[&str]; 7] = [
    &["limits", "secret", "text"],
    &["redact", "wire"],
    &["log", "os", "workspace", "http"],
    &["link"],
    &["gate"],
    &["tools"],
    &["prompt", "agent", "net", "git"],
];

/// The life, on top; these may use everything below and `runner` may be started by `cli` and `enter`.
const TOP: [&str; 6] = ["runner", "enter", "sidecar", "doctor", "devhost", "cli"];

fn floor(room: &str) -> usize {
    FLOORS
        .iter()
        .position(|rooms| rooms.contains(&room))
        .or_else(|| TOP.contains(&room).then_some(FLOORS.len()))
        .unwrap_or_else(|| panic!("room `{room}` stands on no floor: add it to tests/it/floors.rs"))
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Every source file with the room it is in; `lib.rs` and the programs are no rooms.
fn rooms() -> Vec<(String, PathBuf, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    files
        .into_iter()
        .filter_map(|path| {
            let inside = path.strip_prefix(&src).unwrap();
            let first = inside.components().next().unwrap().as_os_str().to_str().unwrap();
            let room = first.trim_end_matches(".rs").to_owned();
            let program = ["lib", "main", "bin"].contains(&room.as_str());
            (!program).then(|| (room, path.clone(), fs::read_to_string(&path).unwrap()))
        })
        .collect()
}

/// Rooms that a text names as `crate::room`, alone or in a list.
fn used(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for part in text.split("crate::").skip(1) {
        let list = match part.strip_prefix('{') {
            Some(list) => top_level(list),
            None => vec![part.to_owned()],
        };
        for item in list {
            let name: String = item.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if !name.is_empty() && name.chars().next().is_some_and(char::is_lowercase) {
                names.push(name);
            }
        }
    }
    names
}

/// The items of `a::b, c::{d, e}}` that stand at the outer level.
fn top_level(list: &str) -> Vec<String> {
    let (mut items, mut item, mut depth) = (Vec::new(), String::new(), 0);
    for c in list.chars() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => items.push(std::mem::take(&mut item)),
            _ if depth == 0 => item.push(c),
            _ => {}
        }
    }
    items.push(item);
    items
}

#[test]
fn no_room_uses_a_higher_one() {
    let mut wrong = Vec::new();
    for (room, path, text) in rooms() {
        for other in used(&text) {
            let (mine, theirs) = (floor(&room), floor(&other));
            let neighbour = mine == theirs && room != other;
            let top = mine == FLOORS.len() && theirs == FLOORS.len();
            if theirs > mine || (neighbour && !top && !allowed_neighbour(&room, &other)) {
                wrong.push(format!("{}: {room} uses {other}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Rooms of one floor that may still know each other, each with its reason.
fn allowed_neighbour(_room: &str, _other: &str) -> bool {
    false
}

#[test]
fn unsafe_lives_in_os() {
    let wrong: Vec<String> = rooms()
        .into_iter()
        .filter(|(room, _, text)| room != "os" && (text.contains("unsafe {") || text.contains("allow(unsafe_code)")))
        .map(|(_, path, _)| path.display().to_string())
        .collect();
    assert!(wrong.is_empty(), "unsafe outside os/: {wrong:?}");
}

#[test]
fn the_reader_of_imports_sees_lists() {
    let text = "use crate::wire::{A, B};\nuse crate::{limits, log::{a, b}, os};\ncrate::text::units(x)";
    assert_eq!(used(text), ["wire", "limits", "log", "os", "text"]);
}
