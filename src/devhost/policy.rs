//! What may run: a list of rules in JSON; the first that fits a call decides.

use super::pattern::Pattern;
use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A policy that cannot be used; the text says where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy: {0}")]
pub struct PolicyError(String);

/// The rules, first match first. Without a match a call is allowed, as today's host does.
#[derive(Debug, Default)]
pub struct Policy(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    operations: Vec<String>,
    path: Option<GlobMatcher>,
    command: Option<Pattern>,
    delay_ms: u64,
    verdict: Verdict,
}

/// What the host says to a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It may run.
    Allow,
    /// It may not, for this reason; empty: no reason is given.
    Deny(String),
    /// The person at the terminal decides.
    Ask,
    /// No answer at all.
    NoAnswer,
    /// Exactly this reply.
    Reply(Map<String, Value>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    operation: Option<OneOrMany>,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    verdict: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    reply: Option<Map<String, Value>>,
    #[serde(default)]
    delay_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

const OPERATIONS: [&str; 6] = ["bash", "read", "write", "edit", "grep", "glob"];

impl Policy {
    /// Everything may run.
    pub fn allow() -> Self {
        Self::default()
    }

    /// A policy from JSON text: a list of rules.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        Self::from_value(serde_json::from_str(text).map_err(|error| PolicyError(format!("not JSON: {error}")))?)
    }

    /// The same from a JSON value.
    pub fn from_value(value: Value) -> Result<Self, PolicyError> {
        let Value::Array(rules) = value else { return Err(PolicyError("expected a list of rules".to_owned())) };
        let read = |(at, rule)| Rule::read(rule).map_err(|error| PolicyError(format!("rule {}: {error}", at + 1)));
        Ok(Self(rules.into_iter().enumerate().map(read).collect::<Result<_, _>>()?))
    }

    /// A policy in a test: panics with the error.
    #[allow(clippy::panic, reason = "a test's literal policy; the message is the failure")]
    pub fn json(value: Value) -> Self {
        Self::from_value(value).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The verdict on a `sandbox_approve` request and how long it takes.
    pub(crate) fn judge(&self, request: &Value) -> (Verdict, u64) {
        let text = |key: &str| request.get(key).and_then(Value::as_str);
        let rule = self.0.iter().find(|rule| rule.fits(text("operation"), text("path"), text("command")));
        rule.map_or((Verdict::Allow, 0), |rule| (rule.verdict.clone(), rule.delay_ms))
    }
}

impl Rule {
    fn read(value: Value) -> Result<Self, String> {
        let written: Written = serde_json::from_value(value).map_err(|error| error.to_string())?;
        let operations = match written.operation {
            None => Vec::new(),
            Some(OneOrMany::One(one)) => vec![one],
            Some(OneOrMany::Many(many)) => many,
        };
        if let Some(unknown) = operations.iter().find(|name| !OPERATIONS.contains(&name.as_str())) {
            return Err(format!("unknown operation \"{unknown}\"; known are {}", OPERATIONS.join(", ")));
        }
        let glob = |pattern: String| GlobBuilder::new(&pattern).literal_separator(true).build();
        let reason = written.reason.is_some();
        let verdict = match (written.verdict.as_deref(), written.reply) {
            (None, Some(reply)) => Verdict::Reply(reply),
            (Some("allow"), None) => Verdict::Allow,
            (Some("deny"), None) => Verdict::Deny(written.reason.unwrap_or_default()),
            (Some("ask"), None) => Verdict::Ask,
            (Some("no_answer"), None) => Verdict::NoAnswer,
            (Some(other), None) => {
                return Err(format!("unknown verdict \"{other}\"; known are allow, deny, ask, no_answer"));
            }
            (None, None) => return Err("a rule needs a verdict".to_owned()),
            (Some(_), Some(_)) => return Err("verdict and reply exclude each other".to_owned()),
        };
        if reason && !matches!(verdict, Verdict::Deny(_)) {
            return Err("only a denial has a reason".to_owned());
        }
        Ok(Self {
            operations,
            path: written
                .path
                .map(glob)
                .transpose()
                .map_err(|error| error.to_string())?
                .map(|glob| glob.compile_matcher()),
            command: written.command.as_deref().map(Pattern::new).transpose()?,
            delay_ms: written.delay_ms,
            verdict,
        })
    }

    fn fits(&self, operation: Option<&str>, path: Option<&str>, command: Option<&str>) -> bool {
        (self.operations.is_empty() || operation.is_some_and(|name| self.operations.iter().any(|known| known == name)))
            && self.path.as_ref().is_none_or(|glob| path.is_some_and(|path| glob.is_match(path)))
            && self.command.as_ref().is_none_or(|pattern| command.is_some_and(|command| pattern.is_match(command)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_rule_that_fits_decides() {
        let policy = Policy::json(json!([
            {"operation": "bash", "command": "\\brm\\b", "verdict": "deny", "reason": "no deletions"},
            {"operation": ["write", "edit"], "path": "secrets/**", "verdict": "deny"},
            {"operation": "read", "path": "*.key", "verdict": "ask", "delay_ms": 7},
            {"operation": "grep", "verdict": "no_answer"},
            {"operation": "glob", "reply": {"approved": "yes"}}]));
        let judge = |request: Value| policy.judge(&request);
        assert_eq!(judge(json!({"operation": "bash", "command": "ls; rm x"})).0, Verdict::Deny("no deletions".into()));
        assert_eq!(judge(json!({"operation": "bash", "command": "form"})).0, Verdict::Allow);
        assert_eq!(judge(json!({"operation": "edit", "path": "secrets/a/b"})).0, Verdict::Deny(String::new()));
        assert_eq!(judge(json!({"operation": "read", "path": "a.key"})), (Verdict::Ask, 7));
        assert_eq!(judge(json!({"operation": "read", "path": "d/a.key"})).0, Verdict::Allow);
        assert_eq!(judge(json!({"operation": "grep", "path": "."})).0, Verdict::NoAnswer);
        assert!(matches!(judge(json!({"operation": "glob"})).0, Verdict::Reply(_)));
    }

    #[test]
    fn a_mistake_is_named_with_its_place() {
        let error = |value: Value| Policy::from_value(value).unwrap_err().to_string();
        assert!(
            error(json!([{"verdict": "allow"}, {"verdict": "maybe"}])).starts_with("policy: rule 2: unknown verdict")
        );
        assert!(error(json!([{"operation": "run", "verdict": "allow"}])).contains("unknown operation"));
        assert!(error(json!([{"verdict": "allow", "reason": "x"}])).contains("only a denial"));
        assert!(error(json!([{"command": "(", "verdict": "allow"}])).starts_with("policy: rule 1: "));
        assert!(error(json!([{"operation": "bash"}])).contains("needs a verdict"));
        assert!(error(json!({})).contains("expected a list"));
    }
}
