//! Where an old text stands in a file, and what stands there after the edit.
//!
//! Tiers, in this order: the exact text; then with the file's line ends; then whole lines that differ in
//! their trailing space; then whole lines that differ in their indentation, where the new
//! text is indented as the file is; then whole lines that differ in what a reader is not shown. The
//! first tier that finds anything decides. Nothing is ever changed outside of what was found.
//!
//! Marks of chat formats are shown inert (`‹s>`). An old text that has one is looked for in the file
//! as it is shown, where both forms are the same. Marks in the new text are restored by what was
//! found ([`sanitize::restore_marks`]).

use std::ops::Range;
use std::rc::Rc;

use deputize_core::sanitize::{self, AmbiguousMark, InertText};

use crate::diff::ReplacedRange;
use crate::indent::Indent;

/// Limit on the places of a text that an edit considers.
pub(crate) const MOST_PLACES: usize = 100_000;
/// Bytes of the largest text that an edit makes, if that is not less than double what there was.
const EDITED_BYTES: usize = 64 * 1024 * 1024;

/// An edit as asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edit<'t> {
    pub(crate) old: &'t str,
    pub(crate) new: &'t str,
    pub(crate) scope: EditScope,
}

/// The places of the old text that an edit changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EditScope {
    /// The only place. Several are an error.
    Only,
    All,
    /// One place of whole lines that begins at or after the byte `from`: the nearest to the line
    /// `near`, from 1, or the only one if that is `None`.
    Lines {
        from: usize,
        near: Option<usize>,
    },
}

impl EditScope {
    /// Returns which of the places are meant.
    fn choose(self, text: &str, mut found: Vec<Replacement>) -> Result<Vec<Replacement>, NoMatch> {
        if let Self::Lines { from, near } = self {
            found.retain(|it| it.range.start >= from && is_whole_lines(text, &it.range));
            if let Some(near) = near {
                let lines = lines_of(text, &found);
                let nearest = lines.iter().enumerate().min_by_key(|(_, line)| line.abs_diff(near));
                let nearest = nearest.map(|(index, _)| index);
                found = nearest.map(|index| found.swap_remove(index)).into_iter().collect();
            }
        }
        if found.len() > 1 && self != Self::All {
            return Err(NoMatch::Ambiguous(lines_of(text, &found)));
        }
        Ok(found)
    }
}

/// How far the old text is from the file's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatchTier {
    Exact,
    LineEnds,
    TrailingSpace,
    Indentation,
    Unshown,
}

/// The file after an edit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EditedText {
    pub(crate) text: String,
    pub(crate) tier: MatchTier,
    /// Number of chat format marks restored in the new text.
    pub(crate) marks: usize,
    /// The changes, in order.
    pub(crate) changes: Vec<ReplacedRange>,
}

/// Why there is no edit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoMatch {
    /// The old text is nowhere.
    Nowhere,
    /// It is at these lines, from 1.
    Ambiguous(Vec<usize>),
    /// It is at more than [`MOST_PLACES`].
    TooMany,
    /// The file would have so many bytes or more, which is larger than an edit makes one.
    TooLarge { bytes: usize, limit: usize },
    /// It is there, and the new text is the same.
    NoChange,
    /// It is there, and a mark in the new text could stand for two things.
    Mark(AmbiguousMark),
}

/// A place that was found, and what goes there.
#[derive(Debug)]
struct Replacement {
    range: Range<usize>,
    new: Rc<str>,
}

/// Finds the places of an edit's old text.
type FindFn = fn(&str, Edit<'_>) -> Vec<Replacement>;

/// Does an edit. The old text must not be empty.
pub(crate) fn edit(text: &str, wanted: Edit<'_>) -> Result<EditedText, NoMatch> {
    edit_with(text, wanted, |_, _| None)
}

/// Does an edit. `merge` makes what goes to a place of where it is and of the new text, or leaves the
/// new text.
pub(crate) fn edit_with(
    text: &str,
    edit: Edit<'_>,
    merge: impl Fn(&Range<usize>, &str) -> Option<Rc<str>>,
) -> Result<EditedText, NoMatch> {
    const TIERS: [(MatchTier, FindFn); 5] = [
        (MatchTier::Exact, exact),
        (MatchTier::LineEnds, line_ends),
        (MatchTier::TrailingSpace, |text, edit| lines(text, edit, trailing_space)),
        (MatchTier::Indentation, |text, edit| lines(text, edit, indentation)),
        (MatchTier::Unshown, |text, edit| lines(text, edit, unshown)),
    ];
    let shown = sanitize::has_inert_mark(edit.old).then(|| InertText::of(text));
    let searched = shown.as_ref().map_or(text, |shown| &shown.text);
    for (tier, find) in TIERS {
        let mut found = find(searched, edit);
        if found.is_empty() {
            continue;
        }
        if found.len() > MOST_PLACES {
            return Err(NoMatch::TooMany);
        }
        if let Some(shown) = &shown {
            found.iter_mut().for_each(|found| found.range = shown.original(&found.range));
        }
        let mut found = edit.scope.choose(text, found)?;
        if found.is_empty() {
            continue;
        }
        let marks = restore_marks(text, &mut found).map_err(NoMatch::Mark)?;
        for Replacement { range, new } in &mut found {
            if let Some(merged) = merge(range, new) {
                *new = merged;
            }
        }
        return replace_all(text, &found, tier).map(|edited| EditedText { marks, ..edited });
    }
    Err(NoMatch::Nowhere)
}

/// Restores the marks in what goes to each place, and returns how many.
fn restore_marks(text: &str, found: &mut [Replacement]) -> Result<usize, AmbiguousMark> {
    let mut marks = 0;
    for Replacement { range, new } in found {
        let restored = sanitize::restore_marks(new, text.get(range.clone()).unwrap_or_default())?;
        if restored.marks > 0 {
            marks += restored.marks;
            *new = restored.text.into();
        }
    }
    Ok(marks)
}

/// Returns whether a place begins and ends where lines do.
fn is_whole_lines(text: &str, range: &Range<usize>) -> bool {
    let is_border = |at: usize| {
        at == 0 || at == text.len() || text.get(..at).is_some_and(|before| before.ends_with('\n'))
    };
    is_border(range.start) && is_border(range.end)
}

fn edited_limit(text: &str) -> usize {
    EDITED_BYTES.max(text.len().saturating_mul(2))
}

/// Replaces places that do not overlap.
fn replace_all(text: &str, found: &[Replacement], tier: MatchTier) -> Result<EditedText, NoMatch> {
    let (new, old) = found.iter().fold((0, 0), |(new, old), found| {
        (found.new.len().saturating_add(new), found.range.len().saturating_add(old))
    });
    let bytes = text.len().saturating_sub(old).saturating_add(new);
    let limit = edited_limit(text);
    if bytes > limit {
        return Err(NoMatch::TooLarge { bytes, limit });
    }
    let mut out = String::with_capacity(bytes);
    let mut done = 0;
    let mut changes = Vec::with_capacity(found.len());
    for Replacement { range, new } in found {
        out.push_str(text.get(done..range.start).unwrap_or_default());
        let start = out.len();
        out.push_str(new);
        changes.push(ReplacedRange { old: range.clone(), new: start..out.len() });
        done = range.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    if out == text {
        Err(NoMatch::NoChange)
    } else {
        Ok(EditedText { text: out, tier, marks: 0, changes })
    }
}

/// The numbers of the lines that places begin in, from 1.
fn lines_of(text: &str, found: &[Replacement]) -> Vec<usize> {
    let mut line = 1;
    let mut counted = 0;
    let number = |found: &Replacement| {
        let between = text.get(counted..found.range.start).unwrap_or_default();
        line += between.bytes().filter(|byte| *byte == b'\n').count();
        counted = counted.max(found.range.start);
        line
    };
    found.iter().map(number).collect()
}

/// Every place, or more than [`MOST_PLACES`], of a text in another. Overlapping ones count where only one is meant, because
/// then it is not clear which.
fn places(text: &str, wanted: &str, overlapping: bool) -> Vec<Range<usize>> {
    let step =
        if overlapping { wanted.chars().next().map_or(1, char::len_utf8) } else { wanted.len() };
    let mut found = Vec::new();
    let mut from = 0;
    while found.len() <= MOST_PLACES
        && let Some(at) = text.get(from..).and_then(|rest| rest.find(wanted))
    {
        found.push(from + at..from + at + wanted.len());
        from += at + step;
    }
    found
}

fn exact(text: &str, edit: Edit<'_>) -> Vec<Replacement> {
    let new = NewText::of(text, edit.new);
    let found = places(text, edit.old, edit.scope != EditScope::All).into_iter();
    found.map(|range| Replacement { new: new.at(text, &range), range }).collect()
}

/// The exact text, but for its line ends.
fn line_ends(text: &str, edit: Edit<'_>) -> Vec<Replacement> {
    if !edit.old.contains('\n') {
        return Vec::new();
    }
    let lf = edit.old.replace("\r\n", "\n");
    let crlf = lf.replace('\n', "\r\n");
    let forms = [(crlf, edit.new.to_owned()), (lf, edit.new.replace("\r\n", "\n"))];
    let found = |(old, new): &(String, String)| {
        let new = NewText::of(text, new);
        let found = places(text, old, edit.scope != EditScope::All).into_iter();
        found.map(|range| Replacement { new: new.at(text, &range), range }).collect()
    };
    forms.iter().map(found).find(|found: &Vec<Replacement>| !found.is_empty()).unwrap_or_default()
}

/// A new text in both forms that a place may ask for.
struct NewText {
    plain: Rc<str>,
    /// With CRLF; `None` if that is the same or the file has none.
    crlf: Option<Rc<str>>,
}

impl NewText {
    fn of(text: &str, new: &str) -> Self {
        let crlf = new.contains('\n') && text.contains("\r\n");
        Self { plain: new.into(), crlf: crlf.then(|| with_crlf(new)) }
    }

    /// The form with CRLF where the file has it.
    fn at(&self, text: &str, range: &Range<usize>) -> Rc<str> {
        let crlf = self.crlf.as_ref().filter(|_| ends_in_crlf(text, range));
        Rc::clone(crlf.unwrap_or(&self.plain))
    }
}

fn with_crlf(new: &str) -> Rc<str> {
    new.replace("\r\n", "\n").replace('\n', "\r\n").into()
}

/// Whether lines end in CRLF at a place: in what is replaced, else in the line that it stands in.
pub(crate) fn ends_in_crlf(text: &str, range: &Range<usize>) -> bool {
    let ends_crlf = |part: &str| {
        part.find('\n').map(|at| part.get(..at).is_some_and(|line| line.ends_with('\r')))
    };
    let within = text.get(range.clone()).and_then(ends_crlf);
    let after = || text.get(range.end..).and_then(ends_crlf);
    let before = || {
        text.get(..range.start).and_then(|part| {
            part.rfind('\n').map(|at| part.get(..at).is_some_and(|line| line.ends_with('\r')))
        })
    };
    within.or_else(after).or_else(before).unwrap_or(false)
}

/// One line of a file.
#[derive(Debug, Clone, Copy)]
struct FileLine<'t> {
    /// Where it begins.
    start: usize,
    /// Without its end.
    text: &'t str,
    /// Where the next one begins.
    next: usize,
}

fn file_lines(text: &str) -> impl Iterator<Item = FileLine<'_>> {
    text.split_inclusive('\n').scan(0, |next, whole| {
        let start = *next;
        *next += whole.len();
        let body = whole.strip_suffix('\n').unwrap_or(whole);
        Some(FileLine { start, text: body.strip_suffix('\r').unwrap_or(body), next: *next })
    })
}

/// Whether lines of a file stand for those of the old text; if so, the new text for them.
type FitFn = fn(old: &[&str], file: &[FileLine<'_>], new: &str) -> Option<String>;

/// Whole lines that fit the old text's.
fn lines(text: &str, edit: Edit<'_>, fits: FitFn) -> Vec<Replacement> {
    let old = edit.old.replace("\r\n", "\n");
    let ended = old.ends_with('\n');
    let old: Vec<&str> = old.strip_suffix('\n').unwrap_or(&old).split('\n').collect();
    if old.iter().all(|line| line.trim().is_empty()) {
        return Vec::new();
    }
    let new = edit.new.replace("\r\n", "\n");
    // The lines at hand, of which the last are the window: all of them would be many.
    let mut at_hand = Vec::new();
    let mut found = Vec::<Replacement>::new();
    let mut made = 0;
    let limit = edited_limit(text);
    let has_crlf = text.contains("\r\n");
    for line in file_lines(text) {
        if at_hand.len() > 2 * old.len() {
            at_hand.drain(..old.len());
        }
        at_hand.push(line);
        let start = at_hand.len().checked_sub(old.len());
        let Some(window) = start.and_then(|start| at_hand.get(start..)) else { continue };
        let (Some(first), Some(last)) = (window.first(), window.last()) else { continue };
        let Some(mut new) = fits(&old, window, &new) else { continue };
        let body_end = last.start + last.text.len();
        let end = if ended { last.next } else { body_end };
        if ended && !text.get(..end).is_some_and(|text| text.ends_with('\n')) {
            // The file ends without a newline, and goes on doing so.
            new.truncate(new.strip_suffix('\n').map_or(new.len(), str::len));
        }
        let range = first.start..end;
        let overlaps = |last: &Replacement| range.start < last.range.end;
        if edit.scope == EditScope::All && found.last().is_some_and(overlaps) {
            continue; // The one before took its place.
        }
        let new = if has_crlf && ends_in_crlf(text, &range) { with_crlf(&new) } else { new.into() };
        made += new.len();
        found.push(Replacement { range, new });
        if found.len() > MOST_PLACES || made > limit {
            break;
        }
    }
    found
}

fn trailing_space(old: &[&str], file: &[FileLine<'_>], new: &str) -> Option<String> {
    let same = |(old, file): (&&str, &FileLine<'_>)| old.trim_end() == file.text.trim_end();
    old.iter().zip(file).all(same).then(|| new.to_owned())
}

/// What a model reads is sanitized, without what is invisible; so its old text
/// lacks that.
fn unshown(old: &[&str], file: &[FileLine<'_>], new: &str) -> Option<String> {
    let same = |(old, file): (&&str, &FileLine<'_>)| {
        old.trim_end() == sanitize::clean(file.text).text.trim_end()
    };
    old.iter().zip(file).all(same).then(|| new.to_owned())
}

fn indentation(old: &[&str], file: &[FileLine<'_>], new: &str) -> Option<String> {
    let same = |(old, file): (&&str, &FileLine<'_>)| old.trim() == file.text.trim();
    if !old.iter().zip(file).all(same) {
        return None;
    }
    let indent = Indent::between(old.iter().copied().zip(file.iter().map(|line| line.text)))?;
    Some(new.split('\n').map(|line| indent.apply(line)).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An edit of one occurrence, as `tier: text`.
    fn one(text: &str, old: &str, new: &str) -> String {
        match edit(text, Edit { old, new, scope: EditScope::Only }) {
            Ok(edited) => format!("{:?}: {}", edited.tier, edited.text),
            Err(miss) => format!("{miss:?}"),
        }
    }

    #[test]
    fn the_first_tier_that_finds_anything_decides() {
        assert_eq!(one("a b c", "b", "x"), "Exact: a x c");
        assert_eq!(one("a\r\nb\r\n", "a\nb", "x\ny"), "LineEnds: x\r\ny\r\n");
        assert_eq!(one("a\nb\n", "a\r\nb", "x\r\ny"), "LineEnds: x\ny\n");
        assert_eq!(one("a \nb\n", "a\nb\n", "x\n"), "TrailingSpace: x\n");
        assert_eq!(
            one("  a\n  b\n", "a\nb\n", "x\ny\n"),
            "Indentation: x\n  y\n".replace("x", "  x")
        );
        assert_eq!(one("a\n", "b", "x"), "Nowhere");
        assert_eq!(one("a\u{200b}b <|x|>\n", "ab ‹|x|>", "c"), "Unshown: c\n");
        assert_eq!(one("a <s>b</s> c", "b‹/s>", "d‹/s>"), "Exact: a <s>d</s> c");
        assert_eq!(one("a <s>b</s> c", "b", "‹s>"), "Exact: a <s><s></s> c");
        assert_eq!(one("  [INST] a\n  c\n", "‹INST] a\nc\n", "b\n"), "Indentation:   b\n");
        assert_eq!(one("‹s> <s>", "‹s>", "x"), "Ambiguous([1, 1])");
        // Two lines that differ in one word are not the same lines.
        assert_eq!(one("a\nb\n", "a\nc\n", "x"), "Nowhere");
    }

    #[test]
    fn marks_of_the_new_text_are_restored_by_what_is_replaced() {
        let both = "‹s> one\n<s> two\n";
        assert_eq!(one(both, "‹s> two", "‹s> 2"), "Exact: ‹s> one\n<s> 2\n");
        assert_eq!(one(both, "‹s> one", "‹s> 1"), "Exact: ‹s> 1\n<s> two\n");
        assert_eq!(one(both, "<s> two", "‹s> 2"), "Exact: ‹s> one\n<s> 2\n");
        assert_eq!(one(both, "‹s> one\n‹s> two", "1\n2"), "Exact: 1\n2\n");
        let both_kept = one(both, "‹s> one\n‹s> two", "‹s> 1\n‹s> 2");
        assert_eq!(both_kept, "Mark(AmbiguousMark(\"‹s>\"))");
        assert_eq!(one("‹s> ‹s>\n", "‹s> ‹s>", "‹s>x‹/s>"), "Exact: ‹s>x‹/s>\n");
        assert_eq!(one("<s> a\n", "‹s> a", "‹s> a ‹/s> ‹think>"), "Exact: <s> a </s> <think>\n");
        assert_eq!(one("é[ARGS]é<s>é", "‹s>é", "x‹s>"), "Exact: é[ARGS]éx<s>");
        let all = Edit { old: "‹s>", new: "‹s>!", scope: EditScope::All };
        assert_eq!(edit(both, all).unwrap().text, "‹s>! one\n<s>! two\n");
    }

    #[test]
    fn a_missing_newline_at_the_end_stays_missing() {
        assert_eq!(one("a\nb", "b\n", "c\n"), "TrailingSpace: a\nc");
        assert_eq!(one("a\nb", "b", "c"), "Exact: a\nc");
        assert_eq!(one("a\r\nb", "a\nb\n", "c\nd\n"), "TrailingSpace: c\r\nd");
    }

    #[test]
    fn new_lines_end_as_those_around_them() {
        assert_eq!(one("a\r\nb\r\n", "b", "b\nc"), "Exact: a\r\nb\r\nc\r\n");
        assert_eq!(one("a\r\nb", "b", "b\nc"), "Exact: a\r\nb\r\nc");
        assert_eq!(one("a\nb\r\n", "a", "a\nc"), "Exact: a\nc\nb\r\n");
        assert_eq!(one("a\nb\r\n", "b", "b\nc"), "Exact: a\nb\r\nc\r\n");
    }

    #[test]
    fn what_is_there_twice_is_ambiguous_also_where_it_overlaps() {
        assert_eq!(one("x\nx\nx\n", "x\nx\n", "y\n"), "Ambiguous([1, 2])");
        assert_eq!(one("éé", "é", "y"), "Ambiguous([1, 1])");
        assert_eq!(one(" a\n  a\n", "a  \n", "y\n"), "Ambiguous([1, 2])");
        let all =
            edit(" a\n  a\n", Edit { old: "a  \n", new: "y\n", scope: EditScope::All }).unwrap();
        assert_eq!((all.text.as_str(), all.changes.len()), (" y\n  y\n", 2));
    }

    #[test]
    fn there_is_an_end_to_what_one_edit_does() {
        let all = |text: &str, old, new| edit(text, Edit { old, new, scope: EditScope::All });
        let text = "a\n".repeat(MOST_PLACES);
        assert_eq!(all(&text, "a", "b").unwrap().changes.len(), MOST_PLACES);
        assert_eq!(all(&text, "a \n", "b\n").unwrap().changes.len(), MOST_PLACES);
        let more = format!("{text}a");
        for old in ["a", "a "] {
            assert_eq!(all(&more, old, "b"), Err(NoMatch::TooMany));
            assert_eq!(
                edit(&more, Edit { old, new: "b", scope: EditScope::Only }),
                Err(NoMatch::TooMany)
            );
        }
        let new = "b".repeat(EDITED_BYTES / MOST_PLACES + 1);
        for old in ["a", "a "] {
            let missed = all(&text, old, &new).unwrap_err();
            assert!(
                matches!(missed, NoMatch::TooLarge { bytes, limit: EDITED_BYTES } if bytes > EDITED_BYTES)
            );
        }
    }

    #[test]
    fn blank_lines_alone_are_matched_exactly_only() {
        assert_eq!(one("a\n   \nb\n", "\n\n", "\n"), "Nowhere");
    }

    proptest! {
        /// On text without CR an exact edit is what the standard library does.
        #[test]
        fn an_exact_edit_is_a_plain_replacement(text in "[ab é\n]{0,40}", old in "[ab é\n]{1,4}", new in "[ab\n]{0,4}") {
            let found = places(&text, &old, true).len();
            let reference = text.replacen(&old, &new, 1);
            match edit(&text, Edit { old: &old, new: &new, scope: EditScope::Only }) {
                Ok(edited) if edited.tier == MatchTier::Exact => {
                    prop_assert_eq!((found, edited.text), (1, reference));
                }
                Err(NoMatch::Ambiguous(lines)) if found > 0 => prop_assert_eq!(lines.len(), found),
                Err(NoMatch::NoChange) if found > 0 => prop_assert_eq!(&text, &reference),
                _ => prop_assert_eq!(found, 0),
            }
            if let Ok(edited) = edit(&text, Edit { old: &old, new: &new, scope: EditScope::All }) && found > 0 {
                prop_assert_eq!(edited.text, text.replace(&old, &new));
            }
        }

        /// Whatever tier finds it: what is before and after the found lines stays, byte by byte.
        #[test]
        fn nothing_else_changes(
            before in "([xy ]{0,3}\r?\n){0,4}", lines in proptest::collection::vec("[ \t]{0,3}[ab]{1,3}[ \t]{0,2}", 1..4),
            after in "(\r?\n[xy ]{0,3}){0,4}", crlf in any::<bool>(), indent in any::<bool>(),
        ) {
            let end = if crlf { "\r\n" } else { "\n" };
            let text = format!("{before}{}{after}", lines.join(end));
            let asked: Vec<&str> = lines.iter().map(|line| if indent { line.trim() } else { line.trim_end() }).collect();
            if let Ok(edited) = edit(&text, Edit { old: &asked.join("\n"), new: "NEW", scope: EditScope::Only }) {
                let kept = edited.text.split_once("NEW").unwrap();
                prop_assert_eq!(kept.0.trim_end_matches([' ', '\t']), before.trim_end_matches([' ', '\t']));
                prop_assert_eq!(kept.1.trim_start_matches([' ', '\t']), after);
            }
        }
    }
}
