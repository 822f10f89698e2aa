//! The C library's resolver, replaced by a refusal.
//!
//! This program finds names by itself (`http/dns.rs`). The standard library can still ask the C library, and glibc answers
//! by loading modules that the container's files name (NSS), into a program that may hold the host's token. A static
//! program has these symbols from us, so that code is not even linked in.
#![allow(unsafe_code)]

use libc::addrinfo;
use std::ffi::{c_char, c_int};

// SAFETY: the names are the C library's, and no other definition is linked: an archive's member is taken only for a symbol
// that is still missing. The signatures are those of POSIX.
#[unsafe(no_mangle)]
unsafe extern "C" fn getaddrinfo(
    _node: *const c_char,
    _service: *const c_char,
    _hints: *const addrinfo,
    _found: *mut *mut addrinfo,
) -> c_int {
    libc::EAI_FAIL
}

// SAFETY: as above. There is nothing to free, since nothing is ever found.
#[unsafe(no_mangle)]
unsafe extern "C" fn freeaddrinfo(_found: *mut addrinfo) {}
