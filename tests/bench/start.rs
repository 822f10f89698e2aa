//! From the start of the process to its first frame at the host.

use crate::host::Listener;
use crate::place::{Connected, Place, Programs, payload};
use crate::table::{Row, interleaved};
use crate::{Effort, Outcome};

pub(crate) fn rows(programs: &Programs, effort: &Effort) -> Outcome<Vec<Row>> {
    let place = Place::new()?;
    measured(&place, programs, effort).map_err(|error| place.explain(&*error).into())
}

fn measured(place: &Place, programs: &Programs, effort: &Effort) -> Outcome<Vec<Row>> {
    let listener = Listener::bind(&place.socket())?;
    let [ours, minimal] = interleaved(
        effort.starts,
        [&mut || Ok(Connected::start(place.runner(programs)?, &payload("docker")?, &listener)?.after), &mut || {
            Ok(Connected::start(place.minimal(programs)?, &payload("docker")?, &listener)?.after)
        }],
    )?;
    Ok(vec![Row::times("start to first `llm_call`", ours, "minimal static program", minimal, "<= 3x, later <= 2x")])
}
