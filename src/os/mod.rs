//! The operating system: the only place with `unsafe`.

pub mod privileges;
