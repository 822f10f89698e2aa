//! Bytes that come over TCP: the host's HTTP answers and the heads of proxy requests. Loopback only.

use super::block_on;
use crate::link::{CallContext, CallError, HostLink, HttpLink};
use crate::net::{Bridge, choose};
use crate::wire::{Action, Report};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A generous end for what should take a millisecond.
const HANG: Duration = Duration::from_secs(30);

/// A host that answers one call with these bytes and hangs up: a reply, or an error of bounded length.
pub(super) fn http_answer(bytes: &[u8]) {
    thread_local! {
        static HOST: (TcpListener, HttpLink) = block_on(async {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("its number"));
            (listener, HttpLink::new(&url, HANG).expect("a link"))
        });
    }
    // A host that asks for patience is asked again after a while, which is right and slow.
    if [&b" 429"[..], b" 503"].iter().any(|busy| bytes.windows(4).any(|part| part == *busy)) {
        return;
    }
    HOST.with(|(listener, link)| {
        let answering = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"}") {
                if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            let _ = stream.write_all(bytes).await;
            let _ = stream.shutdown().await;
            // Until the client has had enough, so that no reset overtakes the answer.
            let _ = stream.read_to_end(&mut request).await;
        };
        // Not one to be repeated, so that one connection is all there is.
        let action = Action::SandboxResult(Report::command("x", "y", 0));
        let context = CallContext::default();
        let both = async { tokio::join!(link.call(&action, &context), answering).0 };
        match block_on(async { tokio::time::timeout(HANG, both).await.expect("a hang") }) {
            Ok(reply) => assert!(reply.accepted().map_or_else(|error| error.len() <= bytes.len() + 100, |()| true)),
            Err(CallError::BadAnswer(words)) => assert!(words.chars().count() < 400, "{words}"),
            Err(error) => assert!(!matches!(error, CallError::NotSent(_) | CallError::TimedOut(_)), "{error}"),
        }
    });
}

/// The head of a request to a proxy that is not there: always one whole answer, however the head ends.
pub(super) fn proxy_head(bytes: &[u8]) {
    thread_local! {
        static BRIDGE: Bridge = block_on(async { Bridge::start("/nowhere/proxy.sock".into()).expect("a bridge") });
    }
    let address = BRIDGE.with(|bridge| bridge.url().trim_start_matches("http://").to_owned());
    let exchange = async {
        let mut client = TcpStream::connect(address).await.unwrap();
        for piece in bytes.chunks(1 + bytes.len() / 2) {
            client.write_all(piece).await.unwrap();
        }
        client.shutdown().await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        answer
    };
    let answer = block_on(async { tokio::time::timeout(HANG, exchange).await.expect("a hang") });
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 502 ") && head.contains(&format!("Content-Length: {}\r\n", body.len())));
}

/// The web proxy's URL as a child gets it: scheme and host, no more.
pub(super) fn proxy_url(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (url, warnings) = choose(None, Some(&text), None, None);
    if let Some(url) = url {
        assert!(url.bytes().all(|byte| byte.is_ascii_graphic()), "{url:?}");
        assert!(!url.contains('@') && !url[8..].contains(['/', '?', '#']), "{url}");
    }
    assert!(warnings.len() <= 2);
    let _ = choose(None, None, None, Some(&text));
}
