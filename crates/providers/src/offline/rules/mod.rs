//! The rules themselves, as tables: what counts as a public item, a test, an entry point, a
//! risk.

pub(super) mod grammar;
pub(super) mod risk;
