//! Input, exit codes, environment, directory, and commands of any shape.

use super::*;

#[test]
fn input_is_at_its_end() {
    alone("surroundings::input_is_at_its_end", async {
        let session = Session::new();
        assert_eq!(session.bash("cat").await.text, r#"{"output":"(no output)"}"#);
        assert!(session.bash("python3 -c 'print(repr(input()))'").await.output.contains("EOFError"));
        assert_eq!(session.bash("read x; echo $?").await.output, "1\n");
        assert_eq!(session.bash("readlink /proc/self/fd/0").await.output, "/dev/null\n");
        assert!(session.bash("cat </dev/tty").await.output.contains("/dev/tty"));
    });
}

#[test]
fn every_end_has_its_own_report() {
    alone("surroundings::every_end_has_its_own_report", async {
        let session = Session::new();
        std::fs::write(session.root().join("plain"), "x").unwrap();
        let cases = [
            ("kill -9 $$", 137, "Exit code 137 (killed by SIGKILL)\n"),
            ("kill -TERM $$", 143, "Exit code 143 (killed by SIGTERM)\n"),
            ("exit 7", 7, "Exit code 7\n"),
            ("exit 256", 0, "(no output)"),
            ("exit 137", 137, "Exit code 137\n"),
            ("bash -c 'kill -SEGV $$'", 139, "Exit code 139"),
            ("bash -c 'kill -SEGV $$'; exit $?", 139, "Exit code 139"),
            ("no-such-command", 127, "Exit code 127\n"),
            ("./plain", 126, "Exit code 126\n"),
            ("kill -34 $$", 162, "Exit code 162 (killed by signal 34)\n"),
            ("echo 'unfinished", 2, "Exit code 2\n"),
        ];
        for (command, code, words) in cases {
            let answer = session.bash(command).await;
            assert_eq!(answer.code, code, "{command}: {}", answer.output);
            assert!(answer.output.starts_with(words), "{command}: {}", answer.output);
            assert!(!answer.reported.starts_with("Exit code"));
        }
        assert_eq!(session.end("sleep 50", Duration::from_millis(50)).await.0, End::TimedOut);
        assert_eq!(session.end("kill -9 $$", LONG).await.0, End::Signal(9));
        assert_eq!(session.end("exit 137", LONG).await.0, End::Exit(137));
    });
}

#[test]
fn signals_start_at_their_defaults() {
    alone("surroundings::signals_start_at_their_defaults", async {
        let session = Session::new();
        let answer = session.bash(r"sed -n '/^Sig\(Blk\|Ign\|Cgt\)/p' /proc/self/status; trap").await;
        assert_eq!(answer.output, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n");
        // SIGPIPE ends a writer, as everywhere else.
        assert_eq!(session.bash("yes | head -1; echo ${PIPESTATUS[0]}").await.output, "y\n141\n");
        assert_eq!(session.bash("ulimit -c; ulimit -Hc").await.output, "0\n0\n");
    });
}

/// The runner may have many descriptors open; its children would suffer from a limit as large (`select`, closing them all).
#[test]
fn children_have_the_limit_of_descriptors_that_was_given() {
    alone("surroundings::children_have_the_limit_of_descriptors_that_was_given", async {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        let session = Session::new();
        let hard = getrlimit(Resource::RLIMIT_NOFILE).unwrap().1.min(1000);
        setrlimit(Resource::RLIMIT_NOFILE, 100, hard).unwrap();
        os::raise_descriptors();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
        let wanted = format!("100\n{hard}\n");
        let show = "ulimit -Sn; ulimit -Hn";
        assert_eq!(session.bash(show).await.output, wanted);
        assert_eq!(session.bash(&format!("bash -c '{show}'")).await.output, wanted);
        let mut command = tokio::process::Command::new("bash");
        os::with_given_descriptors(&mut command);
        assert_eq!(command.args(["-c", show]).output().await.unwrap().stdout, wanted.as_bytes());
        // One that was lowered meanwhile is no obstacle.
        setrlimit(Resource::RLIMIT_NOFILE, 80, 80).unwrap();
        assert_eq!(session.bash(show).await.output, "80\n80\n");
    });
}

#[test]
fn nothing_is_inherited() {
    alone("surroundings::nothing_is_inherited", async {
        let session = Session::new();
        // One descriptor a careless parent would leak, and calls under way at the same time.
        let leak = std::fs::File::open("/dev/null").unwrap();
        nix::fcntl::fcntl(&leak, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
        os::close_inherited();
        let busy = [session.bash("sleep .5"), session.bash("sleep .5")];
        let list = session.bash("ls /proc/self/fd; ls /proc/$$/fd; :");
        let (_, answer) = tokio::join!(futures_util::future::join_all(busy), list);
        assert_eq!(answer.output, "0\n1\n2\n3\n0\n1\n2\n");
        // The keeper holds two pipes and /dev/null, once it has got round to closing what the shell was started with.
        let look = "ls -l /proc/$PPID/fd | sed 's/.*-> //; s/[0-9]//g' | sort; cat /proc/$PPID/comm";
        let held = "/dev/null\n/dev/null\n/dev/null\npipe:[]\npipe:[]\ntotal \nax-keeper\n";
        if nix::unistd::geteuid().is_root() {
            let settled =
                "for i in {1..400}; do now=$(look); [ \"$now\" = \"$HELD\" ] && break; sleep .05; done; echo \"$now\"";
            let command = format!("HELD='{}'; look() {{ {look}; }}; {settled}", held.trim_end());
            assert_eq!(session.bash(&command).await.output, held);
        } else {
            assert!(session.bash(look).await.output.contains("Permission denied"));
        }
    });
}

#[test]
fn the_environment_is_the_list_and_nothing_else() {
    alone("surroundings::the_environment_is_the_list_and_nothing_else", async {
        let mut session = Session::new();
        let parent = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HTTP_PROXY", "http://u:canary@h"),
            ("MY_NEW_THING", "canary"),
            ("AX_IPC_TOKEN", "canary"),
            ("LD_PRELOAD", "/canary.so"),
            ("BASH_FUNC_x%%", "() { echo canary; }"),
            ("BASH_ENV", "/canary"),
            ("AX_PASS_ENV", "KEEP,AX_IPC_TOKEN,LD_PRELOAD"),
            ("KEEP", "kept"),
        ];
        let parent = parent.map(|(name, value)| (name.into(), value.into()));
        session.env = ChildEnv::new(session.root(), parent);
        session.env.with("TURN", "turn").unwrap();
        let answer = session.bash("env -0 | tr '\\0' '\\n' | cut -d= -f1 | sort | tr '\\n' ' '").await;
        assert_eq!(
            answer.output,
            "AX_WORKSPACE GIT_EDITOR GIT_PAGER GIT_TERMINAL_PROMPT HOME KEEP PAGER PATH PWD SHELL SHLVL TERM TURN _ "
        );
        let answer = session.bash("env; declare -p; x; cat /proc/self/environ | tr '\\0' '\\n'").await;
        assert!(!answer.output.contains("canary"));
        std::fs::write(session.root().join(".bashrc"), "echo startup").unwrap();
        std::fs::write(session.root().join(".bash_profile"), "echo startup").unwrap();
        std::fs::write(session.root().join(".profile"), "echo startup").unwrap();
        assert_eq!(session.bash("echo quiet").await.output, "quiet\n");
    });
}

#[test]
fn variables_that_no_program_can_be_given_are_named() {
    alone("surroundings::variables_that_no_program_can_be_given_are_named", async {
        let mut session = Session::new();
        let bare = session.env.clone();
        session.env.with("BIG_KEY", &"x".repeat(3 << 20)).unwrap();
        let answer = session.bash("echo never").await;
        let wanted = "Command error: no command can run: the variable BIG_KEY has 3145736 bytes, and";
        assert!(answer.output.contains(wanted) && answer.code == 1, "{}", answer.output);
        session.env = bare;
        for at in 0..70 {
            session.env.with(&format!("KEY_{at}"), &"x".repeat(100_000 + at)).unwrap();
        }
        let answer = session.bash("echo never").await;
        let wanted =
            ["the command (10 bytes) and its variables (", "the largest is KEY_69", "fewer or shorter credentials"];
        assert!(wanted.iter().all(|words| answer.output.contains(words)), "{}", answer.output);
    });
}

#[test]
fn home_is_the_workspace() {
    alone("surroundings::home_is_the_workspace", async {
        let session = Session::new();
        let answer = session.bash("cd ~ && touch f && pwd && ls && id -u && git --version >/dev/null").await;
        assert_eq!(answer.code, 0, "{}", answer.output);
        assert!(answer.output.starts_with(&format!("{}\nf\n", session.root().display())));
        let answer = session
            .bash("git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git log | cat")
            .await;
        assert_eq!(answer.code, 0, "{}", answer.output);
        // A name that cannot be found is said, not hidden.
        let answer = session.bash("whoami").await;
        assert!(answer.code == 0 || answer.output.contains("cannot find name"));
    });
}

#[test]
fn a_directory_that_goes_away_does_not_stick() {
    alone("surroundings::a_directory_that_goes_away_does_not_stick", async {
        let session = Session::new();
        let root = session.root().display().to_string();
        assert_eq!(session.bash("mkdir x && cd x && rm -rf ../x && pwd").await.code, 0);
        assert_eq!(session.bash("pwd").await.output, format!("{root}\n"));
        // The workspace itself is replaced; the next call is in the new one.
        assert_eq!(session.bash(&format!("cd / && rm -rf {root}")).await.code, 0);
        let answer = session.bash("pwd").await;
        assert!(answer.output.contains("the workspace") && answer.output.contains("cannot be entered"));
        assert_eq!(answer.code, 1);
        assert!(answer.reported.starts_with("Command error: "));
        std::fs::write(session.root(), "a file").unwrap();
        assert!(session.bash("pwd").await.output.contains("cannot be entered"));
        std::fs::remove_file(session.root()).unwrap();
        std::fs::create_dir(session.root()).unwrap();
        assert_eq!(session.bash("touch there && ls").await.output, "there\n");
    });
}

#[test]
fn a_command_of_any_length_is_the_same_command() {
    alone("surroundings::a_command_of_any_length_is_the_same_command", async {
        let session = Session::new();
        let rest = "echo \"$0|$#|$-|${c-unset}|${p-unset}|$*\"; set | grep -c ^__ax; exit 9\n";
        let short = session.bash(rest).await;
        for filler in ["# plain\n", "# 'quote\" $dollar `tick` \\ \n", "# €😀é\n", ": 'a\nb'\n"] {
            let long = format!("{}{rest}\n\n\n", filler.repeat(300_000 / filler.len()));
            assert!(long.len() > 131_072);
            let answer = session.bash_raw(&long).await;
            assert_eq!(answer, (End::Exit(9), short.reported.clone()), "{filler}");
        }
        // Data comes through byte for byte, to the last newline.
        let data: String = (0..20_000).map(|at| format!("{at} '\"$`\\ €😀\t*\n")).collect();
        let command = format!("cat <<'END'\n{data}\n\n\nEND\n");
        let answer = session.bash_raw(&format!("{{ {command}\n}} | sha256sum; ls -A; ls /proc/self/fd")).await.1;
        let expected = session.bash_raw("cat data | sha256sum");
        std::fs::write(session.root().join("data"), format!("{data}\n\n\n")).unwrap();
        let expected = expected.await.1;
        std::fs::remove_file(session.root().join("data")).unwrap();
        assert_eq!(answer, format!("{expected}data\n0\n1\n2\n3\n").replace("data\n", ""));
        let unfinished = format!("{}echo 'unfinished", "# filler\n".repeat(20_000));
        assert!(matches!(session.bash_raw(&unfinished).await.0, End::Exit(code) if code != 0));
    });
}

impl Session {
    /// Past the gate, whose limit on commands is smaller than bash's.
    async fn bash_raw(&self, command: &str) -> (End, String) {
        tokio::time::timeout(HANG, self.end(command, LONG)).await.expect("the call hangs")
    }
}

#[test]
fn a_command_may_begin_with_anything() {
    alone("surroundings::a_command_may_begin_with_anything", async {
        let session = Session::new();
        assert_eq!(session.bash("-x").await.code, 127);
        assert_eq!(session.bash("--help").await.code, 127);
        assert_eq!(session.bash("").await.text, r#"{"output":"(no output)"}"#);
        assert_eq!(session.bash("\n\n# only a comment").await.code, 0);
        assert_eq!(session.bash("echo $0 $#").await.output, "bash 0\n");
    });
}
