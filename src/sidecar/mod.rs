//! The git sidecar.
