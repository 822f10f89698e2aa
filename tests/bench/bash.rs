//! One `bash` call, beside a bare start of the same shell.

use crate::place::{Place, Programs, command};
use crate::session::Session;
use crate::table::{Row, interleaved, median};
use crate::{Effort, Outcome};
use serde_json::json;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

pub(crate) fn rows(programs: &Programs, effort: &Effort) -> Outcome<Vec<Row>> {
    let place = Place::new()?;
    measured(&place, programs, effort).map_err(|error| place.explain(&*error).into())
}

fn measured(place: &Place, programs: &Programs, effort: &Effort) -> Outcome<Vec<Row>> {
    let mut session = Session::start(place, programs)?;
    let mut work = Vec::new();
    let [round, bare] = interleaved(
        effort.bash_calls,
        [
            &mut || {
                let call = session.call("bash", &json!({"command": "true"}))?;
                work.push(call.work.ok_or("bash did not ask for approval")?);
                Ok(call.round)
            },
            &mut || bare(&place.workspace()),
        ],
    )?;
    let beside = "fork+exec of `bash -c true`";
    Ok(vec![
        Row::times("`bash` call, approval to report", median(work), beside, bare, "<= 1 ms more, later <= 0.3 ms"),
        Row::times("`bash` call, model's reply to next `llm_call`", round, beside, bare, ""),
    ])
}

fn bare(workspace: &Path) -> Outcome<Duration> {
    let mut bash = command(Path::new("/bin/bash"));
    bash.args(["-c", "true"]).env_clear().current_dir(workspace).stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    bash.status()?;
    Ok(start.elapsed())
}
