//! The link to the host: one question, one answer, whatever the transport (PROTOCOL §3, §4).

pub(crate) mod anthropic;
mod connection;
mod http;
mod pending;
mod socket;

pub use anthropic::AnthropicLink;
pub use http::HttpLink;
pub use socket::SocketLink;

use crate::secret::Secret;
use crate::wire::{Action, Meta, Reply};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A boxed future, so that transports can sit behind one pointer.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A way to reach the host.
pub trait HostLink: Send + Sync {
    /// Sends one action and waits for its reply: with the action's timeout, and repeated after a loss at most once and
    /// only where that is safe (DESIGN §4.7).
    fn call<'a>(&'a self, action: &'a Action, context: &'a CallContext) -> BoxFuture<'a, Result<Reply, CallError>>;

    /// Largest request in bytes this transport carries.
    fn request_max_bytes(&self) -> usize;

    /// Ends when the host is gone for good, even while nobody asks it anything. Never where that cannot be noticed.
    fn gone(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Trusts a certificate authority (PEM) from now on, where the transport uses certificates.
    fn trust(&self, _authority: &str) {}
}

/// Who a turn's calls are for. Immutable: a new turn has a new one, so nothing of the last can leak into it.
#[derive(Debug, Clone, Default)]
pub struct CallContext {
    /// The envelope's metadata.
    pub meta: Meta,
    /// HTTP mode: the turn's token.
    pub token: Option<Secret>,
}

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The host cannot have seen it.
    #[error("the host could not be reached: {0}")]
    NotSent(String),
    /// It may have been carried out. Never repeated by us, and the model must not assume either way.
    #[error("the connection to the host was lost; whether the call was carried out is unknown")]
    OutcomeUnknown,
    /// Silence for the action's whole time, on a link with heartbeats.
    #[error("IPC call timed out (no heartbeat for {0}ms)")]
    TimedOut(u128),
    /// The same where there are none: nothing but the reply could have come.
    #[error("the call timed out (no reply for {0}ms)")]
    NoReply(u128),
    /// Larger than the transport carries; nothing was sent.
    #[error("the request has {bytes} bytes; the host takes {max}: shorten it or split it")]
    TooLarge {
        /// The request's size.
        bytes: usize,
        /// The transport's limit.
        max: usize,
    },
    /// The turn's token is no longer valid: the host has closed the turn (PROTOCOL §4.1).
    #[error("the host has closed this turn")]
    TurnOver,
    /// The host answered, but not with a reply.
    #[error("{0}")]
    BadAnswer(String),
    /// The same to a call that it may have carried out.
    #[error("{0}; whether the call was carried out is unknown")]
    InDoubt(String),
    /// The turn was cancelled while the call waited.
    #[error("cancelled")]
    Cancelled,
    /// The request could not be written as JSON.
    #[error("the request could not be encoded")]
    Unencodable,
}

/// The host as one turn sees it: a link, who is calling, and until when.
#[derive(Clone)]
pub struct Host {
    link: Arc<dyn HostLink>,
    context: Arc<CallContext>,
    cancel: CancellationToken,
    /// Do calls end with the turn?
    heeds: bool,
}

impl Host {
    /// Binds a link to a turn.
    pub fn new(link: Arc<dyn HostLink>, context: CallContext, cancel: CancellationToken) -> Self {
        Self { link, context: Arc::new(context), cancel, heeds: true }
    }

    /// Asks; returns [`CallError::Cancelled`] as soon as the turn is cancelled.
    pub async fn call(&self, action: &Action) -> Result<Reply, CallError> {
        let reply = tokio::select! {
            biased;
            () = self.cancel.cancelled(), if self.heeds => Err(CallError::Cancelled),
            reply = self.link.call(action, &self.context) => reply,
        };
        if matches!(reply, Err(CallError::TurnOver)) {
            // Nothing this turn does can be told to the host any more.
            self.cancel.cancel();
        }
        reply
    }

    /// The same host for reports and the turn's last words: not stopped by the turn's cancellation.
    pub fn uncancelled(&self) -> Self {
        Self { heeds: false, ..self.clone() }
    }

    /// The same host for calls that are not the turn's own: their text is not streamed to the user (PROTOCOL T10).
    pub fn unwatched(&self) -> Self {
        let mut context = (*self.context).clone();
        context.meta.request_id = None;
        Self { context: Arc::new(context), ..self.clone() }
    }

    /// Ends when the host is gone for good.
    pub async fn gone(&self) {
        self.link.gone().await;
    }

    /// Largest request in bytes the transport carries.
    pub fn request_max_bytes(&self) -> usize {
        self.link.request_max_bytes()
    }

    /// The turn's cancellation.
    pub fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }
}
