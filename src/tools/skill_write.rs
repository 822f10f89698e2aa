//! `skill_write` (PROTOCOL §9): renders, checks and writes a whole SKILL.md.

use super::Finished;
use super::fields::{self, Field, Kind, optional, required};
use super::schema::Schema;
use super::skill::{Skill, SkillError, is_skill_md, parse, protected, render, same_frontmatter};
use crate::gate::{Approved, Proposal};
use crate::text;
use crate::wire::{Approve, Operation, Report, ToolSpec};
use crate::workspace::{Fingerprint, RelPath, Workspace};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const NAME: &str = "skill_write";

/// What the model reads.
pub(super) const DESCRIPTION: &str = "Create or replace a skill: writes `.ax/skills/<name>/SKILL.md` as a whole from these fields. The only proper way to author a SKILL.md: it renders the frontmatter and checks it, and nothing is written if a field is wrong. To change a skill, read its SKILL.md first and send everything it should contain. A new or changed skill works once an administrator has approved it.";

const AUTH_TYPES: Kind = Kind::Choice(&["api_key", "oauth"]);
const OAUTH: &[Field] = &[
    required("provider", Kind::NonEmpty(100), "Such as `github`."),
    required("clientId", Kind::NonEmpty(500), ""),
    required("authorizationUrl", Kind::Text(2048), "`https` URL."),
    required("tokenUrl", Kind::Text(2048), "`https` URL."),
    optional("scopes", Kind::Texts(0, usize::MAX, 100), ""),
];
const CREDENTIAL: &[Field] = &[
    required("envName", Kind::EnvName, "UPPER_SNAKE_CASE; the variable commands will see."),
    required("authType", AUTH_TYPES, "`oauth` needs the `oauth` block."),
    optional("scope", Kind::Choice(&["user", "agent"]), "Whose credential it is; `user` if absent."),
    optional("oauth", Kind::Record(OAUTH), ""),
];
const MCP_SERVER: &[Field] = &[
    required("name", Kind::NonEmpty(100), ""),
    required("url", Kind::Text(2048), "`https` URL."),
    optional("credential", Kind::EnvName, "An `envName` of `credentials`, as a bare string."),
    optional("transport", Kind::Choice(&["http", "sse"]), "Told from the URL if absent."),
];
const OPENAPI_AUTH: &[Field] = &[
    required("scheme", Kind::Choice(&["bearer", "basic", "api_key_header", "api_key_query"]), ""),
    required("credential", Kind::EnvName, "An `envName` of `credentials`."),
];
const OPENAPI: &[Field] = &[
    required("spec", Kind::NonEmpty(2048), "Where the OpenAPI document is."),
    required("baseUrl", Kind::Text(2048), "`https` URL the paths are relative to."),
    optional("auth", Kind::Record(OPENAPI_AUTH), ""),
    optional("include", Kind::Texts(0, 64, 200), "Only these operations."),
    optional("exclude", Kind::Texts(0, 64, 200), "Not these operations."),
];
const SOURCE: &[Field] =
    &[required("url", Kind::Text(2048), "Where it was taken from."), optional("version", Kind::NonEmpty(200), "")];

/// The arguments, as the host limits them (PROTOCOL §14).
pub(super) const FIELDS: &[Field] = &[
    required("name", Kind::SkillName(100), "Directory name under `.ax/skills/`."),
    required("description", Kind::NonEmpty(2000), "When to use the skill and what it does; 1 to 2000 characters."),
    optional("source", Kind::Record(SOURCE), "Where it comes from, if from elsewhere."),
    optional("credentials", Kind::Records(32, CREDENTIAL), "Secrets the skill needs; the host provides them."),
    optional("mcpServers", Kind::Records(32, MCP_SERVER), "MCP servers whose tools it brings."),
    optional("openapi", Kind::Records(32, OPENAPI), "HTTP interfaces whose operations it brings."),
    optional(
        "domains",
        Kind::Texts(0, 64, 253),
        "Host names it must reach, such as `api.example.com` or `*.example.com`.",
    ),
    required("body", Kind::Text(100_000), "The Markdown after the frontmatter: how to use the skill."),
];

/// A call that passed every check and waits for the host.
#[derive(Debug)]
pub struct Call {
    path: String,
    target: RelPath,
    content: String,
    before: Fingerprint,
}

/// The tool as it is offered.
pub fn spec() -> ToolSpec {
    ToolSpec::new(NAME, DESCRIPTION, &Schema(FIELDS))
}

/// The model's arguments, within the host's limits.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct Args(Skill);

impl TryFrom<Map<String, Value>> for Args {
    type Error = String;

    fn try_from(given: Map<String, Value>) -> Result<Self, String> {
        let checked = fields::check(FIELDS, given)?;
        serde_json::from_value(Value::Object(checked)).map(Self).map_err(|error| error.to_string())
    }
}

impl Call {
    /// Renders the file, reads it back and applies the guard; the error is for the model and nothing was asked or written.
    pub fn prepare(args: Args, ws: &Workspace, session_id: Option<&str>) -> Result<Self, String> {
        let Args(skill) = args;
        let content = rendered(&skill)?;
        let path = path(&skill.name);
        let target = ws.path(&path).map_err(|error| error.to_string())?;
        if !is_skill_md(target.as_path()) {
            return Err(format!(
                "{NAME}: field `name` must name a directory below .ax/skills; received \"{}\"",
                skill.name
            ));
        }
        let before = ws.fingerprint(&target).map_err(|error| format!("Error writing SKILL.md: {error}"))?;
        if let Some(old) = protected(ws, &target, session_id)? {
            same_frontmatter(&old, content.as_bytes())?;
        }
        Ok(Self { path, target, content, before })
    }
}

/// Where a skill is.
pub(super) fn path(name: &str) -> String {
    format!(".ax/skills/{name}/SKILL.md")
}

/// The file's text, read back: what the host would refuse is refused here, and what a reader would understand is what was
/// said.
fn rendered(skill: &Skill) -> Result<String, String> {
    let refusal = |error: SkillError| {
        format!(
            "SKILL.md validation failed for `{}`: {error}. Nothing was written. Frequent mistakes: `envName` that is not UPPER_SNAKE_CASE; a URL that is not https; `domains` with a scheme, port or path; `authType: oauth` without `oauth`; an empty description.",
            skill.name
        )
    };
    let content = render(skill).map_err(refusal)?;
    parse(&content).map_err(refusal)?;
    Ok(content)
}

impl Proposal for Call {
    fn approve(&self) -> Approve {
        Approve { content: Some(self.content.clone()), ..Approve::path(Operation::Write, self.path.clone()) }
    }
}

/// Writes the file.
pub fn run(call: Approved<Call>, ws: &Workspace) -> Finished {
    let call = call.into_inner();
    let written = ws
        .write_atomic(&call.target, call.content.as_bytes(), &call.before)
        .map(drop)
        .map_err(|error| format!("Error writing SKILL.md: {error}"));
    let text = match &written {
        Ok(()) => json!({"written": true, "path": call.path, "bytes": text::units(&call.content)}),
        Err(error) => json!({"error": error}),
    };
    Finished { text: text.to_string(), report: Some(Report::path(Operation::Write, call.path, written)) }
}
