//! As an ordinary user: reading the runner, fork bombs, and running out of things.

use super::*;

/// Becomes an ordinary user for good, if it is not one already.
fn drop_privileges(uid: u32) -> bool {
    use nix::unistd::{Gid, Uid, geteuid, setgid, setgroups, setuid};
    if !geteuid().is_root() {
        return true;
    }
    setgroups(&[]).is_ok() && setgid(Gid::from_raw(uid)).is_ok() && setuid(Uid::from_raw(uid)).is_ok()
}

#[test]
fn the_runner_cannot_be_read_by_its_commands() {
    const NAME: &str = "unprivileged::the_runner_cannot_be_read_by_its_commands";
    // In two halves, so that the word itself is in no command.
    const CANARY: [&str; 2] = ["CANARY_", "IN_MEMORY"];
    alone(NAME, async {
        let Ok(canary) = std::env::var("TEST_MARK") else {
            let done = myself(NAME).env("TEST_MARK", CANARY.concat()).output().unwrap();
            crate::support::relay(&(String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr)));
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            return;
        };
        if !drop_privileges(54_321) {
            return crate::support::skip(NAME, "neither an ordinary user nor able to become one");
        }
        let session = Session::new();
        std::fs::write(session.root().join("look.py"), LOOK).unwrap();
        let [first, second] = CANARY;
        let answer = session.bash(&format!("python3 look.py {first} {second}")).await;
        assert_eq!(answer.code, 0, "{}", answer.output);
        assert!(!answer.output.contains(&canary));
        // The control: of an ordinary process the same look finds everything.
        for way in ["environ", "cmdline", "mem", "vm_readv", "attach", "fd", "cwd"] {
            assert!(answer.output.contains(&format!("control {way} open")), "{way}: {}", answer.output);
        }
        for who in ["keeper", "runner"] {
            for way in ["environ", "mem", "vm_readv", "attach", "fd", "cwd", "root"] {
                assert!(answer.output.contains(&format!("{who} {way} refused")), "{who} {way}: {}", answer.output);
            }
            assert!(answer.output.contains(&format!("{who} cmdline clean")), "{}", answer.output);
        }
    });
}

/// Looks into the keeper and the runner in every way it knows, and for control into a process of its own.
const LOOK: &str = r#"
import ctypes, os, subprocess, sys
mark = (sys.argv[1] + sys.argv[2]).encode()
libc = ctypes.CDLL(None, use_errno=True)

def memory(pid):
    found = False
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            area, rights = line.split()[:2]
            start, end = (int(part, 16) for part in area.split("-"))
            if "r" in rights and end - start < 1 << 27 and start < 1 << 47:
                try:
                    mem.seek(start)
                    found |= mark in mem.read(end - start)
                except OSError:
                    pass
    return found

def vm_readv(pid):
    class Piece(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
    with open(f"/proc/{pid}/maps") as maps:
        start = int(maps.readline().split("-")[0], 16)
    buffer = ctypes.create_string_buffer(64)
    here, there = Piece(ctypes.addressof(buffer), 64), Piece(start, 64)
    if libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return True

def attach(pid):
    if libc.ptrace(16, pid, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    os.waitpid(pid, 0x40000000)
    libc.ptrace(17, pid, 0, 0)
    return True

ways = {
    "environ": lambda pid: mark in open(f"/proc/{pid}/environ", "rb").read(),
    "cmdline": lambda pid: mark in open(f"/proc/{pid}/cmdline", "rb").read(),
    "mem": memory,
    "vm_readv": vm_readv,
    "attach": attach,
    "fd": lambda pid: bool(os.listdir(f"/proc/{pid}/fd")),
    "cwd": lambda pid: bool(os.readlink(f"/proc/{pid}/cwd")),
    "root": lambda pid: bool(os.listdir(f"/proc/{pid}/root")),
}

def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])

child = subprocess.Popen(["sleep", "30", mark], env={"MARK": mark}, stderr=subprocess.DEVNULL) if False else     subprocess.Popen([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(30)", mark],
                     env={"MARK": mark}, stdout=subprocess.PIPE)
child.stdout.readline()
keeper = os.getppid()
if open(f"/proc/{keeper}/comm").read().strip() != "ax-keeper":
    keeper = parent(keeper)
for who, pid in (("control", child.pid), ("keeper", keeper), ("runner", parent(keeper))):
    for way, look in ways.items():
        try:
            print(who, way, "open" if look(pid) else "clean")
        except OSError:
            print(who, way, "refused")
child.kill()
"#;

#[test]
fn a_fork_bomb_is_put_out() {
    const NAME: &str = "unprivileged::a_fork_bomb_is_put_out";
    alone(NAME, async {
        use nix::sys::resource::{Resource, setrlimit};
        if !nix::unistd::geteuid().is_root() || !drop_privileges(crate::support::lone_user()) {
            return crate::support::skip(NAME, "needs root to become a user of its own, whose processes are bounded");
        }
        setrlimit(Resource::RLIMIT_NPROC, 150, 150).unwrap();
        let session = Session::new();
        for bomb in [
            ":(){ :|:& };:; sleep 30",
            "f(){ trap '' TERM; while :; do f & done; }; f",
            "b(){ setsid -f bash -c \"$c\"; b; }; export c='while :; do setsid -f bash -c \"$c\"; done'; b",
        ] {
            let answer = session.bash_for(bomb, Some(1500)).await;
            assert!(answer.output.starts_with("Timed out"), "{bomb}: {}", answer.output);
            assert_eq!(answer.note, None, "{bomb}");
            // We, the keeper, the shell and what it looks with; the last of the bomb may still be going.
            let look = "for i in {1..600}; do ps -o pid= -u $UID >them; [ $(wc -l <them) = 4 ] && break; sleep .1; done; wc -l <them";
            assert_eq!(session.bash(look).await.output, "4\n", "{bomb}");
        }
    });
}

#[test]
fn a_lack_of_processes_or_descriptors_is_an_answer() {
    const NAME: &str = "unprivileged::a_lack_of_processes_or_descriptors_is_an_answer";
    alone(NAME, async {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        if !nix::unistd::geteuid().is_root() || !drop_privileges(crate::support::lone_user()) {
            return crate::support::skip(NAME, "needs root to become a user of its own, whose processes are bounded");
        }
        let session = Session::new();
        for (limit, up_to) in [(Resource::RLIMIT_NPROC, 6), (Resource::RLIMIT_NOFILE, 24)] {
            let (soft, hard) = getrlimit(limit).unwrap();
            let mut refused = 0;
            for few in 0..up_to {
                setrlimit(limit, few, hard).unwrap();
                let answer = session.bash(":").await;
                setrlimit(limit, soft, hard).unwrap();
                if answer.code == 0 {
                    continue;
                }
                refused += 1;
                let words = ["no process could be started: the limit of", "bash could not", "error while loading"];
                assert!(words.iter().any(|words| answer.output.contains(words)), "{few}: {}", answer.output);
                assert_eq!(session.bash("echo alive").await.output, "alive\n");
            }
            assert!(refused > 1, "{limit:?}");
        }
        until("zombies are left", || zombies() == 0).await;
    });
}

/// With no command to be had, nobody else could end what keeps them from starting.
#[test]
fn what_is_left_running_makes_room_for_the_next_command() {
    const NAME: &str = "unprivileged::what_is_left_running_makes_room_for_the_next_command";
    alone(NAME, async {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        if !nix::unistd::geteuid().is_root() || !drop_privileges(crate::support::lone_user()) {
            return crate::support::skip(NAME, "needs root to become a user of its own, whose processes are bounded");
        }
        let session = Session::new();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NPROC).unwrap();
        let limit = |most| setrlimit(Resource::RLIMIT_NPROC, most, hard).unwrap();
        let fill = |count: usize| {
            let mark = mark();
            (format!("for i in $(seq {count}); do sleep {mark} & done"), mark)
        };
        // How many processes there are, found by trying: one more than that lets one more start.
        let used = || {
            let more = (1..).find(|most| {
                limit(*most);
                std::process::Command::new("/bin/true").status().is_ok()
            });
            more.unwrap() - 1
        };
        let (one, few) = fill(1);
        session.bash(&one).await;
        // No room for a keeper, none for its shell.
        for room in [0, 1] {
            let (three, many) = fill(3);
            session.bash(&three).await;
            // The keepers of those two, and none that is still ending.
            until("keepers do not end", || children(|_| true) == 2).await;
            limit(used() + room);
            let both = tokio::join!(session.bash("echo back"), session.bash("echo back"));
            limit(soft);
            assert_eq!((both.0.output.as_str(), both.1.output.as_str()), ("back\n", "back\n"));
            let told: Vec<String> = [both.0.note, both.1.note].into_iter().flatten().collect();
            let words =
                "the limit of processes was reached: 3 processes that earlier commands had left running were ended";
            assert_eq!(told, [words], "with room for {room}");
            assert_eq!((marked(&many), marked(&few).len()), (Vec::new(), 1));
        }
        limit(1);
        let (last, none) = (session.bash(":").await, session.bash(":").await);
        limit(soft);
        let remedy = "the limit of processes is reached; run fewer commands at once, or tell the user";
        assert!(
            last.output.contains(&format!(
                "though 1 of the processes that earlier commands had left running were ended for it: {remedy}"
            )),
            "{}",
            last.output
        );
        assert!(none.output.contains(&format!("no process could be started: {remedy}")), "{}", none.output);
        assert_eq!((marked(&few), session.bash("echo $((6 * 7))").await.output.as_str()), (Vec::new(), "42\n"));
    });
}

/// What holds for a session must not be what a moment without descriptors has left of it.
#[test]
fn a_lack_of_descriptors_does_not_weaken_the_session() {
    const NAME: &str = "unprivileged::a_lack_of_descriptors_does_not_weaken_the_session";
    alone(NAME, async {
        use ax_runner::os::guard::Setting;
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        let session = Session::new();
        let shell = || Shell::secluding(Setting::Auto, vec![session.root().join("host.sock")]);
        let usual = shell().seclusion().unwrap();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        for more in 0..16 {
            let shell = shell();
            setrlimit(Resource::RLIMIT_NOFILE, descriptors() as u64 + more, hard).unwrap();
            let _ = shell.run(":", &session.env, session.root(), LONG, &session.cancel).await;
            setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
            let after = shell.run("exit 3", &session.env, session.root(), LONG, &session.cancel).await;
            assert_eq!(after.unwrap().end, End::Exit(3), "{more} more");
            assert_eq!(shell.seclusion().unwrap(), usual, "{more} more");
        }
    });
}

#[test]
fn an_image_without_bash_is_an_answer() {
    const NAME: &str = "unprivileged::an_image_without_bash_is_an_answer";
    alone(NAME, async {
        let session = Session::new();
        std::fs::create_dir(session.root().join("dev")).unwrap();
        std::fs::write(session.root().join("dev/null"), "").unwrap();
        std::fs::create_dir(session.root().join("proc")).unwrap();
        std::os::unix::fs::symlink(std::process::id().to_string(), session.root().join("proc/self")).unwrap();
        if nix::unistd::chroot(session.root()).is_err() {
            return crate::support::skip(NAME, "needs root for an empty root directory");
        }
        let run = |path| session.shell.run("echo", &session.env, Path::new(path), LONG, &session.cancel);
        for _ in 0..3 {
            let error = run("/").await.unwrap_err().to_string();
            assert_eq!(
                error,
                "bash was not found at /bin/bash, /usr/bin/bash or /usr/local/bin/bash; install it in the image"
            );
        }
        std::fs::create_dir("/bin").unwrap();
        std::fs::write("/bin/bash", "not a program").unwrap();
        assert!(run("/").await.unwrap_err().to_string().starts_with("bash could not be executed: Permission denied"));
        assert!(run("/nowhere").await.unwrap_err().to_string().starts_with("the workspace /nowhere cannot be entered"));
    });
}
