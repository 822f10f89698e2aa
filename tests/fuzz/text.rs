//! Cuts and edits of a file's or a command's bytes.

use crate::text::{self, HeadTail, NoEdit};
use memchr::memmem;

fn kept(head: usize, tail: usize, pieces: &[&[u8]]) -> String {
    let mut kept = HeadTail::new(head, tail);
    pieces.iter().for_each(|piece| kept.push(piece));
    kept.finish()
}

/// The first two bytes are the limits. A cut is a prefix within its limit, and pieces make no difference.
pub(super) fn cuts(bytes: &[u8]) {
    let [head, tail, rest @ ..] = bytes else { return };
    let (head, tail) = (usize::from(*head), usize::from(*tail));
    let whole = kept(head, tail, &[rest]);
    for at in (0..rest.len()).step_by(1 + rest.len() / 16) {
        let (first, second) = rest.split_at(at);
        assert_eq!(kept(head, tail, &[first, second]), whole, "cut at {at}");
    }
    if rest.len() <= head + tail {
        assert_eq!(whole, String::from_utf8_lossy(rest));
    }
    let end = text::whole_end(rest);
    assert!(end <= rest.len() && rest.len() - end < 4);
    let shown = String::from_utf8_lossy(rest);
    let _ = text::is_binary(&shown);
    let cut = text::cut_units(&shown, head);
    assert!(shown.starts_with(cut) && text::units(cut) <= head);
    assert!(cut.len() == shown.len() || text::units(cut) + 1 >= head, "cut too short");
    let cut = text::cut_json(&shown, head);
    assert!(shown.starts_with(cut) && text::json_units(cut) <= head);
    let max = head + 200;
    let elided = text::elide_json(&shown, max);
    assert!(text::json_units(&elided) <= max, "{} units of {max}", text::json_units(&elided));
    let quoted = serde_json::to_string(&elided).unwrap();
    assert_eq!(text::units(&quoted) - 2, text::json_units(&elided), "another length than in JSON");
}

/// The first byte: all or one; then the lengths of old and new text; then both, then the file. Only matches change, and a file's
/// bytes that are no text stay.
pub(super) fn edit(bytes: &[u8]) {
    let [flags, old, new, rest @ ..] = bytes else { return };
    let (old, rest) = rest.split_at(usize::from(*old).min(rest.len()));
    let (new, file) = rest.split_at(usize::from(*new).min(rest.len()));
    let (Ok(old), Ok(new)) = (std::str::from_utf8(old), std::str::from_utf8(new)) else { return };
    let (all, max) = (flags & 1 == 1, if flags & 2 == 2 { 1 << 20 } else { file.len() + 8 });
    let simple = !old.contains(['\r', '\n', '\u{fffd}']) && !old.is_empty();
    let places = if simple { memmem::find_iter(file, old).count() } else { 0 };
    match text::replace(file, old, new, all, max) {
        Ok(done) => {
            assert!(done.count >= 1 && (all || done.count == 1));
            assert!(done.content.len() <= max);
            assert_ne!(done.content, file, "nothing changed and nothing was said");
            assert!(!simple || places == done.count);
            if !all {
                one_place(file, old, new, &done.content);
            }
            if simple && !new.contains(['\r', '\n']) {
                let expected = memmem::find_iter(file, old).fold((Vec::new(), 0), |(mut out, from), at| {
                    out.extend_from_slice(&file[from..at]);
                    out.extend_from_slice(new.as_bytes());
                    (out, at + old.len())
                });
                assert_eq!(done.content, [expected.0, file[expected.1..].to_vec()].concat());
            }
        }
        Err(NoEdit::NotFound(lines)) => {
            assert!(!simple || places == 0);
            assert!(lines.iter().all(|line| *line >= 1 && *line <= 1 + memchr::memchr_iter(b'\n', file).count()));
        }
        Err(NoEdit::Several { count, .. }) => assert!(!all && count > 1 && (!simple || places == count)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// What was taken out of the file and what was put in are the two texts, up to the line ends.
fn one_place(file: &[u8], old: &str, new: &str, content: &[u8]) {
    let fold = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let (old, new) = (fold(old.as_bytes()), fold(new.as_bytes()));
    let found = (0..=file.len().min(content.len())).take_while(|at| file[..*at] == content[..*at]).any(|start| {
        (start..=file.len()).any(|end| {
            let rest = &file[end..];
            content.len() >= start + rest.len()
                && content.ends_with(rest)
                && fold(&file[start..end]) == old
                && fold(&content[start..content.len() - rest.len()]) == new
        })
    });
    assert!(found, "bytes outside of the match changed");
}
