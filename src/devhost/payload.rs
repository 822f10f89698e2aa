//! The payload a host sends with a message (PROTOCOL §2.2), with invented but plausible values.

use super::validate::Transport;
use serde_json::{Value, json};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;

/// A payload for a message.
pub(crate) fn for_message(message: &str, transport: Transport) -> Value {
    let mut payload = json!({
        "message": message,
        "history": [],
        "taintRatio": 0.0,
        "taintThreshold": 0.3,
        "profile": "balanced",
        "sandboxType": match transport {
            Transport::Socket => "docker",
            Transport::Listen => "apple",
            Transport::Http => "k8s",
        },
        "userId": "dev",
        "replyOptional": false,
        "sessionId": "http:dm:ax:dev:t-1",
        "requestId": request_id(),
        "sessionScope": "dm",
        "agentId": "ax",
        "identity": {
            "agents": "# AGENTS.md\nYou help a developer try this machine out. Keep answers short.\n",
            "soul": "# SOUL.md\nPlain-spoken and careful.\n",
            "identity": "# IDENTITY.md\nName: Dev. Role: guide.\n",
            "bootstrap": "",
            "userBootstrap": "",
            "heartbeat": "",
        },
        "credentialEnv": {},
        "singleTurn": false,
        "skills": [],
        "catalog": [],
        "tool_dispatch": {"mode": "indirect", "spill_threshold_bytes": 20480},
    });
    if transport == Transport::Http {
        payload["ipcToken"] = format!("turn-{:016x}{:016x}", random(), random()).into();
        // A pod would otherwise wait ten minutes for more.
        payload["singleTurn"] = true.into();
    }
    payload
}

/// What the host puts into a workspace before it starts a runner: without `.ax` the runner would wait (PROTOCOL §1.11).
pub(crate) fn seed(workspace: &Path) -> io::Result<()> {
    std::fs::create_dir_all(workspace.join(".ax/skills"))?;
    std::fs::create_dir_all(workspace.join(".ax/policy"))
}

fn request_id() -> String {
    format!("chatcmpl-{:08x}-0000-4000-8000-{:012x}", random() >> 32, random() >> 16)
}

/// Sixty-four bits nobody outside this process can foretell: the standard library keys its hasher from the system's
/// random numbers.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
