//! Any status, headers and body of an answer that is a failure.
//!
//! The input: a line for each of `retry-after-ms`, `retry-after` and `date` (empty: there is no
//! such header), a line for the status, and the body.
#![no_main]

use deputize_fuzz::meter::MemoryLimit;
use deputize_fuzz::one_line;
use deputize_providers::{ServerError, fuzz::retry_after};
use libfuzzer_sys::fuzz_target;

const LIMIT: MemoryLimit = MemoryLimit { base: 64 * 1024, each: 400 };
/// A code, and a server's words twice, each with a count of what was left out.
const ERROR_CHARS: usize = 1_800;
/// 2026-01-01.
const NOW_MS: u64 = 1_767_225_600_000;

fuzz_target!(|input: &[u8]| {
    let input = String::from_utf8_lossy(input);
    let mut parts = input.splitn(5, '\n');
    let mut next = || parts.next().unwrap_or_default();
    let names = ["retry-after-ms", "retry-after", "date"];
    let headers = names.map(|name| (name, next().to_owned()));
    let status = next().trim().parse().unwrap_or(500);
    let body = next();
    let header = |name: &str| {
        let found = headers.iter().find(|(key, value)| *key == name && !value.is_empty());
        found.map(|(_, value)| value.clone())
    };
    let waits = retry_after(header, NOW_MS);
    // The first reading pays for tables of the whole program.
    let _warm = ServerError::of_answer(status, body, waits);
    let error = LIMIT.during(body.len(), || ServerError::of_answer(status, body, waits));
    one_line(&error.to_string(), ERROR_CHARS);
    assert_eq!(error.status, Some(status));
    let _kind = error.kind();
    let _quota = error.is_quota();
    if waits.is_some() {
        assert_eq!(error.retry_after, waits);
    }
});
