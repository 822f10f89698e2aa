//! A host tool's reply as the model reads it (PROTOCOL §7.1, §7.2, T29): without the envelope, with lists as lists, and
//! failures as failures.

use crate::limits;
use crate::link::CallError;
use crate::text;
use crate::wire::{Members, Ordered, Reply};
use serde_json::json;

/// A result's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presented {
    /// Never empty.
    pub text: String,
    /// Counts against the tool (PROTOCOL §6.7).
    pub failed: bool,
}

/// What a reply amounts to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Text for the conversation.
    Text(Presented),
    /// Too large for it: belongs into a file.
    Spill(Spill),
}

/// A result to be stored (PROTOCOL §7.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spill {
    /// The whole value: the text itself if it is one, else indented JSON.
    pub content: String,
    /// `txt` or `json`.
    pub extension: &'static str,
    /// Its beginning.
    pub preview: String,
}

const PREVIEW_UNITS: usize = 500;

/// After a call that may have changed something.
const IN_DOUBT: &str = "; whether the call was carried out is unknown; check before you repeat it";

/// Makes a reply readable; `reads` if the call changes nothing. Results of `call_tool` that the host truncated, or whose
/// JSON has more than `spill_threshold` bytes, become a [`Spill`].
pub fn present(action: &str, reply: &Reply, reads: bool, spill_threshold: u64) -> Outcome {
    let doubt = if reads { "" } else { IN_DOUBT };
    let Some(mut fields) = reply.fields() else {
        return failure(&format!("the host's answer could not be understood{doubt}"));
    };
    fields.remove("_msgId");
    match fields.remove("ok") {
        Some(ok) if ok.is(true) => {}
        Some(ok) if ok.is(false) => return failure(&reason(&fields)),
        _ => {
            let words = words(&fields).map(|words| format!(": {words}")).unwrap_or_default();
            return failure(&format!("the host's answer does not say whether the call succeeded{words}{doubt}"));
        }
    }
    fields.remove("taint");
    if action == "call_tool" {
        return catalog_result(fields, spill_threshold);
    }
    fields.values_mut().for_each(remove_taint);
    // The host means it although the call itself went well.
    let failed = fields.get("error").is_some_and(|error| error.as_str().is_some())
        || fields.get("installed").is_some_and(|installed| installed.is(false));
    let text = match action {
        "web_search" if fields.is_empty() || fields.get("0").is_some() => {
            with("results", Ordered::List(numbered(fields))).to_string()
        }
        _ if fields.is_empty() => json!({"done": true}).to_string(),
        _ => Ordered::Object(fields).to_string(),
    };
    Outcome::Text(Presented { text, failed })
}

/// A call that got no answer; `reads` if it changes nothing.
pub fn present_error(error: &CallError, reads: bool) -> Presented {
    let advice = match error {
        CallError::OutcomeUnknown | CallError::InDoubt(_) => "; check before you repeat it",
        // The host may be at it still.
        CallError::TimedOut(_) | CallError::NoReply(_) if !reads => IN_DOUBT,
        _ => "",
    };
    Presented { text: format!("Error: {error}{advice}"), failed: true }
}

fn with(key: &str, value: Ordered) -> Ordered {
    let mut fields = Members::default();
    fields.insert(key, value);
    Ordered::Object(fields)
}

fn failure(message: &str) -> Outcome {
    Outcome::Text(Presented { text: format!("Error: {message}"), failed: true })
}

fn reason(fields: &Members) -> String {
    let words = words(fields).unwrap_or_else(|| "the host refused without a reason".to_owned());
    match fields.get("taintBlocked") {
        Some(blocked) if blocked.is(true) => format!(
            "blocked because this session holds too much external content: {words}. Ask the user; do not try another way"
        ),
        _ => words,
    }
}

/// What the host says about a failure.
fn words(fields: &Members) -> Option<String> {
    ["error", "reason"].into_iter().filter_map(|key| fields.get(key)).find_map(|value| match value {
        Ordered::Text(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        other => Some(other.to_string()).filter(|_| !other.is_null()),
    })
}

/// The host's marks of where content came from are its own bookkeeping.
fn remove_taint(value: &mut Ordered) {
    match value {
        Ordered::Object(fields) => {
            fields.remove("taint");
            fields.values_mut().for_each(remove_taint);
        }
        Ordered::List(items) => items.iter_mut().for_each(remove_taint),
        _ => {}
    }
}

/// `{"0": a, "1": b}` as `[a, b]`: the host spreads arrays into its reply (PROTOCOL §3.3).
fn numbered(fields: Members) -> Vec<Ordered> {
    let mut items: Vec<(u64, Ordered)> =
        fields.into_iter().filter_map(|(key, value)| Some((key.parse().ok()?, value))).collect();
    items.sort_by_key(|(at, _)| *at);
    items.into_iter().map(|(_, value)| value).collect()
}

/// What a catalog tool returned is the tool's own data: nothing is taken out of it.
fn catalog_result(mut fields: Members, spill_threshold: u64) -> Outcome {
    if let Some(error) = fields.get("error").filter(|error| !error.is_null()) {
        let error = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
        let kind = fields.get("kind").and_then(Ordered::as_str).unwrap_or("failed");
        let advice = match kind {
            "unknown_tool" => ". Call describe_tools with an empty list to see what exists",
            "select_failed" => ". Correct the jq program in _select, or leave it out",
            "unsupported_dispatch" => ". This tool cannot be called here; tell the user",
            _ => "",
        };
        return failure(&format!("{kind}: {error}{advice}"));
    }
    let truncated = fields.get("truncated").is_some_and(|truncated| truncated.is(true));
    if let Some(full) = fields.remove("full").filter(|_| truncated) {
        return Outcome::Spill(Spill::new(&full));
    }
    let result = fields.remove("result").unwrap_or(Ordered::Object(fields));
    if result.to_string().len() as u64 > spill_threshold {
        return Outcome::Spill(Spill::new(&result));
    }
    Outcome::Text(Presented { text: with("result", result).to_string(), failed: false })
}

impl Spill {
    fn new(value: &Ordered) -> Self {
        let (content, extension) = match value {
            Ordered::Text(text) => (text.clone(), "txt"),
            other => (serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()), "json"),
        };
        let preview = match text::cut_units(&content, PREVIEW_UNITS) {
            whole if whole.len() == content.len() => whole.to_owned(),
            cut => format!("{cut}…"),
        };
        Self { content, extension, preview }
    }

    /// The result's text once it is stored under `path`, relative to the workspace.
    pub fn stored_at(&self, path: &str) -> Presented {
        let text = json!({
            "_truncated": true,
            "_path": path,
            "bytes": self.content.len(),
            "preview": self.preview,
            "note": "The whole result is in the file _path. Search it with grep (path set to it) or read parts with read_file (offset and limit).",
        });
        Presented { text: text.to_string(), failed: false }
    }

    /// The result's text when it could not be stored: as much of it as a conversation takes.
    pub fn not_stored(self, why: &str) -> Presented {
        let mut fields = Members::default();
        fields.insert("_spill_failed", why.into());
        let kept = text::cut_json(&self.content, limits::TOOL_RESULT_MAX_UNITS / 2);
        if kept.len() < self.content.len() {
            let note = format!(
                "Only the first {} of {} characters of the result are here; the rest is lost, since the file for it could not \
                 be written. Mend what _spill_failed names. Then, but only if the tool changes nothing, call it again, or ask for less with a jq \
                 program in _select.",
                text::units(kept),
                text::units(&self.content)
            );
            fields.insert("_truncated", Ordered::Bare("true".into()));
            fields.insert("note", note.as_str().into());
        }
        let whole = if self.extension == "json" { serde_json::from_str(kept).ok() } else { None };
        fields.insert("result", whole.unwrap_or_else(|| kept.into()));
        Presented { text: Ordered::Object(fields).to_string(), failed: false }
    }
}

#[cfg(test)]
#[path = "present_tests.rs"]
mod tests;
