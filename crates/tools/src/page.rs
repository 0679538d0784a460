//! One page of lines, cut out of text that streams by.

/// Which part of a text is wanted, and how much of it may be kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageBounds {
    /// The first line, from 1.
    pub(crate) line: u64,
    /// The byte of that line to begin at, from 0.
    pub(crate) byte: u64,
    /// Limit on lines.
    pub(crate) lines: usize,
    /// Limit on all lines, in bytes.
    pub(crate) bytes: usize,
    /// Limit on one line, in bytes.
    pub(crate) line_bytes: usize,
}

/// A line, or the part of it that is kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PageLine {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// The byte of the line that `bytes` begins at.
    pub(crate) start: u64,
    /// The stored part, without the line end.
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the whole line, without its end.
    pub(crate) length: u64,
}

impl PageLine {
    /// The byte of the line that comes after what is kept, unless that is its end.
    pub(crate) fn next_byte(&self) -> Option<u64> {
        let next = self.start + self.bytes.len() as u64;
        (next < self.length).then_some(next)
    }
}

/// Takes text in pieces and keeps a page of it.
#[derive(Debug)]
pub(crate) struct Pager {
    page: PageBounds,
    /// Whether bytes are UTF-8, so that no character may be cut in two.
    utf8: bool,
    current: PageLine,
    last_byte: u8,
    used: usize,
    full: bool,
    kept: Vec<PageLine>,
    crlf: u64,
    ends: u64,
}

/// The page, and what the whole text is like.
#[derive(Debug)]
pub(crate) struct PagedText {
    pub(crate) kept: Vec<PageLine>,
    /// Lines of the whole text.
    pub(crate) lines: u64,
    /// Lines that end in CRLF.
    pub(crate) crlf: u64,
    /// Whether the last line has an end.
    pub(crate) ended: bool,
}

impl Pager {
    pub(crate) fn new(page: PageBounds, utf8: bool) -> Self {
        let page = PageBounds { line: page.line.max(1), lines: page.lines.max(1), ..page };
        let current = PageLine { number: 1, start: 0, bytes: Vec::new(), length: 0 };
        let kept = Vec::new();
        Self { page, utf8, current, last_byte: 0, used: 0, full: false, kept, crlf: 0, ends: 0 }
    }

    /// Takes the next piece.
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            match part.strip_suffix(b"\n") {
                Some(body) => {
                    self.body(body);
                    self.end_line();
                }
                None => self.body(part),
            }
        }
    }

    /// The text is over.
    pub(crate) fn finish(mut self) -> PagedText {
        let ended = self.current.length == 0;
        if !ended {
            self.keep_line();
        }
        let lines = self.ends + u64::from(!ended);
        PagedText { kept: self.kept, lines, crlf: self.crlf, ended }
    }

    fn body(&mut self, body: &[u8]) {
        let Some(last) = body.last() else { return };
        self.last_byte = *last;
        if !self.full && self.current.number >= self.page.line {
            let from = if self.current.number == self.page.line { self.page.byte } else { 0 };
            let skip = usize::try_from(from.saturating_sub(self.current.length));
            let wanted = body.get(skip.unwrap_or(usize::MAX)..).unwrap_or_default();
            // One byte more than is shown tells apart a CR that belongs to the line's end, and
            // three more let a cut find the end of a character.
            let room = (self.line_room() + 4).saturating_sub(self.current.bytes.len());
            self.current.bytes.extend_from_slice(wanted.get(..room).unwrap_or(wanted));
            self.current.start = from;
        }
        self.current.length += body.len() as u64;
    }

    fn line_room(&self) -> usize {
        self.page.line_bytes.min(self.page.bytes).max(4)
    }

    fn end_line(&mut self) {
        self.ends += 1;
        if self.current.length > 0 && self.last_byte == b'\r' {
            self.crlf += 1;
            let whole = self.current.start + self.current.bytes.len() as u64;
            if whole == self.current.length && self.current.bytes.last() == Some(&b'\r') {
                self.current.bytes.pop();
            }
            self.current.length -= 1;
        }
        self.keep_line();
    }

    /// Ends the current line: it goes to the page if it belongs there and there is room.
    fn keep_line(&mut self) {
        let number = self.current.number + 1;
        let next = PageLine { number, start: 0, bytes: Vec::new(), length: 0 };
        let mut line = std::mem::replace(&mut self.current, next);
        if self.full || line.number < self.page.line {
            return;
        }
        self.cut_line(&mut line);
        if self.used + line.bytes.len() > self.page.bytes && !self.kept.is_empty() {
            self.full = true;
            return;
        }
        self.used += line.bytes.len();
        self.kept.push(line);
        self.full = self.kept.len() == self.page.lines;
    }

    /// Cuts a line to its room, between characters.
    fn cut_line(&self, line: &mut PageLine) {
        let inside = |byte: Option<&u8>| self.utf8 && byte.is_some_and(|byte| byte & 0xc0 == 0x80);
        while line.start > 0 && inside(line.bytes.first()) {
            line.bytes.remove(0);
            line.start += 1;
        }
        if line.bytes.len() > self.line_room() {
            let mut end = self.line_room();
            while end > 0 && inside(line.bytes.get(end)) {
                end -= 1;
            }
            line.bytes.truncate(end);
        }
        line.start = line.start.min(line.length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(line: u64, lines: usize) -> PageBounds {
        PageBounds { line, byte: 0, lines, bytes: 1000, line_bytes: 1000 }
    }

    fn paged(page: PageBounds, text: &str, piece: usize) -> PagedText {
        let mut pager = Pager::new(page, true);
        text.as_bytes().chunks(piece).for_each(|piece| pager.feed(piece));
        pager.finish()
    }

    fn show(paged: &PagedText) -> Vec<String> {
        let text = |line: &PageLine| String::from_utf8(line.bytes.clone()).unwrap();
        paged.kept.iter().map(|line| format!("{}:{}", line.number, text(line))).collect()
    }

    #[test]
    fn a_page_has_the_lines_asked_for_and_counts_all() {
        let some = paged(page(2, 2), "a\nb\r\n\nd", 1);
        assert_eq!(show(&some), ["2:b", "3:"]);
        assert_eq!((some.lines, some.crlf, some.ended), (4, 1, false));
        assert_eq!(paged(page(1, 9), "", 1).lines, 0);
        assert_eq!(show(&paged(page(1, 9), "\n", 1)), ["1:"]);
        assert_eq!(show(&paged(page(5, 9), "a\n", 1)), Vec::<String>::new());
    }

    #[test]
    fn a_line_that_does_not_fit_the_page_is_left_for_the_next() {
        let small = PageBounds { bytes: 5, ..page(1, 9) };
        assert_eq!(show(&paged(small, "abc\ndef\n", 3)), ["1:abc"]);
    }

    #[test]
    fn a_long_line_is_cut_between_characters_and_can_be_read_on() {
        let cut = PageBounds { line_bytes: 5, ..page(1, 9) };
        let first = paged(cut, "ééé\nx", 2);
        assert_eq!(show(&first), ["1:éé", "2:x"]);
        assert_eq!(first.kept[0].next_byte(), Some(4));
        let rest = paged(PageBounds { byte: 4, ..cut }, "ééé\nx", 2);
        assert_eq!(show(&rest), ["1:é", "2:x"]);
        let amid = paged(PageBounds { byte: 3, ..cut }, "ééé\nx", 2);
        assert_eq!((amid.kept[0].start, show(&amid)), (4, vec!["1:é".into(), "2:x".into()]));
        let past = paged(PageBounds { byte: 99, ..cut }, "ééé\nx", 2);
        assert_eq!((past.kept[0].start, show(&past)), (6, vec!["1:".into(), "2:x".into()]));
    }

    proptest! {
        /// Reading on as each page says gives every byte of the text, once.
        #[test]
        fn pages_make_up_the_text(
            text in "[aé\r\n]{0,60}", lines in 1..5usize, bytes in 4..20usize,
            line_bytes in 4..20usize, piece in 1..9usize,
        ) {
            let mut page = PageBounds { line: 1, byte: 0, lines, bytes, line_bytes };
            let mut read = String::new();
            loop {
                let paged = paged(page, &text, piece);
                let Some(last) = paged.kept.last() else { break };
                for line in &paged.kept {
                    prop_assert!(line.bytes.len() <= line_bytes.min(bytes));
                    if line.start == 0 && line.number > 1 {
                        read.push('\n');
                    }
                    read.push_str(std::str::from_utf8(&line.bytes).unwrap());
                    if let Some(next) = line.next_byte() {
                        // A page goes on with the next line; here the cut one is read on first.
                        page = PageBounds { line: line.number, byte: next, ..page };
                        break;
                    }
                    page = PageBounds { line: line.number + 1, byte: 0, ..page };
                }
                prop_assert!(last.number <= paged.lines);
            }
            let plain = text.replace("\r\n", "\n");
            prop_assert_eq!(read, plain.strip_suffix('\n').unwrap_or(&plain));
        }
    }
}
