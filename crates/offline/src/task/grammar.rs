//! The grammar of tasks: every word of a task belongs to a rule here, or the task is refused.
//!
//! A task is one or more parts with `and`, `then` or punctuation between them. What each part may
//! be stands in `docs/offline.md`.

use super::token::{Kind, Token, tokens};
use super::{Refusal, Sharing, Task, Term, is_path};

/// A part of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Tasks, one for each place and thing that the part names.
    Tasks(Vec<Task>),
    /// Something that is not to be done, and is not done anyway.
    Abstain,
    /// How surveys are to be done.
    Alone,
}

/// A grammar rule: a part that begins at a token, and the token after it.
type Rule<T> = Option<(T, usize)>;

const DETERMINERS: &str = "all|the|this|my|our|your|its|whole|entire|current";
/// Words for what the working directory is.
const HERE: &str = "repository|repo|project|codebase|code|sources|directory|folder|dir|package|\
                    crate|module|workspace|library|application|app|program";
/// Words beside which the name of a directory stands.
const FOLDER: &str = "directory|folder|dir|crate|package|module";
const IN: &str = "in|under|of|inside|within|below|from|at";
/// The same, where `of` may belong to what is looked for.
const SEARCHED_IN: &str = "in|under|inside|within|below";
const SURVEY: &str = "survey|review|explore|describe|summarize|summarise|analyze|analyse|inspect|\
                      examine|explain|study|scan|understand";
const SEARCH: &str = "find|grep|locate|count";
const READ: &str = "read|show|open|print|cat|display";
const TESTS: &str = "cases|case|functions|files|suites|suite|code";
/// Kinds of names, which say what is looked for beside its name.
const KINDS: &str = "function|method|struct|class|enum|trait|interface|type|macro|module|constant|\
                     variable|test|field";
/// Words around a name that say no more than that its lines are looked for.
const BEFORE_TERM: &str = "lines|line|places|place|calls|call|sites|site|uses|use|usages|usage|\
                           references|reference|occurrences|occurrence|mentions|mention|\
                           instances|instance|invocations|of|to|where|we|that|which|with|have|\
                           contain|containing|using";
const AFTER_TERM: &str = "calls|call|uses|use|usages|usage|references|reference|occurrences|\
                          occurrence|mentions|mention|instances|instance|invocations|comments|\
                          comment|statements|statement|blocks|block|lines";
/// Words for things that no search for text finds.
const CATEGORIES: &str = "lines|line|words|characters|bytes|calls|usages|references|\
                          occurrences|comments|strings|imports|definitions|names|variables|\
                          constants|macros|packages|crates|folders|directories|examples|\
                          commits|authors|tests|test|files|functions|methods|classes|structs|enums|traits|types|modules|bugs|\
                          bug|errors|issues|problems|risks|risk|vulnerabilities|smells|\
                          weaknesses|duplicates|dependencies|secrets|it|them|everything|\
                          anything|something|nothing|this|that|here";
const QUESTIONS: &str = "who|whose|what|where|why|how|when|which";
/// Words that are no names of directories unless they stand in quotes.
const NO_PATHS: &str = "a|an|and|or|then|also|in|of|to|for|with|without|outside|except|excluding|\
                        not|but|is|are|it|that|here|there|please|thanks|thank|yourself|alone|too|\
                        now|everything|anything|me|you|us|list|ls|run|who|what|where|why|how|\
                        when|which|tests|files|delegate|detail|briefly|quickly|carefully|do|does|about|\
                        structured|organised|organized|laid|built|work|works";

/// The longest task, in words, and the most tasks of one text.
const MOST_TOKENS: usize = 1_000;
const MOST_TASKS: usize = 20;

/// Reads a task.
pub(super) fn parse(text: &str) -> Result<Vec<Task>, Refusal> {
    let parser = Parser { text, tokens: tokens(text) };
    if let Some(task) = write(text.get(parser.text_start()..).unwrap_or(text)) {
        return Ok(vec![task]);
    }
    if parser.tokens.len() > MOST_TOKENS {
        return Err(Refusal(format!("The task has more than {MOST_TOKENS} words.")));
    }
    if let Some(command) = parser.command()? {
        return Ok(vec![command]);
    }
    let parts = parser.parts(0).map_err(|at| parser.refusal(at))?;
    let alone = parts.contains(&Part::Alone);
    let mut tasks = Vec::new();
    for part in parts {
        let Part::Tasks(some) = part else { continue };
        tasks.extend(some);
    }
    for task in &mut tasks {
        if let (true, Task::Survey { sharing, .. }) = (alone, &mut *task) {
            *sharing = Sharing::Alone;
        }
    }
    let mut once: Vec<Task> = Vec::new();
    for task in tasks {
        if !once.contains(&task) {
            once.push(task);
        }
    }
    match once.len() {
        0 => Err(parser.refusal(0)),
        1..=MOST_TASKS => Ok(once),
        many => Err(Refusal(format!("That is {many} tasks; I do at most {MOST_TASKS} at a time."))),
    }
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token<'t>>,
}

impl<'t> Parser<'t> {
    fn token(&self, at: usize) -> Option<&Token<'t>> {
        self.tokens.get(at)
    }

    /// Where the task begins behind its courtesies.
    fn text_start(&self) -> usize {
        self.token(self.courtesy(0)).map_or(0, |token| token.start)
    }

    /// Whether a word stands at a token: one of several with `|` between them.
    fn is(&self, at: usize, words: &str) -> bool {
        self.token(at).is_some_and(|token| words.split('|').any(|word| token.is(word)))
    }

    /// Passes over words: with `|` between alternatives, and `?` behind those that may be missing.
    fn phrase(&self, at: usize, pattern: &str) -> Option<usize> {
        let mut at = at;
        for words in pattern.split(' ') {
            let (words, optional) =
                words.strip_suffix('?').map_or((words, false), |words| (words, true));
            if self.is(at, words) {
                at += 1;
            } else if !optional {
                return None;
            }
        }
        Some(at)
    }

    /// Passes over the longest of some phrases.
    fn any_phrase(&self, at: usize, patterns: &[&str]) -> Option<usize> {
        patterns.iter().filter_map(|pattern| self.phrase(at, pattern)).max()
    }

    /// Passes over each of these words as long as there is one.
    fn skip(&self, mut at: usize, words: &str) -> usize {
        while self.is(at, words) {
            at += 1;
        }
        at
    }

    fn is_punctuation(&self, at: usize) -> bool {
        self.token(at).is_some_and(|token| token.kind == Kind::Punctuation)
    }

    /// Passes over what stands between two parts; `None` where nothing does.
    fn separator(&self, at: usize) -> Option<usize> {
        let mut end = at;
        while self.is_punctuation(end) || self.is(end, "and|then|also") {
            end += 1;
        }
        (end > at).then_some(end)
    }

    /// Whether a part may end at a token.
    fn may_end(&self, at: usize) -> bool {
        at >= self.tokens.len() || self.separator(at).is_some()
    }

    /// Reads all parts from a token on. Fails with the token of the part that no rule fits.
    fn parts(&self, at: usize) -> Result<Vec<Part>, usize> {
        let mut out = Vec::new();
        let mut at = self.separator(at).unwrap_or(at);
        while at < self.tokens.len() {
            let (parts, next) = self.part(at).ok_or(at)?;
            out.extend(parts);
            at = self.separator(next).unwrap_or(next);
        }
        Ok(out)
    }

    /// Reads a part, and what says how it is to be done.
    fn part(&self, at: usize) -> Rule<Vec<Part>> {
        let at = self.courtesy(at);
        if at >= self.tokens.len() {
            return Some((Vec::new(), at));
        }
        let rules = [
            Self::abstention,
            Self::tests,
            Self::where_is,
            Self::search,
            Self::list,
            Self::read,
            Self::quoted_command,
            Self::survey,
        ];
        rules.iter().find_map(|rule| {
            let (part, next) = rule(self, at)?;
            let (alone, next) = self.tail(next);
            let parts = [Some(part), alone.then_some(Part::Alone)];
            self.may_end(next).then(|| (parts.into_iter().flatten().collect(), next))
        })
    }

    /// Passes over what makes a request polite.
    fn courtesy(&self, mut at: usize) -> usize {
        loop {
            let polite = self.any_phrase(
                at,
                &[
                    "please|hi|hello|hey|ok|okay|now|first|so|just",
                    "can|could|would|will you",
                    "i want you to",
                    "i would like you to",
                    "i'd|i’d like you to",
                    "let us",
                    "let's|let’s",
                    "help me to?",
                ],
            );
            match polite {
                Some(next) => at = next,
                None if self.is_punctuation(at) => at += 1,
                None => return at,
            }
        }
    }

    /// Passes over what may follow a part, and returns whether it says to hand nothing on.
    fn tail(&self, at: usize) -> (bool, usize) {
        let (mut at, mut alone) = (at, false);
        loop {
            let from =
                if self.token(at).is_some_and(|token| token.text == ",") { at + 1 } else { at };
            let alones = [
                "by? yourself",
                "on your own",
                "alone",
                "without children|delegating|delegation|helpers|subagents|sub-agents",
            ];
            let others = ["please", "thanks", "thank you", "for|to me|us", "now", "too", "as well"];
            if let Some(next) = self.any_phrase(from, &alones) {
                (alone, at) = (true, next);
            } else if let Some(next) = self.any_phrase(from, &others) {
                at = next;
            } else {
                return (alone, at);
            }
        }
    }

    /// Reads what is not to be done.
    fn abstention(&self, at: usize) -> Rule<Part> {
        let at = self.any_phrase(at, &["do not", "don't|don’t|dont", "never"])?;
        if let Some(next) = self.phrase(at, "delegate") {
            return Some((Part::Alone, next));
        }
        let next = self.phrase(at, "change|modify|edit|write|run|touch anything")?;
        Some((Part::Abstain, next))
    }

    /// Reads the question where tests are.
    fn tests(&self, at: usize) -> Rule<Part> {
        let verbs = [
            "where|where's|where’s is|are|do|does?",
            "where can i|we find",
            "find|locate|list",
            "show me?",
        ];
        let at = self.any_phrase(at, &verbs)?;
        let at = self.skip(at, DETERMINERS);
        let at = match self.phrase(at, "tests") {
            Some(next) => next,
            None => {
                let next = self.phrase(at, "test")?;
                self.skip(next, TESTS)
            }
        };
        let at = self.skip(at, "live|lie|stand|located|defined|kept|found");
        let (roots, at) = self.in_places(at)?;
        let task = |root| Task::Tests { root };
        Some((Part::Tasks(roots.into_iter().map(task).collect()), at))
    }

    /// Reads the question where a name is used.
    fn where_is(&self, at: usize) -> Rule<Part> {
        let at = self.any_phrase(at, &["where|where's|where’s is|are?"])?;
        let verbs = "defined|declared|used|implemented|set|called";
        let at = self.skip(at, "the");
        let before = self.phrase(at, KINDS);
        let before = before.filter(|next| !self.ends_task(*next) && !self.is(*next, verbs));
        let (term, at) = self.term(before.unwrap_or(at))?;
        let kind = self.phrase(at, KINDS);
        let at = kind.unwrap_or(at);
        let verb = self.phrase(at, verbs);
        let at = verb.unwrap_or(at);
        // A word that only may be a name is not looked up.
        let is_name = match &term {
            Term::Name(name) => name
                .contains(|c: char| c.is_uppercase() || c.is_ascii_digit() || "_:.()".contains(c)),
            Term::Literal(_) | Term::Pattern(_) => true,
        };
        if !is_name && before.or(kind).or(verb).is_none() {
            return None;
        }
        self.searches(&[term], at)
    }

    /// Reads a search for lines.
    fn search(&self, at: usize) -> Rule<Part> {
        let verbs =
            ["find|locate|count", "grep|search for?", "look for", "show me? all", "list all"];
        let at = self.any_phrase(at, &verbs)?;
        let at = self.skip(at, "all|the|any|every|each");
        let (terms, at) = self.list_of(at, Self::named_term)?;
        self.searches(&terms, at)
    }

    /// Reads where is searched, and makes one task of each term and path.
    fn searches(&self, terms: &[Term], at: usize) -> Rule<Part> {
        let (before, at) = self.exclusion(at);
        let (paths, at) = self.places_after(at, SEARCHED_IN)?;
        let (after, at) = self.exclusion(at);
        let mut tasks = Vec::new();
        for term in terms {
            for path in &paths {
                let (term, path) = (term.clone(), path.clone());
                tasks.push(Task::Search { term, path, without_tests: before || after });
            }
        }
        Some((Part::Tasks(tasks), at))
    }

    /// Reads what is looked for, with the words around it that add nothing.
    fn named_term(&self, at: usize) -> Rule<Term> {
        let at = self.skip(at, "all|the|any|every|each");
        let plain = || self.term(at).filter(|(_, next)| self.ends_term(*next));
        let wrapped = || {
            let from = self.skip(at, BEFORE_TERM);
            let from = self.skip(from, "all|the|any|every|each");
            let (term, next) = self.term(from)?;
            let after = self.phrase(next, AFTER_TERM);
            let after = after.or_else(|| self.phrase(next, "is|are used|called|defined|declared"));
            let next = after.unwrap_or(next);
            self.ends_term(next).then_some((term, next))
        };
        wrapped().or_else(plain)
    }

    fn ends_term(&self, at: usize) -> bool {
        let (_, after_tail) = self.tail(at);
        self.may_end(at)
            || self.is(at, "or")
            || self.is(at, SEARCHED_IN)
            || after_tail > at
            || self.exclusion(at).0
    }

    /// Reads one word, a text in quotes or a regular expression.
    fn term(&self, at: usize) -> Rule<Term> {
        let token = self.token(at)?;
        let text = token.text;
        let term = match token.kind {
            Kind::Punctuation => return None,
            Kind::Quoted if text.trim().is_empty() => return None,
            Kind::Quoted => Term::Literal(text.to_owned()),
            Kind::Pattern => Term::Pattern(text.to_owned()),
            Kind::Word => {
                let vague = self.is(at, CATEGORIES) || self.is(at, DETERMINERS) || self.is(at, IN);
                if vague || !text.contains(|c: char| !"\"'`".contains(c)) {
                    return None;
                }
                Term::Name(text.to_owned())
            }
        };
        Some((term, at + 1))
    }

    /// Reads a listing.
    fn list(&self, at: usize) -> Rule<Part> {
        let at = self.phrase(at, "list|ls")?;
        let things = self.phrase(at, "the? files|contents|entries");
        let (paths, at) = match things {
            Some(at) => self.in_places(at)?,
            None if self.ends_task(at) => (vec![".".to_owned()], at),
            None => self.list_of(at, Self::place)?,
        };
        let task = |path| Task::List { path };
        Some((Part::Tasks(paths.into_iter().map(task).collect()), at))
    }

    /// Reads the wish to see a file.
    fn read(&self, at: usize) -> Rule<Part> {
        let at = self.phrase(at, &format!("{READ} me?"))?;
        let at = self.phrase(at, "the? file|files?")?;
        let (paths, at) = self.list_of(at, Self::file)?;
        let task = |path| Task::Read { path };
        Some((Part::Tasks(paths.into_iter().map(task).collect()), at))
    }

    /// Reads a command in quotes, which may stand among other parts.
    fn quoted_command(&self, at: usize) -> Rule<Part> {
        let at = self.any_phrase(at, &["run|execute", "run|execute the? command"])?;
        let at = if self.token(at).is_some_and(|token| token.text == ":") { at + 1 } else { at };
        let token = self.token(at).filter(|token| token.kind == Kind::Quoted)?;
        let command = token.text.trim();
        let task = Task::Run { command: command.to_owned() };
        (!command.is_empty()).then(|| (Part::Tasks(vec![task]), at + 1))
    }

    /// Reads a survey in one of its wordings.
    fn survey(&self, at: usize) -> Rule<Part> {
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
        let next = self.any_phrase(at, &verbs);
        let (roots, next) = match next {
            Some(next) if self.ends_task(next) && !self.is(next - 1, "of|for|to|on|about") => {
                (vec![".".to_owned()], next)
            }
            Some(next) => self.list_of(next, Self::place)?,
            None => self.question(at)?,
        };
        let task = |root| Task::Survey { root, sharing: Sharing::Fitting };
        Some((Part::Tasks(roots.into_iter().map(task).collect()), next))
    }

    /// Reads a question about a directory as a whole.
    fn question(&self, at: usize) -> Rule<Vec<String>> {
        let openings = ["what is|are|does", "what's|what’s", "how is|big|large is?", "what is in"];
        let at = self.any_phrase(at, &openings)?;
        let sure = self.is(at, &format!("{DETERMINERS}|here"))
            || self.token(at).is_some_and(|token| {
                token.kind == Kind::Quoted || token.kind == Kind::Word && token.text.contains('/')
            });
        let (root, at) = self.place(at).filter(|_| sure)?;
        let endings = ["do", "about", "structured|organised|organized", "laid out", "built up"];
        let at = self.any_phrase(at, &endings).unwrap_or(at);
        Some((vec![root], at))
    }

    /// Whether nothing but a tail follows.
    fn ends_task(&self, at: usize) -> bool {
        let (_, next) = self.tail(at);
        self.may_end(next)
    }

    /// Reads places after `in`; the working directory where none is named.
    fn in_places(&self, at: usize) -> Rule<Vec<String>> {
        self.places_after(at, IN)
    }

    /// Reads places after one of these words.
    fn places_after(&self, at: usize, words: &str) -> Rule<Vec<String>> {
        if self.is(at, "here") {
            return Some((vec![".".to_owned()], at + 1));
        }
        if !self.is(at, words) {
            return Some((vec![".".to_owned()], at));
        }
        self.list_of(at + 1, Self::place)
    }

    /// Reads whether tests are left out.
    fn exclusion(&self, at: usize) -> (bool, usize) {
        let openings = ["outside of?", "except in|for?", "without", "excluding", "but? not in"];
        let tests = self.any_phrase(at, &openings).and_then(|at| {
            let at = self.skip(at, "the|all");
            self.any_phrase(at, &["tests", "test code|files|cases"])
        });
        tests.map_or((false, at), |next| (true, next))
    }

    /// Reads one thing or several with commas, `and` or `or` between them.
    fn list_of<T>(&self, at: usize, item: impl Fn(&Self, usize) -> Rule<T>) -> Rule<Vec<T>> {
        let (first, mut end) = item(self, at)?;
        let mut out = vec![first];
        loop {
            if self.tail(end).1 > end {
                return Some((out, end));
            }
            let comma = self.token(end).is_some_and(|token| token.text == ",");
            let from = end + usize::from(comma);
            let from = self.phrase(from, "and|or").unwrap_or(from);
            let next = item(self, from).filter(|(_, next)| {
                // What begins another part is no item.
                let (_, after) = self.tail(*next);
                from > end
                    && self.tail(from).1 == from
                    && !self.begins_part(from)
                    && (self.may_end(after)
                        || self.is(*next, "or")
                        || self.is(*next, SEARCHED_IN)
                        || self.exclusion(*next).0)
            });
            let Some((thing, next)) = next else { return Some((out, end)) };
            out.push(thing);
            end = next;
        }
    }

    /// Whether a word is a verb of the tasks.
    fn begins_part(&self, at: usize) -> bool {
        [SURVEY, SEARCH, READ, "list|ls|run|execute|search|look", QUESTIONS]
            .iter()
            .any(|words| self.is(at, words))
    }

    /// Reads a file's path.
    fn file(&self, at: usize) -> Rule<String> {
        let token = self.token(at)?;
        let path = match token.kind {
            Kind::Quoted => !token.text.trim().is_empty(),
            Kind::Word => is_path(token.text),
            Kind::Pattern | Kind::Punctuation => false,
        };
        path.then(|| (clean(token.text), at + 1))
    }

    /// Reads a directory: by its path, or as `this repository`.
    fn place(&self, at: usize) -> Rule<String> {
        let token = self.token(at)?;
        if token.kind == Kind::Quoted {
            let path = !token.text.trim().is_empty();
            return path.then(|| (clean(token.text), at + 1));
        }
        if let Some(next) = self.phrase(at, "the? parent directory|folder|dir") {
            return Some(("..".to_owned(), next));
        }
        if self.is(at, "here") || self.is(at, "this") && self.ends_task(at + 1) {
            return Some((".".to_owned(), at + 1));
        }
        let from = self.skip(at, DETERMINERS);
        if self.is(from, HERE) {
            let points = (at..from).any(|at| self.is(at, "this|my|our|your|its|current"));
            return self.here(from, points);
        }
        let (path, next) = self.path(from)?;
        match self.phrase(next, FOLDER) {
            Some(next) => Some((path, next)),
            None => (from == at).then_some((path, next)),
        }
    }

    /// Reads what follows a word like `directory`: its name, what it lies in, or nothing. After a
    /// word like `this` there is no name.
    fn here(&self, at: usize, points: bool) -> Rule<String> {
        let next = self.phrase(at, "code base").unwrap_or(at + 1);
        if !points && self.is(at, FOLDER) {
            let named = self.phrase(next, "called|named").unwrap_or(next);
            if let Some(found) = self.path(named) {
                return Some(found);
            }
        }
        if self.is(next, IN) {
            return self.place(next + 1);
        }
        Some((".".to_owned(), next))
    }

    /// Reads a path that stands without quotes.
    fn path(&self, at: usize) -> Rule<String> {
        let token = self.token(at)?;
        let is_path = match token.kind {
            Kind::Quoted => !token.text.trim().is_empty(),
            Kind::Word => {
                let remote = token.text.contains("://") || token.text.starts_with("git@");
                // `tests` and `files` are directories too, where a directory is named.
                let plain = self.is(at, "tests|files") || !self.is(at, NO_PATHS);
                plain && !self.is(at, DETERMINERS) && !self.is(at, HERE) && !remote
            }
            Kind::Pattern | Kind::Punctuation => false,
        };
        is_path.then(|| (clean(token.text), at + 1))
    }

    /// Reads a command or a new file, which take all of the text after their verb.
    fn command(&self) -> Result<Option<Task>, Refusal> {
        let at = self.courtesy(0);
        let Some(next) = self.any_phrase(at, &["run|execute", "run|execute the? command"]) else {
            return Ok(None);
        };
        let next =
            if self.token(next).is_some_and(|token| token.text == ":") { next + 1 } else { next };
        let prose = "the|a|an|all|my|your|our|this|it|some|every";
        let Some(first) = self.token(next).filter(|_| !self.is(next, prose)) else {
            return Ok(None);
        };
        if first.kind == Kind::Quoted && self.ends_task(next + 1) {
            return Ok(None);
        }
        let command = self.text.get(first.start..).unwrap_or_default().trim();
        let others = (next..self.tokens.len())
            .filter_map(|at| self.separator(at))
            .any(|at| self.parts(at).is_ok_and(|parts| !parts.is_empty()));
        let others = others || (next..self.tokens.len()).any(|at| self.is(at, "and|then"));
        let last = self.tokens.len().saturating_sub(1);
        let tail = (next..=last).any(|at| self.tail(at).1 > last);
        let sentence = self.token(last).is_some_and(|token| {
            token.kind == Kind::Punctuation
                && self.token(last - 1).is_some_and(|it| it.end == token.start)
        });
        if others || tail || sentence {
            let text = format!(
                "It is not clear where the command in `{}` ends: put it in backticks.",
                super::shown(command)
            );
            return Err(Refusal(text));
        }
        Ok(Some(Task::Run { command: command.to_owned() }))
    }

    /// Says which part of a task no rule fits.
    fn refusal(&self, at: usize) -> Refusal {
        let at = self.courtesy(at);
        let ends = |at: usize| self.separator(at).is_some();
        let end = (at..self.tokens.len()).find(|at| ends(*at)).unwrap_or(self.tokens.len());
        let segment = self.tokens.get(at..end).unwrap_or_default();
        let (Some(first), Some(last)) = (segment.first(), segment.last()) else {
            let text = super::shown(self.text);
            return Refusal(match text.as_str() {
                "" => "The task is empty.".to_owned(),
                text => format!("No rule of mine fits `{text}`."),
            });
        };
        let text = super::shown(self.text.get(first.start..last.end).unwrap_or_default());
        let searches = self.is(at, SEARCH) || self.is(at, "search|look");
        let blank =
            segment.iter().any(|token| token.kind == Kind::Quoted && token.text.trim().is_empty());
        let why = if searches && (blank || segment.len() == 1 || self.ends_search(at + 1, end)) {
            format!("`{text}` names no text to look for.")
        } else if let (true, Some(word)) = (searches, self.category(at, end)) {
            format!(
                "`{text}` may mean more than the word `{word}`: to find that word, put it in quotes."
            )
        } else if searches {
            format!(
                "No rule of mine fits `{text}`. What is looked for is one word, or stands in \
                 quotes."
            )
        } else {
            format!("No rule of mine fits `{text}`.")
        };
        Refusal(why)
    }

    /// Returns a word that says what kind of thing is looked for.
    fn category(&self, at: usize, end: usize) -> Option<&'t str> {
        let at = (at..end).find(|at| self.is(*at, CATEGORIES))?;
        self.token(at).map(|token| token.text)
    }

    /// Whether nothing but determiners stands between two tokens.
    fn ends_search(&self, at: usize, end: usize) -> bool {
        self.skip(at, "all|the|any|every|each|for") >= end
    }
}

/// Reads `write PATH: TEXT`.
fn write(text: &str) -> Option<Task> {
    let found = super::WRITE.captures(text)?;
    let path = found.get(1)?.as_str().trim_matches(['`', '"', '\'']);
    let text = found.get(2)?.as_str().to_owned();
    is_path(path).then(|| Task::Write { path: path.to_owned(), text })
}

/// A path as the tools show it.
fn clean(path: &str) -> String {
    let path = path.trim();
    let bare = path.trim_end_matches('/');
    let bare = bare.strip_prefix("./").filter(|rest| !rest.is_empty()).unwrap_or(bare);
    if bare.is_empty() { "/".to_owned() } else { bare.to_owned() }
}
