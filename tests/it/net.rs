//! The web proxy bridge under attack, and against real clients and a real proxy.

use ax_runner::net::{Bounds, Bridge, CaFiles, TurnNet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::{sleep, timeout};

mod rude;

/// A bound that only a hang reaches.
const LONG: Duration = Duration::from_secs(120);

/// Bytes that show when a piece is missing or doubled.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// A host side that does `serve` with each connection.
fn host<F, Fut>(directory: &TempDir, serve: F) -> PathBuf
where
    F: Fn(UnixStream) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let path = directory.path().join("web-proxy.sock");
    let listener = UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    path
}

/// A host side that is a TCP server.
fn host_at(directory: &TempDir, port: u16) -> PathBuf {
    host(directory, move |mut stream| async move {
        if let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await {
            let _ = copy_bidirectional(&mut stream, &mut server).await;
        }
    })
}

async fn client(bridge: &Bridge) -> TcpStream {
    let url = bridge.url();
    TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap()
}

async fn read_all(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    timeout(LONG, stream.read_to_end(&mut all)).await.expect("hangs")?;
    Ok(all)
}

#[tokio::test]
async fn everything_arrives_when_the_origin_closes_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = host(&directory, |mut stream| async move {
        let mut request = [0; 5];
        stream.read_exact(&mut request).await.unwrap();
        stream.write_all(&pattern(1 << 20)).await.unwrap();
    });
    let bridge = Bridge::start(path).unwrap();
    for _ in 0..50 {
        let mut stream = client(&bridge).await;
        stream.write_all(b"hello").await.unwrap();
        assert!(read_all(&mut stream).await.unwrap() == pattern(1 << 20));
    }
}

#[tokio::test]
async fn a_client_that_has_finished_still_gets_its_answer() {
    let directory = tempfile::tempdir().unwrap();
    let path = host(&directory, |mut stream| async move {
        let mut request = Vec::new();
        stream.read_to_end(&mut request).await.unwrap();
        assert!(request == pattern(300_000));
        sleep(Duration::from_millis(20)).await;
        stream.write_all(&pattern(1 << 20)).await.unwrap();
    });
    let bridge = Bridge::start(path).unwrap();
    for _ in 0..20 {
        let mut stream = client(&bridge).await;
        stream.write_all(&pattern(300_000)).await.unwrap();
        stream.shutdown().await.unwrap();
        assert!(read_all(&mut stream).await.unwrap() == pattern(1 << 20));
    }
    assert_eq!((bridge.counters().broken, bridge.counters().idled), (0, 0));
}

#[tokio::test]
async fn a_reset_is_not_passed_on_as_an_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = host(&directory, |mut stream| async move {
        let _ = stream.write_all(b"half an answ").await;
        let mut one = [0; 1];
        let _ = stream.read_exact(&mut one).await;
        // Dropped with bytes unread: the other side of the socket reads a reset.
    });
    let bridge = Bridge::start(path).unwrap();
    let mut stream = client(&bridge).await;
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.unwrap();
    stream.write_all(&pattern(100_000)).await.unwrap();
    let error = read_all(&mut stream).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn silence_ends_a_tunnel_sooner_once_it_is_half_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = host(&directory, |mut stream| async move {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
        std::future::pending::<()>().await;
    });
    let bounds = Bounds { half_closed_idle: Duration::from_millis(200), ..Bounds::default() };
    let bridge = Bridge::start_with(path.clone(), bounds).unwrap();
    let mut stream = client(&bridge).await;
    stream.write_all(b"x").await.unwrap();
    stream.shutdown().await.unwrap();
    assert!(read_all(&mut stream).await.is_err(), "told, not left waiting");
    assert_eq!(bridge.counters().idled, 1);

    let bounds = Bounds { idle: Duration::from_secs(2), half_closed_idle: LONG, ..Bounds::default() };
    let bridge = Bridge::start_with(path, bounds).unwrap();
    let mut stream = client(&bridge).await;
    for _ in 0..6 {
        stream.write_all(b"x").await.unwrap();
        sleep(Duration::from_millis(400)).await;
    }
    assert_eq!(bridge.counters().idled, 0, "a byte now and then keeps it open");
    assert!(read_all(&mut stream).await.is_err());
    assert_eq!(bridge.counters().idled, 1);
}

#[tokio::test]
async fn an_absent_host_is_told_and_found_when_it_comes() {
    let directory = tempfile::tempdir().unwrap();
    let bridge = Bridge::start(directory.path().join("web-proxy.sock")).unwrap();
    for request in [
        b"CONNECT pypi.org:443 HTTP/1.1\r\nHost: pypi.org:443\r\n\r\n".to_vec(),
        [b"PUT http://a/ HTTP/1.1\r\nContent-Length: 500000\r\n\r\n".to_vec(), pattern(500_000)].concat(),
    ] {
        let mut stream = client(&bridge).await;
        stream.write_all(&request).await.unwrap();
        let answer = String::from_utf8(read_all(&mut stream).await.unwrap()).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 502 ") && answer.contains("the host's web proxy is not there"),
            "{answer}"
        );
    }
    let listening = host(&directory, |mut stream| async move {
        let _ = stream.write_all(b"here").await;
    });
    assert_eq!(read_all(&mut client(&bridge).await).await.unwrap(), b"here");
    std::fs::remove_file(listening).unwrap();
    let mut stream = client(&bridge).await;
    stream.shutdown().await.unwrap();
    assert!(read_all(&mut stream).await.unwrap().starts_with(b"HTTP/1.1 502 "));
    assert_eq!(bridge.counters().host_absent, 3);
}

#[tokio::test]
async fn one_tunnel_too_many_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = host(&directory, |mut stream| async move {
        let _ = stream.write_all(b"a").await;
        std::future::pending::<()>().await;
    });
    let bridge = Bridge::start_with(path, Bounds { tunnels: 2, ..Bounds::default() }).unwrap();
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = client(&bridge).await;
        stream.read_u8().await.unwrap();
        held.push(stream);
    }
    let mut third = client(&bridge).await;
    third.write_all(b"GET http://a/ HTTP/1.1\r\n\r\n").await.unwrap();
    let answer = read_all(&mut third).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 503 "), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(bridge.counters().refused, 1);
}

#[tokio::test]
async fn a_full_queue_at_the_host_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("web-proxy.sock");
    let socket = tokio::net::UnixSocket::new_stream().unwrap();
    socket.bind(&path).unwrap();
    let listener = socket.listen(1).unwrap();
    let bridge = Bridge::start(path).unwrap();
    let mut streams = Vec::new();
    for _ in 0..8 {
        streams.push(client(&bridge).await);
    }
    sleep(Duration::from_millis(100)).await;
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"served").await;
        }
    });
    for stream in &mut streams {
        assert_eq!(read_all(stream).await.unwrap(), b"served");
    }
    serving.abort();
}

#[tokio::test]
async fn a_websocket_is_only_bytes() {
    // The server's first frame comes in the same segment as its 101, then a large one each way, a pause, a close code.
    let directory = tempfile::tempdir().unwrap();
    let path = host(&directory, |mut stream| async move {
        let mut head = [0; 64];
        stream.read_exact(&mut head[..42]).await.unwrap();
        let mut answer = b"HTTP/1.1 101 Switching Protocols\r\n\r\n".to_vec();
        answer.extend_from_slice(b"\x81\x05first");
        stream.write_all(&answer).await.unwrap();
        let mut frame = vec![0; 1 << 20];
        stream.read_exact(&mut frame).await.unwrap();
        stream.write_all(&frame).await.unwrap();
        sleep(Duration::from_millis(300)).await;
        stream.write_all(b"\x81\x05later\x88\x02\x03\xe8").await.unwrap();
    });
    let bridge = Bridge::start(path).unwrap();
    let mut stream = client(&bridge).await;
    stream.write_all(b"GET http://a/ HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"[..42].as_ref()).await.unwrap();
    let mut answer = vec![0; 36 + 7];
    stream.read_exact(&mut answer).await.unwrap();
    assert!(answer.ends_with(b"\x81\x05first"));
    stream.write_all(&pattern(1 << 20)).await.unwrap();
    let mut echo = vec![0; 1 << 20];
    timeout(LONG, stream.read_exact(&mut echo)).await.unwrap().unwrap();
    assert!(echo == pattern(1 << 20));
    assert_eq!(read_all(&mut stream).await.unwrap(), b"\x81\x05later\x88\x02\x03\xe8");
}

#[tokio::test]
async fn stopping_closes_the_port_and_the_tunnels() {
    let directory = tempfile::tempdir().unwrap();
    let path = host(&directory, |mut stream| async move {
        let _ = stream.write_all(b"a").await;
        std::future::pending::<()>().await;
    });
    let bridge = Bridge::start(path).unwrap();
    let mut stream = client(&bridge).await;
    stream.read_u8().await.unwrap();
    let address = bridge.url();
    bridge.stop().await;
    let _ = read_all(&mut stream).await;
    assert!(TcpStream::connect(address.strip_prefix("http://").unwrap()).await.is_err());
}

/// In a process of its own, since the other tests open descriptors too.
#[test]
fn descriptors_are_back_after_a_thousand_tunnels() {
    let output = own_test("net::tunnels_in_a_quiet_process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test]
#[ignore = "started by descriptors_are_back_after_a_thousand_tunnels"]
async fn tunnels_in_a_quiet_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = host(&directory, |mut stream| async move {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            if stream.write_all(&buffer[..read]).await.is_err() {
                break;
            }
        }
    });
    let bridge = Bridge::start(path).unwrap();
    let before = descriptors();
    for turn in 0..1000_u32 {
        let mut stream = client(&bridge).await;
        stream.write_all(&turn.to_be_bytes()).await.unwrap();
        let mut echo = [0; 4];
        timeout(LONG, stream.read_exact(&mut echo)).await.unwrap().unwrap();
        assert_eq!(echo, turn.to_be_bytes());
    }
    let mut parallel = tokio::task::JoinSet::new();
    let address = bridge.url().strip_prefix("http://").unwrap().to_owned();
    for _ in 0..200 {
        let address = address.clone();
        parallel.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&pattern(50_000)).await.unwrap();
            stream.shutdown().await.unwrap();
            assert!(read_all(&mut stream).await.unwrap() == pattern(50_000));
        });
    }
    while let Some(outcome) = parallel.join_next().await {
        outcome.unwrap();
    }
    for _ in 0..6000 {
        if bridge.counters().open == 0 && descriptors() <= before {
            break;
        }
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(bridge.counters().open, 0);
    assert!(descriptors() <= before, "{} descriptors before, {} after", before, descriptors());
    assert_eq!(bridge.counters().opened, 1200);
}

/// Memory must not grow with what passes.
#[test]
fn a_large_upload_takes_no_memory() {
    let output = own_test("net::upload_in_a_quiet_process");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    crate::support::relay(&text);
    assert!(output.status.success(), "{text}");
}

#[tokio::test]
#[ignore = "started by a_large_upload_takes_no_memory"]
async fn upload_in_a_quiet_process() {
    const BYTES: usize = 200 << 20;
    let directory = tempfile::tempdir().unwrap();
    let path = host(&directory, |mut stream| async move {
        let (mut total, mut buffer) = (0_u64, vec![0; 65536]);
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            total += read as u64;
        }
        stream.write_all(&total.to_be_bytes()).await.unwrap();
    });
    let bridge = Bridge::start(path).unwrap();
    let before = peak_kilobytes();
    let mut stream = client(&bridge).await;
    let piece = vec![7; 1 << 16];
    for _ in 0..BYTES / piece.len() {
        stream.write_all(&piece).await.unwrap();
    }
    stream.shutdown().await.unwrap();
    let answer = read_all(&mut stream).await.unwrap();
    assert_eq!(u64::from_be_bytes(answer.try_into().unwrap()), BYTES as u64);
    let grown = peak_kilobytes() - before;
    crate::support::relay(&format!("MEASURED peak memory grew by {grown} KiB during an upload of 200 MiB"));
    assert!(grown < 8 * 1024);
    assert_eq!(bridge.counters().sent, BYTES as u64);
}

fn peak_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn own_test(name: &str) -> std::process::Output {
    let program = std::env::current_exe().unwrap();
    std::process::Command::new(program).args(["--exact", name, "--ignored", "--nocapture"]).output().unwrap()
}

/// Is the program here? Prints why the test is skipped when not.
pub(crate) fn have(program: &str, test: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).chain(["/usr/sbin".into()]).any(|d| d.join(program).exists()));
    if !found {
        crate::support::skip(test, format!("{program} is not installed"));
    }
    found
}

/// A client as a tool child has it: nothing in its environment but PATH and the turn's variables.
fn child(program: &str, net: &TurnNet, home: &Path) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home);
    for (name, value) in net.environment().0 {
        command.env(name, value.expose());
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn output(command: &mut tokio::process::Command) -> (bool, String) {
    let output = timeout(LONG, command.output()).await.expect("hangs").unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

/// A plain HTTP server that answers every request with its first line.
async fn echo_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                let mut byte = [0; 1];
                while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).await.is_ok() {
                    head.push(byte[0]);
                }
                let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default().to_vec();
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", line.len());
                let _ = stream.write_all(&[answer.into_bytes(), line].concat()).await;
                let _ = stream.shutdown().await;
                let _ = stream.read_to_end(&mut head).await;
            });
        }
    });
    port
}

/// tinyproxy on loopback behind a Unix socket, as the host has its proxy.
struct Proxy {
    _process: tokio::process::Child,
    socket: PathBuf,
}

async fn tinyproxy(directory: &TempDir) -> Proxy {
    let config = directory.path().join("tinyproxy.conf");
    let (process, port) = serving(|port| {
        let text = format!("Port {port}\nListen 127.0.0.1\nTimeout 600\nMaxClients 300\nDisableViaHeader Yes\n");
        std::fs::write(&config, text).unwrap();
        let mut command = tokio::process::Command::new("tinyproxy");
        command.arg("-d").arg("-c").arg(&config);
        command
    })
    .await;
    Proxy { _process: process, socket: host_at(directory, port) }
}

/// A program that serves a port of loopback, once it does. Between finding a port and taking it another may take it.
async fn serving(command: impl Fn(u16) -> tokio::process::Command) -> (tokio::process::Child, u16) {
    for _ in 0..10 {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut command = command(port);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
        for _ in 0..3000 {
            let answers = TcpStream::connect(("127.0.0.1", port)).await.is_ok();
            if process.try_wait().unwrap().is_some() {
                break;
            }
            if answers {
                return (process, port);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
    panic!("nothing serves");
}

#[tokio::test]
async fn real_clients_through_a_real_proxy() {
    const NAME: &str = "real_clients_through_a_real_proxy";
    if !have("tinyproxy", NAME) || !have("curl", NAME) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let proxy = tinyproxy(&directory).await;
    let bridge = Bridge::start(proxy.socket).unwrap();
    let net = TurnNet { proxy: Some(bridge.url()), ..TurnNet::default() };
    let port = echo_server().await;
    let home = directory.path();
    // The origin is on loopback, so that nothing leaves the machine; the clients are told to go through all the same.
    let origin = format!("http://127.0.0.1:{port}/x");
    let (ok, text) = output(child("curl", &net, home).args(["-sS", "--noproxy", "", &origin])).await;
    assert!(ok && text == "GET /x HTTP/1.1", "plain: {text}");
    let (ok, text) = output(child("curl", &net, home).args(["-sS", "-p", "--noproxy", "", &origin])).await;
    assert!(ok && text == "GET /x HTTP/1.1", "CONNECT: {text}");
    assert_eq!(bridge.counters().opened, 2);
    if have("wget", NAME) {
        let mut wget = child("wget", &net, home);
        let (ok, text) = output(wget.env("no_proxy", "").args(["-qO-", &origin])).await;
        assert!(ok && text == "GET /x HTTP/1.1", "wget: {text}");
    }
    // Loopback is direct in each client.
    let before = bridge.counters().opened;
    let local = format!("http://localhost:{port}/y");
    let python = format!("import urllib.request as r;print(r.urlopen('{local}').read().decode(),end='')");
    for (program, arguments) in
        [("curl", vec!["-sS", &local]), ("wget", vec!["-qO-", &local]), ("python3", vec!["-c", &python])]
    {
        if have(program, NAME) {
            let (ok, text) = output(child(program, &net, home).args(arguments)).await;
            assert!(ok && text == "GET /y HTTP/1.1", "{program}: {text}");
        }
    }
    assert_eq!(bridge.counters().opened, before, "loopback went past the bridge");
}

#[tokio::test]
async fn tls_clients_trust_the_hosts_authority() {
    const NAME: &str = "tls_clients_trust_the_hosts_authority";
    if !have("openssl", NAME) || !have("tinyproxy", NAME) || !have("curl", NAME) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path();
    let script = "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=AX-CA && \
        openssl req -newkey rsa:2048 -nodes -keyout s.key -out s.csr -subj /CN=localhost && \
        printf 'subjectAltName=IP:127.0.0.1' > ext && \
        openssl x509 -req -in s.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out s.pem";
    let mut setup = child("sh", &TurnNet::default(), home);
    let (ok, text) = output(setup.current_dir(home).args(["-c", script])).await;
    assert!(ok, "{text}");
    let (_server, port) = serving(|port| {
        let mut server = child("openssl", &TurnNet::default(), home);
        server.current_dir(home).args(["s_server", "-quiet", "-www", "-key", "s.key", "-cert", "s.pem", "-accept"]);
        server.arg(format!("127.0.0.1:{port}"));
        server
    })
    .await;
    let proxy = tinyproxy(&directory).await;
    let bridge = Bridge::start(proxy.socket).unwrap();
    let mut files = CaFiles::new(vec![home.to_owned()]);
    let ca = files.write(&std::fs::read_to_string(home.join("ca.pem")).unwrap()).unwrap();
    let net = TurnNet { proxy: Some(bridge.url()), ca: Some(ca), ..TurnNet::default() };
    let url = format!("https://127.0.0.1:{port}/");
    let python = format!("import urllib.request as r;r.urlopen('{url}').read();print('ok')");
    let node = format!(
        "require('https').get('{url}',r=>console.log(r.statusCode)).on('error',e=>{{console.log(e);process.exit(1)}})"
    );
    for (program, arguments) in [
        ("curl", vec!["-sS", "--noproxy", "", &url]),
        ("wget", vec!["-nv", "-O", "/dev/null", &url]),
        ("python3", vec!["-c", &python]),
        ("node", vec!["-e", &node]),
    ] {
        if have(program, NAME) {
            let (ok, text) =
                output(child(program, &net, home).env("no_proxy", "").env("NO_PROXY", "").args(&arguments)).await;
            assert!(ok, "{program}: {text}");
            let bare = TurnNet { proxy: Some(bridge.url()), ..TurnNet::default() };
            let (ok, _) =
                output(child(program, &bare, home).env("no_proxy", "").env("NO_PROXY", "").args(&arguments)).await;
            assert!(!ok, "{program} takes a certificate nobody vouches for");
        }
    }
    if have("git", NAME) {
        let mut git = child("git", &net, home);
        let (_, text) =
            output(git.env("no_proxy", "").env("NO_PROXY", "").args(["ls-remote", &format!("{url}r.git")])).await;
        assert!(!text.contains("certificate"), "{text}");
    }
}
