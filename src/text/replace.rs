//! Literal replacement of one text by another in a file's bytes. Nothing outside the matches changes, whatever its encoding.
//!
//! Line ends are the one liberty: a model sees and writes `\n`, so a `\n` in the pattern matches `\n` and `\r\n`, and a `\n`
//! in the replacement becomes what the replaced text, or else its line, uses. A pattern that spells out `\r\n`, or ends
//! with `\r`, is matched byte for byte, and a replacement that spells out `\r`, or differs from the pattern in nothing but
//! line ends, is inserted so. Parts that old and new text have in common at their start and end keep the file's own bytes.
//!
//! Where all are replaced matches do not overlap: they are taken from the left. But `aa` is not once in `aaa`: which one is
//! meant is as unclear. Time is linear in the file's length.

use super::lines::{Breaks, line_at};
use super::wide;
use memchr::memmem::{self, Finder};
use std::borrow::Cow;
use std::ops::Range;

/// A file's new content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// All of it.
    pub content: Vec<u8>,
    /// Number of places replaced.
    pub count: usize,
}

/// Why nothing was replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoEdit {
    /// It would match everywhere.
    #[error("old_string is empty; give the text to replace, or use write_file for a new file")]
    EmptyPattern,
    /// Nothing to do.
    #[error("old_string and new_string are the same; nothing to change")]
    Same,
    /// The result has the bytes the file has already.
    #[error("the edit changes nothing: the file already has this text with these line ends")]
    Unchanged,
    /// No match.
    #[error("old_string not found in file; {}", similar(.0))]
    NotFound(Vec<usize>),
    /// More matches than one, and no wish for all.
    #[error("old_string found {count} times ({}); add lines around it to make it unique, or set replace_all", places(.lines, *.count))]
    Several {
        /// Matches.
        count: usize,
        /// Lines of the first of them.
        lines: Vec<usize>,
    },
    /// A pattern made of characters that stand for unreadable bytes.
    #[error(
        "old_string holds U+FFFD (\u{fffd}), which may stand for any byte in this file that is not UTF-8; match text without it"
    )]
    Unreadable,
    /// Not a text of bytes.
    #[error("the file is {0} text, which cannot be edited here; convert it first, e.g. with iconv -f {0} -t UTF-8")]
    Wide(&'static str),
    /// Many matches times a long text.
    #[error("the edited file would have more than {max} bytes; make a smaller edit, or use bash")]
    TooLarge {
        /// The limit.
        max: usize,
    },
}

const MARK: &str = "\u{feff}";
const BOM: &[u8] = MARK.as_bytes();

/// Lines named in a message.
const LINES_SHOWN: usize = 10;

fn places(lines: &[usize], count: usize) -> String {
    let shown: Vec<String> = lines.iter().map(usize::to_string).collect();
    let more = if count > lines.len() { ", …" } else { "" };
    format!("{} {}{more}", if count == 1 { "line" } else { "lines" }, shown.join(", "))
}

fn similar(lines: &[usize]) -> String {
    if lines.is_empty() {
        return "read the file again and copy the text exactly".to_owned();
    }
    format!("text that differs only in white space or line ends is at {}: copy it exactly", places(lines, lines.len()))
}

/// Replaces the only match of `old`, or with `all` each one. A result of more than `max` bytes is refused.
pub fn replace(file: &[u8], old: &str, new: &str, all: bool, max: usize) -> Result<Replaced, NoEdit> {
    if old.is_empty() {
        return Err(NoEdit::EmptyPattern);
    }
    if old == new {
        return Err(NoEdit::Same);
    }
    if let Some(encoding) = wide(file) {
        return Err(NoEdit::Wide(encoding));
    }
    if old.contains('\u{fffd}') && std::str::from_utf8(file).is_err() {
        return Err(NoEdit::Unreadable);
    }
    let literal = old.contains("\r\n") || old.ends_with('\r');
    let folded = if !literal && old.contains('\n') { fold(file) } else { Cow::Borrowed(file) };
    let finder = Finder::new(old);
    let count = finder.find_iter(&folded).count();
    match count {
        0 => return Err(NoEdit::NotFound(similar_lines(file, old))),
        1 if !all => {
            if let Some(places) = overlapping(&folded, &finder) {
                return Err(NoEdit::Several { count: 2, lines: lines_of(&folded, places.into_iter()) });
            }
        }
        2.. if !all => return Err(NoEdit::Several { count, lines: lines_of(&folded, finder.find_iter(&folded)) }),
        _ => {}
    }
    let new = if literal { with_line_ends(old, new) } else { Cow::Borrowed(new) };
    let marked = with_mark(old, &new);
    let insert = Insert::new(old.as_bytes(), new.as_bytes(), literal);
    let first = Insert::new(old.as_bytes(), marked.as_bytes(), literal);
    let mut breaks = Breaks::new(file);
    let mut unfold = Unfold::new(file, matches!(folded, Cow::Owned(_)));
    let mut content = Vec::with_capacity(file.len().saturating_add(new.len()).min(max));
    let mut done = 0;
    for at in finder.find_iter(&folded) {
        let span = unfold.position(at)..unfold.position(at + old.len());
        content.extend_from_slice(&file[done..span.start]);
        let insert = if span.start == 0 { &first } else { &insert };
        insert.write(file, span.clone(), &mut breaks, &mut content);
        done = span.end;
        if content.len() + (file.len() - done) > max {
            return Err(NoEdit::TooLarge { max });
        }
    }
    content.extend_from_slice(&file[done..]);
    if content == file { Err(NoEdit::Unchanged) } else { Ok(Replaced { content, count }) }
}

/// The byte order mark at a file's start stays: a model copies it with the text, and does not see that its own text lacks it.
/// Taking away nothing but the mark is an edit like any other.
fn with_mark<'a>(old: &str, new: &'a str) -> Cow<'a, str> {
    match old.strip_prefix(MARK) {
        Some(rest) if rest != new && !new.starts_with(MARK) => format!("{MARK}{new}").into(),
        _ => new.into(),
    }
}

/// The replacement with the line ends that a pattern of bytes spells out, as it would have them had the pattern `\n` only.
fn with_line_ends<'a>(old: &str, new: &'a str) -> Cow<'a, str> {
    if new.contains('\r') || !old.contains("\r\n") || old.replace("\r\n", "\n") == new {
        return new.into();
    }
    let mut ends = old.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(|line| line.ends_with("\r\n"));
    let mut adapted = String::with_capacity(new.len());
    let mut crlf = false;
    for part in new.split_inclusive('\n') {
        match part.strip_suffix('\n') {
            Some(line) => {
                crlf = ends.next().unwrap_or(crlf);
                adapted.push_str(line);
                adapted.push_str(if crlf { "\r\n" } else { "\n" });
            }
            None => adapted.push_str(part),
        }
    }
    adapted.into()
}

/// The content with `\n` for each `\r\n`; borrowed when there is none.
fn fold(file: &[u8]) -> Cow<'_, [u8]> {
    let mut folded = Vec::new();
    let mut done = 0;
    for at in memmem::find_iter(file, b"\r\n") {
        folded.extend_from_slice(&file[done..at]);
        done = at + 1;
    }
    if done == 0 {
        return Cow::Borrowed(file);
    }
    folded.extend_from_slice(&file[done..]);
    Cow::Owned(folded)
}

/// Finds, for rising positions in the folded content, the place in the file.
struct Unfold<'a> {
    file: &'a [u8],
    crlf: Finder<'static>,
    /// A place both sides agree on.
    place: usize,
    folded: usize,
    /// The next `\r\n` in the file.
    next: Option<usize>,
}

impl<'a> Unfold<'a> {
    fn new(file: &'a [u8], is_folded: bool) -> Self {
        let crlf = Finder::new(b"\r\n");
        let next = if is_folded { crlf.find(file) } else { None };
        Self { file, crlf, place: 0, folded: 0, next }
    }

    /// A position at a line's end is before its `\r`, so that a match takes both bytes or neither.
    fn position(&mut self, at: usize) -> usize {
        while let Some(next) = self.next {
            let end = self.folded + (next - self.place);
            if at <= end {
                break;
            }
            (self.place, self.folded) = (next + 2, end + 1);
            self.next = self.crlf.find(&self.file[self.place..]).map(|step| self.place + step);
        }
        self.place + (at - self.folded)
    }
}

/// What goes into each match.
struct Insert<'a> {
    /// What old and new text have in common at the start: the file's bytes stay.
    prefix: &'a [u8],
    /// What lies between that and what they have in common at the end.
    old: &'a [u8],
    new: &'a [u8],
    /// Byte for byte: nothing is in common and no line end is adapted.
    literal: bool,
}

impl<'a> Insert<'a> {
    fn new(old: &'a [u8], new: &'a [u8], literal: bool) -> Self {
        if literal {
            return Self { prefix: b"", old, new, literal };
        }
        let mut prefix = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        // A `\r\n` that the replacement spells out stays in one piece.
        if prefix > 0 && new[prefix - 1] == b'\r' && new.get(prefix) == Some(&b'\n') {
            prefix -= 1;
        }
        let (shared, old, new) = (&old[..prefix], &old[prefix..], &new[prefix..]);
        let mut suffix = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
        let start = new.len() - suffix;
        if suffix > 0 && start > 0 && new[start] == b'\n' && new[start - 1] == b'\r' {
            suffix -= 1;
        }
        Self { prefix: shared, old: &old[..old.len() - suffix], new: &new[..new.len() - suffix], literal }
    }

    fn write(&self, file: &[u8], span: Range<usize>, breaks: &mut Breaks<'_>, out: &mut Vec<u8>) {
        // Written by a model that sees none, where the file has its own.
        let doubled = span.start == BOM.len() && file.starts_with(BOM) && self.prefix.is_empty();
        let new = self.new.strip_prefix(BOM).filter(|_| doubled).unwrap_or(self.new);
        if self.literal {
            out.extend_from_slice(new);
            return;
        }
        let mut before = Vec::new();
        let core = walk(file, span.start, self.prefix, &mut before);
        let mut inside = Vec::new();
        let rest = walk(file, core, self.old, &mut inside);
        out.extend_from_slice(&file[span.start..core]);
        let mut endings = inside.iter().copied();
        let mut current = inside.first().or(before.last()).copied();
        let mut previous = 0;
        for &byte in new {
            if byte == b'\n' && previous != b'\r' {
                current = endings.next().or(current);
                // The pattern's own line ends decide; without one, the line does.
                if *current.get_or_insert_with(|| breaks.crlf_near(rest)) {
                    out.push(b'\r');
                }
            }
            out.push(byte);
            previous = byte;
        }
        out.extend_from_slice(&file[rest..span.end]);
    }
}

/// Goes over the part of the file that `pattern` matches, from `at`, and notes for each line end whether it is `\r\n`.
fn walk(file: &[u8], mut at: usize, pattern: &[u8], endings: &mut Vec<bool>) -> usize {
    let mut done = 0;
    for lf in memchr::memchr_iter(b'\n', pattern) {
        at += lf - done;
        let crlf = file[at] == b'\r';
        endings.push(crlf);
        at += 1 + usize::from(crlf);
        done = lf + 1;
    }
    at + (pattern.len() - done)
}

/// The one match and another that begins inside it.
fn overlapping(folded: &[u8], finder: &Finder<'_>) -> Option<[usize; 2]> {
    let first = finder.find(folded)?;
    let second = first + 1 + finder.find(&folded[first + 1..])?;
    Some([first, second])
}

/// The lines of the first few places.
fn lines_of(folded: &[u8], places: impl Iterator<Item = usize>) -> Vec<usize> {
    let (mut line, mut done) = (1, 0);
    let lines = places.take(LINES_SHOWN).map(|at| {
        line += line_at(&folded[done..], at - done) - 1;
        done = at;
        line
    });
    lines.collect()
}

/// Lines where the pattern would match if white space did not count. For a message only.
fn similar_lines(file: &[u8], old: &str) -> Vec<usize> {
    let dense = |bytes: &[u8]| bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect::<Vec<u8>>();
    let pattern = dense(old.as_bytes());
    if pattern.is_empty() {
        return Vec::new();
    }
    let found = memmem::find_iter(&dense(file), &pattern).take(3).collect::<Vec<usize>>();
    let place = |nth| file.iter().enumerate().filter(|(_, byte)| !byte.is_ascii_whitespace()).nth(nth);
    found.into_iter().filter_map(|nth| place(nth).map(|(at, _)| line_at(file, at))).collect()
}

#[cfg(test)]
#[path = "replace_tests.rs"]
mod tests;
