//! HTTP clients.
