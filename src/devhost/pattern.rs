//! Regular expressions of scripts and policies.

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};

/// A compiled expression, found anywhere in the text; `^` and `$` match at lines.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(RegexMatcher);

impl Pattern {
    /// Compiles; the error says what is wrong with the expression.
    pub(crate) fn new(expression: &str) -> Result<Self, String> {
        RegexMatcherBuilder::new().multi_line(true).build(expression).map(Self).map_err(|error| error.to_string())
    }

    /// Is there a match?
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text.as_bytes()).unwrap_or(false)
    }
}
