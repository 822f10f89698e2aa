//! Small things that need `unsafe` and belong nowhere else.
#![allow(unsafe_code)]

/// Ends the process at once: no destructors, no buffered output, no handlers. For the panic hook and for a second
/// termination signal, where running any more of our own code is the wrong thing to do.
pub fn die_now(code: i32) -> ! {
    // SAFETY: `_exit` takes any value, touches no memory of ours and does not return.
    unsafe { libc::_exit(code) }
}
