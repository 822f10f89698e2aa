//! The payload a host sends with a message (PROTOCOL §2.2), with invented but plausible values.

use super::validate::Transport;
use serde_json::{Value, json};

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
        payload["ipcToken"] = format!("turn-{}", request_id()).into();
        // A pod would otherwise wait ten minutes for more.
        payload["singleTurn"] = true.into();
    }
    payload
}

/// Distinct within this process and unlikely to repeat across processes; nothing depends on more.
pub(crate) fn request_id() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("chatcmpl-{:08x}-0000-4000-8000-{:012x}", count, super::now_ms())
}
