//! Any bytes as what a browser writes, and as the tree of a page.
//!
//! However they come, the same messages are read, one at each zero byte. A page is written in lines
//! in which only an element begins with a number, and the numbers are counted from one.
#![no_main]

use deputize_browser::fuzz::{messages, text_of_tree};
use deputize_fuzz::cuts::deliveries;
use deputize_fuzz::meter::MemoryLimit;
use libfuzzer_sys::fuzz_target;

/// A node of two bytes is read into one with empty fields.
const LIMIT: MemoryLimit = MemoryLimit { base: 64 * 1024, each: 1_000 };
/// Bytes of a message, few so that some are larger.
const MESSAGE_BYTES: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let whole = LIMIT.during(bytes.len(), || messages(MESSAGE_BYTES, &[bytes]));
    for pieces in deliveries(bytes) {
        assert_eq!(messages(MESSAGE_BYTES, &pieces), whole);
    }
    let mut written: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    written.pop();
    assert_eq!(whole.len(), written.len());
    for (message, written) in whole.iter().zip(written) {
        let is_small = written.len() <= MESSAGE_BYTES;
        assert_eq!(message.as_deref(), is_small.then_some(written));
    }

    let Some(text) = LIMIT.during(bytes.len(), || text_of_tree(bytes)) else { return };
    assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
    let mut last = 0;
    for line in text.lines().map(str::trim_start) {
        let Some(rest) = line.strip_prefix('[') else { continue };
        let number = rest.split_once("] ").and_then(|(number, _)| number.parse::<u32>().ok());
        let number = number.expect("a bracket has a number in it");
        assert!((1..=last + 1).contains(&number), "{number} after {last}: {text}");
        last = last.max(number);
    }
});
