//! Everything a stopped call started dies, by whatever way it tried to get out.

use super::*;

/// Commands that do not end by themselves and leave processes in every way there is. `M` stands for the mark.
const CLINGING: [&str; 9] = [
    r#"setsid bash -c 'trap "" TERM HUP; while :; do date >>tick; sleep .2; : M; done' & sleep M"#,
    r#"python3 -c 'import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        "M"
        time.sleep(300)
    os._exit(0)
time.sleep(300)'"#,
    r#"(trap "" TERM; bash -c 'trap "" TERM INT HUP; sleep M & while :; do sleep .1; done; : M' & exit) ; sleep M"#,
    "mkfifo p; cat p & echo x > p; sleep M",
    "env -i setsid -f sleep M; sleep M",
    "sleep M & kill -STOP $!; kill -STOP $BASHPID",
    "trap '' TERM; while :; do setsid -f sleep M; sleep .05; done",
    "exec >/dev/null 2>&1; setsid -f sleep M; trap 'setsid -f sleep M' TERM; sleep M",
    "sleep M | sleep M | (exec -a '(x) S 1 1 (' sleep M)",
];

#[test]
fn a_time_limit_ends_all_of_it() {
    alone("stopping::a_time_limit_ends_all_of_it", async {
        for command in CLINGING {
            let session = Session::new();
            let mark = mark();
            let answer = session.bash_for(&format!("echo started; {}", command.replace('M', &mark)), Some(1500)).await;
            assert!(answer.output.starts_with("Timed out after 1500 ms"), "{command}: {}", answer.output);
            assert!(answer.output.contains("\nstarted\n"));
            assert_eq!((answer.code, answer.note), (124, None), "{command}");
            assert_eq!(marked(&mark), NONE, "{command}");
            let size = || std::fs::metadata(session.root().join("tick")).map(|meta| meta.len()).unwrap_or(0);
            let before = size();
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(size(), before);
        }
    });
}

#[test]
fn a_cancellation_ends_all_of_it_and_is_no_time_limit() {
    alone("stopping::a_cancellation_ends_all_of_it_and_is_no_time_limit", async {
        for command in CLINGING {
            let session = Session::new();
            let mark = mark();
            let cancel = session.cancel.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(400)).await;
                cancel.cancel();
            });
            let answer = session.bash(&command.replace('M', &mark)).await;
            assert!(answer.output.starts_with("Cancelled"), "{command}: {}", answer.output);
            assert_eq!(answer.code, 130);
            assert_eq!(marked(&mark), NONE, "{command}");
            let after = session.bash("echo never").await;
            assert_eq!((after.code, after.output.contains("never")), (130, false));
        }
    });
}

#[test]
fn shutdown_ends_running_and_left_behind() {
    alone("stopping::shutdown_ends_running_and_left_behind", async {
        let session = Session::new();
        let mark = mark();
        for command in CLINGING {
            session.bash(&format!("({}) & echo", command.replace('M', &mark))).await;
        }
        let running = {
            let (shell, env, root) = (session.shell.clone(), session.env.clone(), session.root().to_owned());
            let command = format!("sleep {mark}");
            tokio::spawn(async move { shell.run(&command, &env, &root, LONG, &CancellationToken::new()).await })
        };
        tokio::time::sleep(Duration::from_millis(300)).await;
        session.shell.shutdown().await;
        assert_eq!(running.await.unwrap().unwrap().end, End::Cancelled);
        none_left(&mark).await;
        assert_eq!(session.end("echo", LONG).await.0, End::Cancelled);
    });
}

#[test]
fn a_dropped_call_ends_all_of_it() {
    alone("stopping::a_dropped_call_ends_all_of_it", async {
        let session = Session::new();
        let mark = mark();
        let command = format!("setsid -f sleep {mark}; trap '' TERM; sleep {mark}");
        let call = session.bash(&command);
        assert!(tokio::time::timeout(Duration::from_millis(300), call).await.is_err());
        none_left(&mark).await;
    });
}

#[test]
fn a_killed_runner_takes_everything_with_it() {
    alone("stopping::a_killed_runner_takes_everything_with_it", async {
        if let Ok(mark) = std::env::var("TEST_MARK") {
            let session = Session::new();
            for command in CLINGING {
                session.bash(&format!("({}) & echo", command.replace('M', &mark))).await;
            }
            session.bash(&format!("sleep {mark}")).await;
            unreachable!("this process is killed before");
        }
        let mark = mark();
        // The killed process cannot tidy up; its directories go with ours.
        let scratch = tempfile::tempdir().unwrap();
        let mut runner = myself("stopping::a_killed_runner_takes_everything_with_it")
            .env("TEST_MARK", &mark)
            .env("TMPDIR", scratch.path())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while marked(&mark).len() < CLINGING.len() {
            assert!(start.elapsed() < HANG);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        runner.kill().unwrap();
        runner.wait().unwrap();
        none_left(&mark).await;
    });
}

#[test]
fn a_killed_keeper_is_noticed_and_nothing_survives_it() {
    alone("stopping::a_killed_keeper_is_noticed_and_nothing_survives_it", async {
        let session = Session::new();
        let mark = mark();
        let bystander = {
            let (shell, env, root) = (session.shell.clone(), session.env.clone(), session.root().to_owned());
            let command = format!("sleep 1; echo bystander; sleep {mark}1 & echo");
            tokio::spawn(async move { shell.run(&command, &env, &root, LONG, &CancellationToken::new()).await })
        };
        let answer = session
            .bash(&format!("setsid -f sleep {mark}2; trap '' TERM; echo before; kill -9 $PPID; sleep {mark}2"))
            .await;
        assert!(answer.output.starts_with("Command error: "), "{}", answer.output);
        assert!(answer.output.contains("before"));
        assert_eq!(answer.code, 1);
        none_left(&format!("{mark}2")).await;
        // The others are untouched.
        let bystander = bystander.await.unwrap().unwrap();
        assert_eq!((bystander.end, bystander.background), (End::Exit(0), 1));
        // It may still be the shell that is about to become `sleep`.
        until("a bystander's process is gone", || marked(&format!("sleep\0{mark}1")).len() == 1).await;
        session.shell.shutdown().await;
        none_left(&mark).await;
        // A stopped keeper cannot tell; the time limit still holds.
        let answer = session_after(&mark).await;
        assert!(answer.output.starts_with("Timed out"), "{}", answer.output);
        none_left(&mark).await;
    });
}

async fn session_after(mark: &str) -> Answer {
    Session::new().bash_for(&format!("kill -STOP $PPID; setsid -f sleep {mark}; exit 0"), Some(500)).await
}
