//! A file as the searcher reads it: as text, with LF for CRLF. The matcher could be told of CRLF instead, but then it takes
//! a lone CR for the end of a line too. What is not UTF-8 can be read as it is shown, so that `.` matches it.

use crate::workspace::walk::Stop;
use crate::{limits, text};
use encoding_rs_io::DecodeReaderBytes;
use std::borrow::Cow;
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
    /// What the next bytes decide on: a CR, or the beginning of a character.
    held: Vec<u8>,
    /// Some of it is not UTF-8. Known only if it is read as shown.
    pub(super) foreign: bool,
    /// With U+FFFD for what is not UTF-8. Looking for that takes its time.
    as_shown: bool,
    stop: Stop<'a>,
}

impl<'a> Text<'a> {
    /// `None` if its first bytes say that it is none. UTF-16 is told by its byte order mark.
    pub(super) fn open(
        mut file: File,
        head: &'a mut [u8],
        buffer: &'a mut [u8],
        as_shown: bool,
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
        Ok(Some(Self { decoded, buffer, start: 0, end: 0, held: Vec::new(), foreign: false, as_shown, stop }))
    }

    /// Reads on until there is something to give, or the end.
    fn fill(&mut self) -> io::Result<()> {
        (self.start, self.end) = (0, 0);
        while self.end == 0 {
            if self.stop.now() {
                return Err(io::Error::other(Stopped));
            }
            let held = self.held.len();
            self.buffer[..held].copy_from_slice(&self.held);
            // U+FFFD has three bytes, and may stand for one.
            let room = if self.as_shown { self.buffer.len() / 3 } else { self.buffer.len() };
            let read = self.decoded.read(&mut self.buffer[held..room])?;
            let all = &self.buffer[..held + read];
            let known = if read == 0 { all.len() } else { self.decided(all) };
            self.held = all[known..].to_vec();
            let known = if self.as_shown { self.replace(known) } else { known };
            self.end = lf_only(&mut self.buffer[..known]);
            if read == 0 {
                break;
            }
        }
        Ok(())
    }

    /// How much of this does not depend on what follows.
    fn decided(&self, bytes: &[u8]) -> usize {
        match bytes.strip_suffix(b"\r") {
            Some(before) => before.len(),
            None if self.as_shown => text::whole_end(bytes),
            None => bytes.len(),
        }
    }

    /// Puts U+FFFD in the place of what is not UTF-8; returns the new length.
    fn replace(&mut self, length: usize) -> usize {
        let bytes = &self.buffer[..length];
        // Asked first since it is many times faster.
        if std::str::from_utf8(bytes).is_ok() {
            return length;
        }
        match String::from_utf8_lossy(bytes) {
            Cow::Borrowed(_) => length,
            Cow::Owned(text) => {
                self.foreign = true;
                self.buffer[..text.len()].copy_from_slice(text.as_bytes());
                text.len()
            }
        }
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

    fn text<'a>(raw: &'a [u8], buffer: &'a mut [u8], as_shown: bool, stop: Stop<'a>) -> Text<'a> {
        let held = Vec::new();
        Text { decoded: Box::new(raw), buffer, start: 0, end: 0, held, foreign: false, as_shown, stop }
    }

    #[test]
    fn only_the_cr_of_a_crlf_goes_and_what_is_not_utf8_is_read_as_shown() {
        let cancel = tokio_util::sync::CancellationToken::new();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let stop = Stop { cancel: &cancel, deadline, ending: || false };
        for (raw, wanted) in [
            (&b""[..], &b""[..]),
            (b"\r\n", b"\n"),
            (b"\r\r\n\n\r", b"\r\n\n\r"),
            (b"a\r\nb\rc\r\n\r\nd", b"a\nb\rc\n\nd"),
            (b"\n\r", b"\n\r"),
            ("é\r\n😀€\r".as_bytes(), "é\n😀€\r".as_bytes()),
            (b"caf\xe9", b"caf\xe9"),
            (b"caf\xe9\r\nau lait\xf0\x9f\r\n\xf0\x9f\x98", b"caf\xe9\nau lait\xf0\x9f\n\xf0\x9f\x98"),
            (b"\x93\xfa\x96{\x80\x80\x80\x80\xed\xa0\x80", b"\x93\xfa\x96{\x80\x80\x80\x80\xed\xa0\x80"),
        ] {
            let shown = String::from_utf8_lossy(wanted);
            for size in 12..40 {
                let (mut buffer, mut read) = (vec![0; size], Vec::new());
                text(raw, &mut buffer[..size / 6], false, stop).read_to_end(&mut read).unwrap();
                assert_eq!(read, wanted, "{raw:?} by {size}");
                read.clear();
                let mut text = text(raw, &mut buffer, true, stop);
                text.read_to_end(&mut read).unwrap();
                assert_eq!(String::from_utf8(read).unwrap(), shown, "{raw:?} by {size}");
                assert_eq!(text.foreign, shown.as_bytes() != wanted);
            }
        }
    }
}
