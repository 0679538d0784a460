//! Any bytes as what an MCP server says on its standard output, and as what a client says.
//!
//! However they come, the same messages are read, each of them is one object of JSON, what is none
//! is counted and reported on one line, and what is answered to a client is one short message.
#![no_main]

use deputize_fuzz::cuts::deliveries;
use deputize_fuzz::meter::MemoryLimit;
use deputize_fuzz::one_line;
use deputize_fuzz::pieces::{Pieces, at_once};
use deputize_mcp::fuzz::{answered, read};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// A message is tried as each of the protocol's kinds, which copies it for each.
const LIMIT: MemoryLimit = MemoryLimit { base: 256 * 1024, each: 4_000 };
/// The first stray line, and what stands around it.
const GARBAGE_CHARS: usize = 400;
/// What is said of a line of a client, as JSON, without the id that it has itself.
const ANSWER_BYTES: usize = 4_000;

fuzz_target!(|bytes: &[u8]| {
    // The first reading pays for tables of the whole program.
    let whole = at_once(read(Pieces::new(vec![bytes])));
    let again = LIMIT.during(bytes.len(), || at_once(read(Pieces::new(vec![bytes]))));
    assert_eq!(whole, again);
    for pieces in deliveries(bytes) {
        assert_eq!(at_once(read(Pieces::new(pieces))), whole);
    }
    for message in &whole.messages {
        let value: Value = serde_json::from_str(message).expect("a message is JSON");
        assert_eq!(value["jsonrpc"], "2.0", "{message}");
    }
    if let Some((count, first)) = &whole.stray {
        let lines = bytes.split(|byte| *byte == b'\n').count();
        assert!(usize::try_from(*count).is_ok_and(|count| (1..=lines).contains(&count)));
        one_line(first, GARBAGE_CHARS);
    }
    if let Some(garbage) = &whole.garbage {
        one_line(garbage, GARBAGE_CHARS);
    }
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some(answer) = answered(line) else { continue };
        assert!(answer.len() <= ANSWER_BYTES + 6 * line.len(), "{answer}");
        assert!(!answer.contains('\n'), "{answer}");
        let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
        assert!(answer["error"]["code"].is_i64() && answer["jsonrpc"] == "2.0", "{answer}");
        let why = answer["error"]["message"].as_str().expect("it is said why");
        one_line(why, 401);
    }
});
