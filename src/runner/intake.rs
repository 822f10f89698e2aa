//! The first work item, from stdin (PROTOCOL §2).

use super::exit::Fatal;
use crate::limits;
use crate::os;
use crate::wire::{self, Payload};
use serde::de::IgnoredAny;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

/// Reads stdin to its end, or to the end of a complete JSON object that nothing follows.
pub(super) async fn from_stdin(cancel: &CancellationToken) -> Result<Payload, Fatal> {
    let (max, deadline, quiet) = (limits::PAYLOAD_MAX_BYTES, limits::PAYLOAD_DEADLINE, limits::PAYLOAD_QUIET);
    let bytes = os::read_stdin(cancel, max, deadline, is_whole, quiet).await;
    parse(&bytes.map_err(|error| Fatal::Payload(error.to_string()))?)
}

/// A complete JSON object, with or without byte order marks.
fn is_whole(read: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(read).map(wire::document) else { return false };
    text.starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// One work item; what it holds is wiped from the buffer's memory by the caller.
pub(super) fn parse(bytes: &Zeroizing<Vec<u8>>) -> Result<Payload, Fatal> {
    let payload = Payload::read(bytes).map_err(|error| Fatal::Payload(error.to_string()))?;
    if !payload.ignored.is_empty() {
        tracing::warn!(component = "runner", fields = payload.ignored.join(" ").as_str(), "payload_fields_ignored");
    }
    Ok(payload)
}
