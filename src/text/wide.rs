//! Text in units wider than a byte, as its byte order mark tells.

/// The encoding's name, as `iconv` knows it; `None` for anything else.
pub fn wide(file: &[u8]) -> Option<&'static str> {
    // The mark of UTF-16 begins that of UTF-32.
    if file.starts_with(b"\xff\xfe\0\0") || file.starts_with(b"\0\0\xfe\xff") {
        Some("UTF-32")
    } else if file.starts_with(b"\xff\xfe") || file.starts_with(b"\xfe\xff") {
        Some("UTF-16")
    } else {
        None
    }
}
