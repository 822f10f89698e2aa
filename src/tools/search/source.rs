//! A file as the searcher reads it: as text, with LF for CRLF. The matcher could be told of CRLF instead, but then it takes
//! a lone CR for the end of a line too.

use crate::workspace::walk::Stop;
use crate::{limits, text};
use encoding_rs_io::DecodeReaderBytes;
use std::fs::File;
use std::io::{self, Read};

/// The search was stopped in the middle of a file.
#[derive(Debug, thiserror::Error)]
#[error("stopped")]
pub(super) struct Stopped;

/// The text of a file.
pub(super) struct Text<'a> {
    decoded: Box<dyn Read + 'a>,
    buffer: &'a mut [u8],
    start: usize,
    end: usize,
    /// A CR whose next byte is still to be read.
    held: bool,
    /// Some of it is not UTF-8. Known only if `watched`, since looking takes its time.
    pub(super) foreign: bool,
    watched: bool,
    stop: Stop<'a>,
}

impl<'a> Text<'a> {
    /// `None` if its first bytes say that it is none. UTF-16 is told by its byte order mark.
    pub(super) fn open(
        mut file: File,
        head: &'a mut [u8],
        buffer: &'a mut [u8],
        watched: bool,
        stop: Stop<'a>,
    ) -> io::Result<Option<Self>> {
        let read = file.read(head)?;
        let head = &head[..read];
        let utf16 = text::wide(head) == Some("UTF-16");
        if !utf16 && head[..read.min(limits::BINARY_PROBE_BYTES)].contains(&0) {
            return Ok(None);
        }
        let all = head.chain(file);
        let decoded: Box<dyn Read + 'a> = if utf16 { Box::new(DecodeReaderBytes::new(all)) } else { Box::new(all) };
        Ok(Some(Self { decoded, buffer, start: 0, end: 0, held: false, foreign: false, watched, stop }))
    }

    /// Reads on until there is something to give, or the end.
    fn fill(&mut self) -> io::Result<()> {
        (self.start, self.end) = (0, 0);
        while self.end == 0 {
            if self.stop.now() {
                return Err(io::Error::other(Stopped));
            }
            let held = usize::from(self.held);
            self.buffer[..held].fill(b'\r');
            let read = self.decoded.read(&mut self.buffer[held..])?;
            let all = &mut self.buffer[..held + read];
            self.foreign |= self.watched && is_foreign(all);
            self.held = read > 0 && all.ends_with(b"\r");
            let known = all.len() - usize::from(self.held);
            self.end = lf_only(&mut all[..known]);
            if read == 0 {
                break;
            }
        }
        Ok(())
    }
}

impl Read for Text<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end {
            self.fill()?;
        }
        let count = into.len().min(self.end - self.start);
        into[..count].copy_from_slice(&self.buffer[self.start..][..count]);
        self.start += count;
        Ok(count)
    }
}

/// Is this part of a text not UTF-8, whatever its edges cut?
fn is_foreign(part: &[u8]) -> bool {
    let cut = part.iter().take(3).take_while(|&&byte| byte & 0xC0 == 0x80).count();
    std::str::from_utf8(&part[cut..]).is_err_and(|error| error.error_len().is_some())
}

/// Takes the CR out of each CRLF; returns the new length.
fn lf_only(bytes: &mut [u8]) -> usize {
    let (mut kept, mut done) = (0, 0);
    while let Some(step) = memchr::memmem::find(&bytes[done..], b"\r\n") {
        bytes.copy_within(done..done + step, kept);
        kept += step;
        done += step + 1;
    }
    if done == 0 {
        return bytes.len();
    }
    bytes.copy_within(done.., kept);
    kept + bytes.len() - done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_cr_of_a_crlf_goes() {
        for (raw, wanted) in [
            ("", ""),
            ("\r\n", "\n"),
            ("\r\r\n\n\r", "\r\n\n\r"),
            ("a\r\nb\rc\r\n\r\nd", "a\nb\rc\n\nd"),
            ("\n\r", "\n\r"),
            ("é\r\n😀€\r", "é\n😀€\r"),
        ] {
            for size in 2..8 {
                let (mut buffer, cancel) = (vec![0; size], tokio_util::sync::CancellationToken::new());
                let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
                let stop = Stop { cancel: &cancel, deadline, ending: || false };
                let decoded: Box<dyn Read> = Box::new(raw.as_bytes());
                let mut text = Text {
                    decoded,
                    buffer: &mut buffer,
                    start: 0,
                    end: 0,
                    held: false,
                    foreign: false,
                    watched: true,
                    stop,
                };
                let mut read = String::new();
                text.read_to_string(&mut read).unwrap();
                assert_eq!((read.as_str(), text.foreign), (wanted, false), "{raw:?} by {size}");
            }
        }
    }

    #[test]
    fn other_encodings_are_told() {
        assert!([&b"caf\xe9"[..], b"caf\xe9 au lait", b"\x93\xfa\x96{"].map(is_foreign) == [false, true, true]);
        assert!(
            ["é", "日本", "plain"].iter().all(|text| (0..text.len()).all(|at| !is_foreign(&text.as_bytes()[at..])))
        );
    }
}
