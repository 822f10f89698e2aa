//! When there are no more processes, memory or descriptors to be had.

use nix::errno::Errno;
use std::io;

/// Somebody has taken what there was of them, and may give it back.
pub fn is_lack(error: &io::Error) -> bool {
    limited(error).is_some()
}

/// What has a limit that is reached.
fn limited(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::EAGAIN => Some("processes"),
        libc::ENOMEM | libc::ENOBUFS => Some("memory"),
        libc::EMFILE | libc::ENFILE => Some("open files"),
        _ => None,
    }
}

/// The cause and what can be done. The system's own word for a lack of processes is "try again", which would be in vain.
pub(super) fn in_words(error: &io::Error) -> String {
    match limited(error) {
        Some(what) => format!(
            "the limit of {what} is reached; run fewer commands at once, or tell the user that the container's limit is too \
             low"
        ),
        None => format!("{}; tell the user that commands cannot run here", plain(error)),
    }
}

/// The system's words, without its number.
pub(super) fn plain(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |errno| Errno::from_raw(errno).desc().to_owned())
}
