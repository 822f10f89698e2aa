//! The web proxy bridge: a loopback port that is the host's proxy socket.
//!
//! It relays bytes and reads none of them, so CONNECT, plain requests, WebSockets and event streams all pass. The one
//! time it speaks HTTP itself is to say that the host's side is not there.

use super::tunnel::{self, End};
use crate::limits;
use crate::os::is_lack;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What one bridge may use; [`Bounds::default`] takes the numbers of [`limits`].
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Tunnels at once.
    pub tunnels: usize,
    /// Silence that ends a tunnel.
    pub idle: Duration,
    /// Silence that ends a tunnel in which one side has finished.
    pub half_closed_idle: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            tunnels: limits::BRIDGE_TUNNELS_MAX,
            idle: limits::BRIDGE_IDLE,
            half_closed_idle: limits::BRIDGE_HALF_CLOSED_IDLE,
        }
    }
}

/// What has passed, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections taken.
    pub opened: u64,
    /// Tunnels open now.
    pub open: u64,
    /// Answered with an error because the host's side was not there.
    pub host_absent: u64,
    /// Answered with an error because the runner had no descriptor or memory left.
    pub exhausted: u64,
    /// Answered with an error because too many were open.
    pub refused: u64,
    /// Ended because no byte moved.
    pub idled: u64,
    /// Ended by an error on one side.
    pub broken: u64,
    /// Bytes towards the host.
    pub sent: u64,
    /// Bytes from the host.
    pub received: u64,
}

#[derive(Default)]
pub(super) struct Tally {
    opened: AtomicU64,
    open: AtomicU64,
    host_absent: AtomicU64,
    exhausted: AtomicU64,
    refused: AtomicU64,
    idled: AtomicU64,
    broken: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
}

/// The bridge. Lives for the session; stops when dropped.
pub struct Bridge {
    address: SocketAddr,
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

struct Shared {
    socket: PathBuf,
    bounds: Bounds,
    slots: Arc<Semaphore>,
    tally: Tally,
}

impl Bridge {
    /// Listens on a free loopback port. The host's socket need not be there yet: it is looked for with each connection.
    pub fn start(socket: PathBuf) -> io::Result<Self> {
        Self::start_with(socket, Bounds::default())
    }

    /// The same with bounds of the caller's.
    pub fn start_with(socket: PathBuf, bounds: Bounds) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let slots = Arc::new(Semaphore::new(bounds.tunnels));
        let shared = Arc::new(Shared { socket, bounds, slots, tally: Tally::default() });
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(accept(listener, shared.clone(), tasks.clone(), stop.clone()));
        Ok(Self { address, shared, tasks, stop })
    }

    /// What goes into `HTTP_PROXY`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What has passed so far.
    pub fn counters(&self) -> Counters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let tally = &self.shared.tally;
        Counters {
            opened: get(&tally.opened),
            open: get(&tally.open),
            host_absent: get(&tally.host_absent),
            exhausted: get(&tally.exhausted),
            refused: get(&tally.refused),
            idled: get(&tally.idled),
            broken: get(&tally.broken),
            sent: get(&tally.sent),
            received: get(&tally.received),
        }
    }

    /// One line of the counters, for the end of a turn.
    pub fn log(&self) {
        let Counters { opened, open, host_absent, exhausted, refused, idled, broken, sent, received } = self.counters();
        tracing::info!(
            component = "web-proxy",
            opened,
            open,
            host_absent,
            exhausted,
            refused,
            idled,
            broken,
            sent,
            received,
            "web_proxy_bridge"
        );
    }

    /// Closes the port and every tunnel, and waits for them a short while.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(limits::BRIDGE_STOP, self.tasks.wait()).await;
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, tasks: TaskTracker, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((client, _)) => {
                let (shared, stop) = (shared.clone(), stop.clone());
                tasks.spawn(async move {
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = serve(client, &shared) => {}
                    }
                });
            }
            // No descriptor left, or a client that went away before it was taken: neither ends the bridge.
            Err(error) => {
                tracing::debug!(component = "web-proxy", error = %error, "web_proxy_accept_failed");
                tokio::time::sleep(limits::BRIDGE_RETRY_PAUSE).await;
            }
        }
    }
}

async fn serve(client: TcpStream, shared: &Shared) {
    let tally = &shared.tally;
    count(&tally.opened);
    let Ok(_slot) = shared.slots.try_acquire() else {
        count(&tally.refused);
        let text = format!("{} connections through the web proxy are open already; close some", shared.bounds.tunnels);
        return refuse(client, "503 Too Many Tunnels", &text).await;
    };
    let host = match dial(&shared.socket).await {
        Ok(host) => host,
        // A lack of our own says nothing about the host.
        Err(error) if is_lack(&error) => {
            count(&tally.exhausted);
            let text = format!("the runner has no means left for another connection ({error}); close some");
            return refuse(client, "503 No Means For Another Connection", &text).await;
        }
        Err(error) => {
            count(&tally.host_absent);
            tracing::debug!(component = "web-proxy", error = %error, "web_proxy_host_absent");
            let text = format!(
                "the host's web proxy is not there ({error}), so nothing outside this container can be reached now; \
                 try again later or go on without the network"
            );
            return refuse(client, "502 Web Proxy Of The Host Not There", &text).await;
        }
    };
    let _ = client.set_nodelay(true);
    tally.open.fetch_add(1, Ordering::Relaxed);
    let _open = Open(&tally.open);
    match tunnel::run(client, host, &shared.bounds, tally).await {
        End::Finished => {}
        End::Idle => count(&tally.idled),
        End::Broken => count(&tally.broken),
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Counts a tunnel as closed also when its task is cancelled.
struct Open<'a>(&'a AtomicU64);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connects to the host's proxy. A full queue there is not an absent host: it is asked again until the deadline.
async fn dial(socket: &Path) -> io::Result<UnixStream> {
    let attempts = async {
        loop {
            match UnixStream::connect(socket).await {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(limits::BRIDGE_RETRY_PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    };
    match tokio::time::timeout(limits::CONNECT_TIMEOUT, attempts).await {
        Ok(outcome) => outcome,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it does not take connections")),
    }
}

/// Answers with an error and closes so that the client gets to read it.
async fn refuse(mut client: TcpStream, status: &str, text: &str) {
    let exchange = async {
        let mut buffer = vec![0; 8192];
        let mut head = Vec::new();
        while !head.windows(4).any(|four| four == b"\r\n\r\n") && head.len() < limits::BRIDGE_REFUSAL_BYTES {
            match client.read(&mut buffer).await? {
                0 => break,
                read => head.extend_from_slice(&buffer[..read]),
            }
        }
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{text}\n",
            text.len() + 1
        );
        client.write_all(answer.as_bytes()).await?;
        client.shutdown().await?;
        let mut left = limits::BRIDGE_REFUSAL_BYTES;
        while left > 0 {
            match client.read(&mut buffer).await? {
                0 => break,
                read => left = left.saturating_sub(read),
            }
        }
        io::Result::Ok(())
    };
    let _ = tokio::time::timeout(limits::BRIDGE_REFUSAL, exchange).await;
}
