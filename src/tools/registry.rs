//! Which tools a turn offers, and what each name stands for (PROTOCOL §7).

use super::catalog::{Offer, offer};
use super::{TOOL_NAMES, bash, edit_file, forward, glob, grep, read_file, skill_write, write_file};
use crate::wire::{CatalogEntry, DispatchMode, ToolSpec};
use std::collections::HashMap;

/// A tool that runs in the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Local {
    /// `bash`
    Bash,
    /// `read_file`
    ReadFile,
    /// `write_file`
    WriteFile,
    /// `edit_file`
    EditFile,
    /// `skill_write`
    SkillWrite,
    /// `grep`
    Grep,
    /// `glob`
    Glob,
}

impl Local {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "bash" => Self::Bash,
            "read_file" => Self::ReadFile,
            "write_file" => Self::WriteFile,
            "edit_file" => Self::EditFile,
            "skill_write" => Self::SkillWrite,
            "grep" => Self::Grep,
            "glob" => Self::Glob,
            _ => return None,
        })
    }

    fn spec(self) -> ToolSpec {
        match self {
            Self::Bash => bash::spec(),
            Self::ReadFile => read_file::spec(),
            Self::WriteFile => write_file::spec(),
            Self::EditFile => edit_file::spec(),
            Self::SkillWrite => skill_write::spec(),
            Self::Grep => grep::spec(),
            Self::Glob => glob::spec(),
        }
    }
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Runs here.
    Local(Local),
    /// The host runs it: [`forward::decode`] under this name.
    Host(&'static str),
    /// A catalog entry: [`forward::decode_catalog`] with the entry's own name.
    Catalog(String),
}

/// The tools of one turn.
#[derive(Debug, Clone)]
pub struct Registry {
    specs: Vec<ToolSpec>,
    targets: HashMap<String, Target>,
}

impl Registry {
    /// `container`: file, shell and search tools run here, else the host runs them. In `direct` mode the catalog's entries
    /// take the place of the two meta tools, which stay only if some entry did not fit.
    pub fn new(container: bool, mode: DispatchMode, catalog: &[CatalogEntry]) -> Self {
        let Offer { direct, indirect } = offer(catalog, mode);
        let meta = mode == DispatchMode::Indirect || !indirect.is_empty();
        let mut registry = Self { specs: Vec::new(), targets: HashMap::new() };
        for name in TOOL_NAMES {
            match Local::named(name) {
                Some(local) if container => registry.add(local.spec(), Target::Local(local)),
                _ if !meta && (name == "describe_tools" || name == "call_tool") => {}
                _ => registry.specs_of_host(name),
            }
        }
        for tool in direct {
            registry.add(tool.spec(), Target::Catalog(tool.entry.name.clone()));
        }
        registry
    }

    fn specs_of_host(&mut self, name: &'static str) {
        if let Some(spec) = forward::spec(name) {
            self.add(spec, Target::Host(name));
        }
    }

    fn add(&mut self, spec: ToolSpec, target: Target) {
        self.targets.insert(spec.name.clone(), target);
        self.specs.push(spec);
    }

    /// The tools as they are offered, in order.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// What a name the model used stands for. A catalog entry's own name is understood too, since the model reads it in
    /// skills and in the history of other turns.
    pub fn find(&self, name: &str) -> Option<Target> {
        self.targets.get(name).cloned().or_else(|| {
            let entry = Target::Catalog(name.to_owned());
            self.targets.values().any(|target| *target == entry).then_some(entry)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{limits, text};
    use serde_json::json;

    fn entry(name: &str) -> CatalogEntry {
        CatalogEntry { name: name.into(), skill: "s".into(), summary: "does it".into(), schema: json!({}) }
    }

    fn names(registry: &Registry) -> Vec<&str> {
        registry.specs().iter().map(|spec| spec.name.as_str()).collect()
    }

    #[test]
    fn fifteen_tools_in_order_with_flat_schemas() {
        for container in [true, false] {
            let registry = Registry::new(container, DispatchMode::Indirect, &[entry("mcp_a_b")]);
            assert_eq!(names(&registry), TOOL_NAMES);
            for spec in registry.specs() {
                assert_eq!(spec.parameters["type"], "object", "{}", spec.name);
                assert_eq!(spec.parameters["additionalProperties"], json!(false), "{}", spec.name);
                let length = text::units(&spec.description);
                assert!((1..=limits::TOOL_DESCRIPTION_MAX_UNITS).contains(&length), "{}", spec.name);
            }
            let local = registry.find("grep") == Some(Target::Local(Local::Grep));
            assert_eq!(local, container);
            assert_eq!(registry.find("memory"), Some(Target::Host("memory")));
            assert_eq!(registry.find("mcp_a_b"), None);
            assert_eq!(registry.find("Bash"), None);
        }
    }

    #[test]
    fn direct_mode_offers_entries_in_place_of_the_meta_tools() {
        let long = format!("mcp_{}", "x".repeat(90));
        let registry = Registry::new(true, DispatchMode::Direct, &[entry("mcp_a_b"), entry(&long)]);
        let offered = names(&registry);
        assert_eq!(offered[..13], TOOL_NAMES[..13]);
        assert_eq!(offered[13], "mcp_a_b");
        assert_eq!(offered.len(), 15);
        assert_eq!(registry.find(offered[14]), Some(Target::Catalog(long.clone())));
        assert_eq!(registry.find(&long), Some(Target::Catalog(long)));
        assert_eq!(registry.find("call_tool"), None);
        let many: Vec<CatalogEntry> = (0..400).map(|n| entry(&format!("api_{n}"))).collect();
        let registry = Registry::new(true, DispatchMode::Direct, &many);
        assert_eq!(registry.specs().len(), limits::LLM_TOOLS_MAX);
        assert_eq!(registry.find("call_tool"), Some(Target::Host("call_tool")));
    }
}
