//! The beginning and the end of a stream of bytes, in bounded memory.

use super::utf8::{whole_end, whole_start};
use std::collections::VecDeque;

/// Keeps the first and the last bytes of what is pushed and counts the rest.
#[derive(Debug)]
pub struct HeadTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_max: usize,
    tail_max: usize,
    total: u64,
}

impl HeadTail {
    /// Keeps `head` bytes from the start and `tail` bytes from the end.
    pub fn new(head: usize, tail: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), head_max: head, tail_max: tail, total: 0 }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = (self.head_max - self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        // Of a large piece only the end can stay; copying the rest would be work for nothing.
        let rest = &rest[rest.len().saturating_sub(self.tail_max)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_max);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// Bytes pushed so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The same with less kept.
    pub fn narrowed(&self, head: usize, tail: usize) -> Self {
        let mut narrow = Self::new(head.min(self.head_max), tail.min(self.tail_max));
        narrow.push(&self.head);
        narrow.total = self.total - self.tail.len() as u64;
        let (first, second) = self.tail.as_slices();
        narrow.push(first);
        narrow.push(second);
        narrow
    }

    /// What was kept, as text. A byte that is not UTF-8 becomes U+FFFD; where bytes are missing, a line of its own says how
    /// many, and no character is cut in two there.
    pub fn finish(self) -> String {
        let mut kept = self.head;
        let tail: Vec<u8> = self.tail.into();
        if (kept.len() + tail.len()) as u64 == self.total {
            kept.extend_from_slice(&tail);
            return String::from_utf8_lossy(&kept).into_owned();
        }
        let head = &kept[..whole_end(&kept)];
        let tail = &tail[whole_start(&tail)..];
        let missing = self.total - (head.len() + tail.len()) as u64;
        let gap = if head.is_empty() || head.ends_with(b"\n") { "" } else { "\n" };
        format!(
            "{}{gap}[{missing} bytes left out here]\n{}",
            String::from_utf8_lossy(head),
            String::from_utf8_lossy(tail)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fed(head: usize, tail: usize, chunks: &[&[u8]]) -> String {
        let mut kept = HeadTail::new(head, tail);
        chunks.iter().for_each(|chunk| kept.push(chunk));
        kept.finish()
    }

    #[test]
    fn a_character_cut_by_a_chunk_edge_is_whole() {
        assert_eq!(fed(9, 9, &[b"\xe2", b"\x80\x94"]), "—");
        assert_eq!(fed(9, 9, &[b"a\xffb"]), "a\u{fffd}b");
        assert_eq!(fed(9, 9, &[b"x\xe2\x80"]), "x\u{fffd}");
        assert_eq!(fed(2, 2, &["—".as_bytes()]), "—");
    }

    #[test]
    fn says_what_is_missing_and_only_then() {
        assert_eq!(fed(3, 3, &[b"abc", b"def"]), "abcdef");
        assert_eq!(fed(3, 3, &[b"abcdefg"]), "abc\n[1 bytes left out here]\nefg");
        assert_eq!(fed(3, 3, &[b"ab\ndefgh"]), "ab\n[2 bytes left out here]\nfgh");
        assert_eq!(fed(2, 3, &["a—bcd—".as_bytes()]), "a\n[6 bytes left out here]\n—");
        assert_eq!(fed(0, 0, &[b"abc"]), "[3 bytes left out here]\n");
        assert_eq!(fed(0, 0, &[]), "");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        #[test]
        fn any_chunking_gives_the_same_text(
            pieces in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..6),
                "[aé€😀\n]{0,4}".prop_map(String::into_bytes),
            ], 0..12),
            head in 0_usize..24, tail in 0_usize..24,
        ) {
            let all = pieces.concat();
            let lossy = String::from_utf8_lossy(&all);
            let chunks: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let text = fed(head, tail, &chunks);
            prop_assert_eq!(&text, &fed(head, tail, &[&all]));
            let mut wide = HeadTail::new(24, 24);
            chunks.iter().for_each(|chunk| wide.push(chunk));
            prop_assert_eq!(&text, &wide.narrowed(head, tail).finish());
            if all.len() <= head + tail {
                prop_assert_eq!(text, lossy);
                return Ok(());
            }
            // The marker's number says where head and tail must be cut; try every place, since the content may look like it.
            let exact = text.match_indices('[').any(|(at, _)| {
                let Some((count, end)) = text[at + 1..].split_once(" bytes left out here]\n") else { return false };
                let Ok(count) = count.parse::<usize>() else { return false };
                (0..=head.min(all.len())).any(|cut| {
                    let Some(rest) = all.get(cut + count..) else { return false };
                    let start = String::from_utf8_lossy(&all[..cut]);
                    let shown = text[..at].strip_suffix('\n').unwrap_or(&text[..at]);
                    rest.len() <= tail
                        && (start == shown || start == text[..at])
                        && lossy.starts_with(start.as_ref())
                        && String::from_utf8_lossy(rest) == end
                        && lossy.ends_with(end)
                })
            });
            prop_assert!(exact, "{:?} of {:?}", text, all);
        }
    }
}
