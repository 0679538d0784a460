//! A hunk of a patch: the line that begins it, and its lines.

/// Lines of a file and the lines that replace them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Hunk {
    /// The line of the patch where it begins, from 1.
    pub(super) at: usize,
    /// The lines that it names as present. Empty if it only inserts.
    pub(super) old: String,
    /// The lines that it adds.
    pub(super) added: String,
    /// What it does with each line, in order.
    pub(super) signs: Vec<LineSign>,
    /// The line of the file where the old lines begin, from 1, or after which lines are inserted;
    /// `None` if the patch does not say.
    pub(super) line: Option<usize>,
    /// A line of the file above the hunk; `None` if the patch names none.
    pub(super) anchor: Option<String>,
}

impl Hunk {
    /// Returns how many lines of the old and of the new text it has.
    pub(super) fn counts(&self) -> (usize, usize) {
        counts(&self.signs)
    }
}

/// Returns how many lines of the old and of the new text there are.
fn counts(signs: &[LineSign]) -> (usize, usize) {
    let without = |sign| signs.iter().filter(|it| **it != sign).count();
    (without(LineSign::Add), without(LineSign::Remove))
}

/// What a hunk does with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineSign {
    Keep,
    Remove,
    Add,
}

/// The line that begins a hunk.
#[derive(Debug, Default)]
pub(super) struct HunkHeader {
    pub(super) line: Option<usize>,
    /// How many lines of the old and of the new text follow; `None` if it does not say.
    pub(super) counts: Option<(usize, usize)>,
    pub(super) anchor: Option<String>,
}

impl HunkHeader {
    pub(super) fn parse(line: &str) -> Self {
        let rest = line.trim_start_matches('@').trim_start();
        let ranges = rest.strip_prefix('-').and_then(|rest| {
            let (old, rest) = rest.split_once(" +")?;
            let new = rest.split([' ', '@']).next().unwrap_or_default();
            Some((line_range(old)?, line_range(new)?))
        });
        match ranges {
            Some(((line, old), (_, new))) => {
                Self { line: Some(line), counts: Some((old, new)), anchor: None }
            }
            None => {
                let anchor = rest.trim_end_matches('@').trim();
                let is_anchor = !anchor.is_empty() && anchor != "...";
                Self { anchor: is_anchor.then(|| anchor.to_owned()), ..Self::default() }
            }
        }
    }
}

/// Reads `LINE,COUNT`, or `LINE` for one line.
fn line_range(text: &str) -> Option<(usize, usize)> {
    let (line, count) = text.split_once(',').unwrap_or((text, "1"));
    Some((line.trim().parse().ok()?, count.trim().parse().ok()?))
}

/// The lines of a hunk, while they are read.
#[derive(Debug, Default)]
pub(super) struct HunkBody<'p> {
    old: Vec<&'p str>,
    added: Vec<&'p str>,
    signs: Vec<LineSign>,
    /// How many empty lines without a sign came last.
    bare: usize,
    old_unended: bool,
    added_unended: bool,
}

impl<'p> HunkBody<'p> {
    pub(super) fn counts(&self) -> (usize, usize) {
        counts(&self.signs)
    }

    /// Adds a line. Returns whether it is one of a hunk.
    pub(super) fn push(&mut self, line: &'p str) -> bool {
        let sign = match line.chars().next().unwrap_or(' ') {
            ' ' => LineSign::Keep,
            '-' => LineSign::Remove,
            '+' => LineSign::Add,
            // No newline at the end of the file.
            '\\' => {
                let is_added = self.signs.last() == Some(&LineSign::Add);
                self.added_unended |= is_added;
                self.old_unended |= !is_added;
                return true;
            }
            _ => return false,
        };
        let lines = if sign == LineSign::Add { &mut self.added } else { &mut self.old };
        lines.push(line.get(1..).unwrap_or_default());
        self.signs.push(sign);
        self.bare = if line.is_empty() { self.bare + 1 } else { 0 };
        true
    }

    pub(super) fn into_hunk(mut self, counts: Option<(usize, usize)>) -> Hunk {
        // Empty lines at the end belong to a hunk only if they are needed.
        let needed = counts.map_or(0, |(old, _)| old);
        while self.bare > 0 && self.old.len() > needed {
            self.old.pop();
            self.signs.pop();
            self.bare -= 1;
        }
        Hunk {
            old: join_lines(&self.old, self.old_unended),
            added: join_lines(&self.added, self.added_unended),
            signs: self.signs,
            ..Hunk::default()
        }
    }
}

fn join_lines(lines: &[&str], unended: bool) -> String {
    let mut text: String = lines.iter().flat_map(|line| [*line, "\n"]).collect();
    if unended {
        text.pop();
    }
    text
}
