//! Text as the host counts and the model reads it: lengths in UTF-16 units, cuts that never split a character, and literal
//! replacement that leaves everything else alone.

mod binary;
mod head_tail;
pub mod javascript;
mod json;
mod lines;
mod replace;
mod utf16;
mod utf8;
mod wide;

pub use binary::is_binary;
pub use head_tail::HeadTail;
pub use json::{cut_json, elide_json, json_bytes, json_units};
pub use replace::{NoEdit, Replaced, replace};
pub use utf8::whole_end;
pub use utf16::{cut_units, units};
pub use wide::wide;

/// `1 line`, `2 lines`.
pub fn counted(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}
