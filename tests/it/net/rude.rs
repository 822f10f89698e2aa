//! Clients and hosts that leave without a word, or stay and do nothing (CASES P01).

use super::*;

/// Sends everything back; a connection that begins with `S` is never read again, one with `D` is dropped.
fn moody(directory: &TempDir) -> PathBuf {
    host(directory, |mut stream| async move {
        match stream.read_u8().await {
            Ok(b'S') => std::future::pending().await,
            Ok(b'D') | Err(_) => {}
            Ok(_) => {
                let mut buffer = vec![0; 16384];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    if stream.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                }
            }
        }
    })
}

async fn closed(bridge: &Bridge) {
    timeout(LONG, async {
        while bridge.counters().open > 0 {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("a tunnel stays open");
}

async fn echo(bridge: &Bridge) {
    let mut stream = client(bridge).await;
    stream.write_all(b"E").await.unwrap();
    stream.write_all(&pattern(100_000)).await.unwrap();
    let mut back = vec![0; 100_000];
    timeout(LONG, stream.read_exact(&mut back)).await.expect("hangs").unwrap();
    assert!(back == pattern(100_000));
}

#[tokio::test]
async fn a_client_that_resets_in_the_middle_frees_its_tunnel() {
    let directory = tempfile::tempdir().unwrap();
    let bridge = Bridge::start_with(moody(&directory), Bounds { tunnels: 4, ..Bounds::default() }).unwrap();
    for _ in 0..20 {
        let mut streams = Vec::new();
        for _ in 0..4 {
            let mut stream = client(&bridge).await;
            stream.write_all(b"E").await.unwrap();
            stream.write_all(&pattern(5000)).await.unwrap();
            // Unread bytes and no lingering: a reset.
            stream.set_zero_linger().unwrap();
            streams.push(stream);
        }
        drop(streams);
        closed(&bridge).await;
    }
    assert_eq!(bridge.counters().refused, 0);
    echo(&bridge).await;
}

#[tokio::test]
async fn a_host_that_reads_no_more_holds_up_its_own_tunnel_only() {
    let directory = tempfile::tempdir().unwrap();
    let bounds = Bounds { idle: Duration::from_secs(5), half_closed_idle: Duration::from_secs(5), ..Bounds::default() };
    let bridge = Bridge::start_with(moody(&directory), bounds).unwrap();
    let mut stuck = Vec::new();
    for _ in 0..8 {
        let mut stream = client(&bridge).await;
        stream.write_all(b"S").await.unwrap();
        stuck.push(tokio::spawn(async move { stream.write_all(&vec![7; 64 << 20]).await }));
    }
    echo(&bridge).await;
    for stream in stuck {
        assert!(timeout(LONG, stream).await.expect("never told").unwrap().is_err(), "it took 64 MiB that nobody read");
    }
    closed(&bridge).await;
    assert_eq!(bridge.counters().idled, 8);
}

#[tokio::test]
async fn a_host_that_drops_everything_breaks_no_later_tunnel() {
    let directory = tempfile::tempdir().unwrap();
    let path = moody(&directory);
    let bridge = Bridge::start(path.clone()).unwrap();
    for _ in 0..50 {
        let mut stream = client(&bridge).await;
        let _ = stream.write_all(b"D").await;
        let _ = stream.write_all(&pattern(100_000)).await;
        let _ = read_all(&mut stream).await;
    }
    closed(&bridge).await;
    // Another host takes the path while a tunnel to the first is open.
    let mut old = client(&bridge).await;
    old.write_all(b"Eab").await.unwrap();
    let mut back = [0; 2];
    timeout(LONG, old.read_exact(&mut back)).await.expect("hangs").unwrap();
    std::fs::remove_file(path).unwrap();
    moody(&directory);
    echo(&bridge).await;
    old.write_all(b"cd").await.unwrap();
    timeout(LONG, old.read_exact(&mut back)).await.expect("hangs").unwrap();
    assert_eq!(&back, b"cd");
}

/// In a process of its own, whose limit it lowers.
#[test]
fn a_lack_of_descriptors_is_not_an_absent_host() {
    let output = own_test("net::rude::a_lack_in_a_quiet_process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test]
#[ignore = "started by a_lack_of_descriptors_is_not_an_absent_host"]
async fn a_lack_in_a_quiet_process() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let directory = tempfile::tempdir().unwrap();
    let bridge = Bridge::start(host(&directory, |_| async {})).unwrap();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, descriptors() as u64 + 16, hard).unwrap();
    let mut held = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        held.push(file);
    }
    // One for the client and one for the bridge's end of it.
    held.truncate(held.len() - 2);
    let mut stream = client(&bridge).await;
    stream.write_all(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n").await.unwrap();
    let answer = String::from_utf8(read_all(&mut stream).await.unwrap()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("the runner has no means left"), "{answer}");
    assert_eq!((bridge.counters().exhausted, bridge.counters().host_absent), (1, 0));
}
