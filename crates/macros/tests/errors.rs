//! What the compiler says of a tool that cannot be one.

#[test]
fn a_mistake_is_reported_where_it_stands_and_what_to_do() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
