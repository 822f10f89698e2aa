//! HTTP mode: one turn after the other, as work comes (PROTOCOL §4.4, §5.1).

use super::answer;
use super::config::{Agent, Config};
use super::desk::{Desk, Item};
use super::exit::Fatal;
use super::life::answered_turn;
use super::recent::Recent;
use super::session::Session;
use super::signals::Stop;
use crate::link::{AnthropicLink, CallContext, Host, HttpLink};
use crate::wire::Meta;
use std::sync::Arc;

/// Runs turns until the host has no more work, says that the session ends, or a turn asks to be the last.
pub(super) async fn run(config: Config, url: &str, stop: &Stop) -> Result<(), Fatal> {
    let link = HttpLink::new(url, config.llm_timeout).map_err(|error| Fatal::Client(error.to_string()))?;
    let link = Arc::new(link);
    let desk = Desk::open(url, config.pod_token.clone());
    let mut desk = desk.map_err(|error| Fatal::Client(error.to_string()))?;
    let idle_limit = config.max_idle_polls;
    // What is wrong with the launch is the first turn's answer: the host learns of it in no other way.
    let begun = config.agent().and_then(|agent| {
        let timeout = config.llm_timeout;
        match agent {
            Agent::Pi => Session::new(config, link.clone()),
            Agent::Claude => Session::new(config, Arc::new(AnthropicLink::over_http(link.clone(), timeout))),
        }
    });
    let mut session = match begun {
        Ok(session) => session,
        Err(fatal) => return refuse_all(&desk, link, fatal, stop).await,
    };
    let mut recent = Recent::default();
    let mut idle = 0;
    let mut ended = Ok(());
    while !stop.token().is_cancelled() {
        tracing::info!(component = "runner", idle, "work_loop_waiting");
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
            Item::Unusable { reason, token } => {
                let context = CallContext { meta: Meta::default(), token: token.or_else(|| desk.token.clone()) };
                let host = Host::new(link.clone(), context, stop.token().child_token());
                let _ = refuse(&host, &reason).await;
                desk.warm();
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

/// Work that cannot be used is logged and answered, in both loops; then they go on (PROTOCOL §5.4).
pub(super) async fn refuse(host: &Host, reason: &str) -> Result<(), Fatal> {
    tracing::error!(component = "runner", error = reason, "work_loop_error");
    answer::deliver(host, &format!("Agent error: {reason}")).await
}

/// Answers the first turn with the reason why there will be none.
async fn refuse_all(desk: &Desk, link: Arc<HttpLink>, fatal: Fatal, stop: &Stop) -> Result<(), Fatal> {
    if let Some(Item::Work(payload)) = desk.wait(stop).await {
        let meta = payload.meta();
        let token = payload.ipc_token.or_else(|| desk.token.clone());
        let host = Host::new(link, CallContext { meta, token }, stop.token().child_token());
        let _ = answer::deliver(&host, &format!("Agent error: {fatal}")).await;
    }
    Err(fatal)
}
