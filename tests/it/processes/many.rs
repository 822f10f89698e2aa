//! Many calls at a time, orphans, and what a call costs.

use super::*;

async fn five_hundred_calls() {
    let session = Arc::new(Session::new());
    let stop = CancellationToken::new();
    let reaper = tokio::spawn(os::adopt_orphans(stop.clone()));
    for _ in 0..63 {
        let calls = (0..8).map(|_| session.bash("(sleep .05 &) ; exit 3"));
        for answer in futures_util::future::join_all(calls).await {
            assert_eq!(answer.code, 3);
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for step in 0..200_u64 {
        let cancel = CancellationToken::new();
        let call = session.shell.run("(sleep 300 &) ; sleep 300", &session.env, session.root(), LONG, &cancel);
        let later = async {
            tokio::time::sleep(Duration::from_micros(step * 37 % 4000)).await;
            cancel.cancel();
        };
        let (ended, ()) = tokio::join!(call, later);
        assert_eq!(ended.unwrap().end, End::Cancelled);
    }
    until("calls are still counted", || session.shell.background() == 0).await;
    stop.cancel();
    reaper.await.unwrap().unwrap();
}

#[test]
fn many_calls_leave_no_zombies_and_no_descriptors() {
    alone("many::many_calls_leave_no_zombies_and_no_descriptors", async {
        let before = descriptors();
        five_hundred_calls().await;
        until("zombies are left", || zombies() == 0).await;
        until("descriptors are left", || descriptors() <= before + 4).await;
    });
}

#[test]
fn many_calls_on_many_threads_beside_a_thief_of_statuses() {
    alone("many::many_calls_on_many_threads_beside_a_thief_of_statuses", async {
        // A thread that takes the status of whatever child it can get.
        std::thread::spawn(|| {
            loop {
                let _ = nix::sys::wait::waitpid(None, Some(nix::sys::wait::WaitPidFlag::WNOHANG));
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        let calls = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
            runtime.block_on(async { tokio::spawn(five_hundred_calls()).await.unwrap() });
        });
        calls.join().unwrap();
    });
}

#[test]
fn orphans_are_reaped_and_known_children_are_not() {
    alone("many::orphans_are_reaped_and_known_children_are_not", async {
        os::harden().unwrap();
        let stop = CancellationToken::new();
        let reaper = tokio::spawn(os::adopt_orphans(stop.clone()));
        let start = |script: &str| {
            let script = script.to_owned();
            os::Known::start(move || {
                let child = bare("/bin/bash").args(["-c", &script]).spawn()?;
                let pid = i32::try_from(child.id()).unwrap();
                Ok((child, pid))
            })
            .unwrap()
        };
        // Ends at once and stays a zombie in front of the others until its owner looks.
        let (mut first, known) = start("exit 9");
        for _ in 0..20 {
            let (mut parent, _known) = start("(sleep .05; kill -34 $BASHPID) & (sleep .05) & exit 4");
            assert_eq!(parent.wait().unwrap().code(), Some(4));
        }
        let begin = Instant::now();
        while zombies() > 1 || std::fs::read_to_string(children()).unwrap().split_whitespace().count() > 1 {
            assert!(begin.elapsed() < HANG, "{} zombies", zombies());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(first.wait().unwrap().code(), Some(9));
        drop(known);
        stop.cancel();
        reaper.await.unwrap().unwrap();
    });
}

fn children() -> String {
    format!("/proc/self/task/{}/children", std::process::id())
}

fn bare(program: &str) -> std::process::Command {
    std::process::Command::new(program)
}

#[test]
fn the_cost_of_a_call_is_measured() {
    alone("many::the_cost_of_a_call_is_measured", async {
        let session = Session::new();
        let rounds = 100;
        let (mut own, mut plain) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..rounds {
            let start = Instant::now();
            bare("/bin/bash").args(["-c", "true"]).output().unwrap();
            plain += start.elapsed();
            let start = Instant::now();
            assert_eq!(session.end("true", LONG).await.0, End::Exit(0));
            own += start.elapsed();
        }
        println!("MEASURED bash -c true: {:?} a call, {:?} bare", own / rounds, plain / rounds);
    });
}
