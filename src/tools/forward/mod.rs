//! Tools that the host runs (PROTOCOL §7): arguments in, one of its actions out, and its reply made readable.
//!
//! Each tool is a table of operations; a tool with several takes `type` to pick one. The action's name comes from the
//! table and never from the model (PROTOCOL T7).

mod agent;
mod local;
mod memory;
mod meta;
mod present;
mod records;
mod scheduler;
mod web;

#[cfg(test)]
mod forward_tests;

pub use present::{Outcome, Presented, Spill, present, present_error};

use super::arguments;
use super::fields::{self, Field};
use super::schema::{self, Property, Schema};
use crate::limits;
use crate::wire::{Forward, ToolSpec};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::time::Duration;

/// A tool of the host's.
pub(super) struct HostTool {
    name: &'static str,
    description: &'static str,
    /// One without a `kind`, or several told apart by it.
    operations: &'static [Operation],
}

/// One action of a tool.
struct Operation {
    /// The value of `type`; empty when the tool has one operation only.
    kind: &'static str,
    action: &'static str,
    fields: &'static [Field],
    /// Only reads: may be sent again after a lost connection.
    reads: bool,
    timeout: Duration,
    /// The key under which the host wants the fields; empty for none.
    wrap: &'static str,
}

impl Operation {
    const fn new(kind: &'static str, action: &'static str, fields: &'static [Field]) -> Self {
        Self { kind, action, fields, reads: false, timeout: limits::CALL_TIMEOUT, wrap: "" }
    }

    const fn reading(self) -> Self {
        Self { reads: true, ..self }
    }

    const fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    const fn wrapped_in(self, wrap: &'static str) -> Self {
        Self { wrap, ..self }
    }

    fn forward(&self, fields: Map<String, Value>) -> Forward {
        let fields = match self.wrap {
            "" => fields,
            _ if fields.is_empty() => fields,
            wrap => Map::from_iter([(wrap.to_owned(), Value::Object(fields))]),
        };
        let forward = Forward::new(self.action, fields).with_timeout(self.timeout);
        if self.reads { forward.read_only() } else { forward }
    }
}

const TOOLS: [&HostTool; 8] = [
    &memory::MEMORY,
    &web::WEB,
    &scheduler::SCHEDULER,
    &records::SAVE_ARTIFACT,
    &records::AUDIT,
    &agent::AGENT,
    &meta::DESCRIBE_TOOLS,
    &meta::CALL_TOOL,
];

fn find(tool: &str) -> Option<&'static HostTool> {
    TOOLS.into_iter().chain(local::TOOLS).find(|known| known.name == tool)
}

/// A host tool as the model sees it. The file, shell and search tools are known here too, in the form the host runs them
/// (PROTOCOL §7.5).
pub fn spec(tool: &str) -> Option<ToolSpec> {
    find(tool).map(HostTool::spec)
}

/// Does this call of a host tool change nothing? `kind` is its `type`, empty where it has none.
pub fn reads(tool: &str, kind: &str) -> bool {
    let operation = |known: &HostTool| known.operations.iter().find(|it| it.kind == kind).is_some_and(|it| it.reads);
    find(tool).is_some_and(operation)
}

/// The action for a call; the error is for the model and names what is wrong.
pub fn decode(tool: &str, raw: Option<&str>) -> Result<Forward, String> {
    let known = find(tool).ok_or_else(|| format!("Tool {tool} not found"))?;
    let fields = arguments::object(tool, raw).map_err(|error| error.to_string())?;
    known.decode(fields)
}

/// The action for a call of a catalog entry offered as a tool of its own; `entry` is the entry's own name.
pub fn decode_catalog(entry: &str, raw: Option<&str>) -> Result<Forward, String> {
    let args = arguments::object(entry, raw).map_err(|error| error.to_string())?;
    let fields = Map::from_iter([("tool".to_owned(), json!(entry)), ("args".to_owned(), Value::Object(args))]);
    meta::CALL_TOOL.decode(fields)
}

impl HostTool {
    fn decode(&self, mut given: Map<String, Value>) -> Result<Forward, String> {
        let [only] = self.operations else {
            let operation = self.pick(given.remove("type"))?;
            let named = |fault: String| format!("{} (type \"{}\"): {fault}", self.name, operation.kind);
            return Ok(operation.forward(fields::check(operation.fields, given).map_err(named)?));
        };
        let fields = fields::check(only.fields, given).map_err(|fault| format!("{}: {fault}", self.name))?;
        Ok(only.forward(fields))
    }

    fn pick(&self, kind: Option<Value>) -> Result<&Operation, String> {
        let wanted = || {
            let kinds: Vec<String> =
                self.operations.iter().map(|operation| format!("\"{}\"", operation.kind)).collect();
            kinds.join(", ")
        };
        match &kind {
            Some(Value::String(kind)) => {
                self.operations.iter().find(|operation| operation.kind == kind).ok_or_else(|| {
                    let kind = arguments::preview(&json!(kind));
                    format!("unknown type {kind} for tool \"{}\"; allowed: {}", self.name, wanted())
                })
            }
            Some(other) => Err(format!(
                "{}: field `type` must be one of {}; received {}",
                self.name,
                wanted(),
                arguments::preview(other)
            )),
            None => Err(format!("{}: field `type` is missing (one of {})", self.name, wanted())),
        }
    }

    fn spec(&self) -> ToolSpec {
        match self.operations {
            [only] => ToolSpec::new(self.name, self.description, &Schema(only.fields)),
            several => ToolSpec::new(self.name, self.description, &Flat(several)),
        }
    }
}

/// One flat object for all operations: providers want `type: "object"` at the top (PROTOCOL T38). Which operation needs
/// which field is said in words.
struct Flat<'a>(&'a [Operation]);

impl Serialize for Flat<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        schema::object(&mut map, &FlatProperties(self.0), &["type"])?;
        map.end()
    }
}

struct FlatProperties<'a>(&'a [Operation]);

impl Serialize for FlatProperties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let kinds: Vec<&str> = self.0.iter().map(|operation| operation.kind).collect();
        map.serialize_entry("type", &json!({"type": "string", "enum": kinds, "description": "What to do."}))?;
        let mut seen = HashSet::new();
        for field in self.0.iter().flat_map(|operation| operation.fields) {
            if seen.insert(field.name) {
                map.serialize_entry(field.name, &Property { kind: field.kind, about: &self.about(field) })?;
            }
        }
        map.end()
    }
}

impl FlatProperties<'_> {
    /// What the field means, and which operations take it.
    fn about(&self, field: &Field) -> String {
        let mut about = field.about.to_owned();
        for (before, required) in [(" Required for ", true), (" Optional for ", false)] {
            let takes = |operation: &&Operation| {
                operation.fields.iter().any(|other| other.name == field.name && other.required == required)
            };
            let users: Vec<&str> = self.0.iter().filter(takes).map(|operation| operation.kind).collect();
            if !users.is_empty() {
                about.push_str(&format!("{before}{}.", users.join(", ")));
            }
        }
        about.trim().to_owned()
    }
}
