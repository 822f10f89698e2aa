//! Server-sent events, in time linear in their length and in bounded memory.

use crate::limits;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http_body_util::BodyExt;
use hyper::body::Body;
use std::io;
use std::pin::Pin;
use tokio::io::AsyncRead;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};
use tokio_util::io::StreamReader;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The `event` field; empty when there was none.
    pub name: String,
    /// The `data` lines, joined with newlines.
    pub data: String,
}

/// Why a stream cannot be read on. After an error nothing more is read: what follows may be the rest of a cut line.
#[derive(Debug, thiserror::Error)]
pub enum SseError {
    /// A line or an event beyond the limit.
    #[error("the event stream has a line or an event of more than {} bytes", limits::SSE_LINE_MAX_BYTES)]
    TooLong,
    /// The connection failed, or the bytes are no UTF-8.
    #[error("the event stream broke off: {0}")]
    Broken(io::Error),
}

type Reader = Pin<Box<dyn AsyncRead + Send>>;

/// The events of a stream.
pub struct Events {
    lines: FramedRead<Reader, LinesCodec>,
    max: usize,
}

impl Events {
    /// The events of a response's body.
    pub fn of_body(body: impl Body<Data = Bytes, Error = io::Error> + Send + 'static) -> Self {
        Self::of_chunks(body.into_data_stream())
    }

    /// The events of a stream of pieces, wherever they were cut.
    pub fn of_chunks(chunks: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self::with_limit(chunks, limits::SSE_LINE_MAX_BYTES)
    }

    fn with_limit(chunks: impl Stream<Item = io::Result<Bytes>> + Send + 'static, max: usize) -> Self {
        let reader: Reader = Box::pin(StreamReader::new(chunks));
        Self { lines: FramedRead::new(reader, LinesCodec::new_with_max_length(max)), max }
    }

    /// The next event; `None` at the end of the stream. An event that the stream's end cut off is not one.
    pub async fn next(&mut self) -> Result<Option<Event>, SseError> {
        let mut event = Event { name: String::new(), data: String::new() };
        let mut any = false;
        while let Some(line) = self.lines.next().await {
            let line = line.map_err(|error| match error {
                LinesCodecError::MaxLineLengthExceeded => SseError::TooLong,
                LinesCodecError::Io(error) => SseError::Broken(error),
            })?;
            if line.is_empty() {
                if any {
                    return Ok(Some(event));
                }
                event.name.clear();
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => event.name = value.to_owned(),
                "data" => {
                    if any {
                        event.data.push('\n');
                    }
                    any = true;
                    event.data.push_str(value);
                    if event.data.len() > self.max {
                        return Err(SseError::TooLong);
                    }
                }
                // Comments keep the connection alive; `id` and `retry` are for clients that connect again by themselves.
                _ => {}
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: Vec<Vec<u8>>, max: usize) -> Events {
        let pieces = pieces.into_iter().map(|piece| Ok(Bytes::from(piece)));
        Events::with_limit(futures_util::stream::iter(pieces), max)
    }

    async fn all(mut events: Events) -> Result<Vec<(String, String)>, SseError> {
        let mut found = Vec::new();
        while let Some(event) = events.next().await? {
            found.push((event.name, event.data));
        }
        Ok(found)
    }

    #[tokio::test]
    async fn fields_and_ends() {
        let text = ": hello\n\nevent: a\ndata: 1\ndata:2\nid: 7\n\r\nevent: lost\n\ndata\n\ndata: \u{e9}\n\ndata: torn";
        let found = all(events(vec![text.as_bytes().to_vec()], 100)).await.unwrap();
        let wanted = [("a", "1\n2"), ("", ""), ("", "\u{e9}")];
        assert_eq!(found, wanted.map(|(name, data)| (name.to_owned(), data.to_owned())));
    }

    #[tokio::test]
    async fn a_cut_anywhere_changes_nothing() {
        let text = "event: x\r\ndata: {\"a\":\"\u{1f600}\"}\r\n\r\ndata: b\n\n".as_bytes();
        let whole = all(events(vec![text.to_vec()], 100)).await.unwrap();
        for at in 0..=text.len() {
            let pieces = vec![text[..at].to_vec(), Vec::new(), text[at..].to_vec()];
            let pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
            assert_eq!(all(events(pieces, 100)).await.unwrap(), whole, "cut at {at}");
        }
        let bytes = text.iter().map(|byte| vec![*byte]).collect();
        assert_eq!(all(events(bytes, 100)).await.unwrap(), whole);
    }

    #[tokio::test]
    async fn long_lines_long_events_and_foreign_bytes_end_it() {
        let endless = vec![vec![b'x'; 64]; 64];
        assert!(matches!(all(events(endless, 100)).await, Err(SseError::TooLong)));
        let many = "data: 0123456789\n".repeat(20).into_bytes();
        assert!(matches!(all(events(vec![many], 100)).await, Err(SseError::TooLong)));
        assert!(matches!(all(events(vec![b"data: \xff\n\n".to_vec()], 100)).await, Err(SseError::Broken(_))));
    }

    #[tokio::test]
    async fn many_pieces_of_one_line_take_linear_time() {
        let mut pieces = vec![b"data: ".to_vec()];
        pieces.extend(vec![vec![b'x'; 1024]; 4 * 1024]);
        pieces.push(b"\n\n".to_vec());
        let found = tokio::time::timeout(std::time::Duration::from_secs(20), all(events(pieces, 8 << 20))).await;
        assert_eq!(found.expect("quadratic").unwrap()[0].1.len(), 4 << 20);
    }
}
