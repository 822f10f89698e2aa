//! Commands that take all they can get, and a runner that is killed in the middle of a write.

use super::{Fault, NOBODY, Played, Row, can, on, play, root, said};
use crate::rows::{bash, bash_for, one_by_one, read, write};
use ax_runner::devhost::FakeHost;
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) const FAULTS: [Fault; 3] = [
    Fault("a fork bomb (100 processes for the user)", false, fork_bomb),
    Fault("2 GB of output", false, output),
    Fault("kill -9 at 50 points of a write", false, || killed(50)),
];

/// Gives a host's directories to a user who is not the one that starts the runner.
fn hand_over(host: &FakeHost, user: u32) {
    fn all(path: &Path, user: u32) {
        lchown(path, Some(user), Some(user)).unwrap();
        if path.symlink_metadata().unwrap().is_dir() {
            fs::read_dir(path).unwrap().for_each(|entry| all(&entry.unwrap().path(), user));
        }
    }
    let ipc = host.socket_path().parent().unwrap().to_owned();
    fs::set_permissions(ipc.parent().unwrap(), fs::Permissions::from_mode(0o711)).unwrap();
    all(&ipc, user);
    all(&host.workspace(), user);
}

/// In a namespace of its own, so that whatever happens ends with it.
fn fork_bomb() -> Result<Row, String> {
    root()?;
    can("unshare -pf --mount-proc setpriv --reuid 61234 --regid 61234 --clear-groups true")?;
    let calls = [
        bash_for("f() { f | f & }; f; sleep 300", 3_000),
        bash("echo again"),
        bash("for i in 1 2 3 4 5; do sleep .1; done; ls /proc | grep -c '^[0-9]'"),
    ];
    let host = FakeHost::socket(one_by_one(&calls)).start();
    hand_over(&host, NOBODY);
    let prefix = format!(
        "[ \"$AX_IN\" ] || {{ export AX_IN=1; ulimit -u 100; exec unshare -pf --kill-child --mount-proc \
         setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups \"$0\" \"$@\"; }}"
    );
    let played = on(host, &prefix, |runner| runner);
    let told = played.told();
    assert!(told[0].contains("timed out") || told[0].contains("time"), "{}", told[0]);
    assert_eq!(said(&told[1]).trim(), "again", "{told:?}");
    Ok(Row::new(
        &played,
        "the command, stopped at its time limit with all it started",
        "answered; the next command runs",
    ))
}

fn output() -> Result<Row, String> {
    let calls = [bash_for("yes | head -c 2G; echo end; exit 7", 120_000)];
    let played = play(one_by_one(&calls), "", |runner| runner);
    played.bounded();
    let told = &played.told()[0];
    let text = said(told);
    assert!(
        text.contains("\ny\ny\n") && text.contains("bytes left out here]") && text.contains("\nend\n"),
        "{told:.300}"
    );
    Ok(Row::new(
        &played,
        "the middle of the output, and how much is said",
        "answered; start, end and exit code are told",
    ))
}

/// The runner is killed somewhere between the approval of a write and its report.
fn killed(times: u64) -> Result<Row, String> {
    let (old, new) = ("o".repeat(1_500_000), "é".repeat(490_000));
    let (mut olds, mut news, mut left) = (0, 0, 0);
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    for at in 0..times {
        let host = FakeHost::socket(one_by_one(&[write("f", &new)])).start();
        let file = host.workspace().join("f");
        fs::write(&file, &old).unwrap();
        let running = super::start(&host, "").spawn().expect("the runner starts");
        assert!(host.wait_request("sandbox_approve", 1, crate::support::LIMIT).is_some());
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        // Wider steps later, so that some find the write over.
        let pause = Duration::from_micros(seed % 300 * (1 + at));
        let start = Instant::now();
        while start.elapsed() < pause {
            std::hint::spin_loop();
        }
        running.signal(Signal::SIGKILL);
        let output = running.wait();
        let content = fs::read(&file).unwrap();
        match content {
            content if content == old.as_bytes() => olds += 1,
            content if content == new.as_bytes() => news += 1,
            content => panic!("run {at}: {} bytes that are neither old nor new", content.len()),
        }
        let others: Vec<String> = fs::read_dir(host.workspace())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| !["f", ".ax", "bin"].contains(&name.as_str()))
            .collect();
        left += others.len();
        assert!(others.iter().all(|name| name.starts_with(".ax-tmp-")), "{others:?}");
        if at + 1 == times {
            println!("kill -9: {olds} old, {news} new, {left} temporary files left in {times} runs");
            // The next turn on what is left.
            let next = on(FakeHost::socket(one_by_one(&[read("f"), write("f", "x")])).start(), "", |runner| {
                runner.workspace(host.workspace())
            });
            assert_eq!(next.output.text(), "done");
            assert_eq!(fs::read(&file).unwrap(), b"x");
            let played = Played { host, output, peak: 0 };
            let lost = "the turn; at worst a temporary file beside it is left";
            return Ok(Row::new(
                &played,
                lost,
                "the file is the old or the new one, never a mixture; the next turn works",
            ));
        }
    }
    Err("no run".to_owned())
}
