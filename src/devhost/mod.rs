//! The host side, for development and tests.
