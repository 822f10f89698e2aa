//! `read_file`, `write_file` and `edit_file` on 100 KB, beside the system calls that nobody can do without, and beside
//! `cp` and a rename.

use crate::place::{Place, Programs, command};
use crate::session::Session;
use crate::table::{Row, interleaved};
use crate::{Effort, Outcome};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const BYTES: usize = 100_000;
const PLACES: [&str; 2] = ["the first marker", "another marker"];

pub(crate) fn rows(programs: &Programs, effort: &Effort) -> Outcome<Vec<Row>> {
    let place = Place::new()?;
    measured(&place, programs, effort).map_err(|error| place.explain(&*error).into())
}

fn measured(place: &Place, programs: &Programs, effort: &Effort) -> Outcome<Vec<Row>> {
    let workspace = place.workspace();
    let content = content();
    for name in ["read.txt", "write.txt", "edit.txt", "plain.txt"] {
        fs::write(workspace.join(name), &content)?;
    }
    let mut session = Session::start(place, programs)?;
    let mut row = |what: &str, name: &str, args: &mut dyn FnMut() -> Value, plainly: &str, plain: Plain| {
        let [ours, plain, cp] = interleaved(
            effort.file_calls,
            [&mut || Ok(session.single(name, &args())?.round), &mut || plain(&workspace, &content), &mut || {
                copy(&workspace)
            }],
        )?;
        Ok::<_, Box<dyn std::error::Error>>([
            Row::times(what, ours, plainly, plain, ""),
            Row::times(what, ours, "`cp` and rename", cp, ""),
        ])
    };
    let mut swapped = false;
    let mut edit = || {
        let [old, new] = if swapped { [PLACES[1], PLACES[0]] } else { PLACES };
        swapped = !swapped;
        json!({"path": "edit.txt", "old_string": old, "new_string": new})
    };
    let rows = [
        row("100 KB `read_file`", "read_file", &mut || json!({"path": "read.txt"}), "read", read)?,
        row(
            "100 KB `write_file`",
            "write_file",
            &mut || json!({"path": "write.txt", "content": &content}),
            "write and rename",
            write,
        )?,
        row("100 KB `edit_file`", "edit_file", &mut edit, "read, replace, write and rename", replace)?,
    ];
    Ok(rows.into_iter().flatten().collect())
}

/// The same without a host, a check, or a process.
type Plain = fn(&Path, &str) -> Outcome<Duration>;

fn read(workspace: &Path, _: &str) -> Outcome<Duration> {
    timed(|| Ok(fs::read(workspace.join("plain.txt"))?))
}

fn write(workspace: &Path, content: &str) -> Outcome<Duration> {
    timed(|| put(workspace, content))
}

fn replace(workspace: &Path, _: &str) -> Outcome<Duration> {
    timed(|| {
        let text = fs::read_to_string(workspace.join("plain.txt"))?;
        put(workspace, &text.replacen(PLACES[0], PLACES[1], 1))
    })
}

fn copy(workspace: &Path) -> Outcome<Duration> {
    let (from, temp) = (workspace.join("read.txt"), workspace.join("plain.tmp"));
    let mut cp = command(Path::new("cp"));
    cp.arg(&from).arg(&temp);
    timed(|| {
        cp.status()?;
        Ok(fs::rename(&temp, workspace.join("plain.txt"))?)
    })
}

fn put(workspace: &Path, content: &str) -> Outcome<()> {
    let temp = workspace.join("plain.tmp");
    fs::write(&temp, content)?;
    Ok(fs::rename(&temp, workspace.join("plain.txt"))?)
}

fn timed<T>(what: impl FnOnce() -> Outcome<T>) -> Outcome<Duration> {
    let start = Instant::now();
    std::hint::black_box(what()?);
    Ok(start.elapsed())
}

/// Lines of plain text with the place to edit in the middle.
fn content() -> String {
    let half = "0123456789 some words of a line that is neither long nor short, and its end.\n".repeat(BYTES / 154);
    let mut text = format!("{half}{}\n{half}", PLACES[0]);
    text.extend(std::iter::repeat_n('.', BYTES.saturating_sub(text.len() + 1)));
    text.push('\n');
    text
}
