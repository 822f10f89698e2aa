//! A SKILL.md from its parts (PROTOCOL §9.1). Values are written as they were given, never normalised.

use super::{SkillError, parse, rules};
use serde::{Deserialize, Serialize};

/// The arguments of `skill_write`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Skill {
    /// Directory name under `.ax/skills/`.
    pub name: String,
    /// When to use it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Where it was taken from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Secrets it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<Credential>,
    /// Servers it brings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<McpServer>,
    /// HTTP interfaces it brings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub openapi: Vec<OpenApi>,
    /// Host names it reaches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// The Markdown after the frontmatter.
    #[serde(skip_serializing)]
    pub body: String,
}

/// See [`Skill::source`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Source {
    /// Its address.
    pub url: String,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// See [`Skill::credentials`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Credential {
    /// The variable commands see.
    pub env_name: String,
    /// `api_key` or `oauth`.
    pub auth_type: String,
    /// `user` or `agent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// With `oauth`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<Oauth>,
}

/// See [`Credential::oauth`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Oauth {
    /// Such as `github`.
    pub provider: String,
    /// The application's id there.
    pub client_id: String,
    /// Where users agree.
    pub authorization_url: String,
    /// Where tokens come from.
    pub token_url: String,
    /// What is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

/// See [`Skill::mcp_servers`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// Its address.
    pub url: String,
    /// An `envName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// `http` or `sse`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
}

/// See [`Skill::openapi`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenApi {
    /// Where the document is.
    pub spec: String,
    /// What paths are relative to.
    pub base_url: String,
    /// How to sign in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Only these operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Not these operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

/// See [`OpenApi::auth`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Auth {
    /// `bearer`, `basic`, `api_key_header` or `api_key_query`.
    pub scheme: String,
    /// An `envName`.
    pub credential: String,
}

/// The whole text: with multi-line values as literal blocks where that reads back as it was given, else with every value
/// quoted. A skill that breaks the rules is rendered too; [`parse`] says what is wrong with it.
pub fn render(skill: &Skill) -> Result<String, SkillError> {
    // Folding would put line breaks into values the model wrote on one line.
    let block = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX, compact_list_indent: false };
    let quoted = serde_saphyr::ser_options! { quote_all: true, compact_list_indent: false };
    let meant = serde_json::to_value(skill).ok().and_then(|value| rules::check(value).ok());
    for options in [block, quoted] {
        let yaml = serde_saphyr::to_string_with_options(skill, options)
            .map_err(|error| SkillError::Yaml(error.to_string()))?;
        let text = format!("---\n{yaml}---\n\n{}", skill.body);
        match &meant {
            None => return Ok(text),
            Some(meant) if parse(&text).is_ok_and(|read| read.frontmatter == *meant) => return Ok(text),
            Some(_) => {}
        }
    }
    Err(SkillError::Unreadable)
}
