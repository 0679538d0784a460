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
    /// What a terminal is told to look like this; empty for plain text.
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

/// A piece of a line. Its text has been through a door: nothing in it moves a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    text: String,
    style: Style,
}

/// One line of a screen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Line {
    spans: Vec<Span>,
}

impl Line {
    /// Adds a piece.
    pub(crate) fn push(&mut self, style: Style, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.spans.push(Span { text, style });
        }
    }

    /// The same with another piece.
    pub(crate) fn with(mut self, style: Style, text: impl Into<String>) -> Self {
        self.push(style, text);
        self
    }

    /// How many columns it takes.
    pub(crate) fn width(&self) -> usize {
        self.spans.iter().map(|span| width(&span.text)).sum()
    }

    /// How many bytes of text it has.
    pub(crate) fn bytes(&self) -> usize {
        self.spans.iter().map(|span| span.text.len()).sum()
    }

    /// The line without what does not fit in so many columns.
    pub(crate) fn fit(self, columns: usize) -> Self {
        let mut left = columns;
        let mut fitted = Self::default();
        for span in self.spans {
            if left == 0 {
                break;
            }
            let text = cut(&span.text, left);
            left -= width(&text);
            let whole = text == span.text;
            fitted.push(span.style, text);
            if !whole {
                break;
            }
        }
        fitted
    }

    /// The text, with colours or without.
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

/// The columns of a text. Every character is counted alone: a terminal that does not join a
/// sequence of emoji needs as much, one that does needs less.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The beginning of a text that fits in so many columns; a cut one ends with `…`.
pub(crate) fn cut(text: &str, columns: usize) -> String {
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
        assert_eq!(cut("漢字漢字", 8), "漢字漢字");
        assert_eq!(cut("漢字漢字", 7), "漢字漢…");
        assert_eq!(cut("漢字漢字", 6), "漢字…");
        assert_eq!(cut("漢", 1), "…");
        assert_eq!(cut("漢", 0), "");
        assert_eq!(width(&cut("a漢b漢c", 4)), 4);
    }

    #[test]
    fn a_line_is_cut_across_its_spans() {
        let line = Line::default().with(Style::Bold, "abc").with(Style::Dim, "defg");
        assert_eq!(line.clone().fit(5).render(false), "abcd…");
        assert_eq!(line.clone().fit(3).render(false), "abc");
        assert_eq!(line.clone().fit(2).render(true), "\u{1b}[1ma…\u{1b}[0m");
        assert_eq!(line.width(), 7);
    }
}
