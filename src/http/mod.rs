//! HTTP clients. The runner's own traffic never goes through a proxy and never follows a redirect.

pub mod dns;
pub mod small;
pub mod sse;
pub mod tcp;
pub mod unix;
