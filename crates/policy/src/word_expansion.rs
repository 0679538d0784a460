//! Static expansion: words of the shell to fields, with holes for what is unknown.

use std::rc::Rc;

use crate::brace_expansion::{Atom, expand_braces};
use crate::field::{HOLE, is_known};
use crate::glob;
use crate::shell_state::ShellState;
use crate::syntax::{Command, Operation, Parameter, Piece, Word};

/// What expansion needs of its surroundings.
pub(crate) trait ExpansionHost {
    fn state(&mut self) -> &mut ShellState;
    /// Runs commands in a subshell; returns what they print, if that is known.
    fn output(&mut self, body: &Rc<Vec<Command>>) -> Option<String>;
    /// Returns a name for the output of commands.
    fn open_stream(&mut self, body: &Rc<Vec<Command>>, reads: bool) -> String;
    /// Counts bytes that expansion made.
    fn spend(&mut self, bytes: usize);
}

/// A part of a word, expanded.
enum Segment {
    Text(String),
    /// Splits at blanks.
    Splitting(String),
    /// Each is a word of its own.
    Many(Vec<String>),
    /// Each is a word of its own, and splits.
    ManySplitting(Vec<String>),
}

/// Expands words to fields.
pub(crate) fn expand_words(host: &mut dyn ExpansionHost, words: &[Word]) -> Vec<String> {
    let mut fields = Vec::new();
    for word in words {
        let has_brace = |it: &Piece| matches!(it, Piece::Bare(text) if text.contains('{'));
        if word.pieces.iter().any(has_brace) {
            expand_with_braces(host, word, &mut fields);
        } else {
            expand_fields(host, &word.pieces, &mut fields);
        }
    }
    fields
}

fn expand_with_braces(host: &mut dyn ExpansionHost, word: &Word, fields: &mut Vec<String>) {
    let mut atoms = Vec::new();
    for (at, piece) in word.pieces.iter().enumerate() {
        match piece {
            Piece::Bare(text) => atoms.extend(text.chars().map(Atom::Char)),
            _ => atoms.push(Atom::Piece(at)),
        }
    }
    let Some(words) = expand_braces(&atoms) else {
        fields.push(HOLE.to_string());
        return;
    };
    for atoms in words {
        let mut pieces: Vec<Piece> = Vec::new();
        for atom in atoms {
            match (atom, pieces.last_mut()) {
                (Atom::Char(c), Some(Piece::Bare(text))) => text.push(c),
                (Atom::Char(c), _) => pieces.push(Piece::Bare(c.to_string())),
                (Atom::Piece(at), _) => pieces.extend(word.pieces.get(at).cloned()),
            }
        }
        expand_fields(host, &pieces, fields);
    }
}

fn expand_fields(host: &mut dyn ExpansionHost, pieces: &[Piece], fields: &mut Vec<String>) {
    let separators = host.state().value("IFS").unwrap_or(" \t\n").to_owned();
    let mut builder = FieldBuilder { fields, current: None, separators };
    for (at, piece) in pieces.iter().enumerate() {
        match segment(host, piece, at == 0) {
            Segment::Text(text) => builder.push(&text),
            Segment::Splitting(text) => builder.push_splitting(&text),
            Segment::Many(texts) => builder.push_many(&texts, false),
            Segment::ManySplitting(texts) => builder.push_many(&texts, true),
        }
    }
    let before = builder.fields.len();
    builder.finish();
    let bytes = fields.iter().skip(before.saturating_sub(1)).map(|it| it.len() + 1).sum();
    host.spend(bytes);
}

/// Expands a word to one text, as in an assignment.
pub(crate) fn expand_text(host: &mut dyn ExpansionHost, word: &Word) -> String {
    let mut text = String::new();
    for (at, piece) in word.pieces.iter().enumerate() {
        match segment(host, piece, at == 0) {
            Segment::Text(part) | Segment::Splitting(part) => text.push_str(&part),
            Segment::Many(parts) | Segment::ManySplitting(parts) => text.push_str(&parts.join(" ")),
        }
    }
    host.spend(text.len());
    text
}

/// Puts segments together to fields.
struct FieldBuilder<'f> {
    fields: &'f mut Vec<String>,
    current: Option<String>,
    separators: String,
}

impl FieldBuilder<'_> {
    fn push(&mut self, text: &str) {
        self.current.get_or_insert_default().push_str(text);
    }

    fn push_splitting(&mut self, text: &str) {
        let separators = std::mem::take(&mut self.separators);
        let is_separator = |c: char| separators.contains(c);
        let mut parts = text.split(is_separator);
        if let Some(first) = parts.next().filter(|it| !it.is_empty()) {
            self.push(first);
        }
        for part in parts {
            self.finish();
            if !part.is_empty() {
                self.push(part);
            }
        }
        self.separators = separators;
    }

    fn push_many(&mut self, texts: &[String], splits: bool) {
        for (at, text) in texts.iter().enumerate() {
            if at > 0 {
                self.finish();
            }
            if splits {
                self.push_splitting(text);
            } else {
                self.push(text);
            }
        }
    }

    fn finish(&mut self) {
        self.fields.extend(self.current.take());
    }
}

fn segment(host: &mut dyn ExpansionHost, piece: &Piece, is_first: bool) -> Segment {
    match piece {
        Piece::Bare(text) if is_first && text.starts_with('~') => {
            Segment::Text(expand_tilde(host.state(), text))
        }
        Piece::Bare(text) | Piece::Quoted(text) => Segment::Text(text.clone()),
        Piece::Parameter(parameter) => expand_parameter(host, parameter),
        Piece::Substitution { body, is_quoted } => {
            let output = host.output(body);
            let text = output.map(|it| it.trim_end_matches('\n').to_owned());
            let text = text.unwrap_or_else(|| HOLE.to_string());
            if *is_quoted { Segment::Text(text) } else { Segment::Splitting(text) }
        }
        Piece::Process { body, reads } => Segment::Text(host.open_stream(body, *reads)),
        Piece::Unknown { inside } => {
            if !inside.is_empty() {
                host.output(inside);
            }
            Segment::Text(HOLE.to_string())
        }
    }
}

fn expand_tilde(state: &ShellState, text: &str) -> String {
    let (user, rest) = text.split_at(text.find('/').unwrap_or(text.len()));
    match user {
        "~" => format!("{}{rest}", state.home),
        "~+" => match &state.directory {
            Some(directory) => format!("{directory}{rest}"),
            None => format!("{HOLE}{rest}"),
        },
        "~-" => format!("{HOLE}{rest}"),
        "~root" => format!("/root{rest}"),
        _ => format!("/home/{}{rest}", user.trim_start_matches('~')),
    }
}

fn expand_parameter(host: &mut dyn ExpansionHost, parameter: &Parameter) -> Segment {
    let Parameter { name, index, is_quoted, operation } = parameter;
    let index = index.as_deref();
    let is_all = matches!(name.as_str(), "@" | "*") || matches!(index, Some("@" | "*"));
    let joins = name == "*" || index == Some("*");
    let values = host.state().values(name, index);
    let values = apply(host, parameter, values);
    let is_list = is_all && !matches!(operation, Operation::Length);
    match (is_list && !(joins && *is_quoted), *is_quoted) {
        (true, true) => Segment::Many(values),
        (true, false) => Segment::ManySplitting(values),
        (false, true) => Segment::Text(values.join(" ")),
        (false, false) => Segment::Splitting(values.join(" ")),
    }
}

fn apply(host: &mut dyn ExpansionHost, parameter: &Parameter, values: Vec<String>) -> Vec<String> {
    let is_set = host.state().is_set(&parameter.name);
    let is_empty = values.iter().all(String::is_empty);
    match &parameter.operation {
        Operation::None => values,
        Operation::Default { word, assigns } => {
            if is_set && !is_empty {
                return values;
            }
            let text = expand_text(host, word);
            if *assigns {
                host.state().assign(&parameter.name, vec![text.clone()]);
            }
            vec![text]
        }
        Operation::Alternative(word) => {
            let text = expand_text(host, word);
            match (is_set, is_empty) {
                (true, true) => vec![String::new()],
                (true, false) => vec![text],
                (false, _) => vec![HOLE.to_string()],
            }
        }
        Operation::Indirect => match values.first().filter(|it| is_known(it)) {
            Some(name) => host.state().values(name, None),
            None => vec![HOLE.to_string()],
        },
        Operation::Length => match values.first().filter(|it| is_known(it)) {
            Some(text) if parameter.index.is_none() => vec![text.chars().count().to_string()],
            _ => vec![HOLE.to_string()],
        },
        operation => change_each(host, operation, values),
    }
}

fn change_each(
    host: &mut dyn ExpansionHost,
    operation: &Operation,
    values: Vec<String>,
) -> Vec<String> {
    let words: Vec<String> = match operation {
        Operation::Remove { pattern, .. } => vec![expand_text(host, pattern)],
        Operation::Replace { pattern, with, .. } => {
            vec![expand_text(host, pattern), expand_text(host, with)]
        }
        Operation::Other(word) => {
            let text = expand_text(host, word);
            return vec![format!("{HOLE}{}", text.get(..0).unwrap_or_default())];
        }
        _ => Vec::new(),
    };
    let unknown = words.iter().any(|it| !is_known(it));
    let change = |value: String| {
        if unknown || !is_known(&value) {
            // A suffix that is taken off a path with a hole leaves the hole.
            return HOLE.to_string();
        }
        change(operation, &words, &value).unwrap_or_else(|| HOLE.to_string())
    };
    values.into_iter().map(change).collect()
}

fn change(operation: &Operation, words: &[String], value: &str) -> Option<String> {
    let first = words.first().map(String::as_str).unwrap_or_default();
    Some(match operation {
        Operation::Remove { is_suffix, is_longest, .. } => {
            remove(value, first, (*is_suffix, *is_longest)).to_owned()
        }
        Operation::Replace { is_all, .. } if !crate::field::has_glob(first) => {
            let with = words.get(1).map(String::as_str).unwrap_or_default();
            let count = if *is_all { usize::MAX } else { 1 };
            if first.is_empty() { value.to_owned() } else { value.replacen(first, with, count) }
        }
        Operation::Substring { offset, length } => substring(value, *offset, *length)?,
        Operation::Lower { is_all: true } => value.to_lowercase(),
        Operation::Upper { is_all: true } => value.to_uppercase(),
        Operation::Lower { .. } => with_first(value, |it| it.to_lowercase().collect()),
        Operation::Upper { .. } => with_first(value, |it| it.to_uppercase().collect()),
        _ => return None,
    })
}

fn with_first(value: &str, change: impl Fn(char) -> String) -> String {
    let mut chars = value.chars();
    chars.next().map(change).unwrap_or_default() + chars.as_str()
}

/// Removes what a pattern matches at an end of a value.
fn remove<'v>(value: &'v str, pattern: &str, (is_suffix, is_longest): (bool, bool)) -> &'v str {
    // Longer values are rare, and trying each place in them takes long.
    if value.len() > 256 {
        return value;
    }
    let places: Vec<usize> = value.char_indices().map(|it| it.0).chain([value.len()]).collect();
    let matches = |at: usize| {
        let (before, behind) = value.split_at(at);
        glob::matches(pattern, if is_suffix { behind } else { before })
    };
    let first = places.iter().copied().find(|at| matches(*at));
    let last = places.iter().rev().copied().find(|at| matches(*at));
    let at = if is_suffix == is_longest { first } else { last };
    match at {
        Some(at) if is_suffix => value.get(..at).unwrap_or(value),
        Some(at) => value.get(at..).unwrap_or(value),
        None => value,
    }
}

fn substring(value: &str, offset: i64, length: Option<i64>) -> Option<String> {
    let chars: Vec<char> = value.chars().collect();
    let count = i64::try_from(chars.len()).ok()?;
    let from = if offset < 0 { (count + offset).max(0) } else { offset.min(count) };
    let to = match length {
        None => count,
        Some(length) if length < 0 => (count + length).max(from),
        Some(length) => from.saturating_add(length).min(count),
    };
    let (from, to) = (usize::try_from(from).ok()?, usize::try_from(to).ok()?);
    Some(chars.get(from..to)?.iter().collect())
}
