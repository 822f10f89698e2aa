//! A tool as it is offered to the model (PROTOCOL §6.1).

use serde::Serialize;
use serde_json::Value;

/// Name, description and JSON Schema of one tool. The schema is flat with `type: "object"` (PROTOCOL T38).
#[derive(Debug, Clone, Serialize)]
pub struct ToolSpec {
    /// At most 100 characters.
    pub name: String,
    /// At most 10,000 characters; what the model reads to choose the tool.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}
