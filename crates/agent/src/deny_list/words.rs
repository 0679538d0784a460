//! The simple commands of a shell text and their words, near enough.

use std::iter::Peekable;
use std::str::Chars;

/// A redirection into the word behind it. No word of a text is that.
pub(super) const INTO: &str = "\0>";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quote {
    Not,
    Double,
}

/// The simple commands of a text, those in substitutions too, each as its words. Documents in the
/// text and remarks are left out.
pub(super) fn commands(text: &str) -> Vec<Vec<String>> {
    let mut reader = WordReader {
        rest: text.chars().peekable(),
        commands: Vec::new(),
        words: Vec::new(),
        word: None,
        quote: Quote::Not,
        around: Vec::new(),
        ticks: false,
        documents: Vec::new(),
    };
    while let Some(c) = reader.rest.next() {
        reader.take(c);
    }
    reader.end_command();
    reader.commands
}

struct WordReader<'t> {
    rest: Peekable<Chars<'t>>,
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    quote: Quote,
    /// The quotes around each substitution that is open.
    around: Vec<Quote>,
    /// Whether a substitution is open that another backtick ends.
    ticks: bool,
    /// The marks of documents that begin with the next line.
    documents: Vec<String>,
}

impl WordReader<'_> {
    fn take(&mut self, c: char) {
        match (c, self.quote) {
            ('\\', _) => match self.rest.next() {
                Some('\n') | None => {}
                Some(next) => self.push(next),
            },
            ('"', Quote::Not) => {
                self.word.get_or_insert_default();
                self.quote = Quote::Double;
            }
            ('"', Quote::Double) => self.quote = Quote::Not,
            ('$', _) if self.rest.next_if_eq(&'(').is_some() => self.enter(),
            ('`', _) => {
                self.ticks = !self.ticks;
                if self.ticks { self.enter() } else { self.leave() }
            }
            (c, Quote::Double) => self.push(c),
            ('\'', Quote::Not) => {
                let quoted: String = self.rest.by_ref().take_while(|c| *c != '\'').collect();
                self.word.get_or_insert_default().push_str(&quoted);
            }
            ('(', Quote::Not) => self.enter(),
            (')', Quote::Not) => self.leave(),
            ('#', Quote::Not) if self.word.is_none() => {
                while self.rest.next_if(|c| *c != '\n').is_some() {}
            }
            ('&', Quote::Not) if self.rest.peek() == Some(&'>') => self.end_word(),
            (';' | '&' | '|', Quote::Not) => self.end_command(),
            ('\n', Quote::Not) => {
                self.end_command();
                self.skip_documents();
            }
            ('>', Quote::Not) => self.redirect(),
            ('<', Quote::Not) => self.document(),
            (c, Quote::Not) if c.is_whitespace() => self.end_word(),
            (c, Quote::Not) => self.push(c),
        }
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn enter(&mut self) {
        self.end_command();
        self.around.push(std::mem::replace(&mut self.quote, Quote::Not));
    }

    fn leave(&mut self) {
        self.end_command();
        self.quote = self.around.pop().unwrap_or(Quote::Not);
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn end_command(&mut self) {
        self.end_word();
        let words = std::mem::take(&mut self.words);
        if !words.is_empty() {
            self.commands.push(words);
        }
    }

    fn redirect(&mut self) {
        // The number of a descriptor is no word.
        let number = |word: &String| word.bytes().all(|byte| byte.is_ascii_digit());
        self.word = self.word.take().filter(|word| !number(word));
        self.end_word();
        while self.rest.next_if(|c| matches!(c, '>' | '|' | '&')).is_some() {}
        self.words.push(INTO.to_owned());
    }

    /// Takes note of the mark of a document; of other input there is nothing to know.
    fn document(&mut self) {
        self.end_word();
        if self.rest.next_if_eq(&'<').is_none() || self.rest.next_if_eq(&'<').is_some() {
            return;
        }
        self.rest.next_if_eq(&'-');
        while self.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        let mut mark = String::new();
        while let Some(c) = self.rest.next_if(|c| !c.is_whitespace() && !";&|<>)".contains(*c)) {
            mark.extend(Some(c).filter(|c| !matches!(c, '\'' | '"' | '\\')));
        }
        self.documents.push(mark);
    }

    fn skip_documents(&mut self) {
        for mark in std::mem::take(&mut self.documents) {
            loop {
                let line: String = self.rest.by_ref().take_while(|c| *c != '\n').collect();
                if line.trim_start_matches('\t') == mark || self.rest.peek().is_none() {
                    break;
                }
            }
        }
    }
}
