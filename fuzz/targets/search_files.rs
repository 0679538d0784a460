//! Any pattern in any file.
//!
//! The input: a line with the number of lines of context, a line with the pattern, and the file.
#![no_main]

use std::io::{Seek as _, Write as _};

use deputize_tools::fuzz::{PageSize, search};
use libfuzzer_sys::fuzz_target;

const PAGE: PageSize = PageSize { matches: 20, bytes: 4_000 };
/// What one line of a file may take on a page, with its number and what is said of its rest.
const LINE_BYTES: usize = 640;
const MOST_CONTEXT: usize = 10;

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(3, |byte| *byte == b'\n');
    let mut next = || parts.next().unwrap_or_default();
    let context = String::from_utf8_lossy(next()).trim().parse().unwrap_or(0_usize);
    let context = context.min(MOST_CONTEXT);
    let pattern = String::from_utf8_lossy(next()).into_owned();
    let bytes = next();
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).and_then(|()| file.rewind()).expect("a file with bytes");
    match search(&pattern, context, PAGE, file) {
        Err(error) => assert!(error.len() <= 3 * pattern.len().min(2_000) + 1_000, "{error}"),
        Ok(seen) => {
            let (found, shown, page) = seen.expect("a file that is there");
            assert!(shown <= found && shown <= PAGE.matches);
            let lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r')).count() as u64;
            assert!(found <= lines, "{found} of {lines} lines");
            let most = PAGE.bytes + (2 * MOST_CONTEXT + 1) * LINE_BYTES;
            assert!(page.len() <= most, "{} bytes", page.len());
            assert_eq!(page.is_empty(), shown == 0);
        }
    }
});
