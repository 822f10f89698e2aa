//! Takes credentials out of texts that leave the container: logs, errors, audit reports.
//!
//! Non-goal: hiding them from the model, which may print its own environment.

use crate::limits;
use crate::secret::Secret;
use std::borrow::Cow;

/// The values of one turn.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// Longest first, so that a value which contains another disappears whole.
    secrets: Vec<Secret>,
}

impl Redactor {
    /// Knows these values; the very short ones are left alone.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut secrets: Vec<Secret> = secrets
            .into_iter()
            .filter(|secret| secret.expose().trim().len() >= limits::REDACT_MIN_BYTES)
            .map(|secret| Secret::new(secret.expose().trim()))
            .collect();
        secrets.sort_by(|a, b| b.expose().len().cmp(&a.expose().len()).then_with(|| a.expose().cmp(b.expose())));
        secrets.dedup();
        Self { secrets }
    }

    /// The text with every known value replaced by `[redacted]`.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for secret in &self.secrets {
            if text.contains(secret.expose()) {
                text = Cow::Owned(text.replace(secret.expose(), "[redacted]"));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_values_go_first_and_short_ones_stay() {
        let secrets = ["hunter2", "hunter2-and-more", "1", "", "      ", "line\n"].map(Secret::new);
        let redactor = Redactor::new(&secrets);
        assert_eq!(redactor.redact("a hunter2-and-more b hunter2hunter2 1"), "a [redacted] b [redacted][redacted] 1");
        assert!(matches!(redactor.redact("nothing here"), Cow::Borrowed(_)));
        assert!(!format!("{redactor:?}").contains("hunter2"));
    }
}
