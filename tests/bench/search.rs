//! `grep` and `glob` over many files, beside `rg` on the same tree.

use crate::place::{Place, Programs, command};
use crate::session::Session;
use crate::table::{Row, interleaved};
use crate::{Effort, Outcome};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

pub(crate) fn rows(programs: &Programs, effort: &Effort) -> Outcome<Vec<Row>> {
    let place = Place::new()?;
    measured(&place, programs, effort).map_err(|error| place.explain(&*error).into())
}

fn measured(place: &Place, programs: &Programs, effort: &Effort) -> Outcome<Vec<Row>> {
    let workspace = place.workspace();
    let mut session = Session::start(place, programs)?;
    let searches: [(&str, Value, &[&str]); 2] = [
        ("grep", json!({"pattern": r"needle_\d+ here"}), &["--hidden", "-n", r"needle_\d+ here"]),
        ("glob", json!({"pattern": "**/*needle*.txt"}), &["--files", "--hidden", "--glob", "**/*needle*.txt"]),
    ];
    if let Err(why) = rg(&workspace, &["--version"]) {
        return Ok(searches
            .iter()
            .map(|(name, ..)| Row::skipped(name, &format!("no rg to compare with: {why}")))
            .collect());
    }
    let mut rows = Vec::new();
    let mut planted = false;
    for (name, args, flags) in searches {
        let what = format!("`{name}` over {} files", effort.files_searched);
        if session.single(name, &args)?.work.is_none() {
            rows.push(Row::skipped(&what, "this runner forwards it to the host"));
            continue;
        }
        if !planted {
            plant(&workspace, effort.files_searched)?;
            planted = true;
        }
        let [ours, theirs] = interleaved(
            effort.searches,
            [&mut || Ok(session.single(name, &args)?.round), &mut || rg(&workspace, flags)],
        )?;
        rows.push(Row::times(&what, ours, &format!("`rg {}`", flags.join(" ")), theirs, "<= 1.1x"));
    }
    Ok(rows)
}

/// A tree as of source code: files of a few kilobytes, fifty in a directory; every thousandth holds what is searched.
fn plant(workspace: &Path, files: usize) -> Outcome<()> {
    let filler = "a line of source text, with some words and 12345 in it;\n".repeat(40);
    for number in 0..files {
        let directory = workspace.join(format!("part{}/module{}", number / 1000, number / 50));
        if number % 50 == 0 {
            fs::create_dir_all(&directory)?;
        }
        let rare = number % 1000 == 7;
        let name = if rare { format!("needle{number}.txt") } else { format!("file{number}.txt") };
        let end = if rare { format!("needle_{number} here\n") } else { String::new() };
        fs::write(directory.join(name), format!("{filler}{end}"))?;
    }
    Ok(())
}

fn rg(workspace: &Path, flags: &[&str]) -> Outcome<Duration> {
    let mut rg = command(Path::new("rg"));
    rg.args(flags).current_dir(workspace).stdin(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    rg.output()?;
    Ok(start.elapsed())
}
