//! SIGTERM and its kin: the first one stops the turn, the second one the process (DESIGN §4.12). Those that a command sends
//! count for nothing; all other signals that would end a process have no effect.

use super::exit::Signal;
use crate::os::signals::{self, Arrived};
use nix::sys::signal::{SigSet, Signal as Number};
use std::io;
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
    signals::disregard_others();
}

/// Tells everybody of the signal that ends the process.
#[derive(Clone, Default)]
pub(super) struct Stop {
    token: CancellationToken,
}

/// What the program calls a signal.
fn named(number: Number) -> Option<Signal> {
    ENDING.into_iter().find(|(ending, _)| *ending == number).map(|(_, name)| name)
}

impl Stop {
    /// Takes over the signals, those that wait since [`hold_signals`] included. As PID 1 they would otherwise be ignored
    /// (PROTOCOL §1.12).
    pub(super) fn listen() -> io::Result<Self> {
        let stop = Self::default();
        let mut arrivals = signals::arrivals(ENDING.map(|(number, _)| number))?;
        let heard = stop.clone();
        tokio::spawn(async move {
            while let Some(arrived) = arrivals.next().await {
                heard.take(arrived);
            }
        });
        // `enter` hands them over blocked; without it they are held since our start. No child exists yet to inherit the mask.
        mask().thread_unblock()?;
        Ok(stop)
    }

    fn take(&self, arrived: Arrived) {
        match arrived {
            Arrived::Stop(number) => {
                let Some(name) = named(number) else { return };
                tracing::info!(component = "runner", signal = %name, "signal_received");
                self.token.cancel();
            }
            Arrived::Ignored(number) => {
                tracing::warn!(component = "runner", signal = number.as_str(), "signal_of_a_command_ignored");
            }
        }
    }

    /// Cancelled by the first signal.
    pub(super) fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// The signal, once one has come, even if nobody has been told yet: a run that ends meanwhile ends by it.
    pub(super) fn signal(&self) -> Option<Signal> {
        signals::stopped_by().and_then(named)
    }
}
