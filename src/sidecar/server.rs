//! The HTTP side: three paths, no bodies, loopback only.

use super::keeper::Keeper;
use super::{Config, SidecarFault};
use crate::limits;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// A sidecar that listens.
pub struct Server {
    listener: TcpListener,
    keeper: Keeper,
}

impl Server {
    /// Binds the port. Must be called within a runtime.
    pub fn start(config: &Config) -> Result<Self, SidecarFault> {
        let listen = |error| SidecarFault::Listen(config.port, error);
        let keeper = super::keeper(config)?;
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, config.port)).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        Ok(Self { listener: TcpListener::from_std(listener).map_err(listen)?, keeper })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until SIGTERM or SIGINT, then finishes what is under way.
    pub async fn run(self) -> Result<(), SidecarFault> {
        let stop = CancellationToken::new();
        let port = self.address().map_or(0, |address| address.port());
        let handler = |kind| signal(kind).map_err(|error| SidecarFault::Listen(port, error));
        let (mut terminate, mut interrupt) = (handler(SignalKind::terminate())?, handler(SignalKind::interrupt())?);
        tracing::info!(component = "git-sidecar", port = u64::from(port), "sidecar_ready");
        tokio::select! {
            () = self.serve(stop) => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    }

    /// Serves until `stop`, then finishes what is under way.
    pub async fn serve(self, stop: CancellationToken) {
        let slots = Arc::new(Semaphore::new(limits::SIDECAR_CONNECTIONS_MAX));
        loop {
            // Whoever comes beyond the limit waits in the kernel's queue.
            let slot = tokio::select! {
                () = stop.cancelled() => break,
                slot = slots.clone().acquire_owned() => slot,
            };
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let keeper = self.keeper.clone();
                    tokio::spawn(async move {
                        connection(stream, keeper).await;
                        drop(slot);
                    });
                }
                Err(_) => tokio::time::sleep(limits::BRIDGE_RETRY_PAUSE).await,
            }
        }
        drop(self.listener);
        let _ = tokio::time::timeout(limits::SIDECAR_FINISH, self.keeper.idle()).await;
    }
}

async fn connection(stream: TcpStream, keeper: Keeper) {
    let service = service_fn(move |request| {
        let keeper = keeper.clone();
        async move { Ok::<_, Infallible>(answer(&request, &keeper).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::SIDECAR_REQUEST_DEADLINE)
        .keep_alive(false)
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    // All the time the operations may take, and a little for a client that reads slowly.
    let _ = tokio::time::timeout(limits::SIDECAR_TURN_DEADLINE + limits::SIDECAR_REQUEST_DEADLINE, served).await;
}

async fn answer(request: &Request<Incoming>, keeper: &Keeper) -> Response<Full<Bytes>> {
    let keeper = keeper.clone();
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/health") => reply(StatusCode::OK, &json!({"ok": true})),
        (&Method::POST, "/pull") => {
            finish(async move {
                match keeper.pull().await {
                    Ok(()) => (StatusCode::OK, json!({"ok": true})),
                    Err(error) => {
                        tracing::warn!(component = "git-sidecar", error = %error, "sidecar_pull_failed");
                        (StatusCode::OK, json!({"ok": false, "error": error.to_string()}))
                    }
                }
            })
            .await
        }
        (&Method::POST, "/turn-complete") => finish(async move { turn_complete(&keeper).await }).await,
        _ => reply(StatusCode::NOT_FOUND, &json!({"error": "not found"})),
    }
}

/// Runs the work on a task of its own: a client that hangs up must not stop it between commit and push.
async fn finish(work: impl Future<Output = (StatusCode, Value)> + Send + 'static) -> Response<Full<Bytes>> {
    match tokio::spawn(work).await {
        Ok((status, body)) => reply(status, &body),
        Err(_) => reply(StatusCode::INTERNAL_SERVER_ERROR, &json!({"ok": false, "error": "the operation broke off"})),
    }
}

async fn turn_complete(keeper: &Keeper) -> (StatusCode, Value) {
    let kept = match keeper.turn_complete().await {
        Ok(kept) => kept,
        Err(error) => {
            tracing::error!(component = "git-sidecar", error = %error, "sidecar_commit_failed");
            return (StatusCode::INTERNAL_SERVER_ERROR, json!({"ok": false, "error": error.to_string()}));
        }
    };
    if let Some(error) = &kept.push_error {
        tracing::warn!(component = "git-sidecar", error, "sidecar_push_failed");
    }
    let mut body = json!({"ok": kept.push_error.is_none(), "files": kept.files});
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            body[key] = value.into();
        }
    };
    put("hash", kept.hash);
    put("skillValidationError", kept.rejected);
    put("error", kept.push_error.map(|words| format!("push failed: {words}")));
    tracing::info!(component = "git-sidecar", files = kept.files, "sidecar_commit_complete");
    (StatusCode::OK, body)
}

fn reply(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    response
}
