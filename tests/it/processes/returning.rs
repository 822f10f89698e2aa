//! What a call leaves behind neither holds it nor is lost.

use super::*;

#[test]
fn a_background_process_that_holds_the_pipe_does_not_hold_the_call() {
    alone("returning::a_background_process_that_holds_the_pipe_does_not_hold_the_call", async {
        let session = Session::new();
        let mark = mark();
        let commands = [
            format!("sleep {mark} & echo done"),
            format!("(while :; do echo x; sleep .1; done; : {mark}) & echo done"),
            format!("sleep {mark} >/dev/null & echo done"),
            format!("nohup setsid sleep {mark} & echo done"),
            format!("sleep {mark} 2>/dev/null & disown; echo done"),
            format!("coproc sleep {mark}; echo done"),
            format!("(yes & sleep {mark}) & echo done"),
        ];
        for command in &commands {
            // Held it would run out of time: 124.
            let answer = session.bash_for(command, Some(30_000)).await;
            assert_eq!(answer.code, 0, "{command}");
            assert!(answer.output.contains("done"), "{command}: {}", answer.output);
            assert!(answer.note.unwrap().contains("still running"), "{command}");
            let next = session.bash("echo ok").await;
            assert_eq!((next.output.as_str(), next.note), ("ok\n", None));
        }
        assert!(session.shell.background() >= commands.len());
        // On a busy machine some may be told to be left; in the end none is.
        session.shell.shutdown().await;
        none_left(&mark).await;
        until("calls are still counted", || session.shell.background() == 0).await;
    });
}

#[test]
fn what_is_waited_for_is_in_the_output() {
    alone("returning::what_is_waited_for_is_in_the_output", async {
        let session = Session::new();
        let answer = session.bash("(sleep 0.2; echo late) & wait; echo done").await;
        assert_eq!(answer.output, "late\ndone\n");
        let answer = session.bash("echo through > >(sed s/^/p-/)").await;
        assert_eq!((answer.output.as_str(), answer.note), ("p-through\n", None));
    });
}

#[test]
fn the_tail_is_never_lost() {
    alone("returning::the_tail_is_never_lost", async {
        let session = Session::new();
        for _ in 0..50 {
            let answer = session.bash("seq 1 200000").await;
            assert_eq!(answer.code, 0);
            assert!(answer.output.starts_with("1\n2\n") && answer.output.ends_with("\n200000\n"));
        }
    });
}

#[test]
fn a_background_writer_is_not_killed_by_the_missing_reader() {
    alone("returning::a_background_writer_is_not_killed_by_the_missing_reader", async {
        let session = Session::new();
        let file = session.root().join("count");
        let command = "(for i in {1..40}; do echo 0123456789 | head -c 100000000; echo $i > count; sleep .02; done) &";
        assert_eq!(session.bash(command).await.code, 0);
        let start = Instant::now();
        while std::fs::read_to_string(&file).unwrap_or_default().trim() != "40" {
            assert!(start.elapsed() < HANG);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

#[test]
fn both_streams_are_drained_together_and_keep_their_order() {
    alone("returning::both_streams_are_drained_together_and_keep_their_order", async {
        let session = Session::new();
        for (first, second) in [("stderr", "stdout"), ("stdout", "stderr")] {
            let answer = session
                .bash(&format!(
                    "python3 -c 'import sys; sys.{first}.write(\"e\"*1048576); sys.{second}.write(\"o\"*1048576)'"
                ))
                .await;
            assert_eq!(answer.code, 0);
            assert!(answer.output.contains("eeee") && answer.output.contains("oooo"));
        }
        for _ in 0..100 {
            let answer = session.bash("echo o1; echo e1 >&2; echo o2; echo e2 >&2; exit 1").await;
            assert_eq!(answer.output, "Exit code 1\no1\ne1\no2\ne2\n");
        }
        assert_eq!(session.bash("echo only >&2").await.text, r#"{"output":"only\n"}"#);
        assert_eq!(session.bash(":").await.text, r#"{"output":"(no output)"}"#);
    });
}
