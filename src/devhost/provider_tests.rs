use super::{Launch, Provider, quoted};
use std::path::PathBuf;

fn launch(provider: Provider) -> Launch {
    Launch {
        provider,
        transport: provider.transport(),
        ipc: PathBuf::from("/run/h"),
        workspace: PathBuf::from("/home/me/p"),
        request_id: Some("r-1".into()),
        verbose: false,
        http: ("http://ax-host.ax.svc".into(), "pod".into()),
        image: "ax/agent:latest".into(),
        name: "ax-agent-0a1b2c3d".into(),
    }
}

/// The line without `PATH`, which is this machine's.
fn line(provider: Provider) -> String {
    let line = launch(provider).vector(&["ax-runner".into()]).shell();
    let words: Vec<&str> = line.split(' ').filter(|word| !word.contains("PATH=")).collect();
    words.join(" ")
}

#[test]
fn docker_gets_exactly_its_flags() {
    assert_eq!(
        line(Provider::Docker),
        "docker run --rm -i --name ax-agent-0a1b2c3d --network=none --memory 256m --cpus 1 --pids-limit 256 --cap-drop=ALL \
         --security-opt no-new-privileges --read-only --tmpfs /tmp:rw,noexec,nosuid,size=64m \
         -v /home/me/p:/workspace:rw -v /run/h:/run/h:rw -w /workspace \
         -e AX_IPC_SOCKET=/run/h/proxy.sock -e AX_WORKSPACE=/workspace -e -e npm_config_cache=/tmp/.ax-npm-cache \
         -e XDG_CACHE_HOME=/tmp/.ax-cache -e AX_HOME=/tmp/.ax-agent -e AX_WEB_PROXY_SOCKET=/run/h/web-proxy.sock \
         -e AX_REQUEST_ID=r-1 ax/agent:latest /opt/ax/dist/agent/runner.js --agent pi-coding-agent --max-tokens 8192"
    );
    assert!(line(Provider::Podman).starts_with("podman run --rm -i --name"));
}

#[test]
fn apple_publishes_a_socket_and_mounts_no_ipc_directory() {
    assert_eq!(
        line(Provider::Apple),
        "container run --rm -i --name ax-agent-0a1b2c3d --memory 256m --cpus 1 -v /home/me/p:/workspace:rw \
         --publish-socket /run/h/bridges/ax-agent-0a1b2c3d.sock:/tmp/bridge.sock -w /workspace \
         -e AX_IPC_SOCKET=/tmp/bridge.sock -e AX_WORKSPACE=/workspace -e -e npm_config_cache=/tmp/.ax-npm-cache \
         -e XDG_CACHE_HOME=/tmp/.ax-cache -e AX_HOME=/tmp/.ax-agent -e AX_WEB_PROXY_SOCKET=/run/h/web-proxy.sock \
         -e AX_IPC_LISTEN=1 -e AX_REQUEST_ID=r-1 ax/agent:latest /opt/ax/dist/agent/runner.js --agent pi-coding-agent \
         --max-tokens 8192"
    );
}

#[test]
fn a_process_inherits_nothing() {
    let line = line(Provider::Process);
    assert!(line.starts_with("env -i AX_IPC_SOCKET=/run/h/proxy.sock AX_WORKSPACE=/home/me/p "), "{line}");
    assert!(
        line.ends_with(" ax-runner /opt/ax/dist/agent/runner.js --agent pi-coding-agent --max-tokens 8192"),
        "{line}"
    );
}

#[test]
fn a_pod_calls_home_and_runs_as_nobody_special() {
    let pod = launch(Provider::K8s).pod();
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["command"][0], "node");
    assert_eq!(container["securityContext"]["runAsUser"], 1000);
    let names: Vec<&str> =
        container["env"].as_array().unwrap().iter().filter_map(|pair| pair["name"].as_str()).collect();
    for name in ["AX_HOST_URL", "AX_IPC_TOKEN", "AX_REQUEST_ID", "AX_IPC_REQUEST_ID", "POD_NAME", "LOG_LEVEL"] {
        assert!(names.contains(&name), "{name}");
    }
    assert!(!names.contains(&"AX_IPC_SOCKET") && !names.contains(&"AX_WEB_PROXY_SOCKET"));
}

#[test]
fn words_survive_a_shell() {
    assert_eq!(quoted("a b"), "'a b'");
    assert_eq!(quoted("it's"), "'it'\\''s'");
    assert_eq!(quoted(""), "''");
}
