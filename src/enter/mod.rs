//! The image's entrypoint.
