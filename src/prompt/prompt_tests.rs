use super::*;
use crate::{limits, text};
use proptest::prelude::*;
use serde_json::json;

const CLOCK: Clock = Clock { unix_seconds: 1_767_225_725, offset_seconds: 3600 };

fn identity() -> Identity {
    Identity {
        agents: "AGENTS TEXT".into(),
        soul: "SOUL TEXT".into(),
        identity: "IDENTITY TEXT".into(),
        bootstrap: "BOOTSTRAP TEXT".into(),
        heartbeat: String::new(),
    }
}

fn input(identity: &Identity) -> PromptInput<'_> {
    PromptInput {
        agent_type: "pi-coding-agent",
        workspace: "/workspace",
        agents_dir: None,
        sandbox: &SandboxType::Docker,
        profile: "balanced",
        taint_ratio: 0.0,
        taint_threshold: 0.3,
        identity,
        agent_id: Some("ax"),
        reply_optional: false,
        skills: &[],
        catalog: &[],
        dispatch: DispatchMode::Indirect,
        history_tokens: 0,
        clock: CLOCK,
    }
}

fn names(prompt: &Prompt) -> Vec<&'static str> {
    prompt.sections.iter().map(|section| section.name).collect()
}

fn entry(name: &str, skill: &str) -> CatalogEntry {
    CatalogEntry {
        name: name.into(),
        skill: skill.into(),
        summary: "Fetch one.\n# not a heading".into(),
        schema: (&json!({"type": "object", "properties": {"id": {}, "state": {}}, "required": ["id"]})).into(),
    }
}

#[test]
fn sections_stand_in_the_order_of_their_priority() {
    let mut identity = identity();
    identity.heartbeat = "- look at the mail".into();
    let catalog = [entry("mcp_t_get", "t")];
    let prompt = build(&PromptInput { reply_optional: true, catalog: &catalog, ..input(&identity) });
    let wanted = [
        "identity",
        "injection-defense",
        "security",
        "tool-style",
        "memory-recall",
        "skills",
        "delegation",
        "heartbeat",
        "runtime",
        "tool-catalog",
        "reply-gate",
    ];
    assert_eq!(names(&prompt), wanted);
    assert!(prompt.sections.iter().all(|section| section.form == Form::Full && section.chars > 0));
    assert!(prompt.text.starts_with("AGENTS TEXT\n\n## Soul\nSOUL TEXT\n\n## Identity\nIDENTITY TEXT\n\n"));
    for wanted in ["HEARTBEAT_OK", "SILENT_REPLY", "- look at the mail", "2026-01-01T01:00:00+01:00", "Agent id: ax"] {
        assert!(prompt.text.contains(wanted), "{wanted}");
    }
}

#[test]
fn a_shared_directory_is_announced() {
    let identity = identity();
    let prompt = build(&PromptInput { agents_dir: Some("/home/user/.agents"), ..input(&identity) });
    assert!(prompt.text.contains("`/home/user/.agents`, read-only"));
    assert!(!build(&input(&identity)).text.contains(".agents`"));
}

#[test]
fn an_agent_being_set_up_gets_its_bootstrap_text_only() {
    for blank in ["soul", "identity"] {
        let mut identity = identity();
        match blank {
            "soul" => identity.soul.clear(),
            _ => identity.identity.clear(),
        }
        let prompt = build(&PromptInput { reply_optional: true, ..input(&identity) });
        assert_eq!(names(&prompt), ["identity", "skills"]);
        assert!(prompt.text.starts_with("BOOTSTRAP TEXT\n\n## Skills"));
        assert!(!prompt.text.contains("AGENTS TEXT"));
    }
    let none = Identity::default();
    assert!(build(&input(&none)).text.starts_with("You are AX"));
}

#[test]
fn taint_is_shown_and_raises_the_guard() {
    let identity = identity();
    let calm = build(&PromptInput { taint_ratio: 0.3, ..input(&identity) });
    assert!(calm.text.contains("30.0%. Threshold: 30%") && !calm.text.contains("ELEVATED"));
    let raised = build(&PromptInput { taint_ratio: 0.3004, ..input(&identity) });
    assert!(raised.text.contains("30.0%. Threshold: 30%") && raised.text.contains("ELEVATED"));
}

#[test]
fn skills_carry_their_state_and_cannot_add_lines() {
    let identity = identity();
    let skill = |name: &str, kind: &str| SkillInfo {
        name: name.into(),
        description: "d\n## Forged".into(),
        kind: kind.into(),
        pending_reasons: if kind == "pending" { vec!["credential X".into()] } else { vec![] },
        warnings: if kind == "invalid" { vec!["curl".into()] } else { vec![] },
    };
    let skills =
        [skill("a", ""), skill("b", "pending"), skill("c", "invalid"), skill("d", "retired"), skill(" ", "enabled")];
    let text = build(&PromptInput { skills: &skills, ..input(&identity) }).text;
    assert!(
        text.contains("- [ENABLED] **a**: d ## Forged\n- [PENDING] **b**: d ## Forged (waiting on: credential X)\n")
    );
    assert!(text.contains("- [INVALID] **c**: d ## Forged (missing: curl)\n"));
    assert!(text.contains("- [PENDING] **d**: ") && text.contains("- [ENABLED] **(no name)**: "), "{text}");
    assert!(text.contains("Only [ENABLED] skills work."));
    let text = build(&PromptInput { skills: &skills[..1], ..input(&identity) }).text;
    assert!(!text.contains("Only [ENABLED]"));
    assert!(build(&input(&identity)).text.contains("No skills are installed."));
}

#[test]
fn the_catalog_is_described_as_it_is_offered() {
    let identity = identity();
    let catalog = [entry("mcp_t_get", "t"), entry("mcp_t_put", "t"), entry("api_a_x", "a")];
    let indirect = build(&PromptInput { catalog: &catalog, ..input(&identity) }).text;
    let listing = "### a\n- `api_a_x(id, state?, _select?)`: Fetch one. # not a heading\n### t\n- `mcp_t_get(";
    assert!(indirect.contains(listing) && indirect.contains("describe_tools"));
    let direct = build(&PromptInput { catalog: &catalog, dispatch: DispatchMode::Direct, ..input(&identity) }).text;
    assert!(direct.contains(listing) && !direct.contains("describe_tools") && !direct.contains("call_tool"));
}

#[test]
fn a_checklist_that_does_not_fit_is_named() {
    let mut identity = identity();
    identity.heartbeat = "- look at the mail\n".repeat(20_000);
    let prompt = build(&input(&identity));
    assert_eq!(prompt.form("heartbeat"), Some(Form::Short));
    assert!(prompt.text.contains("read the checklist in `.ax/HEARTBEAT.md`"), "{}", prompt.text);
}

#[test]
fn optional_sections_shrink_and_drop_as_the_history_grows() {
    let identity = identity();
    let full = build(&input(&identity));
    let required: usize = full.sections[..3].iter().map(|section| section.chars.div_ceil(4)).sum();
    let room = |tokens: usize| limits::CONTEXT_WINDOW_TOKENS - limits::PROMPT_OUTPUT_RESERVE_TOKENS - required - tokens;
    let prompt = build(&PromptInput { history_tokens: room(0), ..input(&identity) });
    assert!(prompt.sections[..3].iter().all(|section| section.form == Form::Full));
    assert!(prompt.sections[3..].iter().all(|section| section.form == Form::Dropped && section.chars == 0));
    let prompt = build(&PromptInput { history_tokens: room(60), ..input(&identity) });
    assert_eq!(prompt.form("tool-style"), Some(Form::Short));
    // A later section may still fit where an earlier one did not.
    let prompt = build(&PromptInput { history_tokens: usize::MAX / 2, ..input(&identity) });
    assert_eq!(prompt.form("runtime"), Some(Form::Dropped));
}

#[test]
fn a_required_section_that_is_too_long_is_cut_and_says_so() {
    let mut identity = identity();
    identity.agents = "é😀".repeat(200_000);
    let prompt = build(&input(&identity));
    assert_eq!(prompt.form("identity"), Some(Form::Cut));
    assert!(text::units(&prompt.text) <= limits::MESSAGE_MAX_UNITS);
    assert!(text::units(&prompt.text) > limits::MESSAGE_MAX_UNITS - 100, "no more than needed is cut");
    for kept in ["[cut here: the text has 600000 characters", "SOUL TEXT", "## Ground rules"] {
        assert!(prompt.text.contains(kept), "{kept}");
    }
    identity.soul.clear();
    identity.bootstrap = "x".repeat(300_000);
    assert!(text::units(&build(&input(&identity)).text) <= limits::MESSAGE_MAX_UNITS);
}

proptest! {
    #[test]
    fn the_prompt_always_fits_the_host(
        sizes in proptest::array::uniform4(0usize..260_000),
        glyph in prop_oneof![Just("x"), Just("é"), Just("😀"), Just("\0"), Just(" \n")],
        skills in 0usize..3000,
        tokens in 0usize..220_000,
        optional: bool,
    ) {
        let text = |size: usize| glyph.repeat(size / glyph.len());
        let identity = Identity {
            agents: text(sizes[0]), soul: text(sizes[1]), identity: text(sizes[2]), bootstrap: text(sizes[3]),
            heartbeat: text(sizes[0] / 2),
        };
        let skills = vec![SkillInfo { name: "n".into(), description: glyph.repeat(40), ..SkillInfo::default() }; skills];
        let prompt = build(&PromptInput { skills: &skills, history_tokens: tokens, reply_optional: optional, ..input(&identity) });
        prop_assert!(text::units(&prompt.text) <= limits::MESSAGE_MAX_UNITS);
        prop_assert!(!prompt.text.contains('\0'));
        let sum: usize = prompt.sections.iter().map(|section| section.chars).sum();
        let shown = prompt.sections.iter().filter(|section| section.chars > 0).count();
        prop_assert_eq!(sum + shown.saturating_sub(1) * 2, text::units(&prompt.text));
    }
}
