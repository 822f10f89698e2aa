//! Frames on a stream socket: a 4-byte big-endian length, then that many bytes of JSON (PROTOCOL §3.1).

use crate::limits;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

const HEADER: usize = 4;

/// Why a stream cannot be read on. Each of them ends the connection: after a wrong length the next bytes mean nothing.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The prefix announces more than the reader accepts; refused before anything is allocated.
    #[error("frame of {length} bytes is over the limit of {max}")]
    TooLong {
        /// Announced length.
        length: usize,
        /// The reader's limit.
        max: usize,
    },
    /// The stream ended inside a frame.
    #[error("stream ended inside a frame")]
    Torn,
    /// The stream failed.
    #[error("stream failed: {0}")]
    Io(#[from] std::io::Error),
}

/// Splits and joins frames. `max` holds for both directions.
#[derive(Debug, Clone)]
pub struct FrameCodec {
    max: usize,
}

impl FrameCodec {
    /// What the runner reads: replies of any size the memory bears.
    pub fn runner() -> Self {
        Self { max: limits::FRAME_RECEIVE_MAX_BYTES }
    }

    /// What the host reads: requests up to its limit.
    pub fn host() -> Self {
        Self { max: limits::FRAME_SEND_MAX_BYTES }
    }
}

impl Decoder for FrameCodec {
    type Item = Bytes;
    type Error = FrameError;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        let Some(header) = source.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*header) as usize;
        if length > self.max {
            return Err(FrameError::TooLong { length, max: self.max });
        }
        if source.len() < HEADER + length {
            // Room for the rest in one step, but never more than was announced and allowed.
            source.reserve(HEADER + length - source.len());
            return Ok(None);
        }
        source.advance(HEADER);
        Ok(Some(source.split_to(length).freeze()))
    }

    fn decode_eof(&mut self, source: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        match self.decode(source)? {
            Some(frame) => Ok(Some(frame)),
            None if source.is_empty() => Ok(None),
            None => Err(FrameError::Torn),
        }
    }
}

impl Encoder<&[u8]> for FrameCodec {
    type Error = FrameError;

    fn encode(&mut self, body: &[u8], target: &mut BytesMut) -> Result<(), FrameError> {
        let length = u32::try_from(body.len())
            .ok()
            .filter(|_| body.len() <= self.max)
            .ok_or(FrameError::TooLong { length: body.len(), max: self.max })?;
        target.reserve(HEADER + body.len());
        target.put_u32(length);
        target.extend_from_slice(body);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn joined(bodies: &[Vec<u8>]) -> BytesMut {
        let mut wire = BytesMut::new();
        for body in bodies {
            FrameCodec::runner().encode(body.as_slice(), &mut wire).unwrap();
        }
        wire
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_allocation() {
        let mut wire = BytesMut::from(&b"\xff\xff\xff\xffabc"[..]);
        assert!(matches!(FrameCodec::host().decode(&mut wire), Err(FrameError::TooLong { length: 4_294_967_295, .. })));
        assert!(wire.capacity() < 1024);
    }

    #[test]
    fn the_end_of_the_stream_inside_a_frame_is_an_error() {
        for cut in 1..7 {
            let mut wire = joined(&[b"abc".to_vec()]);
            wire.truncate(cut);
            assert!(matches!(FrameCodec::host().decode_eof(&mut wire), Err(FrameError::Torn)), "cut at {cut}");
        }
        assert!(FrameCodec::host().decode_eof(&mut BytesMut::new()).unwrap().is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]
        #[test]
        fn any_split_gives_the_same_frames(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
            cuts in prop::collection::vec(1usize..17, 1..64),
        ) {
            let wire = joined(&bodies).freeze();
            let mut codec = FrameCodec::host();
            let (mut buffer, mut seen, mut at) = (BytesMut::new(), Vec::new(), 0);
            for cut in cuts.iter().cycle() {
                let end = (at + cut).min(wire.len());
                buffer.extend_from_slice(&wire[at..end]);
                at = end;
                while let Some(frame) = codec.decode(&mut buffer).unwrap() {
                    seen.push(frame.to_vec());
                }
                if at == wire.len() {
                    break;
                }
            }
            prop_assert!(codec.decode_eof(&mut buffer).unwrap().is_none());
            prop_assert_eq!(seen, bodies);
        }
    }
}
