use super::*;

fn env(parent: &[(&str, &str)]) -> ChildEnv {
    ChildEnv::new(Path::new("/workspace"), parent.iter().map(|(name, value)| (name.into(), value.into())))
}

fn get(env: &ChildEnv, name: &str) -> Option<String> {
    env.variables().find(|(known, _)| *known == name).map(|(_, value)| value.to_string_lossy().into_owned())
}

const ALWAYS: [&str; 10] =
    ["AX_WORKSPACE", "GIT_EDITOR", "GIT_PAGER", "GIT_TERMINAL_PROMPT", "HOME", "PAGER", "PATH", "PWD", "SHELL", "TERM"];

#[test]
fn nothing_but_the_list_gets_through() {
    let secrets = [
        "AX_IPC_TOKEN",
        "AX_HOST_URL",
        "AX_IPC_SOCKET",
        "AX_WEB_PROXY_SOCKET",
        "AX_PASS_ENV",
        "ANTHROPIC_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "MY_NEW_THING",
        "HTTP_PROXY",
        "https_proxy",
        "WORKSPACE_REPO_URL",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "BASH_FUNC_x%%",
        "BASH_ENV",
        "ENV",
        "SHELLOPTS",
        "BASHOPTS",
        "PROMPT_COMMAND",
        "PS4",
        "NODE_OPTIONS",
        "POD_NAME",
        "HOSTNAME",
        "LCX",
        "LC_",
        "LC_API_KEY",
        "LC_ALL_KEYS",
        "lang",
        "OLDPWD",
        "SHLVL",
        "IFS",
        "_",
    ];
    let parent: Vec<(&str, &str)> = secrets.iter().map(|name| (*name, "canary")).collect();
    let env = env(&parent);
    assert_eq!(env.variables().map(|(name, _)| name.to_str().unwrap()).collect::<Vec<_>>(), ALWAYS);
    assert!(env.variables().all(|(_, value)| !value.to_string_lossy().contains("canary")));
}

#[test]
fn listed_names_are_kept_as_they_are() {
    let parent = [
        ("LANG", "de_DE.UTF-8"),
        ("LC_ALL", "C"),
        ("LC_MESSAGES", "C"),
        ("TZ", "UTC"),
        ("TERM", "xterm"),
        ("USER", "ax"),
        ("TMPDIR", "/tmp"),
    ];
    let env = env(&parent);
    for (name, value) in parent {
        assert_eq!(get(&env, name).as_deref(), Some(value));
    }
}

#[test]
fn the_image_may_pass_names_but_not_ours_and_not_the_loaders() {
    let env = env(&[
        (
            "AX_PASS_ENV",
            " CARGO_HOME , AX_IPC_TOKEN,LD_PRELOAD,BASH_FUNC_x%%,BASH_ENV,PATH,HOME,,ENV, HTTP_PROXY,Http_Proxy",
        ),
        ("CARGO_HOME", "/cargo"),
        ("AX_IPC_TOKEN", "canary"),
        ("LD_PRELOAD", "canary"),
        ("BASH_FUNC_x%%", "canary"),
        ("BASH_ENV", "canary"),
        ("ENV", "canary"),
        ("HOME", "canary"),
        ("HTTP_PROXY", "http://u:p@ss@proxy.example:3128/x@y"),
        ("Http_Proxy", "http://proxy.example:3128"),
    ]);
    assert_eq!(get(&env, "CARGO_HOME").as_deref(), Some("/cargo"));
    assert_eq!(get(&env, "HTTP_PROXY").as_deref(), Some("http://proxy.example:3128/x@y"));
    assert_eq!(get(&env, "Http_Proxy").as_deref(), Some("http://proxy.example:3128"));
    assert_eq!(get(&env, "HOME").as_deref(), Some("/workspace"));
    assert!(env.variables().all(|(_, value)| !value.to_string_lossy().contains("canary")));
}

#[test]
fn the_workspace_bin_is_first_and_once() {
    let path = |own: &str| get(&env(&[("PATH", own)]), "PATH").unwrap();
    assert_eq!(path("/usr/bin:/bin"), "/workspace/bin:/usr/bin:/bin");
    assert_eq!(path("/workspace/bin:/usr/bin::/workspace/bin"), "/workspace/bin:/usr/bin");
    assert_eq!(path(""), "/workspace/bin");
    assert_eq!(get(&env(&[]), "PATH").unwrap(), format!("/workspace/bin:{PATH_DEFAULT}"));
}

#[test]
fn the_turn_adds_but_does_not_take_over() {
    let mut env = env(&[]);
    let refused = env.extend([
        ("GITHUB_TOKEN", "placeholder"),
        ("PATH", "/evil"),
        ("HOME", "/evil"),
        ("LD_PRELOAD", "/evil"),
        ("BASH_ENV", "/evil"),
        ("BASH_FUNC_ls%%", "() { evil; }"),
        ("AX_IPC_TOKEN", "evil"),
        ("", "evil"),
        ("A=B", "evil"),
        ("N", "ev\0il"),
        ("A\0", "evil"),
        ("GITHUB_TOKEN", "later"),
    ]);
    assert_eq!(
        refused,
        ["PATH", "HOME", "LD_PRELOAD", "BASH_ENV", "BASH_FUNC_ls%%", "AX_IPC_TOKEN", "", "A=B", "N", "A\0"]
    );
    assert_eq!(get(&env, "GITHUB_TOKEN").as_deref(), Some("later"));
    assert!(env.variables().all(|(_, value)| !value.to_string_lossy().contains("evil")));
    assert!(!format!("{env:?}").contains("later"));
}
