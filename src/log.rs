//! Log lines.
