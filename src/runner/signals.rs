//! SIGTERM and its kin: the first one stops the turn, the second one the process (DESIGN §4.12).

use super::exit::{Fatal, Signal};
use crate::os;
use nix::sys::signal::{SigSet, Signal as Number};
use std::io;
use std::sync::{Arc, OnceLock};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The signals that end the runner.
const ENDING: [(Number, Signal); 4] = [
    (Number::SIGTERM, Signal::Term),
    (Number::SIGINT, Signal::Int),
    (Number::SIGHUP, Signal::Hup),
    (Number::SIGQUIT, Signal::Quit),
];

fn mask() -> SigSet {
    ENDING.into_iter().map(|(number, _)| number).collect()
}

/// Keeps the signals waiting until `Stop::listen`. To be called first of all: the kernel throws away what PID 1 has no
/// handler for, but not what it has blocked, so a stop during start-up is late and never lost (CASES N10).
pub fn hold_signals() {
    // Fails only for a mask that is none. Without it a stop can be lost, which the host's SIGKILL makes good.
    let _ = mask().thread_block();
}

/// Which signal ends the process, once one has come.
#[derive(Clone)]
pub(super) struct Stop {
    token: CancellationToken,
    signal: Arc<OnceLock<Signal>>,
}

impl Stop {
    /// Takes over the signals, those that wait since [`hold_signals`] included. As PID 1 they would otherwise be ignored
    /// (PROTOCOL §1.12).
    pub(super) fn listen() -> io::Result<Self> {
        let stop = Self { token: CancellationToken::new(), signal: Arc::new(OnceLock::new()) };
        for (number, name) in ENDING {
            let mut stream = signal(SignalKind::from_raw(number as i32))?;
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
        // `enter` hands them over blocked; without it they are held since our start. No child exists yet to inherit the mask.
        mask().thread_unblock()?;
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
