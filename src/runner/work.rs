//! HTTP mode: work is polled for (PROTOCOL §4.3, §4.4, §5.1).

use super::answer;
use super::config::Config;
use super::exit::Fatal;
use super::life::answered_turn;
use super::recent::Recent;
use super::session::Session;
use super::signals::Stop;
use crate::http::tcp::{self, Reuse};
use crate::limits;
use crate::link::{CallContext, Host, HttpLink};
use crate::secret::Secret;
use crate::wire::{Meta, Payload};
use reqwest::{Client, StatusCode};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use zeroize::Zeroizing;

/// Runs turns until the host has no more work, says that the session ends, or a turn asks to be the last.
pub(super) async fn run(config: Config, url: &str, stop: &Stop) -> Result<(), Fatal> {
    let link = HttpLink::new(url, config.llm_timeout).map_err(|error| Fatal::Client(error.to_string()))?;
    let link = Arc::new(link);
    let client = tcp::client(Reuse::Pooled, None).map_err(|error| Fatal::Client(error.to_string()))?;
    let mut desk = Desk::new(client, url, config.pod_token.clone());
    let idle_limit = config.max_idle_polls;
    let pod = CallContext { meta: Meta::default(), token: config.pod_token.clone() };
    let pod_host = Host::new(link.clone(), pod, stop.token().child_token());
    // What is wrong with the launch is the first turn's answer: the host learns of it in no other way.
    let mut session = match config.agent().and_then(|_| Session::new(config, link.clone())) {
        Ok(session) => session,
        Err(fatal) => return refuse(&desk, link, fatal, stop).await,
    };
    let mut recent = Recent::default();
    let mut idle = 0;
    let mut ended = Ok(());
    while !stop.token().is_cancelled() {
        let Some(item) = desk.wait(stop).await else {
            idle += 1;
            tracing::info!(component = "runner", idle, "work_loop_no_work");
            if idle >= idle_limit {
                tracing::info!(component = "runner", "idle_timeout_exit");
                break;
            }
            continue;
        };
        idle = 0;
        let payload = match item {
            Item::Ending { seconds } => {
                tracing::info!(component = "runner", seconds, "session_expiring");
                break;
            }
            Item::Work(payload) => *payload,
            Item::Unusable(reason) => {
                tracing::error!(component = "runner", error = reason.as_str(), "work_loop_error");
                let _ = answer::deliver(&pod_host, &format!("Agent error: {reason}")).await;
                continue;
            }
        };
        if !recent.is_new(payload.request_id.as_deref()) {
            tracing::warn!(component = "runner", "work_repeated");
            continue;
        }
        let answered = answered_turn(&mut session, &payload, stop).await;
        desk.warm();
        if payload.single_turn {
            tracing::info!(component = "runner", "single_turn_exit");
            ended = answered;
            break;
        }
    }
    session.shutdown().await;
    ended
}

/// Answers the first turn with the reason why there will be none.
async fn refuse(desk: &Desk, link: Arc<HttpLink>, fatal: Fatal, stop: &Stop) -> Result<(), Fatal> {
    if let Some(Item::Work(payload)) = desk.wait(stop).await {
        let meta = Meta {
            session_id: payload.session_id,
            request_id: payload.request_id,
            user_id: payload.user_id,
            session_scope: payload.session_scope,
        };
        let token = payload.ipc_token.or_else(|| desk.token.clone());
        let host = Host::new(link, CallContext { meta, token }, stop.token().child_token());
        let _ = answer::deliver(&host, &format!("Agent error: {fatal}")).await;
    }
    Err(fatal)
}

enum Item {
    Work(Box<Payload>),
    Ending { seconds: u64 },
    Unusable(String),
}

/// Where work is handed out.
struct Desk {
    client: Client,
    url: String,
    token: Option<Secret>,
    /// Until then a follow-up is likely.
    warm_until: Instant,
}

impl Desk {
    fn new(client: Client, base: &str, token: Option<Secret>) -> Self {
        let url = format!("{}/internal/work", base.trim_end_matches('/'));
        // A pod is started because there is work.
        Self { client, url, token, warm_until: Instant::now() + limits::WORK_WARM }
    }

    fn warm(&mut self) {
        self.warm_until = Instant::now() + limits::WORK_WARM;
    }

    /// One wait for work, [`limits::WORK_WAIT`] at most. `None`: there is none.
    async fn wait(&self, stop: &Stop) -> Option<Item> {
        let until = Instant::now() + limits::WORK_WAIT;
        let (mut busy, mut told) = (0, false);
        while Instant::now() < until {
            let asked = tokio::select! {
                asked = self.ask() => asked,
                () = stop.token().cancelled() => return None,
            };
            let warm = Instant::now() < self.warm_until;
            let mut pause = if warm { limits::WORK_PAUSE_WARM } else { limits::WORK_PAUSE };
            match asked {
                Asked::Got(body) => return Some(read(&body)),
                Asked::TooLarge => {
                    let max = limits::PAYLOAD_MAX_BYTES;
                    return Some(Item::Unusable(format!("the work item is larger than {max} bytes")));
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
                    pause = wait.unwrap_or(limits::HTTP_BUSY_PAUSE * 2u32.pow(busy));
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
            Err(error) => return Asked::Unreached(tcp::cause(&error)),
        };
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Asked::Nothing,
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                return Asked::Busy { status: status.as_u16(), wait: tcp::retry_after(&response) };
            }
            status => return Asked::Refused(status.as_u16()),
        }
        let mut body = Zeroizing::new(Vec::new());
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() <= limits::PAYLOAD_MAX_BYTES => {
                    body.extend_from_slice(&chunk)
                }
                Ok(Some(_)) => return Asked::TooLarge,
                Ok(None) => return Asked::Got(body),
                Err(error) => return Asked::Unreached(tcp::cause(&error)),
            }
        }
    }
}

enum Asked {
    Got(Zeroizing<Vec<u8>>),
    TooLarge,
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
    match serde_json::from_slice::<Value>(body) {
        Ok(value) if value.get("_type").and_then(Value::as_str) == Some("session_expiring") => {
            Item::Ending { seconds: value.get("secondsRemaining").and_then(Value::as_u64).unwrap_or(0) }
        }
        Ok(_) => match Payload::read(body) {
            Ok(payload) => Item::Work(Box::new(payload)),
            Err(error) => Item::Unusable(error.to_string()),
        },
        Err(error) => {
            Item::Unusable(format!("the work item is not valid JSON (line {} column {})", error.line(), error.column()))
        }
    }
}
