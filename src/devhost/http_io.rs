//! A TCP connection that can be cut from inside an exchange, in good order or with a reset.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Time for bytes already handed over to leave before the connection is cut behind them.
const FLUSH: Duration = Duration::from_millis(30);

/// The knife of one connection.
#[derive(Debug, Clone)]
pub(crate) struct Cut {
    gone: CancellationToken,
    reset: Arc<AtomicBool>,
    /// Exchanges begun or ended, and exchanges under way.
    activity: Arc<AtomicUsize>,
    under_way: Arc<AtomicUsize>,
}

/// An exchange is under way while this lives.
#[derive(Debug)]
pub(crate) struct Busy(Cut);

impl Cut {
    pub(crate) fn new(gone: CancellationToken) -> Self {
        Self { gone, reset: Arc::default(), activity: Arc::default(), under_way: Arc::default() }
    }

    /// Cuts at once.
    pub(crate) fn now(&self, reset: bool) {
        self.reset.store(reset, Ordering::Release);
        self.gone.cancel();
    }

    /// Cuts as soon as what was written has left.
    pub(crate) fn soon(&self, reset: bool) {
        let cut = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(FLUSH).await;
            cut.now(reset);
        });
    }

    pub(crate) async fn happened(&self) {
        self.gone.cancelled().await;
    }

    pub(crate) fn busy(&self) -> Busy {
        self.activity.fetch_add(1, Ordering::AcqRel);
        self.under_way.fetch_add(1, Ordering::AcqRel);
        Busy(self.clone())
    }

    /// Returns once nothing was under way for `limit` since the last exchange. A connection that is only just made does not
    /// count as kept: a server gives the first request far longer.
    pub(crate) async fn idle(&self, limit: Duration) {
        loop {
            let seen = self.activity.load(Ordering::Acquire);
            tokio::time::sleep(limit).await;
            if seen > 0 && self.activity.load(Ordering::Acquire) == seen && self.under_way.load(Ordering::Acquire) == 0
            {
                return;
            }
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.activity.fetch_add(1, Ordering::AcqRel);
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A stream that resets its peer when it is dropped after a cut with `reset`.
pub(crate) struct Wire {
    stream: TcpStream,
    cut: Cut,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream, cut: Cut) -> Self {
        Self { stream, cut }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.cut.reset.load(Ordering::Acquire) {
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
