//! The catalog tools (priority 92).

use super::PromptInput;
use super::budget::{Module, Otherwise};
use super::line;
use crate::tools::catalog::{Offer, offer};
use crate::wire::{CatalogEntry, Members, Ordered};
use std::collections::{BTreeMap, HashSet};

const INDIRECT: &str = "These tools are called through `call_tool` (`tool` and `args`).
- Look up the schema with `describe_tools` before you use a tool for the first time.
- Put a jq program into `_select` inside `args` to get only the part of a large result you need.";

const DIRECT: &str = "These tools are called directly by the name shown.
- Put a jq program into `_select` to get only the part of a large result you need.";

const RULES: &str = "- If no tool does what is asked, say so. Do not invent tool names or skills.";

/// The catalog section; `None` without a catalog.
pub(super) fn module(input: &PromptInput<'_>) -> Option<Module> {
    let Offer { direct, indirect } = offer(input.catalog, input.dispatch);
    if direct.is_empty() && indirect.is_empty() {
        return None;
    }
    let mut full = String::from("## Catalog tools");
    let mut short = full.clone();
    let direct: Vec<(&str, &CatalogEntry)> = direct.iter().map(|tool| (tool.name.as_str(), tool.entry)).collect();
    let indirect: Vec<(&str, &CatalogEntry)> = indirect.iter().map(|entry| (entry.name.as_str(), *entry)).collect();
    for (how, tools) in [(DIRECT, direct), (INDIRECT, indirect)] {
        if !tools.is_empty() {
            full.push_str(&format!("\n{how}\n{RULES}\n{}", listing(&tools).trim_end()));
            let names = tools.iter().map(|(name, _)| line::name(name)).collect::<Vec<_>>().join(", ");
            short.push_str(&format!("\n{how}\n{names}"));
        }
    }
    Some(Module { name: "tool-catalog", full, otherwise: Otherwise::Short(short) })
}

fn listing(tools: &[(&str, &CatalogEntry)]) -> String {
    let mut by_skill: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, entry) in tools {
        let parameters = parameters(&entry.schema);
        let line = format!("- `{}({parameters})`: {}\n", line::name(name), line::summary(&entry.summary));
        by_skill.entry(&entry.skill).or_default().push(line);
    }
    by_skill.iter().map(|(skill, lines)| format!("### {}\n{}", line::name(skill), lines.concat())).collect()
}

/// `id, state?, _select?`
fn parameters(schema: &Ordered) -> String {
    let field = |key: &str| schema.as_object().and_then(|schema| schema.get(key));
    let required = field("required").and_then(Ordered::as_list).into_iter().flatten();
    let required: HashSet<&str> = required.filter_map(Ordered::as_str).collect();
    let mut names: Vec<String> = Vec::new();
    let properties = field("properties").and_then(Ordered::as_object);
    for (name, _) in properties.into_iter().flat_map(Members::iter) {
        if name != "_select" {
            let mark = if required.contains(name) { "" } else { "?" };
            names.push(format!("{}{mark}", line::name(name)));
        }
    }
    names.push("_select?".to_owned());
    names.join(", ")
}
