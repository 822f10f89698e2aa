//! One tunnel: two directions that end on their own, and a clock that ends both.

use super::bridge::{Bounds, Tally};
use crate::limits;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;

/// How a tunnel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Both sides said all they had.
    Finished,
    /// No byte moved for too long.
    Idle,
    /// One side failed.
    Broken,
}

/// Relays until both directions have ended. An end of one is passed on as just that, so that a client may finish its
/// request and still read the answer; a failure of one ends the other, and the client sees a reset and not an end that
/// looks like a complete answer.
pub(super) async fn run(mut client: TcpStream, mut host: UnixStream, bounds: &Bounds, tally: &Tally) -> End {
    let activity = Activity { start: Instant::now(), last_ms: AtomicU64::new(0), half_closed: AtomicBool::new(false) };
    let end = {
        let (client_reads, client_writes) = client.split();
        let (host_reads, host_writes) = host.split();
        let relays = async {
            tokio::try_join!(
                copy(client_reads, host_writes, &activity, &tally.sent),
                copy(host_reads, client_writes, &activity, &tally.received),
            )
        };
        tokio::select! {
            outcome = relays => match outcome {
                Ok(_) => End::Finished,
                Err(_) => End::Broken,
            },
            () = activity.idle(bounds) => End::Idle,
        }
    };
    if end != End::Finished {
        let _ = client.set_zero_linger();
    }
    end
}

/// One direction. Dropping it loses at most what the other side will never read.
async fn copy<R, W>(mut from: R, mut to: W, activity: &Activity, counter: &AtomicU64) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut buffer = vec![0; limits::BRIDGE_BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer).await?;
        activity.seen();
        if read == 0 {
            activity.half_closed.store(true, Ordering::Relaxed);
            // The other end may be gone already, having said all: that is not a failure of this direction.
            let _ = to.shutdown().await;
            return Ok(());
        }
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            let written = to.write(rest).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            activity.seen();
            counter.fetch_add(written as u64, Ordering::Relaxed);
            rest = &rest[written..];
        }
    }
}

struct Activity {
    start: Instant,
    /// Milliseconds from the start to the last byte.
    last_ms: AtomicU64,
    half_closed: AtomicBool,
}

impl Activity {
    fn seen(&self) {
        self.last_ms.store(self.start.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Returns when no byte has moved for the time that holds at that moment.
    async fn idle(&self, bounds: &Bounds) {
        loop {
            let allowed = match self.half_closed.load(Ordering::Relaxed) {
                true => bounds.half_closed_idle,
                false => bounds.idle,
            };
            let until = self.start + Duration::from_millis(self.last_ms.load(Ordering::Relaxed)) + allowed;
            if Instant::now() >= until {
                return;
            }
            // The bound becomes the shorter one at the first half-close, so look again at least that often.
            let look = Instant::now() + bounds.half_closed_idle;
            tokio::time::sleep_until(until.min(look)).await;
        }
    }
}
