//! Any bytes as what the host process of a plugin sends, and any text as what a plugin says.
//!
//! Both readers read the same messages however they come, what was read is what is written again,
//! and room is made for what came and not for what was announced.
#![no_main]

use deputize_fuzz::cuts::deliveries;
use deputize_fuzz::meter::MemoryLimit;
use deputize_fuzz::one_line;
use deputize_fuzz::pieces::{Pieces, at_once};
use deputize_plugin_host::Description;
use deputize_plugin_host::fuzz::{fault, read, read_blocking};
use libfuzzer_sys::fuzz_target;

const LIMIT: MemoryLimit = MemoryLimit { base: 64 * 1024, each: 200 };
/// Why an answer is none, and the beginning of it.
const FAULT_CHARS: usize = 400;

fuzz_target!(|bytes: &[u8]| {
    let _warm = at_once(read(Pieces::new(vec![bytes])));
    let whole = LIMIT.during(bytes.len(), || at_once(read(Pieces::new(vec![bytes]))));
    for pieces in deliveries(bytes) {
        assert_eq!(at_once(read(Pieces::new(pieces))), whole);
    }
    let (messages, end) = &whole;
    let (in_thread, ended) = read_blocking(bytes);
    assert_eq!((&in_thread, ended.is_some()), (messages, end.is_some()));
    let again = messages.concat();
    assert_eq!(at_once(read(Pieces::new(vec![&again]))), (messages.clone(), None));

    let text = String::from_utf8_lossy(bytes);
    if let Some(fault) = fault(&text) {
        one_line(&fault, FAULT_CHARS);
    }
    let described = Description::parse(&text);
    if let Err(error) = &described {
        one_line(&error.to_string(), FAULT_CHARS);
    }
    if let Ok(description) = described {
        assert!(!description.name.as_str().is_empty());
        let mut names: Vec<&str> =
            description.tools.iter().map(|tool| tool.spec.decl.name.as_str()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a name is one tool's");
    }
});
