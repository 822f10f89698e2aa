//! A turn's beginning: the history, summarised where it is too long, and the current message.

use super::compact;
use super::conversation::{Conversation, Room};
use super::history::history;
use super::run::Brief;
use super::shortened::size;
use crate::limits;
use crate::link::Host;
use crate::wire::{Action, Chunk, Payload, ToolSpec};

/// Prepares the conversation. Asks the model for a summary only if the history needs one; without it the oldest turns are
/// left out.
pub(super) async fn open(brief: &Brief, payload: &Payload, host: &Host, tools: &[ToolSpec]) -> Conversation {
    let room = Room::new(host.request_max_bytes(), overhead(brief, tools));
    let (mut summary, mut turns) = (Vec::new(), history(&payload.history));
    if compact::needed(&turns, room.text_bytes()) {
        let plan = compact::plan(&turns, room.text_bytes(), host.request_max_bytes());
        match summarise(&plan, &host.unwatched()).await {
            Ok(text) => (summary, turns) = plan.finish(turns, &text),
            Err(error) => tracing::warn!(component = "runner", error = error.as_str(), "compaction_failed"),
        }
        tracing::info!(
            component = "runner",
            before = payload.history.len(),
            after = summary.len() + turns.len(),
            "history_compacted"
        );
    }
    Conversation::new(turns, &payload.message, room).after(summary)
}

/// Bytes a request has besides its conversation.
fn overhead(brief: &Brief, tools: &[ToolSpec]) -> usize {
    // Keys and metadata, each at most a few hundred bytes.
    const ENVELOPE: usize = 2048;
    size(&brief.model) + size(&brief.system) + size(&tools) + ENVELOPE
}

async fn summarise(plan: &compact::Plan, host: &Host) -> Result<String, String> {
    let work = async {
        let mut summary: Option<String> = None;
        for pieces in &plan.calls {
            let action = Action::LlmCall(compact::request(pieces, summary.as_deref()));
            let reply = host.call(&action).await.map_err(|error| error.to_string())?;
            let texts =
                reply.chunks().map_err(|fault| fault.to_string())?.into_iter().filter_map(|chunk| match chunk {
                    Chunk::Text(text) => Some(text),
                    _ => None,
                });
            summary = Some(compact::usable(&texts.collect::<String>()).ok_or("the summary is blank")?);
        }
        summary.ok_or_else(|| "there is nothing to summarise".to_owned())
    };
    tokio::time::timeout(limits::COMPACT_TIMEOUT, work).await.map_err(|_| "no summary came in time".to_owned())?
}
