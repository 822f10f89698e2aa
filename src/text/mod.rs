//! Text as the host counts and the model reads it: lengths in UTF-16 units, cuts that never split a character, and literal
//! replacement that leaves everything else alone.

mod binary;
mod head_tail;
mod json;
mod lines;
mod replace;
mod script;
mod utf16;
mod utf8;
mod wide;

pub use binary::is_binary;
pub use head_tail::HeadTail;
pub use json::{cut_json, elide_json, json_units};
pub use replace::{NoEdit, Replaced, replace};
pub use script::trim_script_start;
pub use utf8::whole_end;
pub use utf16::{cut_units, units};
pub use wide::wide;
