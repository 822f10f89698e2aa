//! `read_file`: a file's text, or some of its lines, in bounded memory and with a bounded result.

use super::Finished;
use super::fields::{Field, Kind, optional, required};
use super::file_result::{confined, done, failed};
use super::schema::Schema;
use crate::gate::{Approved, Proposal};
use crate::limits;
use crate::text;
use crate::wire::{Approve, Operation, ToolSpec};
use crate::workspace::{RelPath, Workspace};
use serde::{Deserialize, Serialize};

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::num::NonZeroU64;

const FIELDS: &[Field] = &[
    required("path", Kind::Text(limits::PATH_MAX_UNITS), "The file, relative to the workspace or absolute inside it."),
    optional("offset", Kind::Int(1, i64::MAX), "First line to read, counted from 1."),
    optional("limit", Kind::Int(1, i64::MAX), "Number of lines to read."),
];

/// How the model sees it.
pub fn spec() -> ToolSpec {
    ToolSpec::new(
        "read_file",
        "Read a text file in the workspace. A long file is cut at a line; the result's note then says which \
         lines are shown and the offset to continue with. Use grep to find a place in a large file.",
        &Schema(FIELDS),
    )
}

/// The model's arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    path: String,
    offset: Option<NonZeroU64>,
    limit: Option<NonZeroU64>,
}

/// A read that can be shown to the host.
#[derive(Debug)]
pub struct Call {
    path: RelPath,
    first: u64,
    limit: u64,
}

impl Call {
    /// Refuses paths that leave the workspace.
    pub fn prepare(args: Args, workspace: &Workspace) -> Result<Self, String> {
        let path = confined(&args.path, workspace).map_err(|error| format!("Error reading file: {error}"))?;
        Ok(Self { path, first: args.offset.map_or(1, u64::from), limit: args.limit.map_or(u64::MAX, u64::from) })
    }
}

impl Proposal for Call {
    fn approve(&self) -> Approve {
        Approve::path(Operation::Read, self.path.to_string())
    }
}

/// Reads.
pub fn run(call: Approved<Call>, workspace: &Workspace) -> Finished {
    let call = call.into_inner();
    match read(&call, workspace) {
        Ok(content) => done(Operation::Read, &call.path, &content),
        Err(error) => failed(Operation::Read, &call.path, &format!("Error reading file: {error}")),
    }
}

#[derive(Serialize)]
struct Content {
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

fn read(call: &Call, workspace: &Workspace) -> Result<Content, String> {
    let file = workspace.open_file(&call.path).map_err(|error| error.to_string())?;
    let page = scan(file, call.first, call.limit).map_err(|error| format!("{}: {error}", call.path))?;
    if page.lines == 0 && call.first == 1 {
        return Ok(Content { content: String::new(), note: Some("the file is empty".to_owned()) });
    }
    if page.kept.is_empty() {
        return Err(match page.ends {
            true => {
                let lines = text::counted(page.lines as usize, "line");
                format!("offset {} is past the end: {} has {lines}", call.first, call.path)
            }
            false => format!(
                "line {} is not within the first {} bytes of {}; use bash for it, e.g. sed -n",
                call.first,
                limits::FILE_MAX_BYTES,
                call.path
            ),
        });
    }
    let content = page.show(call.first);
    match content.content.len() > limits::BINARY_SHOWN_BYTES
        && page.encoding.is_none()
        && text::is_binary(&content.content)
    {
        true => Ok(content.shortened()),
        false => Ok(content),
    }
}

impl Content {
    /// What is left to show of a file that is not text.
    fn shortened(mut self) -> Self {
        let end = text::whole_end(&self.content.as_bytes()[..limits::BINARY_SHOWN_BYTES]);
        self.content.truncate(end);
        let note = "the file is not text, so only its beginning is shown; to look at binary data use bash, e.g. file, xxd \
                    or strings";
        self.note = Some(note.to_owned());
        self
    }
}

/// Lines of a file, as bytes.
struct Page {
    kept: Vec<u8>,
    /// There were more bytes in these lines than are kept.
    cut: bool,
    /// Lines of the file as far as it was looked at.
    lines: u64,
    /// Was all of it looked at?
    ends: bool,
    /// What it is if it is no UTF-8.
    encoding: Option<&'static str>,
}

fn scan(mut file: File, first: u64, limit: u64) -> std::io::Result<Page> {
    let wanted = first..first.saturating_add(limit);
    let mut page = Page { kept: Vec::new(), cut: false, lines: 0, ends: false, encoding: None };
    let mut buffer = vec![0; 64 * 1024];
    let (mut seen, mut line, mut at_start) = (0, 1, true);
    while seen <= limits::FILE_MAX_BYTES {
        let bytes = match file.read(&mut buffer) {
            Ok(0) => {
                page.ends = true;
                break;
            }
            Ok(count) => &buffer[..count],
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if seen == 0 {
            page.encoding = text::wide(bytes);
        }
        seen += bytes.len() as u64;
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            if wanted.contains(&line) {
                let room = limits::READ_MAX_BYTES - page.kept.len();
                page.cut |= piece.len() > room;
                page.kept.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            at_start = piece.ends_with(b"\n");
            line += u64::from(at_start);
        }
    }
    page.cut |= !page.ends && !at_start && wanted.contains(&line);
    page.lines = if at_start { line - 1 } else { line };
    Ok(page)
}

impl Page {
    /// Whole lines as far as they fit; at least a piece of the first one.
    fn show(&self, first: u64) -> Content {
        let (mut content, mut shown, mut notes, mut garbled) = (String::new(), 0, Vec::new(), false);
        let mut left = limits::READ_MAX_UNITS;
        let mut pieces = self.kept.split_inclusive(|&byte| byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            let partial = self.cut && pieces.peek().is_none() && !piece.ends_with(b"\n");
            let line = String::from_utf8_lossy(if partial { &piece[..text::whole_end(piece)] } else { piece });
            let units = text::json_units(&line);
            let fits = !partial && units <= left;
            if !fits && shown > 0 {
                break;
            }
            garbled |= matches!(line, std::borrow::Cow::Owned(_));
            shown += 1;
            if !fits {
                let part = text::cut_json(&line, left);
                let bytes = bytes_of(piece, part.len());
                notes.push(format!(
                    "line {first} is very long: only its first {bytes} bytes are shown; use bash for the rest, e.g. \
                     sed -n {first}p FILE | cut -b {}-{}",
                    bytes + 1,
                    bytes + limits::READ_MAX_BYTES / 4
                ));
                content.push_str(part);
                break;
            }
            content.push_str(&line);
            left -= units;
        }
        notes.extend(self.position(first, shown));
        if let Some(encoding) = self.encoding {
            notes.push(format!(
                "the file is {encoding}, so its text is garbled here; convert it with iconv -f {encoding} -t UTF-8"
            ));
        } else if garbled {
            notes.push(
                "some bytes are not UTF-8 and are shown as U+FFFD; edit_file does not match text copied from there"
                    .to_owned(),
            );
        }
        Content { content, note: if notes.is_empty() { None } else { Some(notes.join(". ")) } }
    }

    fn position(&self, first: u64, shown: u64) -> Option<String> {
        let last = first + shown - 1;
        let total = if self.ends { self.lines.to_string() } else { format!("more than {}", self.lines) };
        if last < self.lines || !self.ends {
            Some(format!("lines {first}-{last} of {total} are shown; continue with offset {}", last + 1))
        } else if first > 1 {
            Some(format!("lines {first}-{last} of {total} are shown: the end of the file"))
        } else {
            None
        }
    }
}

/// How many bytes of the file the first `shown` bytes of its decoded text stand for.
fn bytes_of(raw: &[u8], shown: usize) -> usize {
    let (mut bytes, mut left) = (0, shown);
    for chunk in raw.utf8_chunks() {
        if left <= chunk.valid().len() {
            return bytes + left;
        }
        bytes += chunk.valid().len() + chunk.invalid().len();
        left = left.saturating_sub(chunk.valid().len() + char::REPLACEMENT_CHARACTER.len_utf8());
    }
    bytes
}
