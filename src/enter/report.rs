//! What `enter` says: one JSON line an event, and one plain line when it gives up.

use crate::log;
use serde_json::{Map, Value};
use std::time::{SystemTime, UNIX_EPOCH};

/// Levels of the host's log lines (PROTOCOL §13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// For the record.
    Info = 30,
    /// Something the operator should change.
    Warn = 40,
}

/// Writes events at or above a level to standard error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reporter {
    least: u64,
}

impl Reporter {
    /// Reads the level as the runner does.
    pub(crate) fn new(level: Option<&str>) -> Self {
        let least = match level.map(str::to_ascii_lowercase).as_deref() {
            Some("warn") => 40,
            Some("error") => 50,
            Some("fatal") => 60,
            Some("silent") => u64::MAX,
            _ => 30,
        };
        Self { least }
    }

    /// One event. Fields never hold a value from an environment file.
    pub(crate) fn event(self, level: Level, name: &str, fields: Value) {
        if (level as u64) < self.least {
            return;
        }
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let mut line = Map::new();
        line.insert("level".to_owned(), Value::from(level as u64));
        line.insert("time".to_owned(), Value::from(time));
        line.insert("pid".to_owned(), Value::from(std::process::id()));
        line.insert("component".to_owned(), Value::from("enter"));
        if let Value::Object(fields) = fields {
            line.extend(fields);
        }
        line.insert("msg".to_owned(), Value::from(name));
        log::last_words(&log::neutral(&Value::Object(line).to_string()));
    }
}

/// The last words: exactly one line, whatever is in the cause.
pub(crate) fn failure(cause: &str) {
    let words: String = cause.chars().map(|c| if c.is_control() { ' ' } else { c }).take(600).collect();
    log::last_words(&format!("ax-runner enter: {words}"));
}
