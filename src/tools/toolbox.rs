//! One turn's tools: which there are, and how a call becomes a result.

use crate::wire::ToolSpec;

/// The tools of one turn.
pub struct Toolbox {
    specs: Vec<ToolSpec>,
}

impl Toolbox {
    /// What the model is offered.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// Is there a tool of this name?
    pub fn has(&self, name: &str) -> bool {
        self.specs.iter().any(|spec| spec.name == name)
    }

    /// Runs a call to its end; the text is for the model and never empty.
    pub async fn invoke(&self, name: &str, args: &str) -> String {
        format!("{name} {args}")
    }
}
