//! What the host sends.

use super::block_on;
use crate::http::sse::{Event, Events};
use crate::limits;
use crate::link::anthropic::stream;
use crate::text::units;
use crate::wire::{Chunk, Envelope, FrameCodec, FrameError, Payload, PayloadError, Reply, surrogates as escapes};
use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};
use std::time::Duration;
use tokio_util::codec::{Decoder, Encoder};

/// Frames read from these pieces, and whether the stream ended well.
fn frames<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Bytes>, Result<(), String>) {
    let (mut codec, mut buffer, mut seen) = (FrameCodec::host(), BytesMut::new(), Vec::new());
    let mut take = |codec: &mut FrameCodec, buffer: &mut BytesMut, end: bool| -> Result<(), FrameError> {
        while let Some(frame) = if end { codec.decode_eof(buffer)? } else { codec.decode(buffer)? } {
            seen.push(frame);
        }
        Ok(())
    };
    let mut ended = Ok(());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        ended = take(&mut codec, &mut buffer, false);
        if ended.is_err() {
            break;
        }
    }
    let ended = ended.and_then(|()| take(&mut codec, &mut buffer, true));
    assert!(buffer.capacity() <= limits::FRAME_SEND_MAX_BYTES + (1 << 16), "more memory than a frame may have");
    (seen, ended.map_err(|error| error.to_string()))
}

/// Cut at any byte or byte by byte, the same frames come out; put together again they are what was read.
pub(super) fn frame(bytes: &[u8]) {
    let whole = frames([bytes]);
    let mut again = BytesMut::new();
    for frame in &whole.0 {
        FrameCodec::host().encode(frame, &mut again).unwrap();
    }
    assert!(bytes.starts_with(&again), "other bytes than were sent");
    assert!(whole.1.is_err() || again.len() == bytes.len(), "bytes vanished");
    for at in (0..bytes.len()).take(64) {
        let (first, second) = bytes.split_at(at);
        assert_eq!(frames([first, second]), whole, "cut at {at}");
    }
    assert_eq!(frames(bytes.chunks(1)), whole);
}

/// A work item is read or refused; a mark before it changes nothing, and a limit that cannot be read is the narrow one.
pub(super) fn payload(bytes: &[u8]) {
    let read = Payload::read(bytes);
    let marked = Payload::read(&[b"\xef\xbb\xbf", bytes].concat());
    if !bytes.starts_with(b"\xef\xbb\xbf") {
        assert_eq!(format!("{read:?}"), format!("{marked:?}"));
    }
    let text = std::str::from_utf8(bytes);
    if text.is_err() || bytes.contains(&0) {
        assert!(matches!(read, Err(PayloadError::NotUtf8 | PayloadError::Nul)));
    }
    let fields = serde_json::from_slice::<Map<String, Value>>(bytes);
    if let (Ok(fields), Ok(read)) = (fields, read)
        && fields.get("message").is_some_and(Value::is_string)
        && fields.get("history").is_none_or(|history| history.is_null() || history.is_array())
        && !fields["message"].as_str().unwrap().is_empty()
    {
        if read.message.to_text("") != fields["message"].as_str().unwrap() {
            // A turn of history that is nothing makes a plain message of it all.
            assert!(fields["history"].as_array().unwrap().contains(&Value::Null));
            return;
        }
        let unreadable =
            |key: &str, fits: fn(&Value) -> bool| fields.get(key).is_some_and(|value| !value.is_null() && !fits(value));
        assert!(!unreadable("taintThreshold", Value::is_number) || read.taint_threshold == 0.0);
        assert!(!unreadable("taintRatio", Value::is_number) || read.taint_ratio == 1.0);
        assert!(!unreadable("profile", Value::is_string) || read.profile == "paranoid");
        assert!(!format!("{:?}", read.credential_env).contains("hunter2"), "a secret is shown");
    }
}

/// Consent is `ok: true` of one object and nothing else, however it is read; what a call says is what the reply holds.
pub(super) fn reply(bytes: &[u8]) {
    let reply = Reply::new(bytes.to_vec());
    let (accepted, chunks, fields) = (reply.accepted(), reply.chunks(), reply.fields());
    if accepted.is_ok() {
        // Bytes that are no text may stand where nobody looks.
        let text = String::from_utf8_lossy(bytes);
        let value: Value = serde_json::from_str(&escapes::repair(&text)).unwrap();
        assert_eq!(value["ok"], Value::Bool(true));
        assert!(value.is_object());
    }
    if let Some(fields) = fields {
        let ok = fields.get("ok").is_some_and(|ok| ok.is(true));
        // `error` may be named twice, which only the stricter reading minds.
        assert!(ok || accepted.is_err());
    }
    let envelope = Envelope::read(bytes);
    if let Some(Envelope { msg_id: Some(id), .. }) = &envelope {
        assert!(bytes.len() >= id.len());
    }
    let _ = Envelope::guess_id(bytes);
    let Ok(chunks) = chunks else { return };
    assert!(accepted.is_ok());
    let mut said = 0;
    for chunk in &chunks {
        match chunk {
            Chunk::Text(text) => said += units(text),
            Chunk::ToolUse(call) => {
                let args = call.args.as_ref().map_or("", |args| args.get()).as_bytes();
                assert!(args.is_empty() || bytes.windows(args.len()).any(|part| part == args), "other arguments");
                said += units(&call.id) + units(&call.name) + args.len();
            }
            Chunk::Done(_) | Chunk::Cut | Chunk::Other => {}
        }
    }
    assert!(said <= bytes.len(), "more was said than sent");
}

/// Repaired once is repaired: same length, nothing else touched, and nothing a strict parser minds about surrogates.
pub(super) fn surrogates(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let fixed = escapes::repair(&text);
    assert_eq!(fixed.len(), text.len());
    assert_eq!(escapes::repair(&fixed), fixed);
    match serde_json::from_str::<Value>(&text) {
        Ok(value) => assert_eq!(serde_json::from_str::<Value>(&fixed).unwrap(), value),
        Err(_) => {
            let fault = serde_json::from_str::<Value>(&fixed).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(!fault.contains("surrogate"), "{fault}: {fixed}");
        }
    }
}

fn pieces(cut: &[&[u8]]) -> Events {
    let pieces: Vec<_> =
        cut.iter().filter(|piece| !piece.is_empty()).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    Events::of_chunks(futures_util::stream::iter(pieces))
}

async fn all(mut events: Events) -> (Vec<Event>, Option<String>) {
    let mut seen = Vec::new();
    loop {
        match events.next().await {
            Ok(Some(event)) => seen.push(event),
            Ok(None) => return (seen, None),
            Err(error) => return (seen, Some(error.to_string())),
        }
    }
}

/// Cut anywhere, the same events come out, and no more than was sent.
pub(super) fn sse(bytes: &[u8]) {
    block_on(async {
        let whole = all(pieces(&[bytes])).await;
        let said: usize = whole.0.iter().map(|event| event.name.len() + event.data.len()).sum();
        assert!(said <= bytes.len());
        for at in (0..bytes.len()).take(32) {
            let (first, second) = bytes.split_at(at);
            assert_eq!(all(pieces(&[first, second])).await, whole, "cut at {at}");
        }
        assert_eq!(all(pieces(&bytes.chunks(1).collect::<Vec<_>>())).await, whole);
    });
}

/// A message is whole or an error, wherever the stream was cut; nothing is in it twice.
pub(super) fn model_stream(bytes: &[u8]) {
    const SILENCE: Duration = Duration::from_secs(60);
    block_on(async {
        let read = async |cut: &[&[u8]]| {
            let message = stream::read(&mut pieces(cut), SILENCE).await;
            message.map_err(|error| error.to_string())
        };
        let whole = read(&[bytes]).await;
        if let Ok(message) = &whole {
            let size = |part: &stream::Part| match part {
                stream::Part::Text(text) => text.len(),
                stream::Part::Call { id, name, input, .. } => id.len() + name.len() + input.len(),
            };
            // An escape of one byte may be three of text, `\ufffd` say; never more than its six.
            assert!(message.parts.iter().map(size).sum::<usize>() <= bytes.len());
        }
        for at in (0..bytes.len()).step_by(1 + bytes.len() / 16) {
            let (first, second) = bytes.split_at(at);
            assert_eq!(read(&[first, second]).await, whole, "cut at {at}");
        }
    });
}
