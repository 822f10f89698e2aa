//! Text as the host counts and the model reads it: lengths in UTF-16 units, cuts that never split a character.

mod head_tail;
mod utf16;

pub use head_tail::HeadTail;
pub use utf16::{cut_units, units};
