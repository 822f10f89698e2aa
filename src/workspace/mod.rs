//! The confined directory.
