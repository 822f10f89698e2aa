//! Where a pod asks for work (PROTOCOL §4.3).

use super::signals::Stop;
use crate::http::innermost;
use crate::http::tcp::{self, ClientError, Reuse};
use crate::limits;
use crate::secret::Secret;
use crate::wire::{self, Payload};
use reqwest::{Client, StatusCode};
use serde_json::Value;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use zeroize::Zeroizing;

/// What is handed out.
pub(super) enum Item {
    Work(Box<Payload>),
    Ending {
        seconds: u64,
    },
    Unusable {
        reason: String,
        /// The turn's, as far as it can be made out: the pod's opens the calls of no turn.
        token: Option<Secret>,
    },
}

/// Where work is handed out.
pub(super) struct Desk {
    client: Client,
    url: String,
    /// The pod's.
    pub(super) token: Option<Secret>,
    /// Until then a follow-up is likely.
    warm_until: Instant,
}

impl Desk {
    /// At this base URL, with the pod's token.
    pub(super) fn open(base: &str, token: Option<Secret>) -> Result<Self, ClientError> {
        let client = tcp::client(Reuse::Pooled, None)?;
        let url = format!("{}/internal/work", base.trim_end_matches('/'));
        // A pod is started because there is work.
        Ok(Self { client, url, token, warm_until: Instant::now() + limits::WORK_WARM })
    }

    /// Between two questions.
    fn pause(&self) -> Duration {
        if Instant::now() < self.warm_until { limits::WORK_PAUSE_WARM } else { limits::WORK_PAUSE }
    }

    /// A turn has just ended: the next message may follow at once.
    pub(super) fn warm(&mut self) {
        self.warm_until = Instant::now() + limits::WORK_WARM;
    }

    /// One wait for work, [`limits::WORK_WAIT`] at most. `None`: there is none.
    pub(super) async fn wait(&self, stop: &Stop) -> Option<Item> {
        let until = Instant::now() + limits::WORK_WAIT;
        let (mut busy, mut told) = (0, false);
        while Instant::now() < until {
            let asked = tokio::select! {
                asked = self.ask() => asked,
                () = stop.token().cancelled() => return None,
            };
            let mut pause = self.pause();
            match asked {
                Asked::Got(body) => return Some(read(&body)),
                Asked::TooLarge(token) => {
                    let reason = format!("the work item is larger than {} bytes", limits::PAYLOAD_MAX_BYTES);
                    return Some(Item::Unusable { reason, token });
                }
                Asked::Nothing => (busy, told) = (0, false),
                // A host that is away for a moment is like one without work (PROTOCOL §4.3); one that stays away should be
                // found in the log.
                Asked::Unreached(reason) if !told => {
                    told = true;
                    tracing::warn!(component = "runner", error = reason.as_str(), "work_unreachable");
                }
                Asked::Unreached(_) => {}
                Asked::Busy { wait, .. } if busy < limits::WORK_BUSY_RETRIES => {
                    pause = tcp::pause(wait, busy);
                    busy += 1;
                }
                Asked::Busy { status, .. } | Asked::Refused(status) => {
                    tracing::warn!(component = "runner", status, "work_refused");
                    return None;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.token().cancelled() => return None,
            }
        }
        None
    }

    async fn ask(&self) -> Asked {
        let mut request = self.client.get(&self.url).timeout(limits::WORK_POLL_TIMEOUT);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose());
        }
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) => return Asked::Unreached(innermost(&error)),
        };
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Asked::Nothing,
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                return Asked::Busy {
                    status: status.as_u16(),
                    wait: tcp::retry_after(response.headers(), SystemTime::now()),
                };
            }
            status => return Asked::Refused(status.as_u16()),
        }
        let mut body = Zeroizing::new(Vec::new());
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() <= limits::PAYLOAD_MAX_BYTES => {
                    body.extend_from_slice(&chunk)
                }
                Ok(Some(_)) => return Asked::TooLarge(Payload::guess_token(&body)),
                Ok(None) => return Asked::Got(body),
                Err(error) => return Asked::Unreached(innermost(&error)),
            }
        }
    }
}

enum Asked {
    Got(Zeroizing<Vec<u8>>),
    /// Holds the turn's token, if it was among what was read.
    TooLarge(Option<Secret>),
    Nothing,
    /// No answer, or half of one.
    Unreached(String),
    /// The host, or something before it, asks for patience.
    Busy {
        status: u16,
        wait: Option<Duration>,
    },
    Refused(u16),
}

/// Over HTTP a work item is JSON; anything else is an error and not a message (PROTOCOL §2.1).
fn read(body: &[u8]) -> Item {
    let json = wire::json(&String::from_utf8_lossy(body));
    let field = |key| json.as_ref().ok().and_then(|value| value.get(key));
    if field("_type").and_then(Value::as_str) == Some("session_expiring") {
        return Item::Ending { seconds: field("secondsRemaining").and_then(Value::as_u64).unwrap_or(0) };
    }
    let reason = match (Payload::read(body), &json) {
        (Ok(payload), Ok(_)) => return Item::Work(Box::new(payload)),
        (Err(error), _) => error.to_string(),
        (Ok(_), Err(error)) => {
            format!("the work item is not valid JSON (line {} column {})", error.line(), error.column())
        }
    };
    Item::Unusable { reason, token: Payload::guess_token(body) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// A host without work; counts how often it is asked.
    async fn idle_host() -> (String, Arc<AtomicUsize>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, asked) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let count = asked.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                count.fetch_add(1, Ordering::Relaxed);
                let _ =
                    stream.write_all(b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await;
            }
        });
        (format!("http://{address}"), asked)
    }

    /// How often a pod asks in this time. A busy machine makes it fewer, never more.
    async fn asks(desk: &Desk, asked: &AtomicUsize, ms: u64) -> usize {
        asked.store(0, Ordering::Relaxed);
        let waited = tokio::time::timeout(Duration::from_millis(ms), desk.wait(&Stop::default())).await;
        assert!(waited.is_err(), "the wait is over too soon");
        asked.load(Ordering::Relaxed)
    }

    #[test]
    fn an_end_is_an_end_whatever_stands_beside_it() {
        for item in [
            r#"{"_type":"session_expiring","secondsRemaining":5}"#,
            r#"{"_type":"session_expiring","secondsRemaining":5,"ipcToken":"t","message":null}"#,
            "\u{feff}{\"_type\":\"session_expiring\",\"secondsRemaining\":5,\"message\":\"m\"}",
        ] {
            assert!(matches!(read(item.as_bytes()), Item::Ending { seconds: 5 }), "{item}");
        }
        let item = br#"{"message":"m","history":[],"ipcToken":"t"}"#;
        assert!(matches!(read(item), Item::Work(payload) if payload.ipc_token.is_some()));
        for item in
            [&b"just text"[..], b"", b"{\"message\":\"m\",\"ipcToken\":\"t\"", b"\0", b"[1,{\"ipcToken\":\"t\"}]"]
        {
            assert!(matches!(read(item), Item::Unusable { .. }), "{item:?}");
        }
    }

    #[tokio::test]
    async fn a_pod_at_rest_asks_every_two_seconds_and_a_warm_one_often() {
        let (url, asked) = idle_host().await;
        let mut desk = Desk::open(&url, None).unwrap();
        desk.warm_until = Instant::now();
        // At 0 and 2 s; once a second would be three.
        let at_rest = asks(&desk, &asked, 2900).await;
        assert!((1..=2).contains(&at_rest), "{at_rest} questions");
        desk.warm();
        // Ten on an idle machine; at rest it would be one.
        let warm = asks(&desk, &asked, 1900).await;
        assert!(warm >= 3, "{warm} questions");
        // Work waits half a pause at the median.
        assert!(limits::WORK_PAUSE_WARM / 2 < Duration::from_millis(150));
    }
}
