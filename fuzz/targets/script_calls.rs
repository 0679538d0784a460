//! Any bytes as what a script writes to the connection of its calls.
//!
//! However they come, the same calls are read. Reading ends at the first line that is no call, and
//! what is said of it is short.
#![no_main]

use deputize_fuzz::cuts::deliveries;
use deputize_fuzz::meter::MemoryLimit;
use deputize_tools::fuzz::script_lines;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// A call is read into a tree of values and written again here.
const LIMIT: MemoryLimit = MemoryLimit { base: 64 * 1024, each: 400 };
/// Bytes of what is said of a line, beside names that stand in it.
const FAULT_BYTES: usize = 1024;

fuzz_target!(|bytes: &[u8]| {
    let whole = LIMIT.during(bytes.len(), || script_lines([bytes]));
    for pieces in deliveries(bytes) {
        assert_eq!(script_lines(pieces), whole);
    }
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    assert!(whole.calls.len() < lines.len(), "each has its line");
    for (call, line) in whole.calls.iter().zip(&lines) {
        let read: Value = serde_json::from_str(call).expect("a call is JSON");
        let written: Value = serde_json::from_slice(line).expect("its line was");
        assert_eq!(read["id"], written["id"]);
        assert_eq!(read["tool"], written["tool"]);
        assert!(read["id"].is_u64() && read["arguments"].is_object(), "{call}");
    }
    let ended = whole.calls.len() + usize::from(whole.fault.is_some());
    assert!(whole.fault.is_some() || ended == lines.len() - 1, "no line is left out");
    if let Some(fault) = &whole.fault {
        assert!(fault.len() <= FAULT_BYTES + 2 * bytes.len(), "{} bytes", fault.len());
    }
});
