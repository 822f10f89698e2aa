//! The host side, for development and tests.

mod validate;

pub use validate::Transport;
