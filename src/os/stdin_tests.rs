use super::*;
use nix::unistd::pipe;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

const LONG: Duration = Duration::from_secs(20);
const QUIET: Duration = Duration::from_millis(50);

/// `read` to its end on a runtime of its own.
fn read_now(
    input: BorrowedFd<'_>,
    cancelled: bool,
    max: usize,
    deadline: Duration,
    complete: impl Fn(&[u8]) -> bool,
    quiet: Duration,
) -> Result<Zeroizing<Vec<u8>>, StdinError> {
    let cancel = CancellationToken::new();
    if cancelled {
        cancel.cancel();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(read(input, &cancel, max, deadline, complete, quiet))
}

/// With a million bytes, a deadline that only a hang reaches, and nobody who cancels.
fn plain(input: impl AsFd, complete: impl Fn(&[u8]) -> bool) -> Result<Zeroizing<Vec<u8>>, StdinError> {
    read_now(input.as_fd(), false, 1_000_000, LONG, complete, QUIET)
}

fn json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(bytes).is_ok()
}

#[test]
fn reads_to_the_end_in_pieces() {
    let (input, output) = pipe().unwrap();
    let writer = std::thread::spawn(move || {
        let mut output = File::from(output);
        for _ in 0..300 {
            output.write_all(&[7; 1000]).unwrap();
        }
    });
    let got = plain(&input, |_| false).unwrap();
    assert_eq!(got.len(), 300_000);
    assert!(got.iter().all(|byte| *byte == 7));
    writer.join().unwrap();
}

#[test]
fn a_whole_payload_is_enough_when_nobody_closes() {
    let (input, output) = pipe().unwrap();
    let mut output = File::from(output);
    output.write_all(b"{\"message\":\"hi\"").unwrap();
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        output.write_all(b"}").unwrap();
        output
    });
    let got = plain(&input, json).unwrap();
    assert_eq!(&got[..], b"{\"message\":\"hi\"}");
    drop(late.join().unwrap());
}

#[test]
fn the_same_bytes_are_judged_once() {
    let (input, output) = pipe().unwrap();
    let mut output = File::from(output);
    output.write_all(b"{").unwrap();
    let asked = AtomicUsize::new(0);
    let complete = |_: &[u8]| {
        asked.fetch_add(1, Ordering::Relaxed);
        false
    };
    let end = read_now(input.as_fd(), false, 10, Duration::from_millis(400), complete, Duration::from_millis(1));
    assert!(matches!(end, Err(StdinError::TimedOut { .. })));
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[test]
fn silence_size_and_cancellation_end_it() {
    let (input, output) = pipe().unwrap();
    let end = read_now(input.as_fd(), false, 10, Duration::from_millis(100), json, QUIET);
    assert!(matches!(end, Err(StdinError::TimedOut { .. })));
    let end = read_now(input.as_fd(), true, 10, LONG, json, QUIET);
    assert!(matches!(end, Err(StdinError::Cancelled)));
    File::from(output).write_all(b"12345").unwrap();
    let end = read_now(input.as_fd(), false, 4, LONG, json, QUIET);
    assert!(matches!(end, Err(StdinError::TooLarge { max: 4 })));
}

#[test]
fn exactly_the_limit_is_allowed_and_empty_input_is_empty() {
    for (size, max) in [(0, 10), (10, 10), (65_536, 65_536), (100_000, 100_000)] {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; size]).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let got = read_now(file.as_fd(), false, max, LONG, |_| false, LONG).unwrap();
        assert_eq!(got.len(), size);
    }
    assert!(plain(File::open("/dev/null").unwrap(), json).unwrap().is_empty());
}

#[test]
fn a_cancellation_is_noticed_while_nothing_comes() {
    let (input, _output) = pipe().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let end = runtime.block_on(async {
        let cancel = CancellationToken::new();
        let later = cancel.clone();
        tokio::spawn(async move { later.cancel() });
        read(input.as_fd(), &cancel, 10, LONG, json, QUIET).await
    });
    assert!(matches!(end, Err(StdinError::Cancelled)));
}
