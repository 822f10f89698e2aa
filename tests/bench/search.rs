//! `grep` and `glob` over many files, beside `rg` on the same tree.

use crate::place::{Place, Programs, command};
use crate::session::Session;
use crate::table::{Row, interleaved};
use crate::{Effort, Outcome};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

pub(crate) fn rows(programs: &Programs, effort: &Effort) -> Outcome<Vec<Row>> {
    let place = Place::new()?;
    let mut rows = measured(&place, programs, effort).map_err(|error| place.explain(&*error))?;
    if let Some(tree) = std::env::var_os("AX_BENCH_TREE") {
        let place = Place::new()?;
        rows.extend(real(&place, programs, effort, &tree).map_err(|error| place.explain(&*error))?);
    }
    Ok(rows)
}

/// The same questions about a tree that exists: something rare, something frequent, and names.
fn real(place: &Place, programs: &Programs, effort: &Effort, tree: &OsStr) -> Outcome<Vec<Row>> {
    let workspace = place.workspace();
    let mut copy = command(Path::new("cp"));
    if !copy.arg("-al").arg(tree).arg(workspace.join("tree")).status()?.success() {
        return Err("the tree cannot be linked into the workspace".into());
    }
    let mut session = Session::start(place, programs)?;
    let searches: [(&str, &str, Value, &[&str]); 4] = [
        ("grep", "a rare word", json!({"pattern": r"zzyzx_\d+"}), &["-n", r"zzyzx_\d+"]),
        ("grep", "a rare word, any case", json!({"pattern": "zzYzx", "ignore_case": true}), &["-n", "-i", "zzYzx"]),
        (
            "grep",
            "files of a frequent one",
            json!({"pattern": r"\bunsafe impl\b", "output_mode": "files", "max_results": 10_000}),
            &["-l", r"\bunsafe impl\b"],
        ),
        ("glob", "names", json!({"pattern": "**/*.toml", "max_results": 10_000}), &["--files", "--glob", "**/*.toml"]),
    ];
    let mut rows = Vec::new();
    for (name, what, args, flags) in searches {
        let flags = [&["--hidden", "--no-require-git"], flags].concat();
        let [ours, theirs] = interleaved(
            effort.searches,
            [&mut || Ok(session.single(name, &args)?.round), &mut || rg(&workspace, &flags)],
        )?;
        let what = format!("`{name}`, {what}, in the tree");
        rows.push(Row::times(&what, ours, &format!("`rg {}`", flags.join(" ")), theirs, "<= 1.1x"));
    }
    Ok(rows)
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
