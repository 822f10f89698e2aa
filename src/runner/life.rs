//! From start to exit code: the three modes (PROTOCOL §1, §5).

use super::answer::{self, Sink};
use super::config::{Config, Transport};
use super::exit::Fatal;
use super::session::{Session, TurnEnd};
use super::signals::Stop;
use super::{intake, listen, work};
use crate::link::{AnthropicLink, HostLink, SocketLink};
use crate::text::javascript;
use crate::wire::{Content, Payload};
use crate::{limits, log, os};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Runs to the end and returns the exit code. The process must do nothing else: it becomes a subreaper, cannot be
/// inspected any more, and takes over the signals.
pub fn main(config: Config) -> u8 {
    // Before the first child and before the payload: what a child could read of us it must not be able to (DESIGN §4.11).
    os::close_inherited();
    if let Err(error) = os::harden() {
        tracing::warn!(component = "runner", error = %error, "hardening_incomplete");
    }
    os::raise_descriptors();
    let code = match runtime() {
        Ok(runtime) => {
            let code = runtime.block_on(live(config));
            // A thread that still waits for stdin or a slow disk must not hold the exit.
            runtime.shutdown_background();
            code
        }
        Err(error) => failed(&Fatal::Resources(error.to_string())),
    };
    log::finish();
    code
}

/// A runtime, or the reason where it would panic without descriptors of its own.
fn runtime() -> io::Result<Runtime> {
    os::need_descriptors()?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(limits::BLOCKING_THREADS)
        .thread_keep_alive(limits::BLOCKING_THREAD_IDLE)
        .build()
}

/// The last line, and the exit code.
fn failed(fatal: &Fatal) -> u8 {
    tracing::error!(component = "runner", error = %fatal, code = fatal.code(), "{}", fatal.event());
    log::finish();
    log::last_words(&format!("Agent runner error: {fatal}"));
    fatal.code()
}

async fn live(config: Config) -> u8 {
    let outcome = match Stop::listen() {
        Ok(stop) => {
            let outcome = tokio::select! {
                outcome = run(config, &stop) => outcome,
                () = overdue(&stop) => {
                    os::end_everything();
                    Ok(())
                }
            };
            stop.signal().map_or(outcome, |signal| Err(Fatal::Signal(signal)))
        }
        Err(error) => Err(Fatal::Resources(format!("signals cannot be handled: {error}"))),
    };
    outcome.map_or_else(|fatal| failed(&fatal), |()| 0)
}

/// Ends the wait for a turn that does not stop in time after a signal.
async fn overdue(stop: &Stop) {
    stop.token().cancelled().await;
    tokio::time::sleep(limits::SHUTDOWN).await;
}

async fn run(config: Config, stop: &Stop) -> Result<(), Fatal> {
    if let Some(id) = &config.request_id {
        log::set_request_id(id);
    }
    let adopting = stop.token().clone();
    tokio::spawn(async move {
        if let Err(error) = os::adopt_orphans(adopting).await {
            tracing::warn!(component = "runner", error = %error, "orphans_not_adopted");
        }
    });
    match config.transport.clone() {
        Transport::Connect(path) => connect(config, &path, stop).await,
        Transport::Listen(path) => listen::run(config, &path, stop).await,
        Transport::Http(url) => work::run(config, &url, stop).await,
    }
}

/// Docker: one turn, the answer on stdout.
async fn connect(config: Config, path: &Path, stop: &Stop) -> Result<(), Fatal> {
    let payload = intake::from_stdin(stop.token()).await?;
    config.agent()?;
    if is_blank(&payload) {
        return Ok(());
    }
    // Before anything is asked or done for an answer that nobody can get.
    os::stdout_open().map_err(|error| Fatal::Stdout(error.to_string()))?;
    let link = SocketLink::connect(path, config.llm_timeout).await.map_err(|error| Fatal::connect(path, &error))?;
    let mut link: Arc<dyn HostLink> = Arc::new(link);
    if let Some(socket) = &config.proxy_socket {
        link = Arc::new(AnthropicLink::new(link, socket.clone(), config.llm_timeout));
    }
    let mut sink = Sink::stdout();
    let mut session = Session::new(config, link)?;
    let host = session.apply(&payload, stop.token());
    let end = session.turn(&host, &payload, &mut |text| sink.say(text)).await;
    session.shutdown().await;
    let end = end?;
    let lost = end.link_lost();
    if let Some(error) = &lost
        && !end.acted
        && javascript::trim_start(&end.answer).is_empty()
    {
        // Nothing has been done or said yet, so the host may run the whole turn again.
        return Err(Fatal::LinkLost(error.to_string()));
    }
    if !end.stopped() {
        sink.say(&end.told());
    }
    sink.finish(stop.token()).await?;
    lost.map_or(Ok(()), |error| Err(Fatal::LinkLost(error.to_string())))
}

/// Runs a turn and sends its answer, whatever happened. `Err` when there could be no turn, or the answer has not reached the
/// host.
pub(super) async fn answered_turn(session: &mut Session, payload: &Payload, stop: &Stop) -> Result<(), Fatal> {
    let host = session.apply(payload, stop.token());
    if is_blank(payload) {
        return answer::deliver(&host, "The message was empty, so there was nothing to do.").await;
    }
    let mut sink = Sink::Action;
    let ended = session.turn(&host, payload, &mut |text| sink.say(text)).await;
    if let Some(error) = ended.as_ref().ok().and_then(TurnEnd::link_lost).filter(|_| host.cancel().is_cancelled()) {
        return Err(Fatal::LinkLost(error.to_string()));
    }
    if host.cancel().is_cancelled() && !stop.token().is_cancelled() {
        // The host takes no answer any more, and none is missed.
        tracing::warn!(component = "runner", "turn_closed_by_host");
        return Ok(());
    }
    let (answer, outcome) = match ended {
        Ok(end) => (format!("{}{}", end.answer, end.told()), Ok(())),
        Err(fatal) => (format!("Agent error: {fatal}"), Err(fatal)),
    };
    // A host that does not take the answer must not keep the commands alive after a signal.
    let stopped = async {
        stop.token().cancelled().await;
        session.end_commands().await;
        std::future::pending().await
    };
    tokio::select! {
        delivered = answer::deliver(&host, &answer) => delivered.and(outcome),
        () = stopped => Ok(()),
    }
}

/// Nothing to answer: no text and no media.
fn is_blank(payload: &Payload) -> bool {
    let media = match &payload.message {
        Content::Blocks(blocks) => blocks.iter().any(|block| !matches!(block, crate::wire::Block::Text { .. })),
        Content::Text(_) => false,
    };
    !media && javascript::trim_start(&payload.message.to_text("\n")).is_empty()
}
