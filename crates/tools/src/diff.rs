//! Unified diffs that stay short and say so.
//!
//! Texts of some size are compared line by line. For larger ones that would take many times
//! their size and seconds of time, so the places that are known to differ are shown as they are.

use std::ops::Range;
use std::path::PathBuf;

use deputize_core::Display;
use deputize_core::tool::DisplayedDiff;
use deputize_core::truncate::truncate_with_count;
use imara_diff::{Algorithm, Diff, InternedInput};

use deputize_core::wording::count;

/// Bytes of the largest text that is compared line by line.
const COMPARED_BYTES: usize = 1024 * 1024;
/// Lines of the largest text that is compared line by line.
const COMPARED_LINES: u64 = 50_000;
/// Lines shown before and after what differs.
const CONTEXT: usize = 3;
/// Lines of a diff that a model gets.
pub(crate) const MODEL_LINES: usize = 80;
/// Lines of a diff that a screen gets, and the most that are kept.
const SCREEN_LINES: usize = 2_000;
/// Bytes of one line of a diff.
const LINE_BYTES: usize = 500;

/// A stretch of bytes that was replaced: where it is in the old text, and where what replaced it
/// is in the new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplacedRange {
    pub(crate) old: Range<usize>,
    pub(crate) new: Range<usize>,
}

/// How one text differs from another.
#[derive(Debug, Default)]
pub(crate) struct FileDiff {
    /// The first lines of the hunks.
    lines: Vec<String>,
    /// Lines of all hunks.
    total: u64,
    /// Lines that are new.
    pub(crate) added: u64,
    /// Lines that are gone.
    pub(crate) removed: u64,
}

impl FileDiff {
    /// The difference of two texts of which nothing is known.
    pub(crate) fn of(old: &str, new: &str) -> Self {
        Self::between(old, new, &[ReplacedRange { old: 0..old.len(), new: 0..new.len() }])
    }

    /// The difference of two texts that are the same but for some changes, which are in order
    /// and do not overlap.
    pub(crate) fn between(old: &str, new: &str, changes: &[ReplacedRange]) -> Self {
        let small = |text: &str| text.len() <= COMPARED_BYTES && lines_in(text) <= COMPARED_LINES;
        if small(old) && small(new) {
            Self::compare(old, new)
        } else {
            Self::from_changes(old, new, &whole_lines(old, new, changes))
        }
    }

    fn compare(old: &str, new: &str) -> Self {
        let input = InternedInput::new(old, new);
        let mut diff = Diff::compute(Algorithm::Histogram, &input);
        diff.postprocess_lines(&input);
        let old_starts = line_starts(old);
        let new_starts = line_starts(new);
        let at = |starts: &[usize], line: u32| starts.get(line as usize).copied();
        let bytes = |starts: &[usize], lines: &Range<u32>| {
            at(starts, lines.start).unwrap_or_default()..at(starts, lines.end).unwrap_or_default()
        };
        let change = |hunk: imara_diff::Hunk| ReplacedRange {
            old: bytes(&old_starts, &hunk.before),
            new: bytes(&new_starts, &hunk.after),
        };
        Self::from_changes(old, new, &diff.hunks().map(change).collect::<Vec<_>>())
    }

    /// The difference where certain whole lines were replaced.
    fn from_changes(old: &str, new: &str, changes: &[ReplacedRange]) -> Self {
        let mut difference = Self::default();
        // Where the last hunk ended: the byte of the old text, and the lines of both.
        let mut done = 0;
        let mut old_line = 0;
        let mut new_line = 0;
        let mut rest = changes;
        while let [first, ..] = rest {
            let near = |pair: &&[ReplacedRange]| match pair {
                [a, b] => lines_in(part(old, a.old.end..b.old.start)) <= 2 * CONTEXT as u64,
                _ => false,
            };
            let (group, tail) = rest.split_at(1 + rest.windows(2).take_while(near).count());
            let end = tail.first().map_or(old.len(), |next| next.old.start);
            let before = last_lines(part(old, done..first.old.start));
            let skipped = lines_in(part(old, done..first.old.start - before.len()));
            let mut pieces = vec![(' ', before)];
            let mut at = first.old.start;
            for change in group {
                pieces.push((' ', part(old, at..change.old.start)));
                pieces.push(('-', part(old, change.old.clone())));
                pieces.push(('+', part(new, change.new.clone())));
                at = change.old.end;
            }
            let after = first_lines(part(old, at..end));
            pieces.push((' ', after));
            let old_lines = sum(&pieces, '-');
            let new_lines = sum(&pieces, '+');
            (old_line, new_line) = (old_line + skipped, new_line + skipped);
            let minus = range(old_line, old_lines);
            let plus = range(new_line, new_lines);
            difference.push(format!("@@ -{minus} +{plus} @@"));
            pieces.into_iter().for_each(|(sign, text)| difference.piece(sign, text));
            (old_line, new_line) = (old_line + old_lines, new_line + new_lines);
            (done, rest) = (at + after.len(), tail);
        }
        difference
    }

    /// Lines that all bear the same sign.
    fn piece(&mut self, sign: char, text: &str) {
        let lines = lines_in(text);
        match sign {
            '+' => self.added += lines,
            '-' => self.removed += lines,
            _ => {}
        }
        let room = SCREEN_LINES.saturating_sub(self.lines.len());
        self.lines.extend(
            text.lines()
                .take(room)
                .map(|line| format!("{sign}{}", truncate_with_count(line, LINE_BYTES))),
        );
        self.total += lines;
        if !text.is_empty() && !text.ends_with('\n') {
            self.push("\\ No newline at end of file".to_owned());
        }
    }

    fn push(&mut self, line: String) {
        self.total += 1;
        if self.lines.len() < SCREEN_LINES {
            self.lines.push(line);
        }
    }

    /// Returns what a screen shows of the difference in a file.
    pub(crate) fn display(&self, path: PathBuf) -> Display {
        let DisplayedDiff { path, diff, .. } = self.displayed(path, None);
        Display::Diff { path, diff }
    }

    /// Returns the same for one file among several, which may have had another path.
    pub(crate) fn displayed(&self, path: PathBuf, renamed_from: Option<PathBuf>) -> DisplayedDiff {
        let (mut diff, note) = self.first(SCREEN_LINES);
        if let Some(note) = note {
            diff.push_str(&format!("\n[{note}]"));
        }
        DisplayedDiff { path, diff, renamed_from }
    }

    /// The first lines of the diff, at most [`SCREEN_LINES`], and a remark on the others.
    pub(crate) fn first(&self, lines: usize) -> (String, Option<String>) {
        let shown = self.lines.get(..lines).unwrap_or(&self.lines);
        let left_out = self.total - shown.len() as u64;
        let note =
            (left_out > 0).then(|| format!("{} of the diff left out", count(left_out, "line")));
        (shown.join("\n"), note)
    }
}

/// The changes as changes of whole lines, without lines that are the same.
fn whole_lines(old: &str, new: &str, changes: &[ReplacedRange]) -> Vec<ReplacedRange> {
    let mut whole: Vec<ReplacedRange> = Vec::new();
    for change in changes {
        let next = change.to_lines(old, new);
        match whole.last_mut().filter(|last| next.old.start < last.old.end) {
            Some(last) => (last.old.end, last.new.end) = (next.old.end, next.new.end),
            None => whole.push(next),
        }
    }
    whole.iter_mut().for_each(|change| change.trim(old, new));
    whole.retain(|change| !change.old.is_empty() || !change.new.is_empty());
    whole
}

impl ReplacedRange {
    /// The lines that it is in. Where the next change is in the same line, the end in the new
    /// text is that of no line, and the next one's counts.
    fn to_lines(&self, old: &str, new: &str) -> Self {
        let begins = |text: &str, at: usize| at == 0 || part(text, 0..at).ends_with('\n');
        let before = part(old, 0..self.old.start);
        let head = before.len() - before.rfind('\n').map_or(0, |at| at + 1);
        let tail = if begins(old, self.old.end) && begins(new, self.new.end) {
            0
        } else {
            let after = part(old, self.old.end..old.len());
            after.find('\n').map_or(after.len(), |at| at + 1)
        };
        Self {
            old: self.old.start - head..self.old.end + tail,
            new: self.new.start.saturating_sub(head)..self.new.end + tail,
        }
    }

    fn trim(&mut self, old: &str, new: &str) {
        let same = |(a, b): &(&str, &str)| a == b;
        let a = part(old, self.old.clone());
        let b = part(new, self.new.clone());
        let lines = a.split_inclusive('\n').zip(b.split_inclusive('\n'));
        let head: usize = lines.take_while(same).map(|(line, _)| line.len()).sum();
        (self.old.start, self.new.start) = (self.old.start + head, self.new.start + head);
        let a = part(old, self.old.clone());
        let b = part(new, self.new.clone());
        let lines = a.split_inclusive('\n').rev().zip(b.split_inclusive('\n').rev());
        let tail: usize = lines.take_while(same).map(|(line, _)| line.len()).sum();
        (self.old.end, self.new.end) = (self.old.end - tail, self.new.end - tail);
    }
}

fn part(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or_default()
}

/// The byte at which each line begins, and the end of the text.
fn line_starts(text: &str) -> Vec<usize> {
    let mut end = 0;
    let ends = text.split_inclusive('\n').map(|line| {
        end += line.len();
        end
    });
    std::iter::once(0).chain(ends).collect()
}

fn lines_in(text: &str) -> u64 {
    let ends = text.bytes().filter(|byte| *byte == b'\n').count() as u64;
    ends + u64::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Counts the lines of one side of a hunk: the common ones, and those with its sign.
fn sum(pieces: &[(char, &str)], sign: char) -> u64 {
    let mine = pieces.iter().filter(|(other, _)| *other == ' ' || *other == sign);
    mine.map(|(_, text)| lines_in(text)).sum()
}

/// The last lines, at most [`CONTEXT`], of a text that ends with a line.
fn last_lines(text: &str) -> &str {
    let start = text.rmatch_indices('\n').nth(CONTEXT).map_or(0, |(at, _)| at + 1);
    part(text, start..text.len())
}

/// The first lines, at most [`CONTEXT`].
fn first_lines(text: &str) -> &str {
    let end = text.match_indices('\n').nth(CONTEXT - 1).map_or(text.len(), |(at, _)| at + 1);
    part(text, 0..end)
}

/// One side of a hunk's head, after so many lines.
fn range(after: u64, lines: u64) -> String {
    match lines {
        0 => format!("{after},0"),
        1 => format!("{}", after + 1),
        _ => format!("{},{lines}", after + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A text with each of its stretches replaced, and where; a stretch is as it was, or not.
    fn edited(stretches: &[(String, Option<String>)]) -> (String, String, Vec<ReplacedRange>) {
        let mut old = String::new();
        let mut new = String::new();
        let mut changes = Vec::new();
        for (before, after) in stretches {
            let from = old.len();
            let to = new.len();
            old.push_str(before);
            new.push_str(after.as_ref().unwrap_or(before));
            if after.is_some() {
                changes.push(ReplacedRange { old: from..old.len(), new: to..new.len() });
            }
        }
        (old, new, changes)
    }

    /// The new text, from the old one and a diff.
    fn patched(old: &str, diff: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let mut new = String::new();
        let mut at = 0;
        let mut lines = diff.lines().peekable();
        while let Some(line) = lines.next() {
            let (sign, text) = line.split_at(1);
            let end =
                if lines.peek().is_some_and(|next| next.starts_with('\\')) { "" } else { "\n" };
            match sign {
                "@" => {
                    let range = line.split(['-', ' ']).nth(2).unwrap();
                    let (start, count) = range.split_once(',').unwrap_or((range, "1"));
                    let start: usize = start.parse().unwrap();
                    let from = if count == "0" { start } else { start - 1 };
                    new.push_str(&old[at..from].concat());
                    at = from;
                }
                "\\" => {}
                "+" => new.push_str(&format!("{text}{end}")),
                sign => {
                    assert_eq!(old[at], format!("{text}{end}"));
                    at += 1;
                    if sign == " " {
                        new.push_str(&format!("{text}{end}"));
                    }
                }
            }
        }
        new + &old[at..].concat()
    }

    fn stretches() -> impl Strategy<Value = Vec<(String, Option<String>)>> {
        let stretch = ("[ab\n]{1,12}", proptest::option::weighted(0.4, "[abc\n]{0,6}"));
        proptest::collection::vec(stretch, 0..10)
    }

    proptest! {
        /// What is shown of a large text is a diff that leads from the old one to the new one.
        #[test]
        fn the_places_that_were_replaced_make_up_the_diff(stretches in stretches()) {
            let (old, new, changes) = edited(&stretches);
            let difference = FileDiff::from_changes(&old, &new, &whole_lines(&old, &new, &changes));
            let (diff, left_out) = difference.first(SCREEN_LINES);
            prop_assert_eq!(left_out, None);
            prop_assert_eq!(patched(&old, &diff), new.clone(), "{}", diff);
            let whole = [ReplacedRange { old: 0..old.len(), new: 0..new.len() }];
            let difference = FileDiff::from_changes(&old, &new, &whole_lines(&old, &new, &whole));
            prop_assert_eq!(patched(&old, &difference.first(SCREEN_LINES).0), new);
        }

        /// One change in a large text is shown as one in a small text is.
        #[test]
        fn a_diff_looks_the_same_for_small_and_large_texts(
            before in "([ab]\n){0,9}", old in "[cd]\n", new in "[ef]\n", after in "([ab]\n){0,9}",
        ) {
            let (old, new, changes) =
                edited(&[(before, None), (old, Some(new)), (after, None)]);
            let large = FileDiff::from_changes(&old, &new, &whole_lines(&old, &new, &changes));
            let small = FileDiff::compare(&old, &new);
            prop_assert_eq!(large.first(99), small.first(99));
            prop_assert_eq!((large.added, large.removed), (small.added, small.removed));
        }
    }

    #[test]
    fn what_is_left_out_of_a_diff_is_counted() {
        let old = "a\n".repeat(COMPARED_BYTES);
        let new = "b\n".repeat(COMPARED_BYTES);
        let difference = FileDiff::of(&old, &new);
        let (shown, note) = difference.first(2);
        assert_eq!(shown, "@@ -1,1048576 +1,1048576 @@\n-a");
        assert_eq!(note.unwrap(), "2097151 lines of the diff left out");
        assert_eq!((difference.added, difference.removed), (1 << 20, 1 << 20));
        let wide = FileDiff::of("", &"é".repeat(COMPARED_BYTES));
        let expected = format!(
            "@@ -0,0 +1 @@\n+{}… [+2096652 bytes]\n\\ No newline at end of file",
            "é".repeat(250)
        );
        assert_eq!(wide.first(9).0, expected);
    }
}
