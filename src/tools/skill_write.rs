//! `skill_write` (PROTOCOL §9): renders, checks and writes a whole SKILL.md.

use super::fields::{Field, Kind, optional, required};

/// What the model reads.
pub(super) const DESCRIPTION: &str = "Create or replace a skill: writes `.ax/skills/<name>/SKILL.md` as a whole from these fields. The only proper way to author a SKILL.md: it renders the frontmatter and checks it, and nothing is written if a field is wrong. To change a skill, read its SKILL.md first and send everything it should contain. A new or changed skill works once an administrator has approved it.";

const AUTH_TYPES: Kind = Kind::Choice(&["api_key", "oauth"]);
const OAUTH: &[Field] = &[
    required("provider", Kind::Text(100), "Such as `github`."),
    required("clientId", Kind::Text(500), ""),
    required("authorizationUrl", Kind::Text(2048), "`https` URL."),
    required("tokenUrl", Kind::Text(2048), "`https` URL."),
    optional("scopes", Kind::Texts(0, usize::MAX, 100), ""),
];
const CREDENTIAL: &[Field] = &[
    required("envName", Kind::Text(64), "UPPER_SNAKE_CASE; the variable commands will see."),
    required("authType", AUTH_TYPES, "`oauth` needs the `oauth` block."),
    optional("scope", Kind::Choice(&["user", "agent"]), "Whose credential it is; `user` if absent."),
    optional("oauth", Kind::Record(OAUTH), ""),
];
const MCP_SERVER: &[Field] = &[
    required("name", Kind::Text(100), ""),
    required("url", Kind::Text(2048), "`https` URL."),
    optional("credential", Kind::Text(64), "An `envName` of `credentials`, as a bare string."),
    optional("transport", Kind::Choice(&["http", "sse"]), "Told from the URL if absent."),
];
const OPENAPI_AUTH: &[Field] = &[
    required("scheme", Kind::Choice(&["bearer", "basic", "api_key_header", "api_key_query"]), ""),
    required("credential", Kind::Text(64), "An `envName` of `credentials`."),
];
const OPENAPI: &[Field] = &[
    required("spec", Kind::Text(2048), "Where the OpenAPI document is."),
    required("baseUrl", Kind::Text(2048), "`https` URL the paths are relative to."),
    optional("auth", Kind::Record(OPENAPI_AUTH), ""),
    optional("include", Kind::Texts(0, 64, 200), "Only these operations."),
    optional("exclude", Kind::Texts(0, 64, 200), "Not these operations."),
];
const SOURCE: &[Field] =
    &[required("url", Kind::Text(2048), "Where it was taken from."), optional("version", Kind::Text(200), "")];

/// The arguments, as the host limits them (PROTOCOL §14).
pub(super) const FIELDS: &[Field] = &[
    required("name", Kind::Text(100), "Directory name under `.ax/skills/`."),
    required("description", Kind::Text(2000), "When to use the skill and what it does; 1 to 2000 characters."),
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
