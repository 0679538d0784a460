//! Any file, and any edit of it.
//!
//! The input: four numbers of one byte each (how much of the input is the old text and the new
//! one, whether all places are meant, whether the old text is taken from the file), and the rest.
#![no_main]

use deputize_core::sanitize::has_inert_mark;
use deputize_fuzz::meter::MemoryLimit;
use deputize_tools::fuzz::{EditResult, edit, nearest, text};
use libfuzzer_sys::fuzz_target;

const LIMIT: MemoryLimit = MemoryLimit { base: 64 * 1024, each: 100 };

fuzz_target!(|input: &[u8]| {
    let Some((&[old, new, all, taken], rest)) = input.split_first_chunk() else { return };
    let (old, rest) = rest.split_at(usize::from(old).min(rest.len()));
    let (new, file) = rest.split_at(usize::from(new).min(rest.len()));
    let Some((file, again)) = LIMIT.during(file.len(), || text(file)).inspect(|(_, again)| {
        assert_eq!(again, file, "a file that is read and written is the same");
    }) else {
        return;
    };
    drop(again);
    let old = String::from_utf8_lossy(old);
    let new = String::from_utf8_lossy(new);
    let old = if taken & 1 == 1 { part(&file, usize::from(taken), old.len()) } else { &old };
    if old.is_empty() {
        return;
    }
    let all = all & 1 == 1;
    // An edit of every place makes a text of another size than what it reads.
    let places = 1 + file.lines().count().max(file.matches(old).count());
    let made = file.len() + old.len() + new.len() * places + new.lines().count() * file.len();
    match LIMIT.during(made, || edit(&file, old, &new, all)) {
        Ok(edited) => holds(&file, (old, &new), all, &edited),
        Err(lines) => {
            let last = file.matches('\n').count() + 1;
            assert!(lines.is_sorted() && lines.iter().all(|line| (1..=last).contains(line)));
            assert!(lines.is_empty() || (lines.len() > 1 && !all), "{lines:?}");
            // An old text with an inert mark also means the true one, a new one may be ambiguous.
            let literal = !has_inert_mark(old) && !has_inert_mark(&new) && !file.contains('\r');
            let once = literal && file.match_indices(old).count() == 1;
            assert!(!(once && lines.is_empty() && old != new), "{old:?} is there once");
        }
    }
    if let Some(near) = LIMIT.during(file.len() + old.len(), || nearest(&file, old)) {
        assert!(near.lines().count() <= 30);
    }
});

/// A part of the file, at borders of characters.
fn part(file: &str, seed: usize, len: usize) -> &str {
    let from = file.floor_char_boundary(file.len() * (seed % 16) / 16);
    let to = file.ceil_char_boundary((from + len).min(file.len()));
    &file[from..to]
}

/// What is not replaced stays, byte by byte, and what replaces it is the new text.
fn holds(file: &str, (old, new): (&str, &str), all: bool, edited: &EditResult) {
    let mut from = 0;
    let mut now = 0;
    for (was, is) in &edited.changes {
        assert_eq!(file[from..was.start], edited.text[now..is.start]);
        (from, now) = (was.end, is.end);
    }
    assert_eq!(file[from..], edited.text[now..]);
    assert!(all || edited.changes.len() == 1);
    let literal = !has_inert_mark(old) && edited.marks == 0 && !file.contains('\r');
    if edited.tier == "Exact" && literal {
        assert_eq!(edited.text, file.replace(old, new));
    }
}
