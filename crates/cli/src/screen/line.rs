//! Text for a terminal: spans of one style, measured in columns.

use unicode_width::UnicodeWidthChar as _;

/// How a span looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Bold,
    Dim,
    Good,
    Bad,
    Busy,
    Asking,
}

impl Style {
    /// Returns the escape sequence for this style; empty for plain text.
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "\u{1b}[1m",
            Self::Dim => "\u{1b}[2m",
            Self::Good => "\u{1b}[32m",
            Self::Bad => "\u{1b}[31m",
            Self::Busy => "\u{1b}[36m",
            Self::Asking => "\u{1b}[33m",
        }
    }
}

const RESET: &str = "\u{1b}[0m";
/// Columns by which the rows of a wrapped line are indented below its first one.
const HANGING: usize = 2;

/// A piece of a line. Its text is sanitized: nothing in it moves a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    text: String,
    style: Style,
}

/// One line of a screen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ScreenLine {
    spans: Vec<Span>,
}

impl ScreenLine {
    /// Adds a span.
    pub(crate) fn push(&mut self, style: Style, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.spans.push(Span { text, style });
        }
    }

    /// Returns the line with another span.
    pub(crate) fn with(mut self, style: Style, text: impl Into<String>) -> Self {
        self.push(style, text);
        self
    }

    /// Returns its width in columns.
    pub(crate) fn width(&self) -> usize {
        self.spans.iter().map(|span| width(&span.text)).sum()
    }

    /// Returns its length in bytes of text.
    pub(crate) fn bytes(&self) -> usize {
        self.spans.iter().map(|span| span.text.len()).sum()
    }

    /// Returns the line, cut to `columns` columns.
    pub(crate) fn fit(self, columns: usize) -> Self {
        let mut left = columns;
        let mut fitted = Self::default();
        for span in self.spans {
            if left == 0 {
                break;
            }
            let text = truncate_columns(&span.text, left);
            left -= width(&text);
            let whole = text == span.text;
            fitted.push(span.style, text);
            if !whole {
                break;
            }
        }
        fitted
    }

    /// Wraps the line between words, at `columns` columns, and indents all rows but the first. Two
    /// things stay whole: a word wider than a row, since it may be a path or an address to copy,
    /// and a command in backticks that fits into a row.
    pub(crate) fn wrap(self, columns: usize) -> Vec<Self> {
        if self.width() <= columns {
            return vec![self];
        }
        let lead: String = self.chars().map(|(c, _)| c).take_while(|c| *c == ' ').collect();
        let indent = (lead.len() + HANGING).min(columns / 2);
        let mut rows = Vec::new();
        let mut row = Self::default();
        let mut gap = Self::default();
        let mut has_word = false;
        for Word { line, is_gap } in self.words(columns.saturating_sub(indent)) {
            if is_gap {
                gap = line;
                continue;
            }
            if has_word && row.width() + gap.width() + line.width() > columns {
                let next = Self::default().with(Style::Plain, " ".repeat(indent));
                rows.push(std::mem::replace(&mut row, next));
            } else {
                row.spans.append(&mut gap.spans);
            }
            gap = Self::default();
            row.spans.extend(line.spans);
            has_word = true;
        }
        rows.push(row);
        rows
    }

    /// Returns its words and the gaps between them. Text in backticks is one word if it fits into
    /// `most` columns.
    fn words(&self, most: usize) -> Vec<Word> {
        let mut words: Vec<Word> = Vec::new();
        let text: String = self.chars().map(|(c, _)| c).collect();
        // Characters that are left of what stands in backticks, and whether it stays whole.
        let mut rest = text.as_str();
        let mut quoted = 0_usize;
        let mut is_whole = false;
        for (c, style) in self.chars() {
            if c == '`' && quoted == 0 {
                let quotation = quotation(rest).unwrap_or_default();
                (quoted, is_whole) = (quotation.chars().count(), width(quotation) <= most);
            }
            let is_gap = c == ' ' && (quoted == 0 || !is_whole);
            quoted = quoted.saturating_sub(1);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            match words.last_mut() {
                Some(word) if word.is_gap == is_gap => word.line.add(style, c),
                _ => words.push(Word { line: Self::default().with(style, c), is_gap }),
            }
        }
        words
    }

    fn chars(&self) -> impl Iterator<Item = (char, Style)> {
        self.spans.iter().flat_map(|span| span.text.chars().map(|c| (c, span.style)))
    }

    /// Adds a character, to the last span if the style is the same.
    fn add(&mut self, style: Style, c: char) {
        match self.spans.last_mut() {
            Some(span) if span.style == style => span.text.push(c),
            _ => self.push(style, c),
        }
    }

    /// Renders the text, with colours or without.
    pub(crate) fn render(&self, colour: bool) -> String {
        let mut out = String::new();
        for span in &self.spans {
            match span.style.code() {
                code if colour && !code.is_empty() => {
                    out.extend([code, span.text.as_str(), RESET]);
                }
                _ => out.push_str(&span.text),
            }
        }
        out
    }
}

/// A word of a line, or the gap between two.
struct Word {
    line: ScreenLine,
    is_gap: bool,
}

/// Returns the quoted start of a text, with both backticks.
fn quotation(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('`')?.find('`')?;
    text.get(..inside + 2)
}

/// Returns the columns of a text. Each character counts alone, so a terminal that joins a sequence
/// of emoji needs fewer.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Cuts a text to `columns` columns; a cut text ends with `…`.
pub(crate) fn truncate_columns(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let mut kept = String::new();
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if wide > left {
            break;
        }
        left -= wide;
        kept.push(c);
    }
    if columns > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_never_splits_a_wide_character() {
        assert_eq!(truncate_columns("漢字漢字", 8), "漢字漢字");
        assert_eq!(truncate_columns("漢字漢字", 7), "漢字漢…");
        assert_eq!(truncate_columns("漢字漢字", 6), "漢字…");
        assert_eq!(truncate_columns("漢", 1), "…");
        assert_eq!(truncate_columns("漢", 0), "");
        assert_eq!(width(&truncate_columns("a漢b漢c", 4)), 4);
    }

    fn wrapped(text: &str, columns: usize) -> Vec<String> {
        let line = ScreenLine::default().with(Style::Plain, text);
        line.wrap(columns).iter().map(|row| row.render(false)).collect()
    }

    #[test]
    fn a_line_is_wrapped_between_words_and_goes_on_indented() {
        let text = "warning: the project configuration is ignored";
        assert_eq!(wrapped(text, 45), [text]);
        assert_eq!(wrapped(text, 30), ["warning: the project", "  configuration is ignored"]);
        assert_eq!(wrapped("  rm  -rf  x", 9), ["  rm  -rf", "    x"]);
        let path = "/a/very/long/path/to/somewhere";
        assert_eq!(wrapped(&format!("see {path} now"), 10), ["see", &format!("  {path}"), "  now"]);
        assert_eq!(wrapped("漢字 漢字 漢字", 9), ["漢字 漢字", "  漢字"]);
        assert_eq!(wrapped("a b", 0), ["a", "b"]);
    }

    #[test]
    fn a_command_in_backticks_stays_on_one_row_where_it_fits() {
        let hint = "hint: go on with `deputize run --resume s1` or leave it";
        let rows = ["hint: go on with", "  `deputize run --resume s1` or", "  leave it"];
        assert_eq!(wrapped(hint, 32), rows);
        assert_eq!(wrapped("one `two three` `four", 9), ["one `two", "  three`", "  `four"]);
    }

    #[test]
    fn a_wrapped_line_keeps_its_styles() {
        let line = ScreenLine::default().with(Style::Bad, "error: ").with(Style::Plain, "ab cd");
        let rows: Vec<String> = line.wrap(10).iter().map(|row| row.render(true)).collect();
        assert_eq!(rows, ["\u{1b}[31merror:\u{1b}[0m\u{1b}[31m \u{1b}[0mab", "  cd"]);
    }

    #[test]
    fn a_line_is_cut_across_its_spans() {
        let line = ScreenLine::default().with(Style::Bold, "abc").with(Style::Dim, "defg");
        assert_eq!(line.clone().fit(5).render(false), "abcd…");
        assert_eq!(line.clone().fit(3).render(false), "abc");
        assert_eq!(line.clone().fit(2).render(true), "\u{1b}[1ma…\u{1b}[0m");
        assert_eq!(line.width(), 7);
    }
}
