//! Any patch, on any file.
//!
//! The input: two bytes that say how much of the rest is the file, the file, and the patch.
#![no_main]

use deputize_fuzz::meter::MemoryLimit;
use deputize_tools::fuzz::{PatchResult, patch};
use libfuzzer_sys::fuzz_target;

const LIMIT: MemoryLimit = MemoryLimit { base: 64 * 1024, each: 100 };
/// Bytes of what a model reads of a text that is no patch.
const ERROR_BYTES: usize = 1024;

fuzz_target!(|input: &[u8]| {
    let Some((&[high, low], rest)) = input.split_first_chunk() else { return };
    let most = usize::from(high) * 256 + usize::from(low);
    let (file, text) = rest.split_at(most.min(rest.len()));
    let file = String::from_utf8_lossy(file);
    let text = String::from_utf8_lossy(text);
    // Each hunk makes the file once more.
    let hunks = 1 + text.lines().count();
    match LIMIT.during((file.len() + text.len()) * hunks, || patch(&text, &file)) {
        Ok(patched) => patched.iter().for_each(|result| holds(&file, result)),
        Err(error) => {
            let line = error.strip_prefix("line ").and_then(|rest| rest.split_once(' '));
            let line: usize = line.and_then(|(line, _)| line.parse().ok()).expect(&error);
            assert!((1..=text.lines().count() + 1).contains(&line), "{error}");
            assert!(error.len() <= ERROR_BYTES + text.len(), "{} bytes", error.len());
        }
    }
});

/// What no hunk replaces stays, byte by byte.
fn holds(file: &str, result: &PatchResult) {
    if result.changes.is_empty() {
        return;
    }
    let (mut from, mut now) = (0, 0);
    for (was, is) in &result.changes {
        assert_eq!(file[from..was.start], result.text[now..is.start]);
        (from, now) = (was.end, is.end);
    }
    assert_eq!(file[from..], result.text[now..]);
}
