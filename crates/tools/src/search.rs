//! Looks for a pattern in one file after the other, and keeps a page of what it finds.

use std::fs::File;
use std::io::{self, Read};

use deputize_core::Cancel;
use deputize_core::sanitize::pattern_of_marks;
use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};

/// Bytes of the longest pattern.
const PATTERN_BYTES: usize = 2_000;
/// Bytes that a compiled pattern may take, twice: once for the program, once for its cache.
const PATTERN_MEMORY: usize = 8 * 1024 * 1024;
/// Bytes of the longest line that is searched.
const LINE_MEMORY: usize = 64 * 1024 * 1024;
/// Bytes shown of a line.
const LINE_BYTES: usize = 500;
/// Between lines that do not follow each other.
const GAP: &str = "--";
/// Bytes shown before a match that is far into its line.
const BEFORE_MATCH: usize = 100;

/// Why there is no pattern to look for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("the pattern is empty: leave it out to find files by name")]
    Empty,
    #[error("the pattern has {0} bytes; the limit is {PATTERN_BYTES}")]
    TooLong(usize),
    #[error(
        "the pattern is not a regular expression (to find it literally, escape it with \\): {0}"
    )]
    Bad(grep_regex::Error),
}

/// A pattern to look for, and how.
#[derive(Debug)]
pub(crate) struct Search {
    matcher: RegexMatcher,
    searcher: Searcher,
    show: MatchDisplay,
}

/// How to show matching lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatchDisplay {
    /// The lines, with so many around each.
    Lines(usize),
    /// Counts per file.
    Count,
    /// Whether there is one.
    Any,
}

impl Search {
    pub(crate) fn new(
        pattern: &str,
        ignore_case: bool,
        show: MatchDisplay,
    ) -> Result<Self, PatternError> {
        if pattern.is_empty() {
            return Err(PatternError::Empty);
        }
        if pattern.len() > PATTERN_BYTES {
            return Err(PatternError::TooLong(pattern.len()));
        }
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(ignore_case)
            // Anchors are those of a line, wherever the searcher's buffer begins and ends.
            .multi_line(true)
            .crlf(true)
            .size_limit(PATTERN_MEMORY)
            .dfa_size_limit(PATTERN_MEMORY)
            .build(&pattern_of_marks(pattern))
            .map_err(PatternError::Bad)?;
        let context = if let MatchDisplay::Lines(context) = show { context } else { 0 };
        Ok(Self { matcher, searcher: searcher(context), show })
    }

    /// The pattern, for a [`MatchCounter`].
    pub(crate) fn matcher(&self) -> RegexMatcher {
        self.matcher.clone()
    }

    /// Looks through a file. Lines found go to the page, unless the file is binary.
    pub(crate) fn file(
        &mut self,
        name: &str,
        file: CancellableFile<'_>,
        page: &mut SearchPage,
    ) -> io::Result<FileContent> {
        let matcher = &self.matcher;
        let show = self.show;
        let mut sink = FileSink {
            page,
            matcher,
            name,
            show,
            part: SearchResults::default(),
            before: Vec::new(),
            gap: false,
            shows_after: false,
            binary: false,
        };
        self.searcher.search_reader(matcher, file, &mut sink)?;
        let FileSink { part, binary, page, .. } = sink;
        if binary {
            return Ok(FileContent::Binary);
        }
        let matches = part.found;
        if let MatchDisplay::Lines(context) = show {
            page.add_part(part, context > 0);
        }
        Ok(FileContent::Matches(matches))
    }
}

/// A searcher of lines, with so many around each.
fn searcher(context: usize) -> Searcher {
    SearcherBuilder::new()
        .line_terminator(LineTerminator::crlf())
        .before_context(context)
        .after_context(context)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(LINE_MEMORY))
        .build()
}

/// Counts the lines of files that match a pattern.
#[derive(Debug)]
pub(crate) struct MatchCounter {
    matcher: RegexMatcher,
    searcher: Searcher,
}

impl MatchCounter {
    pub(crate) fn new(matcher: RegexMatcher) -> Self {
        Self { matcher, searcher: searcher(0) }
    }

    /// Looks through a file: to its end, or only for whether a line matches.
    pub(crate) fn file(
        &mut self,
        file: CancellableFile<'_>,
        extent: CountExtent,
    ) -> io::Result<FileContent> {
        let mut sink = CountSink { found: 0, extent, binary: false };
        self.searcher.search_reader(&self.matcher, file, &mut sink)?;
        let CountSink { found, binary, .. } = sink;
        Ok(if binary { FileContent::Binary } else { FileContent::Matches(found) })
    }
}

/// How far to count in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountExtent {
    /// To the first line that matches.
    First,
    /// To the end.
    All,
}

/// Counts what the searcher finds in one file.
struct CountSink {
    found: u64,
    extent: CountExtent,
    binary: bool,
}

impl Sink for CountSink {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, _: &SinkMatch<'_>) -> io::Result<bool> {
        self.found += 1;
        Ok(self.extent == CountExtent::All)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }
}

/// The kind of a searched file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileContent {
    /// So many lines match.
    Matches(u64),
    /// It is binary, so that nothing of it counts.
    Binary,
}

/// The part of all that is found that is shown.
#[derive(Debug)]
pub(crate) struct SearchPage {
    /// Number of results to skip.
    offset: u64,
    /// Limit on shown results.
    limit: u64,
    /// Limit on shown bytes.
    bytes: usize,
    taken: SearchResults,
}

/// Results in one file, or in all files so far.
#[derive(Debug, Default)]
struct SearchResults {
    lines: Vec<String>,
    bytes: usize,
    found: u64,
    shown: u64,
    /// Whether something did not fit. Nothing after it is shown, so that an offset leads on.
    full: bool,
}

impl SearchPage {
    pub(crate) fn new(offset: u64, limit: u64, bytes: usize) -> Self {
        Self { offset, limit, bytes, taken: SearchResults::default() }
    }

    /// Adds a line that is a thing found by itself. It is made only if it may be shown.
    pub(crate) fn add(&mut self, line: impl FnOnce() -> String) {
        if self.taken.found < self.offset || self.taken.full {
            return self.add_found(1);
        }
        let line = line();
        let mut part = SearchResults::default();
        if self.shows_next(&mut part, line.len() + 1) {
            part.lines.push(line);
        }
        part.found = 1;
        self.add_part(part, false);
    }

    /// Counts so many results that are not shown.
    pub(crate) fn add_found(&mut self, results: u64) {
        self.taken.found += results;
    }

    /// Whether nothing more is shown, whatever is found.
    pub(crate) fn is_full(&self) -> bool {
        self.taken.full
    }

    /// Returns the number of results found, and of those shown.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.taken.found, self.taken.shown)
    }

    /// The offset at which the next page begins, if there is one.
    pub(crate) fn next(&self) -> Option<u64> {
        let next = self.offset + self.taken.shown;
        (next < self.taken.found).then_some(next)
    }

    /// Returns the shown text.
    pub(crate) fn text(&self) -> String {
        self.taken.lines.join("\n")
    }

    /// Whether the next thing found in a file is shown, given what was found in it before and
    /// the bytes that it takes; if so it counts as shown.
    fn shows_next(&self, part: &mut SearchResults, bytes: usize) -> bool {
        if self.taken.found + part.found < self.offset {
            return false;
        }
        let shown = self.taken.shown + part.shown;
        let used = self.taken.bytes + part.bytes + bytes;
        part.full |= self.taken.full || shown >= self.limit || (used > self.bytes && shown > 0);
        if part.full {
            return false;
        }
        part.bytes += bytes;
        part.shown += 1;
        true
    }

    fn add_part(&mut self, part: SearchResults, apart: bool) {
        let taken = &mut self.taken;
        if apart && !taken.lines.is_empty() && !part.lines.is_empty() {
            taken.lines.push(GAP.to_owned());
        }
        taken.lines.extend(part.lines);
        taken.bytes += part.bytes;
        taken.found += part.found;
        taken.shown += part.shown;
        taken.full |= part.full;
    }
}

/// Takes what the searcher finds in one file.
struct FileSink<'a> {
    page: &'a mut SearchPage,
    matcher: &'a RegexMatcher,
    name: &'a str,
    show: MatchDisplay,
    part: SearchResults,
    /// Lines before a match of which it is not known yet whether it is shown.
    before: Vec<String>,
    /// Whether lines were passed over since the last one.
    gap: bool,
    /// Whether the last match is shown, and so the lines after it.
    shows_after: bool,
    binary: bool,
}

impl FileSink<'_> {
    /// A line as it is shown, with the part around the match.
    fn line(&self, mark: char, number: Option<u64>, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\r', '\n']);
        let far = |at: &usize| *at > LINE_BYTES - BEFORE_MATCH;
        let start = if text.len() > LINE_BYTES {
            let at = self.matcher.find(text.as_bytes()).ok().flatten().map(|found| found.start());
            at.filter(far).map_or(0, |at| at - BEFORE_MATCH)
        } else {
            0
        };
        format!("{}{mark}{}{mark}{}", self.name, number.unwrap_or(0), cut_line(text, start))
    }
}

/// At most [`LINE_BYTES`] of a line, with counts of what is left out.
fn cut_line(text: &str, start: usize) -> String {
    let start = text.ceil_char_boundary(start);
    let end = text.floor_char_boundary(start + LINE_BYTES);
    let left_out =
        |bytes: usize| if bytes > 0 { format!("[{bytes} bytes]…") } else { String::new() };
    let after = text.len() - end;
    let after = if after > 0 { format!("…[{after} bytes]") } else { String::new() };
    format!("{}{}{after}", left_out(start), text.get(start..end).unwrap_or_default())
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if let MatchDisplay::Lines(_) = self.show {
            let line = self.line(':', found.line_number(), found.bytes());
            let bytes = self.before.iter().chain([&line]).map(|line| line.len() + 1).sum();
            self.shows_after = self.page.shows_next(&mut self.part, bytes);
            if self.shows_after {
                if std::mem::take(&mut self.gap) && !self.part.lines.is_empty() {
                    self.part.lines.push(GAP.to_owned());
                }
                self.part.lines.append(&mut self.before);
                self.part.lines.push(line);
            }
            self.before.clear();
        }
        self.part.found += 1;
        Ok(self.show != MatchDisplay::Any)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let line = self.line('-', context.line_number(), context.bytes());
        match context.kind() {
            SinkContextKind::After if self.shows_after => {
                self.part.bytes += line.len() + 1;
                self.part.lines.push(line);
            }
            SinkContextKind::Before => self.before.push(line),
            SinkContextKind::After | SinkContextKind::Other => {}
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.gap = true;
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }
}

/// A file whose reads fail once the call is cancelled.
#[derive(Debug)]
pub(crate) struct CancellableFile<'c> {
    pub(crate) file: File,
    pub(crate) cancel: &'c Cancel,
}

impl Read for CancellableFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("told to end"));
        }
        self.file.read(buffer)
    }
}
