//! The host's language (PROTOCOL §2, §3, §6, §14): pure types and codecs, no I/O.

mod action;
mod attempt;
mod block;
pub mod check;
mod frame;
mod ordered;
mod payload;
mod reply;
mod structured;
pub(crate) mod surrogates;
mod tool;

pub use action::{Action, Approve, Forward, LlmCall, Meta, Operation, Report, TaskType};
pub(crate) use attempt::document;
pub use block::{Block, Content, Message, Role};
pub use frame::{FrameCodec, FrameError};
pub use ordered::{Members, Ordered};
pub(crate) use payload::json;
pub use payload::{
    CatalogEntry, Dispatch, DispatchMode, HistoryTurn, Identity, Payload, PayloadError, SandboxType, SkillInfo,
};
pub use reply::{Chunk, Envelope, ModelFault, Reply, ToolCall, Usage};
pub use tool::ToolSpec;

use serde::Deserialize;

/// Reads a JSON object as `T`. Serde would also fill a struct from an array, field by field; on the wire that is never
/// meant, and `[true,true]` must not read as a consent.
pub fn object<'a, T: Deserialize<'a>>(json: &'a [u8]) -> serde_json::Result<T> {
    match json.trim_ascii_start().first() {
        Some(b'{') => serde_json::from_slice(json),
        _ => Err(serde::de::Error::custom("expected a JSON object")),
    }
}
