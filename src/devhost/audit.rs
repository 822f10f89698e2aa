//! The audit log: one JSON line for each thing that happened.

use super::event::{Event, Listener};
use super::now_ms;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, LineWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A listener that appends to a file. A line that cannot be written is told once on stderr; the run goes on.
pub(super) fn to_file(path: &Path) -> io::Result<Listener> {
    let file = File::options().create(true).append(true).open(path)?;
    let log = Mutex::new((LineWriter::new(file), false));
    Ok(Box::new(move |event| {
        let Some(line) = line(event) else { return };
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = writeln!(log.0, "{line}").err();
        if let (Some(error), false) = (failed, log.1) {
            log.1 = true;
            let _ = writeln!(io::stderr(), "ax-devhost: the audit log cannot be written: {error}");
        }
    }))
}

fn line(event: &Event) -> Option<Value> {
    let mut line = match event {
        Event::Connected => json!({"event": "connected"}),
        Event::Disconnected => json!({"event": "disconnected"}),
        Event::Request { action, value } => json!({"event": "request", "action": action, "request": value}),
        Event::Model { text, calls } => json!({"event": "model", "text": text, "calls": calls}),
        Event::Judged { request, verdict } => json!({"event": "judged", "request": request, "verdict": verdict}),
        // Already there as a request.
        Event::Reported { .. } => return None,
        Event::Forwarded { action, reply } => json!({"event": "forwarded", "action": action, "reply": reply}),
        Event::Answer { content } => json!({"event": "answer", "content": content}),
        Event::Violation(message) => json!({"event": "violation", "message": message}),
        Event::Fault(fault) => json!({"event": "fault", "fault": fault}),
        Event::Stderr(text) => json!({"event": "stderr", "text": text}),
    };
    line["time"] = now_ms().into();
    Some(line)
}
