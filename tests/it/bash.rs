//! CASES B01–B24 through the built runner: a scripted model asks, the host approves, and what the model is told is true.

use crate::rows::*;
use crate::support::{comes_true, runner};
use ax_runner::devhost::{FakeHost, Signal};
use serde_json::json;
use std::time::{Duration, Instant};

/// Far more than any of these takes, far less than the commands in them sleep.
const SOON: Duration = Duration::from_secs(240);

#[test]
fn b01_a_call_ends_with_its_shell() {
    let holders = [
        "sleep 300 & echo done",
        "(while :; do echo x; sleep .1; done) & echo done",
        "sleep 300 >/dev/null & echo done",
        "nohup setsid sleep 300 & echo done",
        "sleep 300 2>/dev/null & disown; echo done",
        "coproc sleep 300; echo done",
        "exec 3> >(sleep 300); echo done",
        "(sleep 300 & sleep 300 & wait) & echo done",
        "echo done; kill -STOP $BASHPID & sleep .1",
        "mkfifo p; sleep 300 <> p & echo done",
        "python3 -c 'import os; os.fork() or os.fork() or __import__(\"time\").sleep(300)' & echo done",
    ];
    let mut calls: Vec<_> = holders.iter().map(bash).collect();
    calls.push(bash("echo ok"));
    calls.push(bash("(sleep 0.2; echo late) & wait; echo done"));
    calls.extend((0..20).map(|_| bash("seq 1 200000")));
    let begun = Instant::now();
    let (host, told) = play(one_by_one(&calls));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    for (command, told) in holders.iter().zip(&told) {
        let output = output(told);
        assert!(
            output.contains("done") && !output.starts_with("Exit") && !output.starts_with("Timed"),
            "{command}: {told}"
        );
    }
    assert_eq!(output(&told[holders.len()]), "ok\n");
    assert_eq!(output(&told[holders.len() + 1]), "late\ndone\n");
    for told in &told[holders.len() + 2..] {
        assert!(output(told).ends_with("\n199999\n200000\n"), "a tail is lost");
    }
    assert_eq!(working_in(&host.workspace()), [""; 0]);
}

/// Writes to `tick-NAME` for ever and will not go.
fn ticker(name: &str) -> String {
    format!("trap \"\" TERM HUP INT; while :; do date >> tick-{name}; sleep .05; done")
}

/// Ways to get out of the shell's group, session and parentage.
fn escapes() -> Vec<String> {
    vec![
        format!("echo begun; setsid bash -c '{}' & sleep 300", ticker("a")),
        format!(
            "echo begun; python3 -c 'import os\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  os.execvp(\"bash\", [\"bash\", \"-c\", \"\"\"{}\"\"\"])' ; sleep 300",
            ticker("b").replace('"', "\\\"")
        ),
        format!("echo begun; (bash -c '{}' & exit 0); sleep 300", ticker("c")),
        "echo begun; mkfifo p2; cat p2 & echo x > p2; sleep 300".to_owned(),
        format!("echo begun; trap '' TERM; nohup setsid -f bash -c '{}'; sleep 300", ticker("d")),
        format!("echo begun; bash -c '{}' & kill -STOP $!; bash -c '{}' & wait", ticker("e"), ticker("f")),
        "echo begun; env -i setsid sh -c 'exec -a \"[kthreadd]\" sleep 300' & sleep 300".to_owned(),
    ]
}

#[test]
fn b02_what_a_stopped_call_has_started_is_gone() {
    let calls: Vec<_> = escapes().iter().map(|command| bash_for(command, 2500)).collect();
    let count = calls.len();
    let mut rounds = vec![json!({"tools": calls})];
    rounds.push(
        json!({"tools": [bash("sleep .3; wc -c tick-*; sleep 1.2; echo; wc -c tick-*; pgrep -fc 'tick-[a-f]'")]}),
    );
    rounds.push(json!({"text": "done"}));
    let (host, told) = play(ax_runner::devhost::Script::json(json!(rounds)));
    for (command, told) in escapes().iter().zip(&told) {
        let output = output(told);
        assert!(output.starts_with("Timed out after 2500 ms") && output.contains("\nbegun\n"), "{command}: {told}");
        assert!(!told.contains("could not be stopped"), "{command}: {told}");
    }
    let sizes = output(&told[count]);
    let (before, after) = sizes.strip_prefix("Exit code 1\n").unwrap_or(&sizes).split_once("\n\n").unwrap();
    assert!(after.starts_with(before) && before.contains("tick-a"), "something still writes:\n{sizes}");
    assert_eq!(working_in(&host.workspace()), [""; 0]);
}

#[test]
fn b02_a_stopped_runner_leaves_nothing() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let calls: Vec<_> = escapes().iter().map(bash).collect();
        let host = FakeHost::socket(at_once(&calls)).start();
        let running = runner(&host).spawn().unwrap();
        let begun = Instant::now();
        while !host.workspace().join("tick-b").exists() && begun.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(50));
        }
        running.signal(signal);
        let output = running.wait();
        assert_eq!(output.code, Some(128 + signal as i32), "{}", output.stderr);
        // What there was no time for, the keepers end.
        comes_true(|| working_in(&host.workspace()).is_empty());
        assert_eq!(working_in(&host.workspace()), [""; 0], "{signal}");
    }
    // Killed outright it cannot do anything, but its keepers can.
    let calls: Vec<_> = escapes().iter().map(bash).collect();
    let host = FakeHost::socket(at_once(&calls)).start();
    let running = runner(&host).spawn().unwrap();
    let begun = Instant::now();
    while !host.workspace().join("tick-b").exists() && begun.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(50));
    }
    running.signal(Signal::SIGKILL);
    assert_eq!(running.wait().signal, Some(9));
    comes_true(|| working_in(&host.workspace()).is_empty());
    assert_eq!(working_in(&host.workspace()), [""; 0]);
}

#[test]
fn b03_neither_stream_blocks_the_other() {
    let both = |first: &str, second: &str| {
        bash(format!(
            "python3 -c 'import sys; sys.{first}.write(\"1\"*1048576); sys.{first}.flush(); sys.{second}.write(\"2\"*1048576)'"
        ))
    };
    let calls = [
        both("stderr", "stdout"),
        both("stdout", "stderr"),
        bash("head -c 300000 /dev/zero | tr '\\0' e >&2; echo last"),
        bash("exec 2>&-; head -c 300000 /dev/zero | tr '\\0' e; echo last"),
        bash("(head -c 200000 /dev/zero | tr '\\0' a) & (head -c 200000 /dev/zero | tr '\\0' b >&2) & wait; echo last"),
    ];
    let (_host, told) = play(one_by_one(&calls));
    for told in &told[..2] {
        let output = output(told);
        assert!(output.starts_with("111") && output.ends_with("222") && output.contains("bytes left out here]"));
    }
    for told in &told[2..] {
        assert!(output(told).ends_with("last\n"), "{}", &told[told.len() - 100..]);
    }
}

#[test]
fn b04_output_without_end_is_bounded_and_told() {
    const PEAK: &str = "grep VmHWM /proc/$(awk '{print $4}' /proc/$PPID/stat)/status";
    let calls = [
        bash(PEAK),
        bash("yes | head -c 500M; exit 5"),
        bash("echo first; head -c 300M /dev/zero | tr '\\0' x; echo; echo last"),
        bash_for("yes >&2", 1500),
        bash("head -c 100M /dev/zero"),
        bash("head -c 50M /dev/urandom"),
        bash("yes $'\\e[31m\\x01\"\\\\' | head -c 20M"),
        bash_for("while :; do echo -n; printf '\\xff'; done", 700),
        bash(PEAK),
    ];
    let begun = Instant::now();
    let (host, told) = play(one_by_one(&calls));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let peak = |told: &str| output(told).split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap();
    let (base, after) = (peak(&told[0]), peak(&told[8]));
    assert!(after < base + 100 * 1024, "{base} → {after} KiB");
    for told in &told {
        assert!(told.encode_utf16().count() <= 200_000);
    }
    let yes = output(&told[1]);
    assert!(yes.starts_with("Exit code 5\ny\ny\n") && yes.ends_with("y\ny\n"), "{}", &yes[..80]);
    assert!(yes.contains("\n[524188000 bytes left out here]\n"), "the number of missing bytes is exact");
    let line = output(&told[2]);
    assert!(line.starts_with("first\nxxx") && line.ends_with("xx\nlast\n") && line.contains(" bytes left out here]"));
    assert!(output(&told[3]).starts_with("Timed out after 1500 ms"), "{}", &told[3][..100]);
    for report in host.requests_of("sandbox_result") {
        assert!(report.value["output"].as_str().unwrap().encode_utf16().count() <= 500_000);
    }
}

#[test]
fn b05_characters_survive_the_edges_of_chunks() {
    let mut cases: Vec<(String, String)> = vec![
        ("printf '\\xe2'; sleep .3; printf '\\x80\\x94'".into(), "—".into()),
        ("printf 'a\\xffb'".into(), "a\u{fffd}b".into()),
        ("printf 'x\\xe2\\x80'".into(), "x\u{fffd}".into()),
        ("printf '\\xf0\\x9f'; sleep .2; printf '\\x98' >&2; sleep .2; printf '\\x80'".into(), "😀".into()),
        ("printf '\\xed\\xa0\\xbd'".into(), "\u{fffd}\u{fffd}\u{fffd}".into()),
        ("printf '\\xc0\\xaf'".into(), "\u{fffd}\u{fffd}".into()),
        ("printf '\\xef\\xbb\\xbfx'".into(), "\u{feff}x".into()),
        ("printf 'e\\xcc\\x81'".into(), "e\u{301}".into()),
        ("printf 'a\\r\\nb\\x1b[1mc\\x85'".into(), "a\r\nb\u{1b}[1mc\u{fffd}".into()),
    ];
    for length in (4093..=4099).chain(8189..=8195).chain(65_533..=65_539) {
        let command = format!("head -c {length} /dev/zero | tr '\\0' a; printf 😀");
        cases.push((command, format!("{}😀", "a".repeat(length))));
    }
    let calls: Vec<_> = cases.iter().map(|(command, _)| bash(command)).collect();
    let (_host, told) = play(one_by_one(&calls));
    for ((command, wanted), told) in cases.iter().zip(&told) {
        assert!(output(told) == *wanted, "{command}: …{:?}", output(told).chars().rev().take(8).collect::<String>());
    }
}

#[test]
fn b07_a_command_has_no_input() {
    let commands = [
        "cat",
        "python3 -c 'print(repr(input()))'",
        "ssh -V; read x",
        "read -t 60 x; echo $?",
        "cat /dev/stdin",
        "head -c 1 <&0",
        "bash -i -c 'read x'",
        "cat /proc/self/fd/0",
        "exec 0<&-; cat",
        "tty; test -t 0; echo $?",
        "cat </dev/tty",
        "git commit",
        "less /etc/passwd >/dev/null",
    ];
    let calls: Vec<_> = commands.iter().map(bash).collect();
    for open in [false, true] {
        let begun = Instant::now();
        let configure = |runner: ax_runner::devhost::Runner| if open { runner.keep_stdin_open() } else { runner };
        let (host, told) = play_with(one_by_one(&calls), |_| {}, configure);
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        let payload = host.requests()[0].value["_requestId"].as_str().unwrap().to_owned();
        for (command, told) in commands.iter().zip(&told) {
            assert!(!told.contains("Timed out") && !told.contains(&payload), "{command}: {told}");
        }
        assert!(output(&told[1]).contains("EOFError"));
        assert_eq!(output(&told[9]), "not a tty\n1\n");
    }
}

#[test]
fn b08_the_end_is_told_as_it_was() {
    let table = [
        ("kill -9 $$", "Exit code 137 (killed by SIGKILL)\n", 137),
        ("kill -TERM $$", "Exit code 143 (killed by SIGTERM)\n", 143),
        ("exit 7", "Exit code 7\n", 7),
        ("exit 256", "(no output)", 0),
        ("exit -1", "Exit code 255\n", 255),
        ("bash -c 'kill -SEGV $$'", "Exit code 139", 139),
        ("kill -PIPE $$", "Exit code 141 (killed by SIGPIPE)\n", 141),
        ("kill -40 $$", "Exit code 168 (killed by signal 40)\n", 168),
        ("no-such-command", "Exit code 127\n", 127),
        ("touch plain; ./plain", "Exit code 126\n", 126),
        ("./.ax", "Exit code 126\n", 126),
        ("false | true", "(no output)", 0),
        ("set -o pipefail; false | true", "Exit code 1\n", 1),
        ("exit 137", "Exit code 137\n", 137),
        ("exit 124", "Exit code 124\n", 124),
        ("trap 'exit 3' EXIT", "Exit code 3\n", 3),
        ("exec false", "Exit code 1\n", 1),
        ("yes | head -1; exit ${PIPESTATUS[0]}", "Exit code 141\ny\n", 141),
        ("if", "Exit code 2\n", 2),
        ("trap '' TERM; kill -TERM $$; echo lives", "lives\n", 0),
    ];
    let mut calls: Vec<_> = table.iter().map(|(command, ..)| bash(command)).collect();
    calls.push(bash_for("sleep 300", 300));
    let (host, told) = play(one_by_one(&calls));
    let reports = host.requests_of("sandbox_result");
    for (at, (command, wanted, code)) in table.into_iter().enumerate() {
        assert!(output(&told[at]).starts_with(wanted), "{command}: {}", told[at]);
        assert_eq!(reports[at].value["exitCode"], code, "{command}");
        assert_eq!(reports[at].value["command"], command);
    }
    // Neither a kill nor the shell's own 124 reads like a time limit.
    assert!(output(&told[table.len()]).starts_with("Timed out after 300 ms"), "{:?}", told.last());
    assert_eq!(reports[table.len()].value["exitCode"], 124);
}

#[test]
fn b09_a_child_gets_the_documented_names_and_no_others() {
    const NAMES: [&str; 30] = [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "GH_TOKEN",
        "NPM_TOKEN",
        "MY_NEW_THING",
        "DATABASE_URL",
        "SSH_AUTH_SOCK",
        "KUBECONFIG",
        "AX_IPC_TOKEN",
        "AX_SECRET",
        "ax_ipc_token",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "BASH_ENV",
        "ENV",
        "BASH_FUNC_x%%",
        "PROMPT_COMMAND",
        "PS4",
        "PYTHONSTARTUP",
        "PYTHONPATH",
        "NODE_OPTIONS",
        "PERL5OPT",
        "RUBYOPT",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_GLOBAL",
        "RIPGREP_CONFIG_PATH",
        "EDITOR",
    ];
    const ALLOWED: [&str; 32] = [
        "AX_WORKSPACE",
        "GIT_EDITOR",
        "GIT_PAGER",
        "GIT_TERMINAL_PROMPT",
        "HOME",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "LANG",
        "LC_ALL",
        "LOGNAME",
        "NODE_USE_ENV_PROXY",
        "NO_PROXY",
        "PAGER",
        "PATH",
        "PWD",
        "SHELL",
        "SHLVL",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
        "XDG_CACHE_HOME",
        "_",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "npm_config_cache",
        "SKILL_KEY",
        "DEMO_PROXY",
        "KEEP_ME",
        "LC_CTYPE",
        "OLDPWD",
    ];
    let calls = [
        bash("env -0 | tr '\\n\\0' ' \\n' | cut -d= -f1 | sort"),
        bash("env; set; export -p; declare -f"),
        bash("tr '\\0' '\\n' < /proc/$$/environ; tr '\\0' '\\n' < /proc/self/environ"),
        bash("git init -q . 2>&1; git config --list --show-origin | head -50"),
        bash("echo $SKILL_KEY; echo $DEMO_PROXY"),
        bash("x"),
    ];
    let host = FakeHost::socket(one_by_one(&calls)).start();
    let mut payload = host.payload("canary1-message");
    payload["credentialEnv"] = json!({
        "SKILL_KEY": "skill-value-1", "AX_IPC_TOKEN": "canary1-payload", "LD_PRELOAD": "canary1", "PATH": "canary1",
        "BASH_ENV": "canary1", "HOME": "canary1", "BAD-NAME": "canary1", "HTTP_PROXY": "http://canary1"});
    let mut start = host.runner(crate::support::BIN).deadline(SOON).payload(&payload);
    for name in NAMES {
        // A preloaded library that is not there costs a warning on stderr, no more.
        start = start.env(name, format!("() {{ echo canary1-{name}; }}"));
    }
    let start = start
        .env("HTTP_PROXY", "http://canary1:canary1@proxy.example:3128/x")
        .env("AX_PASS_ENV", "DEMO_PROXY, KEEP_ME,LD_PRELOAD,AX_SECRET,BASH_ENV")
        .env("DEMO_PROXY", "http://canary1:canary1@proxy.example:3128/x")
        .env("KEEP_ME", "kept-value")
        .env("LC_ALL", "C.UTF-8")
        .env("USER", "somebody");
    let output_ = start.run();
    ended_well(&host, &output_);
    let told = told(&host);
    let names = output(&told[0]);
    for name in names.lines() {
        assert!(ALLOWED.contains(&name), "{name} is passed on");
    }
    assert!(["KEEP_ME", "SKILL_KEY", "USER", "LC_ALL"].iter().all(|name| names.lines().any(|line| line == *name)));
    for told in &told {
        assert!(!told.contains("canary1"), "{told}");
    }
    assert_eq!(output(&told[4]), "skill-value-1\nhttp://proxy.example:3128/x\n");
    assert!(output(&told[5]).starts_with("Exit code 127"), "an exported function came through: {}", told[5]);
    // The loader, which reads its variables before the runner does, is allowed to complain.
    let own = output_.stderr.lines().filter(|line| line.starts_with(['{', '['])).collect::<String>();
    assert!(!own.is_empty() && !own.contains("canary1"), "{own}");
    let audit = host.requests_of("sandbox_result");
    assert!(
        audit.iter().all(|report| !report.value.to_string().contains("skill-value-1")),
        "a credential is in the audit log"
    );
}

/// Looks for a word, given in two halves, in every way at every process above it.
const LOOK: &str = r#"
import ctypes, os, sys
mark = (sys.argv[1] + sys.argv[2]).encode()
libc = ctypes.CDLL(None, use_errno=True)
def parent(pid): return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
def memory(pid):
    found = b""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if start < 1 << 47 and end - start < 1 << 27:
                try:
                    mem.seek(start); found += mem.read(end - start)
                except OSError: pass
    return found
def vm_readv(pid):
    class Piece(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
    buffer = ctypes.create_string_buffer(64)
    here, there = Piece(ctypes.addressof(buffer), 64), Piece(0x400000, 64)
    n = libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    if n < 0 and ctypes.get_errno() == 14: return b"open"
    if n < 0: raise OSError(ctypes.get_errno(), "no")
    return b"open"
def attach(pid):
    if libc.ptrace(16, pid, 0, 0) < 0: raise OSError(ctypes.get_errno(), "no")
    os.waitpid(pid, 0x40000000); libc.ptrace(17, pid, 0, 0); return b"open"
def pidfd(pid):
    fd = os.pidfd_open(pid)
    for number in range(64):
        if libc.syscall(438, fd, number, 0) >= 0: return b"open"
    raise OSError(ctypes.get_errno(), "no")
read = lambda name: lambda pid: open(f"/proc/{pid}/{name}", "rb").read()
ways = {name: read(name) for name in ("environ", "cmdline", "auxv", "maps", "syscall", "stack", "comm", "status", "mountinfo")}
ways |= {"mem": memory, "vm_readv": vm_readv, "attach": attach, "pidfd": pidfd,
    "task": lambda pid: open(f"/proc/{pid}/task/{pid}/environ", "rb").read(),
    "fd": lambda pid: " ".join(os.listdir(f"/proc/{pid}/fd")).encode(),
    "fd0": lambda pid: open(f"/proc/{pid}/fd/0", "rb").read(1), "cwd": lambda pid: os.readlink(f"/proc/{pid}/cwd").encode(),
    "root": lambda pid: " ".join(os.listdir(f"/proc/{pid}/root")).encode(),
    "exe": lambda pid: os.readlink(f"/proc/{pid}/exe").encode()}
chain, at = [], parent(os.getppid())
while at > 0 and len(chain) < 12:
    chain.append(at); at = parent(at)
for depth, pid in enumerate(chain):
    for way, look in ways.items():
        try:
            text = look(pid)
            print(depth, way, "FOUND" if mark in text else "open")
        except OSError as error:
            print(depth, way, "refused")
"#;

#[test]
fn b10_the_runner_cannot_be_read() {
    const NAME: &str = "b10_the_runner_cannot_be_read";
    if !root(NAME) {
        return;
    }
    let sweep = "cat /proc/1/environ /proc/$PPID/environ /proc/*/environ /proc/*/task/*/environ /proc/*/cmdline 2>/dev/null | \
                 grep -ac CANARY_\\\\IN; ls -l /proc/$PPID/fd 2>&1 | tail -1; gdb -p $PPID -batch 2>&1 | grep -c 'not permitted'";
    let calls = [
        bash("python3 look.py CANARY_ IN_THE_RUNNER"),
        bash(sweep),
        read("/proc/self/environ"),
        read("/proc/1/environ"),
        grep("CANARY", "/proc/self/environ"),
        grep("CANARY", "/proc"),
        bash(
            "kill -ABRT $(awk '{print $4}' /proc/$PPID/stat) 2>/dev/null; sleep 1; find / -xdev -name 'core*' -newer look.py -type f 2>/dev/null | head; echo looked",
        ),
    ];
    let canary = ["CANARY_", "IN_THE_RUNNER"].concat();
    let host = FakeHost::socket(one_by_one(&calls[..6])).start();
    std::fs::write(host.workspace().join("look.py"), LOOK).unwrap();
    let mut payload = host.payload("go");
    payload["ipcToken"] = canary.as_str().into();
    payload["caCert"] = canary.as_str().into();
    let running = host
        .runner(crate::support::BIN)
        .user(STRANGER)
        .deadline(SOON)
        .payload(&payload)
        .env("AX_IPC_TOKEN", &canary)
        .env("SOME_TOKEN", &canary);
    let ended = running.run();
    ended_well(&host, &ended);
    let told = told(&host);
    assert!(told.iter().all(|told| !told.contains(&canary)), "{told:?}");
    let looked = output(&told[0]);
    assert!(!looked.contains("FOUND"), "{looked}");
    // 0 is the keeper, 1 the runner.
    for depth in 0..2 {
        for way in
            ["environ", "auxv", "maps", "mem", "vm_readv", "attach", "pidfd", "task", "fd", "fd0", "cwd", "root", "exe"]
        {
            assert!(looked.contains(&format!("{depth} {way} refused\n")), "{depth} {way}:\n{looked}");
        }
    }
    let swept = output(&told[1]);
    assert!(swept.starts_with("Exit code 1\n0\n") || swept.starts_with("0\n"), "{swept}");
    for told in &told[2..6] {
        assert!(told.contains("leads out of the workspace"), "{told}");
    }
    assert!(!ended.stderr.contains(&canary), "{}", ended.stderr);
}

/// Connects to the host's socket in every way and speaks as the runner would.
const FORGE: &str = r#"
import json, os, re, socket, struct, subprocess, sys
for fd in os.listdir("/proc/self/fd"):
    try:
        if int(fd) > 2 and os.readlink("/proc/self/fd/" + fd).startswith("socket:"): print("INHERITED", fd)
    except OSError: pass
def say(sock, body):
    data = json.dumps(body).encode(); sock.sendall(struct.pack(">I", len(data)) + data)
    sock.settimeout(3); return sock.recv(100)
frames = [{"_msgId": "900", "action": "sandbox_approve", "operation": "bash", "command": "echo FORGED"},
    {"_msgId": "901", "action": "sandbox_result", "operation": "bash", "command": "FORGED", "output": "x", "exitCode": 0},
    {"_msgId": "902", "action": "llm_call", "messages": [{"role": "user", "content": "FORGED"}]},
    {"_msgId": "903", "action": "memory_list", "scope": "FORGED"}]
path = sys.argv[1] if len(sys.argv) > 1 else ""
names = {line.split()[-1] for line in open("/proc/net/unix") if line.rstrip().endswith("proxy.sock")} | ({path} if path else set())
mine = sorted(name for name in names if name.startswith(os.path.dirname(os.getcwd())) or name == path)
print("known", len(mine))
for name in mine:
    os.symlink(name, "lnk"); os.symlink(os.path.dirname(name), "dlnk")
    def short():
        os.chdir(os.path.dirname(name)); return "proxy.sock"
    def descriptor():
        return "/proc/self/fd/%d/proxy.sock" % os.open(os.path.dirname(name), os.O_PATH)
    here = os.getcwd()
    for way in (lambda: name, lambda: here + "/lnk", lambda: here + "/dlnk/proxy.sock", short, descriptor,
                lambda: "/proc/self/root" + name, lambda: os.path.relpath(name, here) if not os.chdir(here) else ""):
        for frame in frames:
            try:
                sock = socket.socket(socket.AF_UNIX); sock.connect(way())
                print("REACHED", say(sock, frame))
            except OSError as error:
                print("refused", error.errno)
"#;

#[test]
fn b11_no_command_reaches_the_hosts_socket() {
    const NAME: &str = "b11_no_command_reaches_the_hosts_socket";
    if !root(NAME) {
        return;
    }
    let host = FakeHost::socket(at_once(&[])).start();
    let path = host.socket_path().display().to_string();
    let home = host.workspace().display().to_string();
    let forge = bash(format!("python3 forge.py {path}"));
    let ordinary = bash(
        "python3 - <<'E'\nimport socket, os, threading\na, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))\n\
         try:\n l = socket.socket(socket.AF_UNIX); l.bind('mine.sock'); l.listen()\n\
         except OSError as e: print('deny mode', e.errno); raise SystemExit\n\
         c = socket.socket(socket.AF_UNIX); c.connect('mine.sock'); print('own socket works')\nE",
    );
    // Each list into a file first: a pipe would be one more descriptor of the shell's.
    let descriptors = bash(
        "sleep .2; d=$(mktemp -d -p .); ls -l /proc/self/fd > $d/a; ls -l /proc/$$/fd > $d/b; awk 'NF > 2 {print $9, $11}' $d/a $d/b",
    );
    let calls = [descriptors.clone(), descriptors.clone(), descriptors, forge, ordinary];
    host.set_script(at_once(&calls));
    std::fs::write(host.workspace().join("forge.py"), FORGE).unwrap();
    let ended = runner(&host).user(STRANGER).run();
    ended_well(&host, &ended);
    let told = told(&host);
    for told in &told[..3] {
        for line in output(told).lines().filter(|line| !line.trim().is_empty()) {
            let (number, target) = line.split_once(' ').unwrap();
            let known = match number.parse::<u32>().unwrap() {
                0 => target == "/dev/null",
                1 => target.starts_with("pipe:") || target.starts_with(&*home),
                2 => target.starts_with("pipe:"),
                _ => target.starts_with("/proc/") && target.ends_with("/fd"),
            };
            assert!(known, "{told}");
        }
    }
    let forged = output(&told[3]);
    assert!(!forged.contains("REACHED") && !forged.contains("INHERITED"), "{forged}");
    assert!(forged.matches("refused").count() >= 28, "{forged}");
    assert!(output(&told[4]).contains("b'x'"), "{}", told[4]);
    assert!(host.requests().iter().all(|request| !String::from_utf8_lossy(&request.raw).contains("\"FORGED")));
    assert!(host.socket_path().exists());
}

#[test]
fn b13_orphans_are_reaped_and_no_status_is_stolen() {
    let wave: Vec<_> = (0..16).map(|_| bash("for i in 1 2 3 4 5 6; do (sleep .05 &); done; exit 3")).collect();
    let zombies = bash(
        "runner=$(awk '{print $4}' /proc/$PPID/stat); for i in {1..300}; do sleep .1; z=$(ps --ppid $runner -o stat= | grep -c ^Z); \
         c=$(ps --ppid $runner -o pid= | wc -l); [ \"$z $c\" = '0 1' ] && break; done; echo $z $c",
    );
    let stopped: Vec<_> = (1..=8).map(|at| bash_for("(sleep 300 &) ; sleep 300", at * 20)).collect();
    let rounds = json!([{"tools": wave}, {"tools": wave}, {"tools": stopped}, {"tools": [zombies]}, {"text": "done"}]);
    let (host, _) = play(ax_runner::devhost::Script::json(rounds));
    let reports = host.requests_of("sandbox_result");
    assert_eq!(reports.iter().filter(|report| report.value["exitCode"] == 3).count(), 32);
    assert_eq!(reports.iter().filter(|report| report.value["exitCode"] == 124).count(), 8);
    // Only the keeper of the call that looks.
    let last = reports.last().unwrap().value["output"].as_str().unwrap().to_owned();
    assert_eq!(last.split_whitespace().collect::<Vec<_>>(), ["0", "1"], "zombies, children: {last}");
}

#[test]
fn b14_a_lost_directory_does_not_lose_the_shell() {
    const NAME: &str = "b14_a_lost_directory_does_not_lose_the_shell";
    let calls = [
        bash("mkdir x && cd x && rm -rf ../x; pwd"),
        bash("pwd; ls"),
        bash("mkdir y && cd y && chmod 000 .; cd /etc"),
        bash("pwd; rmdir y"),
        bash("chmod 000 ."),
        bash("echo alive; ls -d .ax"),
        write("after.txt", "x"),
        read("after.txt"),
        bash("chmod 555 ."),
        bash("echo alive; chmod 755 ."),
    ];
    if root(NAME) {
        let (host, told) = play_with(one_by_one(&calls), |_| {}, |runner| runner.user(STRANGER));
        let home = host.workspace().display().to_string();
        assert_eq!(output(&told[1]), format!("{home}\n"));
        assert_eq!(output(&told[3]), format!("{home}\n"));
        assert!(
            told[5].contains("alive") && told[5].contains("chmod"),
            "closed and opened again, and told: {}",
            told[5]
        );
        assert!(told[6].contains("\"written\":true"), "{}", told[6]);
        assert_eq!(output(&told[9]), "alive\n");
    }
    let removed = [
        write("old.txt", "old"),
        bash("rm -rf \"$PWD\""),
        bash("pwd; ls -A"),
        write("new/a.txt", "x"),
        bash("cat new/a.txt; rm -rf \"$PWD\""),
        read("new/a.txt"),
        glob("**"),
        write("b.txt", "y"),
        bash("cat b.txt"),
        bash("mv \"$PWD\" \"$PWD.old\""),
        write("c.txt", "z"),
        bash("cat c.txt; mv \"$PWD.old\" old"),
    ];
    let (host, told) = play(one_by_one(&removed));
    let home = host.workspace().display().to_string();
    assert!(output(&told[2]) == format!("{home}\n") && told[2].contains("made anew"), "{}", told[2]);
    assert!(told[3].contains("\"written\":true"), "{}", told[3]);
    assert_eq!(output(&told[4]), "x");
    assert!(told[5].contains("no such file"), "{}", told[5]);
    assert!(told[6].contains("\"count\":0"), "{}", told[6]);
    assert_eq!(output(&told[8]), "y");
    assert!(told[10].contains("\"written\":true"), "{}", told[10]);
    assert_eq!(output(&told[11]), "z");
    assert_eq!(std::fs::read_to_string(host.workspace().join("old/b.txt")).unwrap(), "y");
}

#[test]
fn b14_a_workspace_that_became_something_else_is_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret.txt"), "canary").unwrap();
    for (what, command) in [
        ("a link", format!("mv \"$PWD\" \"$PWD.old\"; ln -s {} \"$PWD\"", outside.path().display())),
        ("a file", "mv \"$PWD\" \"$PWD.old\"; touch \"$PWD\"".to_owned()),
    ] {
        let calls = [
            bash(&command),
            write("n.txt", "x"),
            edit("secret.txt", "canary", "EVIL"),
            read("secret.txt"),
            grep("canary", "."),
            glob("*"),
            bash("ls"),
        ];
        let (_host, told) = play(one_by_one(&calls));
        for told in &told[1..] {
            assert!(!told.contains("canary") && !told.contains("secret.txt\""), "{what}: {told}");
        }
        assert!(!outside.path().join("n.txt").exists());
        assert_eq!(std::fs::read_to_string(outside.path().join("secret.txt")).unwrap(), "canary");
    }
}

#[test]
fn b14_the_next_turn_does_not_follow_what_replaced_the_workspace() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::create_dir(outside.path().join(".ax")).unwrap();
    std::fs::write(outside.path().join("secret.txt"), "canary").unwrap();
    let host = FakeHost::http(one_by_one(&[])).start();
    let replace = format!("mv \"$PWD\" \"$PWD.old\"; ln -s {} \"$PWD\"", outside.path().display());
    let script = json!([
        {"tools": [bash(replace)]}, {"text": "one"},
        {"tools": [write("n.txt", "x"), read("secret.txt"), edit("secret.txt", "canary", "EVIL"), glob("*")]}, {"text": "two"}]);
    host.set_script(ax_runner::devhost::Script::json(script));
    let mut first = host.payload("first");
    first["singleTurn"] = json!(false);
    host.push_work(&first);
    let running = host.runner(crate::support::BIN).deadline(SOON).spawn().unwrap();
    assert_eq!(host.wait_answer(1, SOON).unwrap().content, "one");
    let mut second = host.payload("second");
    second["singleTurn"] = json!(true);
    host.push_work(&second);
    let ended = running.wait();
    assert_eq!(host.answers().last().unwrap().content, "two", "{}", ended.stderr);
    let last = host.requests_of("llm_call").pop().unwrap().value.to_string();
    assert!(last.contains("is now a symbolic link") && !last.contains("\\\"content\\\":\\\"canary"), "{last}");
    assert!(!outside.path().join("n.txt").exists());
    assert_eq!(std::fs::read_to_string(outside.path().join("secret.txt")).unwrap(), "canary");
}

#[test]
fn b02_nothing_runs_where_it_could_not_be_found_again() {
    const NAME: &str = "b02_nothing_runs_where_it_could_not_be_found_again";
    if !root(NAME) || !crate::net::have("unshare", NAME) {
        return;
    }
    let hidden = ["unshare", "-m", "--propagation", "private", "sh", "-c", "mount -t tmpfs none /proc && exec \"$0\""];
    let foreign = ["unshare", "--pid", "--fork", "--kill-child"];
    for way in [hidden.as_slice(), &foreign] {
        let host = FakeHost::socket(one_by_one(&[bash("setsid sleep 300 & echo ran"), write("f", "x")])).start();
        let vector = way.iter().chain([&crate::support::BIN]).map(Into::into).collect();
        let ended = host.command(vector).user(0).deadline(SOON).payload(&host.payload("go")).run();
        if ended.code != Some(0) && ["mount", "unshare"].iter().any(|word| ended.stderr.contains(word)) {
            return crate::support::skip(NAME, ended.stderr.trim());
        }
        ended_well(&host, &ended);
        let told = told(&host);
        assert!(told[0].contains("/proc is missing, or shows another PID namespace"), "{way:?}: {}", told[0]);
        assert!(told[1].contains("written"), "{}", told[1]);
        assert_eq!(working_in(&host.workspace()), Vec::<String>::new());
    }
}

#[test]
fn b16_a_read_only_root_without_a_place_for_temporary_files() {
    const NAME: &str = "b16_a_read_only_root_without_a_place_for_temporary_files";
    if !root(NAME) || !crate::net::have("unshare", NAME) {
        return;
    }
    let long = format!("cat <<'E' | wc -c\n{}\nE", "x".repeat(90_000));
    let calls = [
        bash("touch /tmp/x; echo x > /var/tmp/x; mktemp"),
        bash("cat <<E\n$((1+1))\nE"),
        bash("read -r x <<< word; echo $x; cat <(echo sub)"),
        bash(&long),
        write("dir/a.txt", "one\n"),
        edit("dir/a.txt", "one", "two"),
        grep("two", "."),
        glob("**/*.txt"),
        bash("printf '#!/bin/sh\\necho ran\\n' > s.sh; chmod +x s.sh; ./s.sh; df -h . >/dev/null; mktemp -p ."),
    ];
    let host = FakeHost::socket(one_by_one(&calls)).start();
    let place = host.workspace().parent().unwrap().display().to_string();
    let setup = format!(
        "set -e; mount --bind {place} {place}; mount -o remount,bind,ro /; mount -t tmpfs -o noexec,size=1m none /var/tmp 2>/dev/null || :; exec \"$@\""
    );
    let vector = ["unshare", "-m", "--propagation", "private", "sh", "-c", &setup, "sh", crate::support::BIN];
    let ended =
        host.command(vector.iter().map(Into::into).collect()).user(0).deadline(SOON).payload(&host.payload("go")).run();
    if ended.code != Some(0) && ended.stderr.contains("mount") {
        return crate::support::skip(NAME, ended.stderr.trim());
    }
    ended_well(&host, &ended);
    let told = told(&host);
    assert!(told[0].contains("Read-only file system"), "{}", told[0]);
    assert!(output(&told[1]).contains('2') || told[1].contains("here-document"), "{}", told[1]);
    assert!(told[4].contains("written") && told[5].contains("edited"), "{told:?}");
    assert!(told[6].contains("dir/a.txt:1:two") && told[7].contains("dir/a.txt"), "{told:?}");
    assert!(output(&told[8]).starts_with("ran\n"), "{}", told[8]);
}

#[test]
fn b18_a_nul_is_an_error_or_a_character() {
    let nul = "\u{0}";
    let refused = [
        call("bash", json!({"command": format!("echo a{nul}b")})),
        call("bash", json!({"command": format!("{nul}")})),
        read(&format!("a{nul}b")),
        read(nul),
        write(&format!("w{nul}"), "x"),
        write("w", &format!("a{nul}b")),
        edit("e", nul, "x"),
        edit("e", "x", &format!("x{nul}")),
        grep(&format!("a{nul}"), "."),
        grep("a", &format!(".{nul}")),
        glob(&format!("*{nul}")),
        call("grep", json!({"pattern": "x", "glob": format!("*{nul}.rs")})),
        call("skill_write", json!({"name": format!("a{nul}"), "description": "x", "body": "b"})),
        call("memory", json!({"type": "write", "scope": "user", "content": format!("a{nul}b")})),
        call("web", json!({"type": "search", "query": format!("a{nul}b")})),
        call(nul, json!({})),
    ];
    let mut calls = refused.to_vec();
    calls.extend([
        bash("printf 'a\\0b'"),
        bash("head -c 200000 /dev/zero"),
        bash("printf '\\0' > z; cat z; echo x > \"$(printf 'n\\tm')\""),
        read("z"),
    ]);
    let (host, told) = play(one_by_one(&calls));
    for (call, told) in refused.iter().zip(&told) {
        let (name, short) = (call["name"].as_str().unwrap(), told.len() < 400);
        assert!(told.contains("NUL") || name == nul && told.contains("not found"), "{call}: {told}");
        assert!(short && !told.contains(nul), "{told}");
    }
    // A pattern of digits and the like is not the model's only way: the approvals are those of the last four.
    assert_eq!(host.requests_of("sandbox_approve").len(), 4);
    assert_eq!(output(&told[16]), "a\u{2400}b");
    assert!(told[17].contains("bytes left out here"), "{}", told[17].len());
}

#[test]
fn b22_both_streams_arrive_in_their_order() {
    let mut calls: Vec<_> = (0..40).map(|_| bash("echo o1; echo e1 >&2; echo o2; echo e2 >&2; exit 1")).collect();
    calls.push(bash("echo only >&2"));
    calls.push(bash("python3 -c 'import sys; sys.stderr.write(\"err\"); sys.exit(0)'"));
    calls.push(bash("echo out; exec 1>&-; echo err >&2"));
    let (_host, told) = play(one_by_one(&calls));
    for told in &told[..40] {
        assert_eq!(output(told), "Exit code 1\no1\ne1\no2\ne2\n");
    }
    assert_eq!(output(&told[40]), "only\n");
    assert_eq!(output(&told[41]), "err");
    assert_eq!(output(&told[42]), "out\nerr\n");
}

#[test]
fn b24_a_user_nobody_knows() {
    if !root("b24_a_user_nobody_knows") {
        return;
    }
    for uid in [1000, STRANGER, 4_000_000] {
        let calls = [
            bash("whoami; echo $?"),
            bash(
                "git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git log --format=%s",
            ),
            bash("cd ~ && touch f && pwd && ls -l f"),
            bash("cd && echo $HOME && test -w ~ && echo ~"),
            bash("python3 -c 'import os,pathlib; print(pathlib.Path.home()); print(os.path.expanduser(\"~\"))'"),
            bash("id -u; umask; git config --global x.y z && cat .gitconfig"),
            bash("ssh -o BatchMode=yes nobody@127.0.0.1 -p 1 2>&1 | head -2"),
        ];
        let (host, told) = play_with(one_by_one(&calls), |_| {}, |runner| runner.user(uid));
        let home = host.workspace().display().to_string();
        assert!(uid == 1000 || told[0].contains(&format!("cannot find name for user ID {uid}")), "{}", told[0]);
        assert_eq!(output(&told[1]), "x\n");
        assert!(output(&told[2]).starts_with(&format!("{home}\n-rw")), "{}", told[2]);
        assert_eq!(output(&told[3]), format!("{home}\n{home}\n"));
        assert_eq!(output(&told[4]), format!("{home}\n{home}\n"));
        assert!(output(&told[5]).starts_with(&format!("{uid}\n")), "{}", told[5]);
    }
}
