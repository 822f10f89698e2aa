//! Which confinement holds here.
