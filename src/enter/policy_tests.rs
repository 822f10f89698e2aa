use super::*;

fn env(pairs: &[(&str, &str)]) -> Environment {
    pairs.iter().copied().collect()
}

fn from_env(pairs: &[(&str, &str)]) -> Result<Policy, PolicyError> {
    Policy::find(None, &env(pairs))
}

fn from_text(text: &str, pairs: &[(&str, &str)]) -> Result<Policy, PolicyError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("policy");
    std::fs::write(&path, text).unwrap();
    Policy::find(Some(&path), &env(pairs))
}

fn shown(policy: &Policy) -> Vec<String> {
    policy.allow.iter().map(ToString::to_string).collect()
}

#[test]
fn words_and_lists_from_the_environment() {
    assert_eq!(from_env(&[]).unwrap().mode, Mode::Auto);
    assert_eq!(from_env(&[("AX_NET_POLICY", "none")]).unwrap().mode, Mode::None);
    let gate =
        from_env(&[("AX_NET_POLICY", "gate"), ("AX_NET_ALLOW", "10.0.0.3:80,10.0.0.2:3128,10.0.0.3:80")]).unwrap();
    assert_eq!(shown(&gate), ["10.0.0.2:3128", "10.0.0.3:80"]);
    let urls = from_env(&[
        ("AX_NET_POLICY", "gate"),
        ("AX_HOST_URL", "http://10.0.0.3"),
        ("AX_WEB_PROXY_URL", "http://u:secret@10.0.0.2:3128"),
    ])
    .unwrap();
    assert_eq!(shown(&urls), ["10.0.0.2:3128", "10.0.0.3:80"]);
    // A list that is given is the whole list.
    let listed =
        from_env(&[("AX_NET_POLICY", "gate"), ("AX_NET_ALLOW", "10.0.0.2:3128"), ("AX_HOST_URL", "http://10.0.0.3")]);
    assert_eq!(shown(&listed.unwrap()), ["10.0.0.2:3128"]);
}

#[test]
fn what_the_environment_cannot_say() {
    for pairs in [
        &[("AX_NET_POLICY", "")][..],
        &[("AX_NET_POLICY", "off")],
        &[("AX_NET_POLICY", "Gate")],
        &[("AX_NET_POLICY", "gate ")],
        &[("AX_NET_POLICY", "policy.toml")],
        &[("AX_NET_POLICY", "gate")],
        &[("AX_NET_POLICY", "gate"), ("AX_NET_ALLOW", "")],
        &[("AX_NET_POLICY", "gate"), ("AX_NET_ALLOW", ",")],
        &[("AX_NET_POLICY", "gate"), ("AX_NET_ALLOW", "10.0.0.2:80,")],
        &[("AX_NET_POLICY", "gate"), ("AX_NET_ALLOW", "10.0.0.2:53")],
        &[("AX_NET_POLICY", "gate"), ("AX_HOST_URL", "")],
        &[("AX_NET_POLICY", "gate"), ("AX_HOST_URL", "garbage")],
        &[("AX_NET_POLICY", "allow")],
        &[("AX_NET_POLICY", "none"), ("AX_NET_ALLOW", "10.0.0.2:80")],
        &[("AX_NET_POLICY", "isolated"), ("AX_NET_ALLOW", "")],
        &[("AX_NET_POLICY", "external"), ("AX_NET_ALLOW", "10.0.0.2:80")],
        &[("AX_NET_ALLOW", "10.0.0.2:80")],
        &[("AX_NET_POLICY", "/nowhere/policy.toml")],
        &[("AX_NET_POLICY", "/dev/zero")],
        &[("AX_NET_POLICY", "/etc")],
    ] {
        assert!(from_env(pairs).is_err(), "{pairs:?} was taken");
    }
}

#[test]
fn a_file_in_either_form() {
    let toml = from_text("mode = \"allow\"\nallow = [\"example.test:443\"]\n", &[]).unwrap();
    let json = from_text("\u{feff} {\"mode\":\"allow\",\"allow\":[\"example.test:443\"]}", &[]).unwrap();
    assert_eq!((toml.mode, shown(&toml)), (json.mode, shown(&json)));
    let external = from_text("mode = \"external\"\nenforced_by = \"NetworkPolicy ax-agent\"\n", &[]).unwrap();
    assert_eq!(external.enforced_by.as_deref(), Some("NetworkPolicy ax-agent"));
}

#[test]
fn what_a_file_cannot_say() {
    for text in [
        "",
        "mode = 1",
        "mode = \"gate\"",
        "mode = \"none\"\nmode = \"external\"",
        "{\"mode\":\"none\",\"mode\":\"external\"}",
        "{\"mode\":\"none\"} {}",
        "{\"mode\":\"none\"",
        "mode = \"none\"\nalow = []",
        "mode = \"none\"\nallow = []",
        "mode = \"none\"\nenforced_by = \"me\"",
        "mode = \"allow\"\nallow = [\"0.0.0.0:80\"]",
        "mode = \"none\"\nenv_files = [\"relative\"]",
        "mode = \"none\"\nhome_seed = \"relative\"",
    ] {
        assert!(from_text(text, &[]).is_err(), "{text:?} was taken");
    }
}

#[test]
fn with_a_file_the_environment_decides_nothing() {
    for pair in [("AX_NET_POLICY", "external"), ("AX_NET_ALLOW", "10.0.0.2:80"), ("AX_NET_POLICY", "")] {
        let error = from_text("mode = \"none\"", &[pair]).unwrap_err();
        assert!(matches!(error, PolicyError::TwoSources(name) if name == pair.0), "{error}");
    }
}

#[test]
fn a_password_in_a_url_is_not_repeated() {
    let error = from_env(&[("AX_NET_POLICY", "gate"), ("AX_HOST_URL", "ftp://user:hunter2@10.0.0.2")]).unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

#[test]
fn what_auto_becomes() {
    let auto = |isolated, enforceable, pairs: &[(&str, &str)]| {
        from_env(pairs).unwrap().decided(isolated, enforceable, &env(pairs)).map(|policy| policy.mode)
    };
    assert_eq!(auto(true, true, &[]).unwrap(), Mode::Isolated);
    assert_eq!(auto(false, false, &[("AX_HOST_URL", "http://10.0.0.2")]).unwrap(), Mode::External);
    assert_eq!(auto(false, true, &[("AX_HOST_URL", "http://10.0.0.2")]).unwrap(), Mode::Gate);
    assert_eq!(auto(false, true, &[]).unwrap(), Mode::None);
    assert!(auto(false, true, &[("AX_HOST_URL", "http://256.0.0.1")]).is_err());
}
