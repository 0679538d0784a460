//! Puts the hunks of a patch into the text of a file.

use deputize_core::sanitize;

use crate::diff::ReplacedRange;
use crate::matching::{Edit, EditScope, MatchTier, NoMatch, edit};

use super::parse::Hunk;

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
            let edited = edit(&self.text, Edit { old: &hunk.old, new: &hunk.new, scope })
                .map_err(MismatchReason::Place)?;
            if !matches!(edited.tier, MatchTier::Exact | MatchTier::LineEnds) {
                self.inexact.push(hunk.at);
            }
            self.marks += edited.marks;
            self.text = edited.text;
            edited.changes.into_iter().for_each(|change| self.record(change));
        }
        let count = |text: &str| text.lines().count().cast_signed();
        self.line_shift += count(&hunk.new) - count(&hunk.old);
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
        let restored = sanitize::restore_marks(&hunk.new, "")
            .map_err(|error| MismatchReason::Place(NoMatch::Mark(error)))?;
        self.marks += restored.marks;
        let mut new = restored.text.into_owned();
        if !before.is_empty() && !before.ends_with('\n') {
            // The file ends without a newline, and goes on doing so.
            new.insert(0, '\n');
            new.truncate(new.strip_suffix('\n').map_or(new.len(), str::len));
        }
        if self.text.contains("\r\n") {
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
