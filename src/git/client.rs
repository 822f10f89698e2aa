//! The sidecar, as the runner asks it (PROTOCOL §12.3).

use crate::http::small::{self, SmallError};
use crate::limits;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The port when `AX_GIT_SIDECAR_PORT` names none (PROTOCOL §1.2).
const PORT: u16 = 9099;

/// Why the sidecar did not do it. The turn goes on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SidecarError {
    /// No answer.
    #[error("the git sidecar: {0}")]
    Unreached(#[from] SmallError),
    /// An answer that says no.
    #[error("the git sidecar answered: {0}")]
    Refused(String),
    /// The turn was cancelled while it waited.
    #[error("cancelled")]
    Cancelled,
}

/// What became of a turn's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnSaved {
    /// The new commit, if there was anything to commit.
    pub hash: Option<String>,
    /// Files in it.
    pub files: u64,
    /// Changes under `.ax/` were taken back, for this reason.
    pub skill_validation_error: Option<String>,
}

/// A sidecar on this pod's loopback.
#[derive(Debug, Clone)]
pub struct Sidecar {
    authority: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    ok: Option<bool>,
    error: Option<String>,
    hash: Option<String>,
    files: Option<Value>,
    skill_validation_error: Option<String>,
}

impl Sidecar {
    /// The sidecar at the port of `AX_GIT_SIDECAR_PORT`.
    pub fn new(port: Option<&str>) -> Self {
        let port = port.and_then(|port| port.trim().parse::<u16>().ok()).filter(|port| *port != 0).unwrap_or(PORT);
        // By number: the name may mean `::1`, where nobody listens.
        Self { authority: format!("127.0.0.1:{port}") }
    }

    /// Brings the workspace to the remote's state. Repeated, since the sidecar may still be starting.
    pub async fn pull(&self, cancel: &CancellationToken) -> Result<(), SidecarError> {
        let mut last = SidecarError::Cancelled;
        for attempt in 1..=limits::SIDECAR_PULL_TRIES {
            let outcome = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(SidecarError::Cancelled),
                outcome = self.ask("/pull", limits::SIDECAR_PULL_DEADLINE) => outcome,
            };
            match outcome {
                Ok(_) => return Ok(()),
                // Whoever took this long will not be faster the tenth time.
                Err(error @ SidecarError::Unreached(SmallError::TooSlow { .. })) => return Err(error),
                Err(error) => last = error,
            }
            if attempt < limits::SIDECAR_PULL_TRIES {
                tokio::select! {
                    () = cancel.cancelled() => return Err(SidecarError::Cancelled),
                    () = tokio::time::sleep(limits::SIDECAR_PULL_PAUSE) => {}
                }
            }
        }
        Err(last)
    }

    /// Has the turn's work committed and pushed. Asked once: whether a lost request was carried out is unknown, and the
    /// next turn's request does what is left to do.
    pub async fn turn_complete(&self) -> Result<TurnSaved, SidecarError> {
        let answer = self.ask("/turn-complete", limits::SIDECAR_TURN_DEADLINE).await?;
        let files = match &answer.files {
            Some(Value::Array(files)) => files.len() as u64,
            Some(files) => files.as_u64().unwrap_or(0),
            None => 0,
        };
        Ok(TurnSaved { hash: answer.hash, files, skill_validation_error: answer.skill_validation_error })
    }

    async fn ask(&self, path: &str, deadline: std::time::Duration) -> Result<Answer, SidecarError> {
        let max = limits::SIDECAR_REPLY_MAX_BYTES;
        let (status, body) = small::post(&self.authority, path, Vec::new(), max, deadline).await?;
        let answer: Answer = crate::wire::object(&body)
            .map_err(|_| SidecarError::Refused(format!("status {status} and no JSON object")))?;
        match (status, answer.ok) {
            (200, Some(true)) => Ok(answer),
            _ => Err(SidecarError::Refused(answer.error.unwrap_or_else(|| format!("status {status}")))),
        }
    }
}
