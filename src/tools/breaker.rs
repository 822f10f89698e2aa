//! A tool that keeps failing is refused for the rest of the turn (PROTOCOL §6.7), so that a model does not spend its calls
//! on a service that is down.

use crate::limits;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Consecutive failures by tool.
#[derive(Debug, Default)]
pub(super) struct Breaker(Mutex<HashMap<String, u32>>);

impl Breaker {
    /// What the model is told instead of another try.
    pub(super) fn refusal(&self, tool: &str) -> Option<String> {
        let failures = *self.0.lock().unwrap_or_else(PoisonError::into_inner).get(tool)?;
        (failures >= limits::BREAKER_FAILURES).then(|| {
            format!(
                "\"{tool}\" has failed {failures} consecutive times. Do not call it again in this turn; tell the user \
                 what did not work."
            )
        })
    }

    /// Notes how a call ended.
    pub(super) fn record(&self, tool: &str, failed: bool) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match failed {
            true => *failures.entry(tool.to_owned()).or_default() += 1,
            false => drop(failures.remove(tool)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_failures_in_a_row_open_it_and_only_for_that_tool() {
        let breaker = Breaker::default();
        for failed in [true, true, false, true, true] {
            breaker.record("web", failed);
        }
        assert_eq!(breaker.refusal("web"), None);
        breaker.record("web", true);
        assert!(breaker.refusal("web").unwrap().starts_with("\"web\" has failed 3 consecutive times."));
        assert_eq!(breaker.refusal("memory"), None);
    }
}
