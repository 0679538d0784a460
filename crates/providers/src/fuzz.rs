//! What the fuzz targets reach beside the public parsers.

use std::time::Duration;

/// Returns the wait that the headers of an answer request.
pub fn retry_after(header: impl Fn(&str) -> Option<String>, now_ms: u64) -> Option<Duration> {
    crate::retry_after::from_headers(header, now_ms)
}
