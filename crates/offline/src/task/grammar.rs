//! The grammar of tasks: every word of a task belongs to a rule here, or the task is refused.
//!
//! A task is one or more parts with `and`, `then` or punctuation between them. The page about the
//! model in the guide lists what each part may be.

use super::object::{file, in_places, list_of, place, places_after, search_terms, subject, verb};
use super::refusal::{contradiction, misfit, open_negation, unclear_command};
use super::sentence::{Rule, Sentence};
use super::token::Kind;
use super::vocabulary::{DETERMINERS, KINDS, QUANTIFIERS, READ, SEARCHED_IN, SURVEY, TESTS};
use super::{LineFilter, LineSearch, Refusal, SurveyMode, Task, Term, is_path};

/// A part of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Tasks, one for each place and thing that the part names.
    Tasks(Vec<Task>),
    /// That nothing is to be changed or run.
    ChangeNothing,
    /// That nothing is to be delegated.
    DelegateNothing,
}

/// The longest task, in words, and the most tasks of one text.
const MOST_TOKENS: usize = 1_000;
const MOST_TASKS: usize = 20;

/// Reads a task.
pub(super) fn parse(text: &str) -> Result<Vec<Task>, Refusal> {
    let s = Sentence::new(text);
    if let Some(task) = write(s.text_from(s.courtesy(0))) {
        return Ok(vec![task]);
    }
    if s.len() > MOST_TOKENS {
        return Err(Refusal(format!("The task has more than {MOST_TOKENS} words.")));
    }
    if let Some(command) = command(&s)? {
        return Ok(vec![command]);
    }
    let parts = parts(&s, 0)?;
    let mut once: Vec<Task> = Vec::new();
    for task in tasks(&parts)? {
        if !once.contains(&task) {
            once.push(task);
        }
    }
    match once.len() {
        0 => Err(misfit(&s, 0)),
        1..=MOST_TASKS => Ok(once),
        many => Err(Refusal(format!("That is {many} tasks; I do at most {MOST_TASKS} at a time."))),
    }
}

/// Returns the tasks of parts as the other parts want them done.
fn tasks(parts: &[Part]) -> Result<Vec<Task>, Refusal> {
    let mut tasks = Vec::new();
    for part in parts {
        let Part::Tasks(some) = part else { continue };
        tasks.extend(some.iter().cloned());
    }
    if parts.contains(&Part::DelegateNothing) {
        tasks.iter_mut().for_each(work_alone);
    }
    let changes = tasks.iter().find(|task| matches!(task, Task::Run { .. } | Task::Write { .. }));
    match changes.filter(|_| parts.contains(&Part::ChangeNothing)) {
        Some(task) => Err(contradiction(task)),
        None => Ok(tasks),
    }
}

fn work_alone(task: &mut Task) {
    if let Task::Survey { sharing, .. } = task {
        *sharing = SurveyMode::Alone;
    }
}

/// Reads all parts from a token on.
fn parts(s: &Sentence<'_>, at: usize) -> Result<Vec<Part>, Refusal> {
    let mut out = Vec::new();
    let mut at = s.separator(at).unwrap_or(at);
    while at < s.len() {
        let unread = || denied(s, at, &out).unwrap_or_else(|| misfit(s, at));
        let (part, next) = part(s, at).ok_or_else(unread)?;
        let after = s.separator(next).unwrap_or(next);
        let negation = matches!(part, Some(Part::ChangeNothing | Part::DelegateNothing));
        if negation && after < s.len() && may_go_on(s, next, after) {
            return Err(open_negation(s, at));
        }
        out.extend(part);
        at = after;
    }
    Ok(out)
}

/// Returns the refusal of a new file whose text takes the rest, where nothing is to be changed.
fn denied(s: &Sentence<'_>, at: usize, before: &[Part]) -> Option<Refusal> {
    let task = write(s.text_from(s.courtesy(at)))?;
    before.contains(&Part::ChangeNothing).then(|| contradiction(&task))
}

/// Returns whether a negation may hold for what follows it: `do not A and B` may deny both.
fn may_go_on(s: &Sentence<'_>, from: usize, end: usize) -> bool {
    let joined = (from..end).any(|at| s.is(at, "and|also"));
    let ended = (from..end).any(|at| {
        s.is(at, "then") || [".", ";", "!", ":", "?"].iter().any(|mark| s.is_mark(at, mark))
    });
    joined && !ended
}

/// Reads a part.
fn part(s: &Sentence<'_>, at: usize) -> Rule<Option<Part>> {
    let at = s.courtesy(at);
    if at >= s.len() {
        return Some((None, at));
    }
    let rules = [negation, tests, where_is, search, list, read, quoted_command, survey];
    rules.iter().find_map(|rule| {
        let (mut part, next) = rule(s, at)?;
        let (alone, next) = s.tail(next);
        if let (true, Part::Tasks(tasks)) = (alone, &mut part) {
            tasks.iter_mut().for_each(work_alone);
        }
        s.may_end(next).then_some((Some(part), next))
    })
}

/// Reads what is not to be done.
fn negation(s: &Sentence<'_>, at: usize) -> Rule<Part> {
    let at = s.any_phrase(at, &["do not", "don't|don’t|dont", "never"])?;
    if let Some(next) = s.phrase(at, "delegate") {
        return Some((Part::DelegateNothing, next));
    }
    let next = s.phrase(at, "change|modify|edit|write|run|touch anything")?;
    Some((Part::ChangeNothing, next))
}

/// Reads the question where tests are.
fn tests(s: &Sentence<'_>, at: usize) -> Rule<Part> {
    let verbs = ["where|where's|where’s is|are|do|does?", "where can i|we find", "find|locate"];
    let at = s.any_phrase(at, &verbs)?;
    let singular = s.is(at - 1, "is|where's|where’s");
    let at = s.skip(at, DETERMINERS);
    let at = match s.phrase(at, "tests") {
        // One thing that is called so.
        Some(next) if singular && verb(s, next).is_some() => return None,
        Some(next) => next,
        None => s.phrase(at, &format!("test {TESTS}"))?,
    };
    let at = s.skip(at, "live|lie|stand|located|defined|kept|found");
    let (roots, at) = in_places(s, at)?;
    let task = |root| Task::Tests { root };
    Some((Part::Tasks(roots.into_iter().map(task).collect()), at))
}

/// Reads the question where a name is defined or used.
fn where_is(s: &Sentence<'_>, at: usize) -> Rule<Part> {
    let at = s.any_phrase(at, &["where|where's|where’s is|are?"])?;
    let singular = s.is(at - 1, "is|where's|where’s");
    let at = s.skip(at, "the");
    let before = s.phrase(at, KINDS);
    let before = before.filter(|next| !s.ends_task(*next) && verb(s, *next).is_none());
    let (term, at) = subject(s, before.unwrap_or(at), |at| singular && verb(s, at).is_some())?;
    let kind = s.phrase(at, KINDS);
    let (filter, at) = match verb(s, kind.unwrap_or(at)) {
        Some((filter, next)) => (Some(filter), next),
        None => (None, kind.unwrap_or(at)),
    };
    // A word that only may be a name is not looked up.
    let is_name = match &term {
        Term::Name(name) => {
            name.contains(|c: char| c.is_uppercase() || c.is_ascii_digit() || "_:.()".contains(c))
        }
        Term::Literal(_) | Term::Pattern(_) => true,
    };
    if !is_name && before.or(kind).is_none() && filter.is_none() {
        return None;
    }
    searches(s, &[term], filter.unwrap_or_default(), at)
}

/// Reads a search for lines.
fn search(s: &Sentence<'_>, at: usize) -> Rule<Part> {
    let verbs = ["find|locate|count", "grep|search for?", "look for", "show me? all", "list all"];
    let at = s.any_phrase(at, &verbs)?;
    let (terms, at) = search_terms(s, s.skip(at, QUANTIFIERS))?;
    let filter = terms.first().map(|term| term.filter).unwrap_or_default();
    let terms: Vec<Term> = terms.into_iter().map(|term| term.term).collect();
    searches(s, &terms, filter, at)
}

/// Reads where is searched, and makes one task of each term and path.
fn searches(s: &Sentence<'_>, terms: &[Term], filter: LineFilter, at: usize) -> Rule<Part> {
    let (before, at) = s.exclusion(at);
    let (paths, at) = places_after(s, at, SEARCHED_IN)?;
    let (after, at) = s.exclusion(at);
    let mut tasks = Vec::new();
    for term in terms {
        for path in &paths {
            let term = term.clone();
            let path = path.clone();
            let without_tests = before || after;
            tasks.push(Task::Search(LineSearch { term, filter, path, without_tests }));
        }
    }
    Some((Part::Tasks(tasks), at))
}

/// Reads a listing.
fn list(s: &Sentence<'_>, at: usize) -> Rule<Part> {
    let at = s.phrase(at, "list|ls")?;
    // The folder of tests, or the test functions.
    if s.phrase(at, "the? tests").is_some() {
        return None;
    }
    let things = s.phrase(at, "the? files|contents|entries");
    let (paths, at) = match things {
        Some(at) => in_places(s, at)?,
        None if s.ends_task(at) => (vec![".".to_owned()], at),
        None => list_of(s, at, place)?,
    };
    let task = |path| Task::List { path };
    Some((Part::Tasks(paths.into_iter().map(task).collect()), at))
}

/// Reads the wish to see a file.
fn read(s: &Sentence<'_>, at: usize) -> Rule<Part> {
    let at = s.phrase(at, &format!("{READ} me?"))?;
    let named = s.phrase(at, "the? file|files");
    let item = |s: &Sentence<'_>, at: usize| file(s, at, named.is_some());
    let (files, at) = list_of(s, named.or_else(|| s.phrase(at, "the?"))?, item)?;
    let tasks = files.into_iter().map(|file| Task::Read { path: file.path, line: file.line });
    Some((Part::Tasks(tasks.collect()), at))
}

/// Reads a command in quotes, which may stand among other parts.
fn quoted_command(s: &Sentence<'_>, at: usize) -> Rule<Part> {
    let at = s.any_phrase(at, &["run|execute", "run|execute the? command"])?;
    let at = at + usize::from(s.is_mark(at, ":"));
    let token = s.token(at).filter(|token| token.kind == Kind::Quoted)?;
    let command = token.text.trim();
    let task = Task::Run { command: command.to_owned() };
    (!command.is_empty()).then(|| (Part::Tasks(vec![task]), at + 1))
}

/// Reads a survey in one of its wordings.
fn survey(s: &Sentence<'_>, at: usize) -> Rule<Part> {
    let verbs = [
        SURVEY,
        "look at|through|over",
        "tell me|us? about",
        "walk me|us? through",
        "introduce me|us to",
        "report on",
        "give|show|write me|us? a|an overview|summary|survey|description of|for",
        "i want|need a|an overview|summary|survey of",
        "a|an? overview|summary|survey of",
        "where should|do|can i|we start|begin reading?",
    ];
    let (roots, next) = match s.any_phrase(at, &verbs) {
        Some(next) if s.ends_task(next) && !s.is(next - 1, "of|for|to|on|about") => {
            (vec![".".to_owned()], next)
        }
        Some(next) => list_of(s, next, place)?,
        None => question(s, at)?,
    };
    let task = |root| Task::Survey { root, sharing: SurveyMode::Fitting };
    Some((Part::Tasks(roots.into_iter().map(task).collect()), next))
}

/// Reads a question about a directory as a whole.
fn question(s: &Sentence<'_>, at: usize) -> Rule<Vec<String>> {
    let openings = ["what is|are|does", "what's|what’s", "how is|big|large is?", "what is in"];
    let at = s.any_phrase(at, &openings)?;
    let sure = s.is(at, &format!("{DETERMINERS}|here"))
        || s.token(at).is_some_and(|token| {
            token.kind == Kind::Quoted || token.kind == Kind::Word && token.text.contains('/')
        });
    let (root, at) = place(s, at).filter(|_| sure)?;
    let endings = ["do", "about", "structured|organised|organized", "laid out", "built up"];
    let at = s.any_phrase(at, &endings).unwrap_or(at);
    Some((vec![root], at))
}

/// Reads a command without quotes, which takes all of the text after its verb.
fn command(s: &Sentence<'_>) -> Result<Option<Task>, Refusal> {
    let at = s.courtesy(0);
    let Some(next) = s.any_phrase(at, &["run|execute", "run|execute the? command"]) else {
        return Ok(None);
    };
    let next = next + usize::from(s.is_mark(next, ":"));
    let prose = "the|a|an|all|my|your|our|this|it|some|every";
    let Some(first) = s.token(next).filter(|_| !s.is(next, prose)) else {
        return Ok(None);
    };
    if first.kind == Kind::Quoted && s.ends_task(next + 1) {
        return Ok(None);
    }
    let command = s.text_from(next).trim();
    if is_clear(s, next) {
        return Ok(Some(Task::Run { command: command.to_owned() }));
    }
    Err(unclear_command(command))
}

/// Returns whether a command that begins at a token surely takes the rest of the text.
fn is_clear(s: &Sentence<'_>, from: usize) -> bool {
    let parts_follow = (from..s.len())
        .filter_map(|at| s.separator(at))
        .any(|at| parts(s, at).is_ok_and(|parts| !parts.is_empty()));
    let joined = (from..s.len()).any(|at| s.is(at, "and|then"));
    let last = s.len().saturating_sub(1);
    let tail = (from..=last).any(|at| s.tail(at).1 > last);
    let sentence = s.token(last).is_some_and(|token| {
        token.kind == Kind::Punctuation
            && s.token(last.saturating_sub(1)).is_some_and(|it| it.end == token.start)
    });
    !(parts_follow || joined || tail || sentence || s.negates(from, s.len()))
}

/// Reads `write PATH: TEXT`.
fn write(text: &str) -> Option<Task> {
    let found = super::WRITE.captures(text)?;
    let path = found.get(1)?.as_str().trim_matches(['`', '"', '\'']);
    let text = found.get(2)?.as_str().to_owned();
    is_path(path).then(|| Task::Write { path: path.to_owned(), text })
}
