//! Lines and their endings: `\n` or `\r\n`. A lone `\r` ends no line.

use memchr::{memchr, memchr_iter, memrchr};

/// The line, counted from 1, that holds the byte at `at`.
pub(super) fn line_at(bytes: &[u8], at: usize) -> usize {
    memchr_iter(b'\n', &bytes[..at]).count() + 1
}

/// Answers which ending is in use at a place. Places must be asked for in rising order: each byte is looked at once,
/// however many places there are.
#[derive(Debug)]
pub(super) struct Breaks<'a> {
    bytes: &'a [u8],
    next: Option<usize>,
    last: Option<usize>,
}

impl<'a> Breaks<'a> {
    /// For one content.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, next: memchr(b'\n', bytes), last: memrchr(b'\n', bytes) }
    }

    /// Does the line that holds `at` end with `\r\n`? A last line without an ending is like the one before it.
    pub(super) fn crlf_near(&mut self, at: usize) -> bool {
        if self.next.is_some_and(|next| next < at) {
            self.next = memchr(b'\n', &self.bytes[at..]).map(|step| at + step);
        }
        self.next.or(self.last).is_some_and(|lf| lf > 0 && self.bytes[lf - 1] == b'\r')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_lines_and_knows_their_endings() {
        assert_eq!((line_at(b"a\nb", 0), line_at(b"a\nb", 1), line_at(b"a\nb", 2)), (1, 1, 2));
        let mut breaks = Breaks::new(b"a\r\nb\nc\r\nd");
        assert_eq!([0, 1, 3, 5, 8, 9].map(|at| breaks.crlf_near(at)), [true, true, false, true, true, true]);
        assert!(!Breaks::new(b"a\rb").crlf_near(1));
    }
}
