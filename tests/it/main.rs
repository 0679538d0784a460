//! Integration tests, one module a topic.
fn main() {}
