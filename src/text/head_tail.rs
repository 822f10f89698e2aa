//! The beginning and the end of a stream of bytes, in bounded memory.

/// Keeps the first and the last bytes of what is pushed and counts the rest.
#[derive(Debug)]
pub struct HeadTail {
    head: Vec<u8>,
}

impl HeadTail {
    /// placeholder
    pub fn new() -> Self {
        Self { head: Vec::new() }
    }
}
