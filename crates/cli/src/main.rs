//! The `deputize` command.
fn main() {}
