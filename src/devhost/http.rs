//! The HTTP side of the host (PROTOCOL §4): work for the pod's token, calls for the turn's, and faults on the way.

use super::body::Body;
use super::brain::{Brain, Handled};
use super::fault::{Fault, Point};
use super::http_body::{Dribble, Then};
use super::http_io::{Busy, Cut, Wire};
use super::validate::Transport;
use crate::limits;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// How the host behaves over HTTP.
#[derive(Debug, Clone)]
pub(crate) struct Manners {
    /// The token of `/internal/work`.
    pub(crate) pod_token: String,
    /// An idle connection is closed after this time; a Node server's is 5 seconds.
    pub(crate) idle: Duration,
}

/// Accepts until `stop`.
pub(crate) async fn serve(listener: TcpListener, brain: Arc<Brain>, manners: Manners, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, brain.clone(), manners.clone(), stop.child_token()));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn connection(stream: TcpStream, brain: Arc<Brain>, manners: Manners, gone: CancellationToken) {
    let number = brain.connected();
    let cut = Cut::new(gone);
    let exchange = Exchange { brain: brain.clone(), manners: manners.clone(), cut: cut.clone(), number };
    let service = service_fn(move |request| {
        let exchange = exchange.clone();
        async move { Ok::<_, std::convert::Infallible>(exchange.serve(request).await) }
    });
    let wire = TokioIo::new(Wire::new(stream, cut.clone()));
    let serving = hyper::server::conn::http1::Builder::new().serve_connection(wire, service);
    tokio::select! {
        () = cut.happened() => {}
        () = cut.idle(manners.idle) => {}
        _ = serving => {}
    }
    brain.disconnected();
}

/// What is answered, before the faults have their say.
struct Served {
    status: u16,
    body: String,
    faults: Vec<Fault>,
    /// The model's turn this delivers.
    round: Option<usize>,
}

impl Served {
    fn new(status: u16, body: impl Into<String>, faults: Vec<Fault>) -> Self {
        Self { status, body: body.into(), faults, round: None }
    }
}

#[derive(Clone)]
struct Exchange {
    brain: Arc<Brain>,
    manners: Manners,
    cut: Cut,
    number: usize,
}

impl Exchange {
    async fn serve(&self, request: Request<Incoming>) -> Response<Dribble> {
        let busy = self.cut.busy();
        let path = request.uri().path().to_owned();
        let faults = self.brain.due(&path);
        for fault in &faults {
            self.brain.emit(&super::Event::Fault(format!("{path}: {fault:?}")));
        }
        if faults.iter().any(Fault::unread) {
            self.broken(&faults).await;
        }
        if faults.iter().any(Fault::drops) {
            self.pause(&faults).await;
            return self.response(Served::new(200, "", faults), busy);
        }
        let served = match (request.method(), path.as_str()) {
            (&Method::GET, "/internal/work") => self.work(&request, faults),
            (&Method::POST, "/internal/ipc") => self.call(request, faults).await,
            _ => {
                self.brain.violation("", format!("{} {path}: the host has no such route", request.method()));
                Served::new(404, r#"{"error":"not found"}"#, faults)
            }
        };
        self.pause(&served.faults).await;
        if served.faults.iter().any(Fault::unanswered) {
            self.broken(&served.faults).await;
        }
        self.response(served, busy)
    }

    /// One slot: the item is taken out (PROTOCOL §4.3).
    fn work(&self, request: &Request<Incoming>, faults: Vec<Fault>) -> Served {
        let Some(token) = bearer(request) else { return Served::new(401, r#"{"error":"missing token"}"#, faults) };
        let again = faults.contains(&Fault::DuplicateWork);
        match (token == self.manners.pod_token).then(|| self.brain.work(again)).flatten() {
            Some(item) => Served::new(200, item, faults),
            None => {
                if token != self.manners.pod_token && self.brain.open_turn(&token) {
                    self.brain.violation("", "asked for work with a turn's token");
                }
                Served::new(404, r#"{"error":"no pending work for token"}"#, faults)
            }
        }
    }

    async fn call(&self, request: Request<Incoming>, mut faults: Vec<Fault>) -> Served {
        let token = bearer(&request).unwrap_or_default();
        let kind = request.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_vec()).unwrap_or_default();
        let body = Limited::new(request.into_body(), limits::HTTP_BODY_MAX_BYTES).collect().await;
        if !self.brain.open_turn(&token) {
            if let Ok(body) = body {
                self.brain.refuse(&body.to_bytes(), self.number);
            }
            return Served::new(401, r#"{"error":"invalid token"}"#, faults);
        }
        let body = match body {
            Ok(body) => body.to_bytes(),
            Err(error) => {
                self.brain.violation("", format!("the request's body cannot be read: {error}"));
                let error = json!({"message": "IPC request failed", "type": "invalid_request_error", "code": null});
                return Served::new(500, json!({"error": error}).to_string(), faults);
            }
        };
        if !kind.starts_with(b"application/json") {
            self.brain.violation("", "Content-Type is not application/json");
        }
        let mut handled = self.brain.receive(&body, Transport::Http, self.number);
        faults.append(&mut handled.faults);
        if faults.iter().any(Fault::unread) {
            self.broken(&faults).await;
        }
        self.brain.settle(&mut handled).await;
        faults.append(&mut handled.faults);
        if handled.answered {
            self.brain.close_turn(&token);
        }
        let round = handled.round;
        Served { round, ..Served::new(200, reply(handled, &faults), faults) }
    }

    async fn pause(&self, faults: &[Fault]) {
        let pause = faults.iter().filter_map(Fault::delay).map(|(ms, _)| ms).sum();
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }

    /// Never returns: the connection is gone, or silent for ever.
    async fn broken(&self, faults: &[Fault]) -> ! {
        match faults.iter().find(|fault| matches!(fault, Fault::Close(_) | Fault::Reset(_) | Fault::Silence(_))) {
            Some(Fault::Close(_)) => self.cut.now(false),
            Some(Fault::Reset(_)) => self.cut.now(true),
            _ => {}
        }
        loop {
            std::future::pending::<()>().await;
        }
    }

    fn response(&self, served: Served, busy: Busy) -> Response<Dribble> {
        let Served { mut status, body, faults, round } = served;
        let (mut body, mut kind) = (Bytes::from(body), "application/json");
        let (mut pieces, mut pause) = ((usize::MAX, usize::MAX), Duration::ZERO);
        let (mut end, mut then) = (usize::MAX, Then::Done);
        for fault in &faults {
            match fault {
                Fault::Status(other, text) => {
                    (status, body) = (*other, text.clone().into());
                    kind = if text.starts_with('<') { "text/html" } else { kind };
                }
                Fault::Pieces(piece) => pieces = (*piece, *piece),
                Fault::SplitAt(at) => (pieces.0, pause) = (*at, Duration::from_millis(30)),
                Fault::DripMs(ms) => (pieces, pause) = ((1, 1), Duration::from_millis(*ms)),
                Fault::Close(Point::Reply(at)) => (end, then) = (*at, Then::Cut { reset: false }),
                Fault::Reset(Point::Reply(at)) => (end, then) = (*at, Then::Cut { reset: true }),
                Fault::Silence(Point::Reply(at)) => (end, then) = (*at, Then::Silence),
                Fault::StaleAfter => then = Then::Cut { reset: false },
                Fault::ResetAfter => then = Then::Cut { reset: true },
                _ => {}
            }
        }
        let body = Dribble::new(body, self.cut.clone(), busy).pieces(pieces.0, pieces.1, pause).end(end, then);
        let body = body.delivers(round, self.brain.clone());
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
        response
    }
}

fn reply(handled: Handled, faults: &[Fault]) -> String {
    let body = faults.iter().find_map(|fault| match fault {
        Fault::Body(text) => Some(Body::Exact(text.clone())),
        _ => None,
    });
    let bytes = body.unwrap_or(handled.body).bytes(handled.msg_id.as_deref());
    String::from_utf8_lossy(&bytes).into_owned()
}

fn bearer(request: &Request<Incoming>) -> Option<String> {
    let value = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix("Bearer ").filter(|token| !token.is_empty()).map(str::to_owned)
}
