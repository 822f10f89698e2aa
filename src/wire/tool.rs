//! A tool as it is offered to the model (PROTOCOL §6.1).

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// Name, description and JSON Schema of one tool. The schema is flat with `type: "object"` (PROTOCOL T38).
#[derive(Debug, Clone, Serialize)]
pub struct ToolSpec {
    /// At most 100 characters.
    pub name: String,
    /// At most 10,000 characters; what the model reads to choose the tool.
    pub description: String,
    /// JSON Schema of the arguments. Kept as text: it goes out with every model call, and as a tree it takes twenty times the room.
    pub parameters: Box<RawValue>,
}

impl ToolSpec {
    /// A tool whose arguments follow `schema`.
    pub fn new(name: impl Into<String>, description: impl Into<String>, schema: &impl Serialize) -> Self {
        // Schemas are tables and trees, and have nothing that JSON cannot say.
        let parameters = to_raw_value(schema).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self { name: name.into(), description: description.into(), parameters }
    }
}
