//! What confinement holds here.
use std::ffi::OsString;
/// x
pub fn main(_args: Vec<OsString>) -> u8 {
    0
}
