//! Catalog entries as tools of their own (`direct` dispatch, PROTOCOL §7.4, T8).
//!
//! Provider interfaces take tool names of at most 64 characters out of `[a-zA-Z0-9_-]`; catalog names may be longer. An
//! entry is therefore offered under a name that fits and is mapped back when called. What does not fit the request is
//! left to `call_tool`.

use super::arguments;
use crate::wire::{CatalogEntry, DispatchMode, Ordered, ToolSpec};
use crate::{limits, text};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// A catalog entry and the name it is offered under.
#[derive(Debug, Clone)]
pub struct Direct<'a> {
    /// At most 64 characters out of `[a-zA-Z0-9_-]`, like no other tool's.
    pub name: String,
    /// The entry; its own name is what the host knows.
    pub entry: &'a CatalogEntry,
}

/// How each entry of a catalog can be called.
#[derive(Debug, Clone, Default)]
pub struct Offer<'a> {
    /// As a tool of its own.
    pub direct: Vec<Direct<'a>>,
    /// Through `call_tool`.
    pub indirect: Vec<&'a CatalogEntry>,
}

/// Divides a catalog. In `direct` mode everything is direct that fits the host's number of tools and a share of the
/// request; entries with a name the host would refuse, and repeated ones, are left out.
pub fn offer(catalog: &[CatalogEntry], mode: DispatchMode) -> Offer<'_> {
    let mut offer = Offer::default();
    let mut seen: HashSet<&str> = HashSet::new();
    let mut taken: HashSet<String> = super::TOOL_NAMES.iter().map(|name| (*name).to_owned()).collect();
    let mut bytes = 0;
    for entry in catalog {
        if entry.name.contains('\0')
            || text::units(&entry.name) > limits::TOOL_ID_MAX_UNITS
            || !seen.insert(&entry.name)
        {
            continue;
        }
        let tool = Direct { name: name(&entry.name, &taken), entry };
        let size = serde_json::to_vec(&tool.spec()).map_or(usize::MAX, |json| json.len());
        let fits = offer.direct.len() < limits::DIRECT_TOOLS_MAX && size <= limits::DIRECT_TOOLS_MAX_BYTES - bytes;
        if mode == DispatchMode::Direct && fits {
            bytes += size;
            taken.insert(tool.name.clone());
            offer.direct.push(tool);
        } else {
            offer.indirect.push(entry);
        }
    }
    offer
}

impl Direct<'_> {
    /// The tool as the model sees it: the entry's schema with `_select`.
    pub fn spec(&self) -> ToolSpec {
        let mut schema = self.entry.schema.as_object().cloned().unwrap_or_default();
        // Providers insist on it, and the arguments of `call_tool` are an object in any case.
        schema.insert("type", "object".into());
        let mut properties = schema.get("properties").and_then(Ordered::as_object).cloned().unwrap_or_default();
        if properties.get("_select").is_none() {
            let select =
                json!({"type": "string", "description": "Optional jq program applied to the result by the host."});
            properties.insert("_select", (&select).into());
        }
        schema.insert("properties", Ordered::Object(properties));
        let summary = match self.entry.summary.trim() {
            "" => "A catalog tool without a description.",
            summary => summary,
        };
        let description = format!("{summary} (skill {})", self.entry.skill).replace('\0', "\u{2400}");
        let description = text::cut_units(&description, limits::TOOL_DESCRIPTION_MAX_UNITS);
        ToolSpec::new(self.name.as_str(), description, &schema)
    }
}

/// What a call of this entry lacks of what its schema requires: the model hears it without the host being asked. Types and
/// values are for the tool's own server to judge, and so is a field with a default.
pub(super) fn missing(entry: &CatalogEntry, args: &Map<String, Value>) -> Option<String> {
    const SHOWN: usize = 5;
    let schema = entry.schema.as_object()?;
    let required = schema.get("required").and_then(Ordered::as_list).into_iter().flatten().filter_map(Ordered::as_str);
    let properties = schema.get("properties").and_then(Ordered::as_object);
    let has_default = |name: &str| {
        let property = properties.and_then(|properties| properties.get(name)?.as_object());
        property.is_some_and(|property| property.get("default").is_some())
    };
    let missing: Vec<&str> = required.filter(|name| !args.contains_key(*name) && !has_default(name)).collect();
    let shown = |name: &&str| arguments::preview(&json!(name));
    let mut names: Vec<String> = missing.iter().take(SHOWN).map(shown).collect();
    if missing.len() > SHOWN {
        names.push(format!("{} more", missing.len() - SHOWN));
    }
    let (fields, are) = if missing.len() == 1 { ("field", "is") } else { ("fields", "are") };
    (!names.is_empty()).then(|| format!("{fields} {} {are} missing from the arguments", names.join(", ")))
}

/// A name a provider accepts that no other tool has. Depends on the entry's name alone unless two entries collide, so it
/// is the same in each turn.
fn name(wanted: &str, taken: &HashSet<String>) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let plain: String = wanted.chars().map(allowed).collect();
    if !plain.is_empty() && plain.len() <= limits::TOOL_NAME_PROVIDER_MAX && plain == wanted && !taken.contains(&plain)
    {
        return plain;
    }
    const MARK: usize = 9;
    let stem = &plain[..plain.len().min(limits::TOOL_NAME_PROVIDER_MAX - MARK)];
    let mut hash = fnv(wanted);
    loop {
        let name = format!("{stem}_{hash:08x}");
        if !taken.contains(&name) {
            return name;
        }
        hash = hash.wrapping_add(1);
    }
}

/// FNV-1a: short, stable between builds; nothing here needs resistance, since a collision is only renumbered.
fn fnv(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, schema: Value) -> CatalogEntry {
        CatalogEntry { name: name.into(), skill: "s".into(), summary: "does it".into(), schema: (&schema).into() }
    }

    fn acceptable(name: &str) -> bool {
        (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    }

    #[test]
    fn each_name_fits_a_provider_and_is_unique() {
        let long = format!("mcp_{}", "x".repeat(90));
        let names = ["mcp_a_b", "bash", "a.b", "a_b", "a b", "é", "", &long, &format!("{long}y"), "mcp_a_b"];
        let catalog: Vec<CatalogEntry> = names.iter().map(|name| entry(name, json!({}))).collect();
        let offer = offer(&catalog, DispatchMode::Direct);
        assert_eq!(offer.direct.len(), names.len() - 1, "the repeated one is left out");
        let given: HashSet<&str> = offer.direct.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(given.len(), offer.direct.len());
        assert!(given.iter().all(|name| acceptable(name)), "{given:?}");
        assert_eq!(offer.direct[0].name, "mcp_a_b");
        assert_ne!(offer.direct[1].name, "bash");
    }

    #[test]
    fn too_many_or_too_large_ones_are_left_to_call_tool() {
        let many: Vec<CatalogEntry> = (0..300).map(|n| entry(&format!("api_t_{n}"), json!({}))).collect();
        let divided = offer(&many, DispatchMode::Direct);
        assert_eq!(
            (divided.direct.len(), divided.indirect.len()),
            (limits::DIRECT_TOOLS_MAX, 300 - limits::DIRECT_TOOLS_MAX)
        );
        let heavy = [entry("a", json!({"x": "y".repeat(limits::DIRECT_TOOLS_MAX_BYTES)})), entry("b", json!({}))];
        let divided = offer(&heavy, DispatchMode::Direct);
        assert_eq!((divided.direct[0].name.as_str(), divided.indirect[0].name.as_str()), ("b", "a"));
        assert!(offer(&heavy, DispatchMode::Indirect).direct.is_empty());
    }

    #[test]
    fn what_a_schema_requires_is_there_or_named() {
        let schema = json!({"properties": {"d": {"default": 1}}, "required": ["a", "b", "d", 7]});
        let lacks = |schema: &Value, args: Value| missing(&entry("t", schema.clone()), args.as_object().unwrap());
        assert_eq!(lacks(&schema, json!({"a": null, "b": "wrong type"})), None);
        assert_eq!(lacks(&schema, json!({"a": 1})).unwrap(), "field \"b\" is missing from the arguments");
        assert_eq!(lacks(&schema, json!({"A": 1})).unwrap(), "fields \"a\", \"b\" are missing from the arguments");
        for odd in [json!({}), json!({"required": "a"}), json!({"required": {"a": 1}, "properties": 3}), json!(7)] {
            assert_eq!(lacks(&odd, json!({})), None, "{odd}");
        }
        let many: Vec<String> = (0..10_000).map(|n| format!("{n}{}", "x".repeat(500))).collect();
        let told = lacks(&json!({"required": many}), json!({})).unwrap();
        assert!(told.len() < 800 && told.contains("9995 more"), "{told}");
    }

    #[test]
    fn schemas_become_objects_with_a_projection() {
        for schema in [json!({}), json!({"type": "string", "properties": 3}), json!({"properties": {"id": {}}})] {
            let entry = entry("t", schema);
            let spec = Direct { name: "t".into(), entry: &entry }.spec();
            let schema: Value = serde_json::from_str(spec.parameters.get()).unwrap();
            assert_eq!(schema["type"], "object");
            assert!(schema["properties"]["_select"].is_object());
        }
    }
}
