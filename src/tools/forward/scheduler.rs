//! `scheduler`: prompts that run later.

use super::{HostTool, Operation};
use crate::tools::fields::{Field, Kind, optional, required};

const PROMPT: Field =
    required("prompt", Kind::Text(10_000), "What you will be told then. It must make sense without this conversation.");
const BUDGET: Field = optional("maxTokenBudget", Kind::Int(1, i64::MAX), "Most tokens a run may use.");

pub(super) const SCHEDULER: HostTool = HostTool {
    name: "scheduler",
    description: "Run a prompt later. Pick `type`:
- `add_cron`: repeatedly, by a five-field cron expression (minute hour day month weekday).
- `run_at`: once, at a local date and time without zone, such as 2026-03-01T09:30:00.
- `list`: all jobs with their ids.
- `remove`: cancel a job by id.
Something is scheduled only when this tool has returned a job id; tell the user the time you used.",
    operations: &[
        Operation::new(
            "add_cron",
            "scheduler_add_cron",
            &[required("schedule", Kind::Text(100), "Five fields, such as `0 9 * * 1-5`."), PROMPT, BUDGET],
        ),
        Operation::new(
            "run_at",
            "scheduler_run_at",
            &[required("datetime", Kind::Text(100), "Local ISO date and time without zone."), PROMPT, BUDGET],
        ),
        Operation::new("remove", "scheduler_remove_cron", &[required("id", Kind::Text(200), "The job's id.")]),
        Operation::new("list", "scheduler_list_jobs", &[]).reading(),
    ],
};
