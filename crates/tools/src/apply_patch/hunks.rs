//! Puts the hunks of a patch into the text of a file. Lines that a hunk keeps stay as they are in the
//! file, however they stand in the patch.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use deputize_core::sanitize;

use crate::diff::ReplacedRange;
use crate::matching::{Edit, EditScope, MatchTier, NoMatch, edit_with, ends_in_crlf};

use super::hunk::{Hunk, LineSign};

/// A text with the hunks in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PatchedText {
    pub(super) text: String,
    /// What was replaced, in the old text and in the new one, in order.
    pub(super) changes: Vec<ReplacedRange>,
    /// How many inert marks of chat formats were restored.
    pub(super) marks: usize,
    /// Hunks that were found only with differences in their space, by their line in the patch.
    pub(super) inexact: Vec<usize>,
    /// Lines that the hunks so far have added, less those that they have removed.
    line_shift: isize,
}

/// Why a hunk does not fit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HunkMismatch<'h> {
    pub(super) hunk: &'h Hunk,
    pub(super) reason: MismatchReason,
    /// The last line of the hunk before it, from 1; `None` for the first hunk.
    pub(super) after: Option<usize>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum MismatchReason {
    /// The old lines are not there.
    Place(NoMatch),
    /// The line that it names above itself is not there.
    Anchor,
    /// It only inserts, and does not say where.
    NoPlace,
    /// It inserts after a line that the file does not have.
    PastEnd { lines: usize },
}

/// Puts hunks into a text. They are in the order of the file and do not overlap.
pub(super) fn apply<'h>(text: &str, hunks: &'h [Hunk]) -> Result<PatchedText, HunkMismatch<'h>> {
    let mut patched = PatchedText {
        text: text.to_owned(),
        changes: Vec::new(),
        marks: 0,
        inexact: Vec::new(),
        line_shift: 0,
    };
    for hunk in hunks {
        let from = patched.changes.last().map_or(0, |change| change.new.end);
        let after = (from > 0).then(|| lines_before(&patched.text, from));
        patched.put(hunk, from).map_err(|reason| HunkMismatch { hunk, reason, after })?;
    }
    Ok(patched)
}

impl PatchedText {
    fn put(&mut self, hunk: &Hunk, from: usize) -> Result<(), MismatchReason> {
        let from = match &hunk.anchor {
            None => from,
            Some(anchor) => after_line(&self.text, from, anchor).ok_or(MismatchReason::Anchor)?,
        };
        let line = hunk.line.map(|line| line.saturating_add_signed(self.line_shift));
        if hunk.old.is_empty() {
            self.insert(hunk, line, from)?;
        } else {
            let anchored = || hunk.anchor.as_ref().map(|_| lines_before(&self.text, from));
            let scope = EditScope::Lines { from, near: line.or_else(anchored) };
            let wanted = Edit { old: &hunk.old, new: &hunk.added, scope };
            let edited = edit_with(&self.text, wanted, |range, added| {
                Some(merge(hunk, &self.text, range, added))
            })
            .map_err(MismatchReason::Place)?;
            if !matches!(edited.tier, MatchTier::Exact | MatchTier::LineEnds) {
                self.inexact.push(hunk.at);
            }
            self.marks += edited.marks;
            self.text = edited.text;
            edited.changes.into_iter().for_each(|change| self.record(change));
        }
        let count = |wanted| hunk.signs.iter().filter(|sign| **sign == wanted).count();
        self.line_shift += count(LineSign::Add).cast_signed();
        self.line_shift -= count(LineSign::Remove).cast_signed();
        Ok(())
    }

    /// Inserts lines where no line is named around them.
    fn insert(
        &mut self,
        hunk: &Hunk,
        line: Option<usize>,
        from: usize,
    ) -> Result<(), MismatchReason> {
        let at = match line {
            Some(line) => line_end(&self.text, line).filter(|end| *end >= from),
            None => (hunk.anchor.is_some() || self.text.is_empty()).then_some(from),
        };
        let lines = self.text.lines().count();
        let missing = line.map_or(MismatchReason::NoPlace, |_| MismatchReason::PastEnd { lines });
        let at = at.ok_or(missing)?;
        let before = self.text.get(..at).unwrap_or_default();
        let restored = sanitize::restore_marks(&hunk.added, "")
            .map_err(|error| MismatchReason::Place(NoMatch::Mark(error)))?;
        self.marks += restored.marks;
        let mut new = restored.text.into_owned();
        if !before.is_empty() && !before.ends_with('\n') {
            // The file ends without a newline, and goes on doing so.
            new.insert(0, '\n');
            new.truncate(new.strip_suffix('\n').map_or(new.len(), str::len));
        }
        if ends_in_crlf(&self.text, &(at..at)) {
            new = new.replace('\n', "\r\n");
        }
        self.text.insert_str(at, &new);
        self.record(ReplacedRange { old: at..at, new: at..at + new.len() });
        Ok(())
    }

    /// Records a change of the present text, which comes after all others, as one of the old text.
    fn record(&mut self, change: ReplacedRange) {
        let sum = |of: fn(&ReplacedRange) -> usize| self.changes.iter().map(of).sum::<usize>();
        let added = sum(|it| it.new.len());
        let removed = sum(|it| it.old.len());
        let original = |at: usize| (at + removed).saturating_sub(added);
        let old = original(change.old.start)..original(change.old.end);
        self.changes.push(ReplacedRange { old, new: change.new });
    }
}

/// Returns what a hunk makes of the lines that it was found at, with the lines that it adds.
fn merge(hunk: &Hunk, text: &str, range: &Range<usize>, added: &str) -> Rc<str> {
    let old = text.get(range.clone()).unwrap_or_default();
    let mut file = old.split_inclusive('\n').map(split_end).peekable();
    let mut added = added.split_inclusive('\n').map(|line| split_end(line).0);
    let mut lines: Vec<(&str, &str)> = Vec::new();
    // An added line ends as the one that it replaces, else as the one before it.
    let mut removed = VecDeque::new();
    let mut before = file.peek().map_or("", |(_, end)| *end);
    for sign in &hunk.signs {
        match sign {
            LineSign::Keep => {
                let (line, end) = file.next().unwrap_or_default();
                lines.push((line, end));
                before = end;
                removed.clear();
            }
            LineSign::Remove => {
                before = file.next().unwrap_or_default().1;
                removed.push_back(before);
            }
            LineSign::Add => {
                let end = removed.pop_front().unwrap_or(before);
                lines.push((added.next().unwrap_or_default(), end));
            }
        }
    }
    let is_ended = match hunk.signs.iter().rfind(|sign| **sign != LineSign::Remove) {
        // The file ends without a newline, and goes on doing so.
        _ if hunk.old.ends_with('\n') && !old.ends_with('\n') => false,
        Some(LineSign::Add) => hunk.added.ends_with('\n'),
        _ => lines.last().is_some_and(|(_, end)| !end.is_empty()),
    };
    join(&lines, is_ended, if ends_in_crlf(text, range) { "\r\n" } else { "\n" })
}

/// Joins lines with their ends, and with `end` where one has none but the last if it is to have none.
fn join(lines: &[(&str, &str)], is_ended: bool, end: &str) -> Rc<str> {
    let mut text = String::new();
    for (at, (line, own)) in lines.iter().enumerate() {
        text.push_str(line);
        if is_ended || at + 1 < lines.len() {
            text.push_str(if own.is_empty() { end } else { own });
        }
    }
    text.into()
}

/// Splits a line into what is in it and its end.
fn split_end(line: &str) -> (&str, &str) {
    let body = line.strip_suffix('\n').unwrap_or(line);
    let body = body.strip_suffix('\r').filter(|_| body.len() < line.len()).unwrap_or(body);
    line.split_at(body.len())
}

/// Returns how many lines begin before a byte.
fn lines_before(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().lines().count()
}

/// Returns where a line, from 1, ends; line 0 ends where the text begins.
fn line_end(text: &str, line: usize) -> Option<usize> {
    let mut lines = text.split_inclusive('\n');
    let mut end = 0;
    for _ in 0..line {
        end += lines.next()?.len();
    }
    Some(end)
}

/// Returns the end of the first line at or after a byte that is `wanted`, or else has it in it.
fn after_line(text: &str, from: usize, wanted: &str) -> Option<usize> {
    let wanted = wanted.trim();
    let end = |is_meant: fn(&str, &str) -> bool| {
        let mut at = from;
        text.get(from..)?.split_inclusive('\n').find_map(|line| {
            at += line.len();
            is_meant(line, wanted).then_some(at)
        })
    };
    end(|line, wanted| line.trim() == wanted).or_else(|| end(|line, wanted| line.contains(wanted)))
}

#[cfg(test)]
mod tests {
    use super::super::parse::{FilePatch, PatchAction, parse};
    use super::*;

    /// A text with the hunks of a patch in it, or why there is none.
    fn patched(text: &str, hunks: &str) -> String {
        let files = parse(&format!("--- a/f\n+++ b/f\n{hunks}")).unwrap();
        let [FilePatch { change: PatchAction::Update { hunks, .. }, .. }] = &*files else {
            panic!("{files:?}");
        };
        match apply(text, hunks) {
            Ok(patched) => {
                let mut rebuilt = String::new();
                let mut done = 0;
                for ReplacedRange { old, new } in &patched.changes {
                    rebuilt += &text[done..old.start];
                    rebuilt += &patched.text[new.clone()];
                    done = old.end;
                }
                assert_eq!(rebuilt + &text[done..], patched.text, "what is said to be changed");
                patched.text
            }
            Err(mismatch) => format!("{:?} after {:?}", mismatch.reason, mismatch.after),
        }
    }

    #[test]
    fn of_several_places_the_nearest_to_the_line_is_meant() {
        let text = "a\nx\nb\nx\nc\nx\nd\n";
        assert_eq!(patched(text, "@@ -4 +4 @@\n-x\n+y\n"), "a\nx\nb\ny\nc\nx\nd\n");
        assert_eq!(patched(text, "@@ -99 +99 @@\n-x\n+y\n"), "a\nx\nb\nx\nc\ny\nd\n");
        assert_eq!(patched(text, "@@\n-x\n+y\n"), "Place(Ambiguous([2, 4, 6])) after None");
        // The lines that hunks before have added count.
        let two = "@@ -1 +1,4 @@\n a\n+1\n+2\n+3\n@@ -4 +7 @@\n-x\n+y\n";
        assert_eq!(patched(text, two), "a\n1\n2\n3\nx\nb\ny\nc\nx\nd\n");
    }

    #[test]
    fn hunks_are_whole_lines_in_order() {
        assert_eq!(patched("ax\nx\n", "@@ -1 +1 @@\n-x\n+y\n"), "ax\ny\n");
        assert_eq!(
            patched("a\nb\n", "@@ -2 +2 @@\n-b\n+B\n@@ -1 +1 @@\n-a\n+A\n"),
            "Place(Nowhere) after Some(2)"
        );
    }

    #[test]
    fn an_anchor_is_a_line_above() {
        let text = "fn a() {\n  x\n}\nfn b() {\n  x\n  x\n}\n";
        assert_eq!(
            patched(text, "@@ fn b() {\n-  x\n+  y\n"),
            "fn a() {\n  x\n}\nfn b() {\n  y\n  x\n}\n"
        );
        assert_eq!(
            patched(text, "@@ fn b\n+  first\n"),
            "fn a() {\n  x\n}\nfn b() {\n  first\n  x\n  x\n}\n"
        );
        assert_eq!(patched(text, "@@ fn c() {\n-  x\n+  y\n"), "Anchor after None");
    }

    #[test]
    fn lines_that_a_hunk_keeps_stay_byte_by_byte() {
        // A hard break of Markdown, what a reader is not shown, and both.
        assert_eq!(patched("one  \ntwo\n", "@@\n one\n-two\n+2\n"), "one  \n2\n");
        assert_eq!(patched("o\u{200b}ne\ntwo\n", "@@\n one\n-two\n+2\n"), "o\u{200b}ne\n2\n");
        assert_eq!(
            patched("\tone \n\ttwo\n", "@@\n one\n-two\n+2\n+  3\n"),
            "\tone \n\t2\n\t  3\n"
        );
        assert_eq!(patched("<s>a\n‹s>b\nc\n", "@@\n ‹s>a\n ‹s>b\n-c\n+C\n"), "<s>a\n‹s>b\nC\n");
        // What the hunk calls a change is none.
        assert_eq!(patched("a \nb\n", "@@\n a\n-b\n+b\n"), "Place(NoChange) after None");
    }

    #[test]
    fn new_lines_end_as_those_beside_them() {
        let mixed = "a\r\nb\nc\r\nd\n";
        assert_eq!(patched(mixed, "@@\n a\n-b\n+B\n c\n"), "a\r\nB\nc\r\nd\n");
        assert_eq!(patched(mixed, "@@\n-b\n-c\n+B\n+C\n+x\n d\n"), "a\r\nB\nC\r\nx\r\nd\n");
        assert_eq!(patched(mixed, "@@\n+x\n a\n+y\n b\n"), "x\r\na\r\ny\r\nb\nc\r\nd\n");
        assert_eq!(patched(mixed, "@@ -4,0 +5 @@\n+x\n"), "a\r\nb\nc\r\nd\nx\n");
        assert_eq!(patched("a\r\nb", "@@\n a\n b\n+c\n"), "a\r\nb\r\nc");
        assert_eq!(patched("a\r\nb", "@@\n b\n+c\n"), "a\r\nb\r\nc");
        assert_eq!(patched("a\nb", "@@\n a\n-b\n"), "a");
        let no = "\\ No newline at end of file\n";
        assert_eq!(patched("a\nb", &format!("@@\n-a\n+A\n b\n{no}")), "A\nb");
        assert_eq!(patched("a\nb", &format!("@@\n a\n-b\n{no}+b\n")), "a\nb\n");
        assert_eq!(patched("a\nb", &format!("@@\n a\n-b\n{no}")), "a\n");
    }

    #[test]
    fn lines_are_inserted_after_a_line() {
        assert_eq!(patched("a\nb\n", "@@ -0,0 +1 @@\n+0\n"), "0\na\nb\n");
        assert_eq!(patched("a\nb\n", "@@ -1,0 +2 @@\n+x\n"), "a\nx\nb\n");
        assert_eq!(patched("a\r\nb", "@@ -2,0 +3 @@\n+c\n"), "a\r\nb\r\nc");
        assert_eq!(patched("", "@@\n+x\n"), "x\n");
        assert_eq!(patched("a\n", "@@ -3,0 +4 @@\n+x\n"), "PastEnd { lines: 1 } after None");
        assert_eq!(patched("a\n", "@@\n+x\n"), "NoPlace after None");
    }

    #[test]
    fn the_end_of_a_file_is_what_the_patch_makes_it() {
        let no = "\\ No newline at end of file\n";
        assert_eq!(patched("a\nb", &format!("@@ -2 +2 @@\n-b\n{no}+c\n")), "a\nc\n");
        assert_eq!(patched("a\nb\n", &format!("@@ -2 +2 @@\n-b\n+c\n{no}")), "a\nc");
        // Without a word on it, it stays as it is.
        assert_eq!(patched("a\nb", "@@ -1,2 +1,3 @@\n a\n b\n+c\n"), "a\nb\nc");
        assert_eq!(patched("a\r\nb\r\n", "@@ -2 +2 @@\n-b\n+c\n"), "a\r\nc\r\n");
    }
}
