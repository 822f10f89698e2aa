//! The table of PROTOCOL §14: every action with its fields and limits, and whether the shipped host handles it.

use super::patterns::{is_iso_datetime, is_scope, is_url, is_uuid};
use super::shape::Shape::{
    Any, AnyObject, Bool, Int, List, Map, Matching, Number, Object, ObjectOfUnits, OneOf, StringOr, Tagged, Text,
};
use super::shape::{Field, Shape, may, must};

/// One action.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) name: &'static str,
    /// Does the host carry it out? Others are refused after validation.
    pub(super) handled: bool,
    pub(super) fields: &'static [Field],
}

const fn handled(name: &'static str, fields: &'static [Field]) -> Spec {
    Spec { name, handled: true, fields }
}

const fn unhandled(name: &'static str, fields: &'static [Field]) -> Spec {
    Spec { name, handled: false, fields }
}

const ANY_LENGTH: usize = usize::MAX;
const ANY_INT: Shape = Int(i64::MIN, i64::MAX);
const SCOPE: Shape = Matching(200, is_scope, "a memory scope");
const UUID: Shape = Matching(36, is_uuid, "a lower-case UUID");
const URL: Shape = Matching(2048, is_url, "a URL");
const DATETIME: Shape = Matching(64, is_iso_datetime, "an ISO date and time");
const TAGS: Shape = List(&Text(100), 0, ANY_LENGTH);
const IMAGE_TYPE: Shape = OneOf(&["image/png", "image/jpeg", "image/gif", "image/webp"]);
const OPERATION: Shape = OneOf(&["bash", "read", "write", "edit", "grep", "glob"]);

const BLOCK: Shape = Tagged(&[
    ("text", &[must("text", Text(200_000))]),
    ("tool_use", &[must("id", Text(200)), must("name", Text(200)), must("input", Any)]),
    ("tool_result", &[must("tool_use_id", Text(200)), must("content", Text(250_000))]),
    ("image", &[must("fileId", Text(1024)), must("mimeType", IMAGE_TYPE)]),
    ("image_data", &[must("data", Text(20_000_000)), must("mimeType", IMAGE_TYPE)]),
    ("file", &[must("fileId", Text(1024)), must("mimeType", Text(128)), must("filename", Text(512))]),
    ("file_data", &[must("data", Text(20_000_000)), must("mimeType", Text(128)), must("filename", Text(512))]),
]);

const MESSAGE: Shape = Object(&[
    must("role", OneOf(&["user", "assistant", "system"])),
    must("content", StringOr(&Text(200_000), &List(&BLOCK, 0, ANY_LENGTH))),
]);

const TOOL: Shape = Object(&[must("name", Text(100)), must("description", Text(10_000)), must("parameters", Any)]);

const DELIVERY: Shape = Object(&[
    must("mode", OneOf(&["channel", "none"])),
    may(
        "target",
        StringOr(
            &OneOf(&["last"]),
            &Object(&[
                must("provider", Text(50)),
                must("scope", OneOf(&["dm", "channel", "thread", "group"])),
                must(
                    "identifiers",
                    Object(&[
                        may("workspace", Text(200)),
                        may("channel", Text(200)),
                        may("thread", Text(200)),
                        may("peer", Text(200)),
                    ]),
                ),
            ]),
        ),
    ),
]);

const ORCHESTRATION_STATE: Shape = OneOf(&[
    "spawning",
    "running",
    "thinking",
    "tool_calling",
    "waiting_for_llm",
    "delegating",
    "interrupted",
    "completed",
    "failed",
    "canceled",
]);

const SKILL_CREDENTIAL: Shape = Object(&[
    must("envName", Text(64)),
    must("authType", OneOf(&["api_key", "oauth"])),
    may("scope", OneOf(&["user", "agent"])),
    may(
        "oauth",
        Object(&[
            must("provider", Text(100)),
            must("clientId", Text(500)),
            must("authorizationUrl", Text(2048)),
            must("tokenUrl", Text(2048)),
            may("scopes", TAGS),
        ]),
    ),
]);

const SKILL_MCP: Shape = Object(&[
    must("name", Text(100)),
    must("url", Text(2048)),
    may("credential", Text(64)),
    may("transport", OneOf(&["http", "sse"])),
]);

const SKILL_OPENAPI: Shape = Object(&[
    must("spec", Text(2048)),
    must("baseUrl", Text(2048)),
    may(
        "auth",
        Object(&[
            must("scheme", OneOf(&["bearer", "basic", "api_key_header", "api_key_query"])),
            must("credential", Text(64)),
        ]),
    ),
    may("include", List(&Text(200), 0, 64)),
    may("exclude", List(&Text(200), 0, 64)),
]);

/// All of them.
pub(super) static ACTIONS: &[Spec] = &[
    handled(
        "llm_call",
        &[
            may("model", Text(128)),
            may("taskType", OneOf(&["default", "fast", "thinking", "coding"])),
            must("messages", List(&MESSAGE, 1, 200)),
            may("tools", List(&TOOL, 0, 200)),
            may("temperature", Number(0.0, 2.0)),
            may("maxTokens", Int(1, 200_000)),
        ],
    ),
    handled(
        "memory_write",
        &[
            must("scope", SCOPE),
            must("content", Text(100_000)),
            may("tags", TAGS),
            may("tainted", Bool),
            may("pool", OneOf(&["agent", "company"])),
        ],
    ),
    handled(
        "memory_query",
        &[
            must("scope", SCOPE),
            may("query", Text(10_000)),
            may("limit", Int(1, 100)),
            may("tags", TAGS),
            may("pool", OneOf(&["agent", "company", "both"])),
        ],
    ),
    handled("memory_read", &[must("id", UUID)]),
    handled("memory_delete", &[must("id", UUID)]),
    handled("memory_list", &[must("scope", SCOPE), may("limit", Int(1, 100))]),
    handled(
        "web_fetch",
        &[
            must("url", URL),
            may("method", OneOf(&["GET", "HEAD"])),
            may("headers", Map(200, 4096)),
            may("timeoutMs", Int(1000, 30_000)),
        ],
    ),
    handled("web_search", &[must("query", Text(1000)), may("maxResults", Int(1, 20))]),
    handled("web_extract", &[must("url", URL)]),
    handled(
        "audit_query",
        &[may(
            "filter",
            Object(&[
                may("action", Text(100)),
                may("sessionId", Text(128)),
                may("since", DATETIME),
                may("until", DATETIME),
                may("limit", Int(1, 500)),
            ]),
        )],
    ),
    handled(
        "agent_delegate",
        &[
            must("task", Text(50_000)),
            may("context", Text(100_000)),
            may("runner", OneOf(&["pi-coding-agent", "claude-code"])),
            may("model", Text(128)),
            may("maxTokens", Int(1, 200_000)),
            may("timeoutSec", Int(5, 600)),
            may("wait", Bool),
            may("resourceTier", OneOf(&["default", "heavy"])),
        ],
    ),
    handled("agent_collect", &[must("handleIds", List(&Text(128), 1, 20)), may("timeoutMs", Int(1000, 600_000))]),
    handled(
        "scheduler_add_cron",
        &[
            must("schedule", Text(100)),
            must("prompt", Text(10_000)),
            may("maxTokenBudget", Int(1, i64::MAX)),
            may("delivery", DELIVERY),
        ],
    ),
    handled(
        "scheduler_run_at",
        &[
            must("datetime", Text(100)),
            must("prompt", Text(10_000)),
            may("maxTokenBudget", Int(1, i64::MAX)),
            may("delivery", DELIVERY),
        ],
    ),
    handled("scheduler_remove_cron", &[must("id", Text(200))]),
    handled("scheduler_list_jobs", &[]),
    handled(
        "save_artifact",
        &[must("tier", OneOf(&["agent", "user", "session"])), must("path", Text(1024)), must("content", Text(500_000))],
    ),
    handled("sandbox_bash", &[must("command", Text(100_000))]),
    handled("sandbox_read_file", &[must("path", Text(1024))]),
    handled("sandbox_write_file", &[must("path", Text(1024)), must("content", Text(500_000))]),
    handled(
        "sandbox_edit_file",
        &[must("path", Text(1024)), must("old_string", Text(500_000)), must("new_string", Text(500_000))],
    ),
    handled(
        "sandbox_grep",
        &[
            must("pattern", Text(10_000)),
            may("path", Text(1024)),
            may("glob", Text(1024)),
            may("max_results", Int(1, 10_000)),
            may("include_line_numbers", Bool),
            may("context_lines", Int(0, 20)),
        ],
    ),
    handled(
        "sandbox_glob",
        &[must("pattern", Text(1024)), may("path", Text(1024)), may("max_results", Int(1, 10_000))],
    ),
    handled(
        "sandbox_approve",
        &[
            must("operation", OPERATION),
            may("command", Text(100_000)),
            may("path", Text(1024)),
            may("content", Text(500_000)),
            may("old_string", Text(500_000)),
            may("new_string", Text(500_000)),
        ],
    ),
    handled(
        "sandbox_result",
        &[
            must("operation", OPERATION),
            may("command", Text(100_000)),
            may("path", Text(1024)),
            may("output", Text(500_000)),
            may("exitCode", ANY_INT),
            may("success", Bool),
            may("error", Text(10_000)),
        ],
    ),
    handled(
        "skill_write",
        &[
            must("name", Text(100)),
            must("description", Text(2000)),
            may("source", Object(&[must("url", Text(2048)), may("version", Text(200))])),
            may("credentials", List(&SKILL_CREDENTIAL, 0, 32)),
            may("mcpServers", List(&SKILL_MCP, 0, 32)),
            may("openapi", List(&SKILL_OPENAPI, 0, 32)),
            may("domains", List(&Text(253), 0, 64)),
            must("body", Text(100_000)),
        ],
    ),
    handled("describe_tools", &[must("names", List(&Text(200), 0, ANY_LENGTH))]),
    handled("call_tool", &[must("tool", Text(200)), must("args", AnyObject)]),
    unhandled("agent_response", &[must("content", Text(2_000_000))]),
    unhandled("fetch_work", &[]),
    unhandled(
        "session_expiring",
        &[must("secondsRemaining", Int(0, 600)), must("reason", OneOf(&["idle_timeout", "shutdown"]))],
    ),
    unhandled("workspace_release", &[must("staging_key", Text(128))]),
    handled(
        "validate_commit",
        &[
            must("diff", Text(262_144)),
            may("files", List(&Object(&[must("path", Text(500)), must("content", Text(131_072))]), 0, 50)),
        ],
    ),
    handled("agent_orch_status", &[may("handleId", Text(128))]),
    handled(
        "agent_orch_list",
        &[
            may("sessionId", Text(128)),
            may("userId", Text(200)),
            may("parentId", Text(128)),
            may("state", StringOr(&ORCHESTRATION_STATE, &List(&ORCHESTRATION_STATE, 0, ANY_LENGTH))),
        ],
    ),
    handled("agent_orch_tree", &[must("rootId", Text(128))]),
    handled(
        "agent_orch_message",
        &[
            must("to", Text(128)),
            must("type", OneOf(&["request", "response", "notification"])),
            must("payload", ObjectOfUnits(50_000)),
            may("correlationId", Text(128)),
            may("policyTags", List(&Text(50), 0, 10)),
        ],
    ),
    handled("agent_orch_poll", &[may("limit", Int(1, 100))]),
    handled("agent_orch_interrupt", &[must("handleId", Text(128)), must("reason", Text(1000))]),
    handled("plugin_list", &[]),
    handled("plugin_status", &[must("packageName", Text(214))]),
];
