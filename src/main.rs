//! The runner: hands the arguments to the library, nothing else.
fn main() {}
