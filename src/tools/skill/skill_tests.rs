use super::*;
use crate::workspace::Workspace;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    rule: String,
    yaml: Option<String>,
    text: Option<String>,
    error: Option<String>,
    normal: Option<String>,
    /// The nearest that is accepted, beside one that is not.
    accepted: Option<String>,
    accepted_text: Option<String>,
}

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

#[test]
fn conforms_to_every_rule() {
    let cases: Cases = toml::from_str(include_str!("../../../fixtures/skill/conformance.toml")).unwrap();
    let mut wrong = Vec::new();
    let mut pairs = 0;
    for case in &cases.case {
        let whole = |yaml: &Option<String>, text: &Option<String>| match (yaml, text) {
            (Some(yaml), None) => format!("---\n{}\n---\n\nbody\n", expanded(yaml)),
            (None, Some(text)) => text.clone(),
            _ => panic!("{}: one of yaml and text", case.rule),
        };
        if case.error.is_some() {
            pairs += 1;
            let near = whole(&case.accepted, &case.accepted_text);
            wrong.extend(parse(&near).err().map(|error| format!("{}: refused: {error}", case.rule)));
        }
        let text = whole(&case.yaml, &case.text);
        match (parse(&text), &case.error) {
            (Ok(document), None) => {
                let normal: Value =
                    serde_json::from_str(&case.normal.as_deref().unwrap_or("{}").replace('\n', "\\n")).unwrap();
                for (key, wanted) in normal.as_object().unwrap() {
                    if document.frontmatter.get(key) != Some(wanted) {
                        wrong.push(format!("{}: {key} is {:?}", case.rule, document.frontmatter.get(key)));
                    }
                }
            }
            (Err(error), Some(wanted)) if error.to_string().contains(wanted.as_str()) => {}
            (outcome, _) => wrong.push(format!("{}: {outcome:?}", case.rule)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(pairs >= 90, "{pairs}");
}

/// `<x20>` and `<😀*20>` as twenty of them.
fn expanded(yaml: &str) -> String {
    let mut parts = yaml.split('<');
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        let (times, rest) = part.split_once('>').unwrap();
        let digits = times.find(|c: char| c.is_ascii_digit()).unwrap();
        text.push_str(&times[..digits].trim_end_matches('*').repeat(times[digits..].parse().unwrap()));
        text.push_str(rest);
    }
    text
}

fn skill() -> Skill {
    Skill {
        name: "a".into(),
        description: "b".into(),
        source: None,
        credentials: vec![],
        mcp_servers: vec![],
        openapi: vec![],
        domains: vec![],
        body: "# Body\n".into(),
    }
}

#[test]
fn writes_keys_in_order_and_values_as_given() {
    let full = Skill {
        description: format!("First line\nsecond: line\n{}", "word ".repeat(60).trim_end()),
        source: Some(Source { url: "https://a.b".into(), version: Some("1.0".into()) }),
        credentials: vec![Credential {
            env_name: "A_KEY".into(),
            auth_type: "oauth".into(),
            scope: None,
            oauth: Some(Oauth {
                provider: "p".into(),
                client_id: "yes".into(),
                authorization_url: "https://a.b/x".into(),
                token_url: "https://a.b/y".into(),
                scopes: vec!["r w".into()],
            }),
        }],
        mcp_servers: vec![McpServer {
            name: "s".into(),
            url: "https://a.b/sse".into(),
            credential: None,
            transport: None,
        }],
        openapi: vec![OpenApi {
            spec: "spec".into(),
            base_url: "https://a.b".into(),
            auth: Some(Auth { scheme: "bearer".into(), credential: "A_KEY".into() }),
            include: vec![],
            exclude: vec!["x".into()],
        }],
        domains: vec!["API.example.com".into()],
        ..skill()
    };
    let text = render(&full).unwrap();
    let starts: Vec<usize> = KEYS.iter().map(|key| text.find(&format!("\n{key}:")).unwrap()).collect();
    assert!(starts.is_sorted(), "{text}");
    assert!(
        text.contains("description: |") && text.contains("API.example.com") && text.ends_with("\n---\n\n# Body\n"),
        "{text}"
    );
    let document = parse(&text).unwrap();
    assert_eq!(document.frontmatter["description"], json!(full.description));
    assert_eq!(document.frontmatter["source"]["version"], "1.0");
    assert_eq!(document.frontmatter["credentials"][0]["oauth"]["clientId"], "yes");
    assert_eq!(render(&skill()).unwrap(), "---\nname: a\ndescription: b\n---\n\n# Body\n");
    assert_eq!(render(&Skill { description: String::new(), ..skill() }).unwrap(), "---\nname: a\n---\n\n# Body\n");
}

#[test]
fn a_frontmatter_may_be_written_differently_but_not_mean_something_else() {
    let old = render(&skill()).unwrap();
    let body = render(&Skill { body: "other".into(), ..skill() }).unwrap();
    let same = "---\ndescription: 'b'\ncredentials: []\nname: \"a\"\n---\nx";
    let wider = render(&Skill {
        domains: vec!["a.io".into()],
        openapi: vec![OpenApi {
            spec: "s".into(),
            base_url: "https://a.io".into(),
            auth: None,
            include: vec![],
            exclude: vec![],
        }],
        ..skill()
    })
    .unwrap();
    let check = |old: &str, new: &str| same_frontmatter(old.as_bytes(), new.as_bytes());
    assert_eq!(check(&old, &body), Ok(()));
    assert_eq!(check(&old, same), Ok(()));
    assert_eq!(check("broken", &wider), Ok(()));
    let refused = check(&old, &wider).unwrap_err();
    assert!(refused.starts_with("Refusing to mutate SKILL.md frontmatter from a non-interactive session."));
    assert!(refused.contains("Changed: openapi, domains."), "{refused}");
    // In two steps it would be a way around.
    assert!(check(&old, "broken").is_err());
    assert!(check(&old, "").is_err());
}

#[test]
fn what_cannot_be_read_here_may_be_a_skill_to_the_host() {
    let with = |frontmatter: &str| format!("---\n{frontmatter}\n---\nbody");
    let other = render(&Skill { domains: vec!["evil.io".into()], ..skill() }).unwrap();
    let check = |old: &str, new: &str| same_frontmatter(old.as_bytes(), new.as_bytes());
    for frontmatter in [
        // The host's reader takes these, or may.
        "name: a\ndescription: b\x7f",
        "name: a\ndescription: b\u{81}c",
        "name: a\ndescription: b\u{feff}c",
        "name: a\ndescription: b\rdomains: [evil.io]",
        "name: a\ndescription: !x 12",
        "name: a\ndescription: ! 12",
        "name: a\ndescription: !!int 1.5",
        "name: a\ndescription: \"b\\uD83D\"",
        "name: a\n? description\n  : b",
        "{name: a, \"description\":\"b\", domains:[a.io]}",
        "&k name: a\n*k : c\ndescription: b",
        "\"n\\x61me\": a\n\"d\\x65scription\": !x b",
        "name: a\ndescription: b\nx: [&a [1,1], *a, {*a : 1}]",
        // A value that only the host can judge.
        "name: a\ndescription: b\nmcpServers: [{name: m, url: \"https://b\u{fc}cher.de/x\"}]",
        "name: a\ndescription: b\nsource: {url: \"x:\u{3000}\"}",
        "name: a\ndescription: b\nopenapi: [{spec: s, baseUrl: \"https://b%C3%BC.de\"}]",
        "name: a\ndescription: b\ndomains: [\"a.io\\uFEFF\"]",
        "name: a\ndescription: b\ndomains: [\"b\u{fc}cher.de\"]",
    ] {
        let old = with(frontmatter);
        let refused = check(&old, &other).expect_err(frontmatter);
        assert!(refused.starts_with("Refusing to mutate SKILL.md frontmatter from a non-interactive"), "{refused}");
        assert_eq!(check(&old, &format!("{old} more")), Ok(()), "{frontmatter:?}");
    }
    let large = with(&format!("name: a\ndescription: b\n# {}", "x".repeat(70_000)));
    assert!(check(&large, &other).is_err());
    // A new text must be one that every reader takes for the same.
    let old = render(&skill()).unwrap();
    for frontmatter in ["name: a\rdescription: b", "name: a\ndescription: !!x b", "name: a\ndescription: \"b\\\n\""] {
        assert!(check(&old, &with(frontmatter)).is_err(), "{frontmatter:?}");
    }
    // What is a skill to nobody may be repaired.
    for old in [
        "",
        "no frontmatter",
        "\u{feff}---\nname: a\ndescription: b\n---\n",
        "---\nname: a\ndescription: b",
        "---\nname: [a\n---\n",
        "---\nname: a\ndescription: [b\n---\n",
        "---\nname: a\ndescription: use it: so\n---\n",
        "---\nname: a\ndescription: @b\n---\n",
        "---\nname: a\ndescription: *b\n---\n",
        "---\nname: a\ndescription: 12\n---\n",
        "---\nname: a\ndescription: b\nmore: x\n---\n",
        "---\nname: a\ndescription: b\nmcpServers: [{name: m, url: \"http://a.b\"}]\n---\n",
        "---\nname: a\n\tx\n---\n",
    ] {
        assert_eq!(check(old, &other), Ok(()), "{old:?}");
    }
}

#[test]
fn a_skill_is_protected_under_each_of_its_names_unless_a_person_is_there() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(tree.path().join(".ax/skills/a")).unwrap();
    std::fs::write(tree.path().join(".ax/skills/a/SKILL.md"), "x").unwrap();
    std::os::unix::fs::symlink(".ax/skills", tree.path().join("dir")).unwrap();
    std::os::unix::fs::symlink("dir/a/SKILL.md", tree.path().join("file")).unwrap();
    // A definition that is itself a link, behind a directory of another name.
    std::fs::create_dir_all(tree.path().join(".ax/skills/c")).unwrap();
    std::fs::write(tree.path().join("text"), "x").unwrap();
    std::os::unix::fs::symlink("../../../text", tree.path().join(".ax/skills/c/SKILL.md")).unwrap();
    std::os::unix::fs::symlink("dir/c/SKILL.md", tree.path().join("chain")).unwrap();
    let ws = Workspace::open(tree.path()).unwrap();
    let found = |path: &str, session| protected(&ws, &ws.path(path).unwrap(), session).unwrap().is_some();
    for session in [None, Some(""), Some("scheduler:dm:x"), Some("2f1c2f04-4d0e-4a53-9a53-0d6f2f7b9c11"), Some("HTTP:")]
    {
        let direct = [".ax/skills/a/SKILL.md", "./.ax/../.ax/skills/a/SKILL.md", "dir/a/SKILL.md", "file"];
        for path in direct.into_iter().chain([".ax/skills/c/SKILL.md", "dir/c/SKILL.md", "chain"]) {
            assert!(found(path, session), "{path} {session:?}");
        }
        assert!(!found(".ax/skills/b/SKILL.md", session) && !found("none", session) && !found(".ax/skills/a", session));
    }
    assert!(!found("file", Some("http:dm:ax:u:t")));
}

#[test]
fn knows_a_skill_by_its_path() {
    for path in [
        ".ax/skills/a/SKILL.md",
        ".ax/skills/a/b/SKILL.md",
        ".AX/Skills/a/skill.MD",
        ".ax/\u{17f}\u{212a}ills/a/SKILL.md",
        ".ax/skills/a/SKILL\u{200d}.md",
    ] {
        assert!(is_skill_md(Path::new(path)), "{path}");
    }
    for path in [
        "SKILL.md",
        ".ax/skills/SKILL.md",
        "x/.ax/skills/a/SKILL.md",
        ".ax/skills/a/SKILL.md.bak",
        ".ax/skills/a/README.md",
    ] {
        assert!(!is_skill_md(Path::new(path)), "{path}");
    }
}

fn awkward() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{1,60}",
        "[ \t\na:#'\"|>&*!%@`{}\\[\\],?-]{1,30}",
        "\\PC{1,40}",
        "[a-z \n]{100,300}",
        Just("---".to_owned()),
        Just("a\n---\nb".to_owned()),
        Just(" lead".to_owned()),
        Just("trail \n\n".to_owned()),
        Just("1e3".to_owned()),
        Just("\u{85}\u{2028}\u{feff}\u{7}".to_owned()),
        Just("\r\n".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn what_is_written_is_what_is_read(name in awkward(), description in awkward(), version in awkward(), body in awkward()) {
        let given = Skill {
            name: name.chars().take(50).collect(),
            description,
            source: Some(Source { url: "https://a.b".into(), version: Some(version.clone()) }),
            body,
            ..skill()
        };
        if version.encode_utf16().count() <= 200 {
            let text = render(&given).unwrap();
            let document = parse(&text).unwrap();
            prop_assert_eq!(&document.frontmatter["name"], &json!(given.name), "{}", text);
            prop_assert_eq!(&document.frontmatter["description"], &json!(given.description), "{}", text);
            prop_assert_eq!(&document.frontmatter["source"]["version"], &json!(version), "{}", text);
            prop_assert_eq!(document.body, format!("\n{}", given.body));
        }
    }

    #[test]
    fn no_text_breaks_the_parser(text in "(---\n)?[ -~\n\t]{0,200}(\n---\n)?") {
        let _ = parse(&text);
    }
}
