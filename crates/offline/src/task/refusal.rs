//! Says why a task is refused: which part no rule fits, and what can be written instead.

use super::sentence::Sentence;
use super::token::Kind;
use super::vocabulary::{CATEGORIES, PRONOUNS, QUANTIFIERS, SEARCH};
use super::{Refusal, Task, show_text};

/// Returns the refusal of a part that no rule fits.
pub(super) fn misfit(s: &Sentence<'_>, at: usize) -> Refusal {
    let at = s.courtesy(at);
    let end = (at..s.len()).find(|at| s.separator(*at).is_some()).unwrap_or(s.len());
    if s.tokens(at, end).is_empty() {
        return Refusal(match show_text(s.text()).as_str() {
            "" => "The task is empty.".to_owned(),
            text => format!("No rule of mine fits `{text}`."),
        });
    }
    let text = show_text(s.between(at, end));
    let no_rule = format!("No rule of mine fits `{text}`.");
    let why = if s.is(at, SEARCH) || s.is(at, "search|look") {
        search_misfit(s, at, end, &text).unwrap_or_else(|| {
            format!("{no_rule} What is looked for is one word, or stands in quotes.")
        })
    } else if s.any_phrase(at, &["list|ls the? tests", "show me? all? the? tests"]).is_some() {
        format!(
            "`{text}` may mean the folder or the test functions: `list tests/` lists the folder, \
             and `where are the tests?` counts test functions by folder."
        )
    } else if s.is(at, "where|where's|where’s") && s.is(end - 1, "set|declared|implemented") {
        format!("{no_rule} I can find where a name is defined, used or called.")
    } else if s.negates(at, end) {
        format!("{no_rule} {UNDERSTOOD_NEGATIONS}")
    } else {
        no_rule
    };
    Refusal(why)
}

const UNDERSTOOD_NEGATIONS: &str = "I understand three negations: `outside of tests` in a search, `do not delegate`, and `do not \
     change anything`.";

/// Says why a search fits no rule, where there is more to say than that.
fn search_misfit(s: &Sentence<'_>, at: usize, end: usize, text: &str) -> Option<String> {
    let tokens = s.tokens(at, end);
    let blank =
        tokens.iter().any(|token| token.kind == Kind::Quoted && token.text.trim().is_empty());
    let bare = s.skip(at + 1, &format!("{QUANTIFIERS}|for")) >= end;
    if blank || bare {
        return Some(format!("`{text}` names no text to look for."));
    }
    if s.negates(at, end) {
        return Some(format!(
            "No rule of mine fits `{text}`. {UNDERSTOOD_NEGATIONS} To find such a word, put it in \
             quotes."
        ));
    }
    let category = (at..end).find(|at| s.is(*at, CATEGORIES) || s.is(*at, PRONOUNS))?;
    let word = s.between(category, category + 1);
    Some(format!(
        "`{text}` may mean more than the word `{word}`: to find that word, put it in quotes."
    ))
}

/// Returns the refusal of a negation with `and` behind it, which may hold for what follows too.
pub(super) fn open_negation(s: &Sentence<'_>, at: usize) -> Refusal {
    let text = show_text(s.between(s.courtesy(at), s.len()));
    Refusal(format!(
        "It is not clear where the negation in `{text}` ends: put a full stop behind it."
    ))
}

/// Returns the refusal of a command in a task that says to change nothing.
pub(super) fn contradiction(task: &Task) -> Refusal {
    let what = match task {
        Task::Run { command } => format!("to run `{}`", show_text(command)),
        Task::Write { path, .. } => format!("to write `{}`", show_text(path)),
        _ => "something that may change files".to_owned(),
    };
    Refusal(format!("The task says to change or run nothing, and also {what}."))
}

/// Returns the refusal of a command whose end is not clear.
pub(super) fn unclear_command(command: &str) -> Refusal {
    let command = show_text(command);
    Refusal(format!("It is not clear where the command in `{command}` ends: put it in backticks."))
}
