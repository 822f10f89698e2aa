//! The entrypoint from outside, as far as it needs neither root nor a network namespace; the rest is in `tests/image`.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

/// Runs `enter` with nothing in its environment but `vars`.
fn enter(vars: &[(&str, &str)], words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ax-runner"))
        .arg("enter")
        .args(words)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .envs(vars.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_wrong_policy_runs_nothing_and_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let ran = dir.path().join("ran");
    for vars in [
        &[("AX_NET_POLICY", "open")][..],
        &[("AX_NET_POLICY", "")],
        &[("AX_NET_POLICY", "gate"), ("AX_NET_ALLOW", "1.2.3:80")],
        &[("AX_NET_POLICY", "/nowhere")],
        &[("AX_NET_ALLOW", "10.0.0.1:80")],
        &[("AX_NET_POLICY", "external"), ("AX_WORKSPACE", "/usr/share/x")],
        &[("AX_NET_POLICY", "external"), ("AX_WORKSPACE", "relative")],
    ] {
        let output = enter(vars, &["--", "touch", ran.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(78), "{vars:?}: {}", err(&output));
        assert_eq!(err(&output).lines().count(), 1, "{}", err(&output));
        assert!(!ran.exists(), "{vars:?}");
    }
}

#[test]
fn the_payload_is_not_read_when_the_start_fails() {
    let mut payload = tempfile::tempfile().unwrap();
    payload.write_all(b"{\"message\":\"secret\"}").unwrap();
    payload.seek(SeekFrom::Start(0)).unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_ax-runner"))
        .arg("enter")
        .env("AX_NET_POLICY", "nonsense")
        .stdin(payload.try_clone().unwrap())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(78));
    // One offset is shared with the child: had it read, there would be less left.
    let mut left = String::new();
    payload.read_to_string(&mut left).unwrap();
    assert_eq!(left, "{\"message\":\"secret\"}");
}

#[test]
fn print_shows_policy_and_rules_and_touches_nothing() {
    let vars = [("AX_NET_POLICY", "allow"), ("AX_NET_ALLOW", "10.0.0.1:443,[fd00::1]:80,name.test:81")];
    let output = enter(&vars, &["--print", "--", "false"]);
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
    let text = out(&output);
    let policy: serde_json::Value =
        serde_json::from_str(text.lines().next().unwrap().strip_prefix("# policy: ").unwrap()).unwrap();
    assert_eq!(policy["mode"], "allow");
    assert_eq!(policy["allow"], serde_json::json!(["10.0.0.1:443", "[fd00::1]:80", "name.test:81"]));
    assert!(text.contains("10.0.0.1 . 443") && text.contains("fd00::1 . 80") && text.contains("# name.test"), "{text}");
    assert_eq!(enter(&[("AX_NET_POLICY", "external")], &["--print"]).status.code(), Some(0));
}

#[test]
fn print_says_what_would_refuse_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let policy = dir.path().join("policy.toml");
    fs::write(&policy, format!("mode = \"none\"\nenv_files = [\"{}/missing\"]", dir.path().display())).unwrap();
    let output = enter(&[], &["--policy", policy.to_str().unwrap(), "--print"]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let refusal = text.lines().find(|line| line.starts_with("# a start here would end with 78: ")).expect(&text);
    assert!(refusal.contains("/missing cannot be read") && text.contains("table inet"), "{text}");
    assert!(!out(&enter(&[("AX_NET_POLICY", "none")], &["--print"])).contains("would end"));
}

#[test]
fn a_declared_external_policy_starts_the_command_and_says_who_enforces() {
    if !nix::unistd::getuid().is_root() {
        println!(
            "SKIP a_declared_external_policy: a policy file of the agent's own is refused, and only root has others"
        );
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let policy = dir.path().join("policy.json");
    fs::write(&policy, "{\"mode\":\"external\",\"enforced_by\":\"the test\"}").unwrap();
    let output = enter(&[("SEEN", "yes")], &["--policy", policy.to_str().unwrap(), "--", "env"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let text = out(&output);
    assert!(text.lines().any(|line| line == "SEEN=yes"), "{text}");
    assert!(text.lines().any(|line| line == "AX_NET_ENFORCED_BY=external: the test"), "{text}");
    let event: serde_json::Value = serde_json::from_str(err(&output).lines().next().unwrap()).unwrap();
    assert_eq!((&event["msg"], &event["enforcedBy"]), (&"egress_external".into(), &"the test".into()));
}

#[test]
fn a_policy_the_agent_could_write_is_refused_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let policy = dir.path().join("policy.toml");
    fs::write(&policy, "mode = \"external\"\n").unwrap();
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o666)).unwrap();
    let words = ["--policy", policy.to_str().unwrap(), "--", "touch", "ran"];
    for (vars, remedy) in
        [(&[][..], "mount it read-only"), (&[("AX_WORKSPACE", dir.path().to_str().unwrap())], "put it elsewhere")]
    {
        let output = enter(vars, &words);
        assert_eq!(output.status.code(), Some(78), "{}", err(&output));
        assert_eq!(err(&output).lines().count(), 1, "{}", err(&output));
        assert!(err(&output).contains(policy.to_str().unwrap()) && err(&output).contains(remedy), "{}", err(&output));
    }
    let printed = out(&enter(&[], &["--policy", policy.to_str().unwrap(), "--print"]));
    assert!(printed.contains("# a start here would end with 78: "), "{printed}");
}

#[test]
fn exit_codes_are_a_shells() {
    let vars = [("AX_NET_POLICY", "external"), ("LOG_LEVEL", "error")];
    let dir = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    let file = dir.path().join("not-executable");
    fs::write(&file, "x").unwrap();
    for (words, code) in [
        (&["--", "sh", "-c", "exit 9"][..], 9),
        (&["sh", "-c", "exit 9", "--policy"], 9),
        (&["--", "no-such-command"], 127),
        (&["--", "/no/such/command"], 127),
        (&["--", file.to_str().unwrap()], 126),
        (&["--", ""], 127),
        (&["--nonsense"], 78),
        (&["--policy"], 78),
        (&["--help"], 0),
    ] {
        let output = enter(&vars, words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", err(&output));
    }
}

#[test]
fn an_environment_file_reaches_the_command_and_no_message() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("env");
    fs::write(&file, "TOKEN=hunter2\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let vars = [("AX_NET_POLICY", "external")];
    let words = ["--env-file", file.to_str().unwrap(), "--", "sh", "-c", "echo $TOKEN"];
    let output = enter(&vars, &words);
    assert_eq!(out(&output), "hunter2\n", "{}", err(&output));
    assert!(!err(&output).contains("hunter2"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let output = enter(&vars, &words);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(78), ""));
    assert!(!err(&output).contains("hunter2"));
}
