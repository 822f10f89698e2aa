//! The table of processes under many schedules: commands that end well, badly, late, never or not alone, while callers cancel, give
//! up and run out of time. Each call must get its own end, and nothing may be left of any. `AX_SEEDS=FROM-TO` tries others.

use super::*;

/// Small, and the same everywhere.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A command, and how it ends when nobody interferes; `None` when it does not.
fn command(draw: &mut Draw, mark: &str) -> (String, Option<End>) {
    let code = i32::try_from(draw.below(100)).unwrap();
    let ms = draw.below(40);
    match draw.below(9) {
        0 => (format!("exit {code}"), Some(End::Exit(code))),
        1 => (format!("sleep .0{ms}; exit {code}"), Some(End::Exit(code))),
        2 => ("kill -9 $$".to_owned(), Some(End::Signal(9))),
        3 => (format!("(sleep .0{ms} &) ; exit {code}"), Some(End::Exit(code))),
        4 => (format!("setsid sleep {mark} & exit {code}"), Some(End::Exit(code))),
        5 => (format!("(setsid bash -c 'trap \"\" TERM HUP; sleep {mark}; :' &) ; exit {code}"), Some(End::Exit(code))),
        6 => (format!("sleep {mark} & wait"), None),
        7 => (format!("trap '' TERM; while :; do sleep {mark}; done"), None),
        _ => (format!("(setsid sleep {mark} &) ; sleep {mark}"), None),
    }
}

async fn schedule(seed: u64) {
    let mut draw = Draw(seed);
    let session = Session::new();
    let mark = mark();
    let calls = (0..6 + draw.below(8)).map(|_| {
        let (text, natural) = command(&mut draw, &mark);
        let (start, cut) = (Duration::from_millis(draw.below(30)), Duration::from_millis(draw.below(60)));
        let time = if natural.is_none() && draw.below(2) == 0 { cut } else { LONG };
        // Cancelled, given up, or left alone.
        let fate = if natural.is_none() && time == LONG { draw.below(2) } else { draw.below(6) };
        let session = &session;
        async move {
            tokio::time::sleep(start).await;
            let cancel = CancellationToken::new();
            let run = session.shell.run(&text, &session.env, session.root(), time, &cancel);
            let ended = match fate {
                0 => {
                    let later = async {
                        tokio::time::sleep(cut).await;
                        cancel.cancel();
                    };
                    tokio::join!(tokio::time::timeout(HANG, run), later).0
                }
                // Dropped where it stands.
                1 => match tokio::time::timeout(cut, run).await {
                    Ok(ended) => Ok(ended),
                    Err(_) => return,
                },
                _ => tokio::time::timeout(HANG, run).await,
            };
            let ended = ended.unwrap_or_else(|_| panic!("seed {seed}: {text} hangs")).unwrap();
            let allowed = [natural, (fate == 0).then_some(End::Cancelled), (time != LONG).then_some(End::TimedOut)];
            assert!(allowed.contains(&Some(ended.end)), "seed {seed}: {text} ended as {:?}", ended.end);
        }
    });
    let calls: Vec<_> = calls.collect();
    futures_util::future::join_all(calls).await;
    // Some may be told to be left, where the machine is too busy to let them go in time; in the end none is.
    session.shell.shutdown().await;
    let start = Instant::now();
    while !marked(&mark).is_empty() || session.shell.background() > 0 {
        assert!(start.elapsed() < HANG, "seed {seed}: still there: {:?}", marked(&mark));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn every_call_has_its_own_end_under_every_schedule() {
    alone("schedule::every_call_has_its_own_end_under_every_schedule", async {
        let range = std::env::var("AX_SEEDS").unwrap_or_else(|_| "0-6".to_owned());
        let (from, to) = range.split_once('-').expect("AX_SEEDS is FROM-TO");
        let stop = CancellationToken::new();
        let reaper = tokio::spawn(os::adopt_orphans(stop.clone()));
        // What the first session sets up for all stays.
        schedule(from.parse().unwrap()).await;
        let before = descriptors();
        for seed in from.parse().unwrap()..to.parse().unwrap() {
            schedule(seed).await;
        }
        let start = Instant::now();
        while zombies() > 0 || descriptors() > before {
            let (zombies, now) = (zombies(), descriptors());
            assert!(start.elapsed() < HANG, "{zombies} zombies, {before} descriptors have become {now}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        stop.cancel();
        reaper.await.unwrap().unwrap();
    });
}
