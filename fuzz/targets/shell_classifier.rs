//! Any text as a shell command: it gets a verdict, the same one each time, and a text that never
//! runs does not run in a group either.
#![no_main]

use deputize_fuzz::meter::MemoryLimit;
use deputize_policy::{CommandClass, CommandContext, classify_command};
use libfuzzer_sys::fuzz_target;

/// Loops and calls repeat what they expand, up to a limit of their own.
const LIMIT: MemoryLimit = MemoryLimit { base: 64 * 1024 * 1024, each: 2000 };

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let context = CommandContext { home: Some("/home/ann".into()), directory: None };
    let verdict = LIMIT.during(text.len(), || classify_command(text, &context));
    assert!(!verdict.reason.is_empty());
    assert_eq!(verdict.rule == "none", verdict.class == CommandClass::Safe);
    assert_eq!(classify_command(text, &context), verdict);
});
