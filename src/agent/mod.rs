//! The model loop.
