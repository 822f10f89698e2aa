//! PROTOCOL §9.4 through the built runner: in a session without a person the frontmatter of a skill stays as it is.

use crate::rows::*;
use crate::support::runner;
use ax_runner::devhost::FakeHost;
use serde_json::json;

#[test]
fn a_frontmatter_that_only_the_host_can_judge_stays_as_it_is() {
    let frontmatters = [
        "name: s\ndescription: A\nmcpServers:\n  - {name: m, url: \"https://b\u{fc}cher.de/mcp\"}\ndomains:\n  - api.io",
        "name: s\ndescription: A\x7fB\ndomains:\n  - api.io",
        "name: s\ndescription: !x 12\ndomains:\n  - api.io",
        "name: s\ndescription: A\ndomains:\n  - api.io\n  - \"b.io\\uFEFF\"",
    ];
    for (at, frontmatter) in frontmatters.iter().enumerate() {
        let path = ".ax/skills/s/SKILL.md";
        let text = format!("---\n{frontmatter}\n---\nbody");
        let host = FakeHost::socket(at_once(&[
            edit(path, "api.io", "evil.io"),
            write(path, "---\nname: s\ndescription: A\ndomains: [evil.io]\n---\nbody"),
            call("skill_write", json!({"name": "s", "description": "A", "body": "b", "domains": ["evil.io"]})),
            edit(path, "body", "more"),
        ]))
        .start();
        std::fs::create_dir_all(host.workspace().join(".ax/skills/s")).unwrap();
        std::fs::write(host.workspace().join(path), &text).unwrap();
        let mut payload = host.payload("go");
        payload["sessionId"] = "scheduler:dm:x".into();
        ended_well(&host, &runner(&host).payload(&payload).run());
        let told = told(&host);
        assert!(
            told[..3].iter().all(|told| told.contains("Refusing to mutate SKILL.md frontmatter")),
            "{at}: {told:?}"
        );
        let now = std::fs::read_to_string(host.workspace().join(path)).unwrap();
        assert_eq!(now, text.replace("body", "more"), "{told:?}");
    }
}

#[test]
fn a_skill_that_is_too_large_to_check_is_not_sent_to_the_shell() {
    let path = ".ax/skills/s/SKILL.md";
    let host = FakeHost::socket(at_once(&[
        write(path, "x"),
        edit(path, "a", "b"),
        call("skill_write", json!({"name": "s", "description": "A", "body": "b"})),
    ]))
    .start();
    std::fs::create_dir_all(host.workspace().join(".ax/skills/s")).unwrap();
    std::fs::File::create(host.workspace().join(path)).unwrap().set_len(40_000_000).unwrap();
    let mut payload = host.payload("go");
    payload["sessionId"] = "scheduler:dm:x".into();
    ended_well(&host, &runner(&host).payload(&payload).run());
    let told = told(&host);
    assert!(told.iter().all(|told| told.contains("more than 33554432 bytes") && !told.contains("bash")), "{told:?}");
}
