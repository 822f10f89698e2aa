//! Whatever secret the runner holds, none reaches a command (CASES B09–B11): the built runner as an ordinary user with tokens,
//! passwords and a certificate in place, and commands that look everywhere for them.

use crate::everywhere::python;
use crate::git::http_backend_for;
use crate::rows::{bash, one_by_one, output, told};
use crate::support::runner;
use ax_runner::devhost::{FakeHost, Runner};
use serde_json::json;

/// Nobody's user id.
const STRANGER: u32 = 4321;
/// Every secret begins like this; in two halves, so that the word itself is in no command.
const WORD: [&str; 2] = ["CANARY", "_OF_THE_RUNNER"];

fn secret(name: &str) -> String {
    format!("{}_{name}", WORD.concat())
}

/// As root, as another user; otherwise as who we are.
fn as_stranger(runner: Runner) -> Runner {
    if nix::unistd::geteuid().is_root() { runner.user(STRANGER) } else { runner }
}

/// Looks for the word in all processes, once for each way, and says how each ended. `watch` does so until it is killed and
/// writes down what it finds.
const LOOK: &str = r#"
import ctypes, glob, os, sys, time
word = (sys.argv[1] + sys.argv[2]).encode()
libc = ctypes.CDLL(None, use_errno=True)
me = os.getpid()
def of(pattern):
    found = []
    for path in glob.glob(pattern):
        if path.startswith(f"/proc/{me}/") or path.startswith("/proc/self") or path.startswith("/proc/thread-self"): continue
        try:
            if word in open(path, "rb").read(1 << 20): found.append(path)
        except OSError: pass
    return found
PLACES = ["/proc/[0-9]*/environ", "/proc/[0-9]*/task/[0-9]*/environ", "/proc/[0-9]*/cmdline", "/proc/[0-9]*/comm"]
if sys.argv[3] == "watch":
    open("watching", "w").close()
    while True:
        caught = [path for place in PLACES for path in of(place)]
        if caught:
            # Where it was and what stood there, before it is gone.
            open("caught", "a").write(repr(caught) + "\n")
for place in PLACES:
    print(place, of(place))
for root, _, names in os.walk("."):
    for name in names:
        path = os.path.join(root, name)
        if os.path.isfile(path) and word in open(path, "rb").read(): print("file", path)
def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
keeper = os.getppid()
while open(f"/proc/{keeper}/comm").read().strip() != "ax-keeper": keeper = parent(keeper)
def check(number):
    if number < 0: raise OSError(ctypes.get_errno(), "")
    return number
def steal(pid):
    pidfd = check(libc.syscall(434, pid, 0))
    return [check(libc.syscall(438, pidfd, fd, 0)) for fd in range(3)]
def seize(pid):
    check(libc.ptrace(0x4206, pid, 0, 0))
    return True
def listed(name): return lambda pid: os.listdir(f"/proc/{pid}/{name}")
def read(name): return lambda pid: open(f"/proc/{pid}/{name}", "rb").read(4096) and True
ways = {"pidfd_getfd": steal, "seize": seize, "fd": listed("fd"), "fdinfo": listed("fdinfo"), "map_files": listed("map_files"),
        "mem": read("mem"), "maps": read("maps"), "auxv": read("auxv"), "syscall": read("syscall"), "stack": read("stack"),
        "pagemap": read("pagemap"), "ns": lambda pid: os.readlink(f"/proc/{pid}/ns/mnt")}
for who, pid in (("keeper", keeper), ("runner", parent(keeper))):
    for way, look in ways.items():
        try: print(who, way, "OPEN" if look(pid) else "nothing")
        except OSError: print(who, way, "refused")
"#;

#[tokio::test(flavor = "multi_thread")]
async fn b09_b10_no_secret_of_the_runners_is_found_by_a_command() {
    const NAME: &str = "b09_b10_no_secret_of_the_runners_is_found_by_a_command";
    if !python(NAME) {
        return;
    }
    let remote = tempfile::tempdir().unwrap();
    let bare = ["init", "-q", "--bare", "-b", "main", "remote.git"];
    assert!(std::process::Command::new("git").args(bare).current_dir(&remote).status().unwrap().success());
    let (port, _) = http_backend_for(remote.path().to_owned(), &format!("agent:{}", secret("GIT"))).await;
    // The push takes its time, as over a real network.
    let hook = remote.path().join("remote.git/hooks/pre-receive");
    std::fs::write(&hook, "#!/bin/sh\nsleep 2\n").unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let played = tokio::task::spawn_blocking(move || {
        let [first, second] = WORD;
        let look = |mode: &str| format!("python3 look.py {first} {second} {mode}");
        let host = FakeHost::socket(one_by_one(&[
            bash("env -0 | tr '\\0' '\\n' | cut -d= -f1 | sort | tr '\\n' ' '"),
            bash(format!("env; declare -p; declare -f; {}", look("once"))),
            bash("git remote -v; cat .git/config; echo data >saved.txt"),
            bash(format!("setsid {} >/dev/null 2>&1 & until [ -e watching ]; do sleep 0.05; done", look("watch"))),
        ]))
        .start();
        std::fs::write(host.workspace().join("look.py"), LOOK).unwrap();
        let mut payload = host.payload("go");
        payload["ipcToken"] = secret("IPC").into();
        payload["token"] = secret("TOKEN").into();
        payload["webProxyUrl"] =
            format!("http://u:{}@127.0.0.1:9/?k={}", secret("PAYLOAD_PROXY"), secret("QUERY")).into();
        payload["credentialEnv"] =
            json!({"SKILL_KEY": "ax-cred:0123456789abcdef0123456789abcdef", "AX_HOME": secret("NAME")});
        payload["caCert"] = include_str!("../../fixtures/ca/authority.pem").into();
        let mut runner = as_stranger(runner(&host).payload(&payload));
        for (name, value) in [
            ("AX_IPC_TOKEN", secret("A")),
            ("MY_NEW_THING", secret("B")),
            ("ANTHROPIC_API_KEY", secret("C")),
            ("HTTP_PROXY", format!("http://u:{}@h:1", secret("D"))),
            ("https_proxy", format!("http://u:{}@h:1", secret("E"))),
            ("AX_WEB_PROXY_URL", format!("http://u:{}@127.0.0.1:9", secret("F"))),
            ("AX_WEB_PROXY_SOCKET", String::new()),
            ("BASH_FUNC_x%%", format!("() {{ echo {}; }}", secret("G"))),
            ("BASH_ENV", format!("/{}", secret("H"))),
            ("GIT_SSH_COMMAND", secret("I")),
            ("NODE_OPTIONS", secret("J")),
            ("PYTHONPATH", format!("/{}", secret("K"))),
            ("LD_LIBRARY_PATH", format!("/{}", secret("L"))),
            ("AX_PASS_ENV", "AX_IPC_TOKEN,LD_LIBRARY_PATH,BASH_ENV,PATH".to_owned()),
            ("WORKSPACE_REPO_URL", format!("http://agent:{}@127.0.0.1:{port}/remote.git", secret("GIT"))),
        ] {
            runner = runner.env(name, value);
        }
        let ended = runner.run();
        (host, ended)
    });
    let (host, ended) = played.await.unwrap();
    assert_eq!((ended.code, ended.text().as_str()), (Some(0), "done"), "{}", ended.stderr);
    assert_eq!(host.violations(), []);
    assert!(!ended.stderr.contains(&WORD.concat()), "in the log: {}", ended.stderr);
    let told = told(&host);
    assert_eq!(
        output(&told[0]),
        "AX_WORKSPACE CARGO_HTTP_CAINFO CURL_CA_BUNDLE GIT_EDITOR GIT_PAGER GIT_SSL_CAINFO GIT_TERMINAL_PROMPT HOME \
         HTTPS_PROXY HTTP_PROXY NODE_EXTRA_CA_CERTS NODE_USE_ENV_PROXY NO_PROXY PAGER PATH PWD REQUESTS_CA_BUNDLE SHELL \
         SHLVL SKILL_KEY SSL_CERT_FILE TERM WGETRC XDG_CACHE_HOME _ http_proxy https_proxy no_proxy npm_config_cache \
         npm_config_cafile "
    );
    for found in &told {
        assert!(!found.contains(&WORD.concat()), "{found}");
    }
    let looked = output(&told[1]);
    assert!(looked.contains("/proc/[0-9]*/environ []") && looked.contains("/proc/[0-9]*/cmdline []"), "{looked}");
    assert!(!looked.contains("file ./"), "{looked}");
    for who in ["keeper", "runner"] {
        for way in ["pidfd_getfd", "seize", "fd", "map_files", "mem", "maps", "auxv", "syscall", "pagemap", "ns"] {
            assert!(looked.contains(&format!("{who} {way} refused")), "{who} {way}: {looked}");
        }
    }
    let workspace = host.workspace();
    assert!(workspace.join("watching").exists());
    let caught = std::fs::read_to_string(workspace.join("caught")).unwrap_or_default();
    assert_eq!(caught, "", "a command that was left running has seen the repository's password");
    let there = ["--git-dir=remote.git", "show", "main:saved.txt"];
    let there = std::process::Command::new("git").args(there).current_dir(&remote).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&there.stdout), "data\n", "the work was saved");
}

/// Tries the host's doors without what only the runner has.
const KNOCK: &str = r#"
import errno, json, os, socket, struct, sys, urllib.error, urllib.request
frame = json.dumps({"_msgId": "1", "action": "sandbox_approve", "operation": "bash", "command": "ls"}).encode()
names = {line.split()[7] for line in open("/proc/net/unix").read().splitlines()[1:] if len(line.split()) > 7}
names.add(os.environ.get("HOST_SOCKET", "/nowhere"))
for name in sorted(name for name in names if name == os.environ.get("HOST_SOCKET")):
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
        try:
            s = socket.socket(socket.AF_UNIX, kind); s.connect(name); s.sendall(struct.pack(">I", len(frame)) + frame); print("CAME IN")
        except OSError as error: print("socket", errno.errorcode[error.errno])
if url := os.environ.get("HOST_URL"):
    for path in ("/internal/ipc", "/internal/work"):
        for token in (None, "Bearer ", "Bearer null", "Bearer " + os.environ.get("POD_NAME", "x")):
            request = urllib.request.Request(url + path, data=frame if path != "/internal/work" else None)
            if token is not None: request.add_header("Authorization", token)
            try: print("CAME IN", urllib.request.urlopen(request, timeout=20).read())
            except urllib.error.HTTPError as error: print("http", error.code)
"#;

#[test]
fn b11_a_command_without_the_runners_token_or_connection_is_nobody() {
    if !python("b11_a_command_without_the_runners_token_or_connection_is_nobody") {
        return;
    }
    let fds = "ls /proc/self/fd | tr '\\n' ' '";
    let calls = [bash(fds), bash(fds), bash(fds), bash("python3 knock.py")];
    for builder in [FakeHost::socket, FakeHost::http] {
        let host = builder(crate::rows::at_once(&calls)).start();
        std::fs::write(host.workspace().join("knock.py"), KNOCK).unwrap();
        let http = host.url();
        let mut runner = as_stranger(runner(&host)).env("AX_PASS_ENV", "HOST_SOCKET,HOST_URL");
        runner = match host.transport() {
            ax_runner::devhost::Transport::Http => runner.env("HOST_URL", http),
            _ => runner.env("HOST_SOCKET", host.socket_path()),
        };
        let ended = runner.run();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let told = told(&host);
        for listing in &told[..3] {
            assert_eq!(output(listing), "0 1 2 3 ");
        }
        let knocked = output(&told[3]);
        assert!(!knocked.contains("CAME IN") && !knocked.trim().is_empty(), "{knocked}");
        assert_eq!(host.requests_of("sandbox_approve").iter().filter(|request| request.carried_out).count(), 4);
        if matches!(host.transport(), ax_runner::devhost::Transport::Socket) {
            assert_eq!(host.connections().0, 1, "the runner's own");
            assert_eq!(host.violations(), []);
        } else {
            assert!(knocked.lines().all(|line| ["http 401", "http 404", "http 403"].contains(&line)), "{knocked}");
        }
    }
}
