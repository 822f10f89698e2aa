//! What a host is made of, shared with the runners it starts: its mind, its socket, its directory.

use super::brain::Brain;
use super::http;
use super::socket::{self, Manners};
use super::validate::Transport;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// What outlives a borrow of the host: shared with the runners it starts.
pub(crate) struct Inside {
    pub(crate) brain: Arc<Brain>,
    pub(crate) manners: Manners,
    pub(crate) http: http::Manners,
    /// HTTP: where the host listens, kept over a restart.
    pub(crate) address: OnceLock<SocketAddr>,
    pub(crate) handle: Handle,
    pub(crate) directory: TempDir,
    /// Ends the listener and all connections.
    pub(crate) current: Mutex<CancellationToken>,
    /// Disconnected once the listener is closed.
    pub(crate) listening: Mutex<Option<mpsc::Receiver<()>>>,
}

impl Inside {
    pub(crate) fn socket_path(&self) -> PathBuf {
        self.ipc().join("proxy.sock")
    }

    /// The directory that a container sees, with the host's sockets.
    pub(crate) fn ipc(&self) -> PathBuf {
        self.directory.path().join("ipc")
    }

    /// Gives the socket and the workspace to a user, who may also pass through the directory they are in.
    pub(crate) fn hand_over(&self, user: u32) -> io::Result<()> {
        std::fs::set_permissions(self.directory.path(), PermissionsExt::from_mode(0o711))?;
        owned_by(&self.ipc(), user)?;
        owned_by(&self.directory.path().join("workspace"), user)
    }

    fn current(&self) -> CancellationToken {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts to listen, unless the runner is the one who does.
    pub(crate) fn open(&self) -> io::Result<()> {
        let _runtime = self.handle.enter();
        let (brain, stop) = (self.brain.clone(), self.current());
        let (closing, closed) = mpsc::channel::<()>();
        match self.manners.transport {
            Transport::Listen => {}
            Transport::Socket => {
                let listener = UnixListener::bind(self.socket_path())?;
                let serving = socket::serve(listener, brain, self.manners.clone(), stop);
                self.handle.spawn(async move {
                    serving.await;
                    drop(closing);
                });
            }
            Transport::Http => {
                let address = self.address.get().copied().unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
                let listener = std::net::TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                let _ = self.address.set(listener.local_addr()?);
                let listener = TcpListener::from_std(listener)?;
                let serving = http::serve(listener, brain, self.http.clone(), stop);
                self.handle.spawn(async move {
                    serving.await;
                    drop(closing);
                });
            }
        }
        *self.listening.lock().unwrap_or_else(PoisonError::into_inner) = Some(closed);
        Ok(())
    }

    /// Ends the listener, and returns only when it has ended, and every connection.
    pub(crate) fn close(&self) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, CancellationToken::new()).cancel();
        drop(current);
        let listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listening) = listening {
            let _ = listening.recv_timeout(Duration::from_secs(2));
        }
        if self.manners.transport == Transport::Socket {
            let _ = std::fs::remove_file(self.socket_path());
        }
    }

    /// HTTP: the host's URL.
    pub(crate) fn url(&self) -> String {
        self.address.get().map_or_else(String::new, |address| format!("http://{address}"))
    }

    /// Dials the runner's socket as the host does: up to 20 tries, 250 ms apart (PROTOCOL §3.9).
    pub(crate) async fn dial(&self, socket: &Path) -> io::Result<()> {
        let mut tries = 0;
        let stream = loop {
            tries += 1;
            match UnixStream::connect(socket).await {
                Ok(stream) => break stream,
                Err(error) if tries == 20 => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(250)).await,
            }
        };
        let gone = self.current().child_token();
        tokio::spawn(socket::connection(stream, self.brain.clone(), self.manners.clone(), gone));
        Ok(())
    }
}

/// Changes the owner of a tree; links are not followed.
pub(super) fn owned_by(path: &Path, user: u32) -> io::Result<()> {
    std::os::unix::fs::lchown(path, Some(user), Some(user))?;
    if path.symlink_metadata()?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            owned_by(&entry?.path(), user)?;
        }
    }
    Ok(())
}
