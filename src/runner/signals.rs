//! SIGTERM and its kin: the first one stops the turn, the second one the process (DESIGN §4.12).

use super::exit::{Fatal, Signal};
use crate::os;
use nix::sys::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SigSet};
use std::io;
use std::sync::{Arc, OnceLock};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Which signal ends the process, once one has come.
#[derive(Clone)]
pub(super) struct Stop {
    token: CancellationToken,
    signal: Arc<OnceLock<Signal>>,
}

impl Stop {
    /// Takes over the signals. As PID 1 they would otherwise be ignored (PROTOCOL §1.12).
    pub(super) fn listen() -> io::Result<Self> {
        let stop = Self { token: CancellationToken::new(), signal: Arc::new(OnceLock::new()) };
        let kinds = [
            (SignalKind::terminate(), Signal::Term),
            (SignalKind::interrupt(), Signal::Int),
            (SignalKind::hangup(), Signal::Hup),
            (SignalKind::quit(), Signal::Quit),
        ];
        for (kind, name) in kinds {
            let mut stream = signal(kind)?;
            let stop = stop.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() {
                    if stop.signal.set(name).is_err() {
                        os::die_now(i32::from(Fatal::Signal(name).code()));
                    }
                    tracing::info!(component = "runner", signal = %name, "signal_received");
                    stop.token.cancel();
                }
            });
        }
        // `enter` hands them over blocked, so that none is lost while there is no handler.
        [SIGTERM, SIGINT, SIGHUP, SIGQUIT].into_iter().collect::<SigSet>().thread_unblock()?;
        Ok(stop)
    }

    /// Cancelled by the first signal.
    pub(super) fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// The signal, once one has come.
    pub(super) fn signal(&self) -> Option<Signal> {
        self.signal.get().copied()
    }
}
