//! Listen mode: the host dials in (PROTOCOL §3.9, §5.2).

use super::config::Config;
use super::exit::Fatal;
use super::life::answered_turn;
use super::recent::Recent;
use super::session::Session;
use super::signals::Stop;
use super::{answer, intake, work};
use crate::limits;
use crate::link::{CallContext, Host, HostLink, SocketLink};
use crate::log;
use crate::wire::{Action, Ordered, Payload};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;

/// Binds, announces it, takes one connection and one payload, and runs turns until there is no more work.
pub(super) async fn run(config: Config, path: &Path, stop: &Stop) -> Result<(), Fatal> {
    let listener = bind(path).map_err(|error| Fatal::listen(path, &error))?;
    // The host looks for this token in each piece it reads, so it is one write, after the bind (PROTOCOL §1.5).
    log::last_words("[signal] ipc_ready");
    let payload = intake::from_stdin(stop.token());
    let (payload, link) = tokio::join!(payload, accept(listener, path, limits::ACCEPT_DEADLINE, stop));
    let Some(link) = link.map_err(|error| Fatal::listen(path, &error))? else {
        return Ok(());
    };
    let link: Arc<dyn HostLink> = Arc::new(SocketLink::accepted(link, config.llm_timeout));
    let meta = payload.as_ref().map(Payload::meta).unwrap_or_default();
    let context = CallContext { meta, token: None };
    let host = Host::new(link.clone(), context, stop.token().child_token());
    let idle_limit = config.max_idle_polls;
    let ready = payload.and_then(|payload| {
        config.agent()?;
        Ok((payload, Session::new(config, link)?))
    });
    // The host waits for an answer and for nothing else, so even a fatal error is one first (PROTOCOL T39).
    let (payload, mut session) = match ready {
        Ok(ready) => ready,
        Err(fatal) => {
            let _ = answer::deliver(&host, &format!("Agent error: {fatal}")).await;
            return Err(fatal);
        }
    };
    let ended = turns(&mut session, payload, &host, idle_limit, stop).await;
    session.shutdown().await;
    ended
}

/// The first turn and those that follow it. One that cannot be had ends them, and so does an answer that does not reach the
/// host: nobody will dial again.
async fn turns(session: &mut Session, first: Payload, host: &Host, idle_limit: u32, stop: &Stop) -> Result<(), Fatal> {
    let mut next: Option<Result<Payload, String>> = Some(Ok(first));
    let mut recent = Recent::default();
    while let Some(work) = next.take() {
        match work {
            Err(reason) => work::refuse(host, &reason).await?,
            Ok(payload) if recent.is_new(payload.request_id.as_deref()) => {
                answered_turn(session, &payload, stop).await?;
                if payload.single_turn {
                    break;
                }
            }
            Ok(_) => tracing::warn!(component = "runner", "work_repeated"),
        }
        if stop.token().is_cancelled() {
            break;
        }
        next = more_work(host, idle_limit, stop).await;
    }
    Ok(())
}

/// A socket of our own, replacing a stale one. Anything that is not a socket stays.
fn bind(path: &Path) -> io::Result<UnixListener> {
    if let Ok(found) = std::fs::symlink_metadata(path)
        && found.file_type().is_socket()
    {
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

/// Takes exactly one connection; the socket's file goes, so that nobody else can come. `None` when stopped first. A host
/// that does not dial has given the container up.
async fn accept(
    listener: UnixListener,
    path: &Path,
    wait: Duration,
    stop: &Stop,
) -> io::Result<Option<tokio::net::UnixStream>> {
    let accepted = tokio::select! {
        accepted = listener.accept() => accepted.map(|(stream, _)| Some(stream)),
        () = stop.token().cancelled() => Ok(None),
        () = tokio::time::sleep(wait) => {
            let reason = format!("nobody has connected within {} seconds", wait.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, reason))
        }
    };
    let _ = std::fs::remove_file(path);
    accepted
}

/// Asks for the next work item (PROTOCOL §5.2); `Err` says why the one that came cannot be used. A host that does not serve
/// the question has no more work.
async fn more_work(host: &Host, idle_limit: u32, stop: &Stop) -> Option<Result<Payload, String>> {
    for waited in 1..=idle_limit {
        tracing::info!(component = "runner", "work_loop_waiting");
        let reply = host.call(&Action::FetchWork {}).await.ok()?;
        reply.accepted().ok()?;
        match reply.fields().and_then(|mut fields| fields.remove("payload")) {
            None => {}
            Some(Ordered::Bare(word)) if ["null", "false", "0"].contains(&&*word) => {}
            Some(Ordered::Text(work)) if work.is_empty() => {}
            Some(Ordered::Text(work)) => {
                return Some(Payload::read(work.as_bytes()).map_err(|error| error.to_string()));
            }
            Some(_) => return Some(Err("the work item is not a text".to_owned())),
        }
        if waited < idle_limit {
            tokio::select! {
                () = tokio::time::sleep(limits::WORK_PAUSE) => {}
                () = stop.token().cancelled() => return None,
            }
        }
    }
    tracing::info!(component = "runner", "idle_timeout_exit");
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wait itself is [`limits::ACCEPT_DEADLINE`]: longer than the host tries, and not for ever.
    #[tokio::test]
    async fn a_host_that_never_dials_ends_the_wait() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bridge.sock");
        let listener = bind(&path).unwrap();
        let stop = Stop::default();
        let waited = accept(listener, &path, Duration::from_millis(50), &stop);
        let error = tokio::time::timeout(Duration::from_secs(60), waited).await.expect("waits for ever").unwrap_err();
        assert!(!path.exists(), "the socket's file stays");
        let fatal = Fatal::listen(&path, &error);
        assert_eq!(fatal.code(), 1);
        assert!(fatal.to_string().contains("nobody has connected within 0 seconds"), "{fatal}");
        let words = fatal.to_string().to_lowercase();
        assert!(!words.contains("timed out") && !words.contains("timeout"), "{words}");
        // The host sees the sign, or fifteen seconds pass; then it dials for five.
        assert!((20..=300).contains(&limits::ACCEPT_DEADLINE.as_secs()));
    }
}
