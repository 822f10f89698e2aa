//! The arguments that make bash run a command, whatever its length.

use crate::limits;
use std::ffi::{CString, NulError};

/// Where bash is looked for. Not in PATH: its first entry is the workspace's own `bin` (PROTOCOL T35).
pub(super) const PROGRAMS: [&std::ffi::CStr; 3] = [c"/bin/bash", c"/usr/bin/bash", c"/usr/local/bin/bash"];

/// Puts the parts together and runs them in the shell they arrived in: `$0` and `$#` are as they would be, no file and no
/// descriptor is used, and the variables are gone before the command begins. Only assignment appends here, so no part
/// is split or expanded.
const JOIN: &str = r#"unset -v __ax_all __ax_part; for __ax_part; do __ax_all+=$__ax_part; done; set --; eval "unset -v __ax_all __ax_part; $__ax_all""#;

/// The argument list for one command. The kernel refuses a single argument of 128 KiB, so a longer command goes in
/// parts.
pub(super) fn arguments(command: &str) -> Result<Vec<CString>, NulError> {
    // After `--` a command that begins with a dash is still a command.
    let mut list = vec!["bash", "--noprofile", "--norc", "-c", "--"];
    if command.len() <= limits::ARGUMENT_MAX_BYTES {
        list.push(command);
    } else {
        list.extend([JOIN, "bash"]);
        list.extend(parts(command, limits::ARGUMENT_MAX_BYTES));
    }
    list.into_iter().map(CString::new).collect()
}

/// Cuts a text into parts of at most `max` bytes that never split a character.
fn parts(text: &str, max: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = rest.len().min(max);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part).filter(|part| !part.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_short_whole_and_complete() {
        for text in ["", "a", "abcdef", "😀😀😀", "a😀é€b\n\n", &"€".repeat(1000)] {
            for max in 4..20 {
                let cut: Vec<&str> = parts(text, max).collect();
                assert!(cut.iter().all(|part| part.len() <= max && !part.is_empty()));
                assert_eq!(cut.concat(), text);
            }
        }
    }

    #[test]
    fn only_a_long_command_is_taken_apart() {
        let short = arguments(&"x".repeat(limits::ARGUMENT_MAX_BYTES)).unwrap();
        assert_eq!(short.len(), 6);
        let long = arguments(&"x".repeat(limits::ARGUMENT_MAX_BYTES + 1)).unwrap();
        assert_eq!(long.len(), 9);
        assert!(arguments("a\0b").is_err());
    }
}
