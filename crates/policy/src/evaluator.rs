//! Follows the commands of a text as a shell would, without running anything.

mod builtins;
mod calls;
mod files;
mod loops;
mod printed;
mod shells;
mod unknown;
mod wrappers;

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::command_class::{CommandClass, CommandContext, CommandVerdict};
use crate::field::{HOLE, STREAM, base_name, has_glob, is_known};
use crate::findings::{Findings, NestedCommand};
use crate::invocation::{Input, Invocation};
use crate::limits::{
    COMMANDS_MAX, DEPTH_MAX, EXPANDED_BYTES_MAX, PARSED_BYTES_MAX, TEXT_BYTES_MAX,
};
use crate::parse::{self, ParseFailure, parse};
use crate::paths::Place;
use crate::rule::{TOO_LONG, UNREADABLE};
use crate::rules;
use crate::shell_state::ShellState;
use crate::syntax::{AssignedValue, Assignment, Command, Piece, Redirect, SimpleCommand, Word};
use crate::word_expansion::{ExpansionHost, expand_text, expand_words};

/// What a command prints, if that is known.
type KnownOutput = Option<String>;

/// Judges a text.
pub(crate) fn judge(text: &str, context: &CommandContext) -> CommandVerdict {
    let mut evaluator = Evaluator::new(context);
    if text.len() > TEXT_BYTES_MAX {
        evaluator.findings.dangerous(&TOO_LONG);
        return evaluator.findings.into_verdict();
    }
    evaluator.run_text(text, &Input::Nothing);
    calls::judge_uncalled(&mut evaluator);
    evaluator.findings.into_verdict()
}

pub(super) struct Evaluator {
    state: ShellState,
    findings: Findings,
    commands: usize,
    expanded: usize,
    parsed: usize,
    depth: usize,
    /// How many pipelines and background commands are open, and how many branches.
    parallel: usize,
    conditional: usize,
    calls: Vec<calls::ActiveCall>,
    uncalled: BTreeMap<String, Rc<Command>>,
    streams: Vec<KnownOutput>,
    /// Files that the text wrote, and what is in them; `None` for what was fetched.
    files: BTreeMap<String, KnownOutput>,
    /// The files that the present command writes to.
    written: Vec<String>,
    active_aliases: Vec<String>,
    is_over: bool,
}

impl Evaluator {
    fn new(context: &CommandContext) -> Self {
        Self {
            state: ShellState::new(context),
            findings: Findings::default(),
            commands: 0,
            expanded: 0,
            parsed: 0,
            depth: 0,
            parallel: 0,
            conditional: 0,
            calls: Vec::new(),
            uncalled: BTreeMap::new(),
            streams: Vec::new(),
            files: BTreeMap::new(),
            written: Vec::new(),
            active_aliases: Vec::new(),
            is_over: false,
        }
    }

    fn stop(&mut self) {
        self.is_over = true;
        self.findings.dangerous(&TOO_LONG);
    }

    /// Runs something one level deeper.
    fn deeper(&mut self, run: impl FnOnce(&mut Self) -> KnownOutput) -> KnownOutput {
        if self.is_over || self.depth >= DEPTH_MAX {
            self.stop();
            return None;
        }
        self.depth += 1;
        let printed = run(self);
        self.depth -= 1;
        printed
    }

    /// Runs something in a shell of its own, whose changes are lost.
    fn in_subshell(&mut self, run: impl FnOnce(&mut Self) -> KnownOutput) -> KnownOutput {
        self.spend(16 * self.state.size());
        let before = self.state.clone();
        let printed = run(self);
        self.state = before;
        printed
    }

    /// Runs something that may not run at all.
    fn if_at_all(&mut self, run: impl FnOnce(&mut Self) -> KnownOutput) -> KnownOutput {
        self.conditional += 1;
        let printed = run(self);
        self.conditional -= 1;
        printed
    }

    fn run_text(&mut self, text: &str, input: &Input) -> KnownOutput {
        self.parsed += text.len();
        if self.parsed > PARSED_BYTES_MAX || self.is_over {
            self.stop();
            return None;
        }
        match parse(text) {
            Ok(parsed) => {
                if !parsed.is_complete {
                    self.findings.dangerous(&UNREADABLE);
                    self.suspect_parts(text);
                }
                self.run_all(&parsed.commands, input)
            }
            Err(ParseFailure::TooLong) => {
                self.stop();
                None
            }
            Err(ParseFailure::Unreadable) => {
                self.findings.dangerous(&UNREADABLE);
                None
            }
        }
    }

    /// Looks at the parts of a text that cannot be read as a whole.
    fn suspect_parts(&mut self, text: &str) {
        let parts = parse::split_at_operators(text);
        for part in parts.iter().filter(|it| it.len() < text.len()).take(64) {
            if parse(part).is_ok_and(|it| it.is_complete) {
                self.suspect(|it| it.deeper(|it| it.run_text(part, &Input::Unknown)));
            }
        }
    }

    fn run_all(&mut self, commands: &[Command], input: &Input) -> KnownOutput {
        let mut printed = Some(String::new());
        for command in commands {
            let more = self.run(command, input);
            if let (Some(text), Some(more)) = (&mut printed, &more) {
                text.push_str(more);
            } else {
                printed = None;
            }
        }
        printed
    }

    fn run(&mut self, command: &Command, input: &Input) -> KnownOutput {
        self.deeper(|it| match command {
            Command::Simple(simple) => it.run_simple(simple, input),
            Command::Sequence(all) => it.run_all(all, input),
            Command::Either(first, second) => loops::run_either(it, first, second, input),
            Command::Pipeline(stages) => it.run_pipeline(stages, input),
            Command::Background(body) => {
                it.parallel += 1;
                let printed = it.in_subshell(|it| it.run(body, input));
                it.parallel -= 1;
                printed
            }
            Command::Group { body, is_subshell: true } => {
                it.in_subshell(|it| it.run_all(body, input))
            }
            Command::Group { body, .. } => it.run_all(body, input),
            Command::Redirected { body, redirects } => {
                let redirected = it.redirect(redirects);
                it.run(body, redirected.as_ref().unwrap_or(input))
            }
            Command::Function { name, body } => {
                it.state.define_function(name, Rc::clone(body));
                it.uncalled.insert(name.clone(), Rc::clone(body));
                Some(String::new())
            }
            Command::For { variable, words, body } => {
                loops::run_for(it, variable, words.as_deref(), body, input)
            }
            Command::While { condition, body } => loops::run_while(it, condition, body, input),
            Command::Branches { conditions, bodies } => {
                loops::run_branches(it, conditions, bodies, input)
            }
            Command::Case { subject, bodies } => {
                expand_text(it, subject);
                loops::run_branches(it, &[], bodies, input)
            }
            Command::Words(words) => {
                for word in words {
                    expand_text(it, word);
                }
                Some(String::new())
            }
        })
    }

    fn run_pipeline(&mut self, stages: &[Command], input: &Input) -> KnownOutput {
        self.parallel += 1;
        let mut input = input.clone();
        let mut printed = None;
        for stage in stages {
            printed = self.in_subshell(|it| it.run(stage, &input));
            input = match &printed {
                Some(text) => Input::Text(text.clone()),
                None => Input::Unknown,
            };
        }
        self.parallel -= 1;
        printed
    }

    fn run_simple(&mut self, simple: &SimpleCommand, input: &Input) -> KnownOutput {
        self.commands += 1;
        if self.commands > COMMANDS_MAX {
            self.stop();
            return None;
        }
        let fields = expand_words(self, &simple.words);
        let redirected = self.redirect(&simple.redirects);
        let input = redirected.as_ref().unwrap_or(input);
        let before = self.values_before(if fields.is_empty() { &[] } else { &simple.assignments });
        for assignment in &simple.assignments {
            self.assign(assignment);
        }
        let writes = |it: &Redirect| matches!(it, Redirect::Write(_));
        let is_silent = simple.redirects.iter().any(writes);
        if fields.is_empty() {
            self.written.clear();
            return Some(String::new());
        }
        let written = std::mem::take(&mut self.written);
        let printed = self.dispatch(&fields, input);
        self.written = written;
        files::write(self, &fields, &printed);
        self.feed_processes(&simple.redirects, &printed);
        for (name, values) in before {
            self.state.assign(&name, values);
        }
        if is_silent && printed.is_some() { Some(String::new()) } else { printed }
    }

    /// Returns the values that the assignments before a command hide while it runs.
    fn values_before(&self, assignments: &[Assignment]) -> Vec<(String, Vec<String>)> {
        let value = |it: &Assignment| (it.name.clone(), self.state.values(&it.name, Some("@")));
        assignments.iter().map(value).collect()
    }

    /// Runs the commands of `> >(…)` with what was printed.
    fn feed_processes(&mut self, redirects: &[Redirect], printed: &KnownOutput) {
        for body in redirects.iter().filter_map(fed_process) {
            let input = printed.clone().map_or(Input::Unknown, Input::Text);
            self.in_subshell(|it| it.deeper(|it| it.run_all(body, &input)));
        }
    }

    fn assign(&mut self, assignment: &Assignment) {
        let Assignment { name, index, appends, value } = assignment;
        match value {
            AssignedValue::One(word) => {
                let text = expand_text(self, word);
                let place = Place { home: &self.state.home, directory: None };
                rules::judge_variable(name, &text, place, &mut self.findings);
                self.run_nested();
                match (index, *appends) {
                    (Some(index), _) => self.state.assign_at(name, index, text),
                    (None, true) => self.state.append(name, vec![text], false),
                    (None, false) => self.state.assign(name, vec![text]),
                }
            }
            AssignedValue::Array(words) => {
                let fields = expand_words(self, words);
                if *appends {
                    self.state.append(name, fields, true);
                } else {
                    self.state.assign(name, fields);
                }
            }
        }
    }

    /// Judges redirects; returns what they put on standard input.
    fn redirect(&mut self, redirects: &[Redirect]) -> Option<Input> {
        let mut input = None;
        for redirect in redirects {
            match redirect {
                Redirect::Text(word) => input = Some(Input::Text(expand_text(self, word))),
                Redirect::Read(word) => {
                    let path = expand_text(self, word);
                    input = Some(self.stream(&path).unwrap_or(Input::File));
                    let place = self.state_place();
                    rules::judge_read(&path, place.as_place(), &mut self.findings);
                }
                Redirect::Write(_) if fed_process(redirect).is_some() => {}
                Redirect::Write(word) => self.redirect_write(word),
                Redirect::Duplicate(word) => {
                    let target = expand_text(self, word);
                    if !target.chars().all(|it| it.is_ascii_digit() || matches!(it, '-' | HOLE)) {
                        self.redirect_write(word);
                    }
                }
            }
        }
        input
    }

    fn redirect_write(&mut self, word: &Word) {
        let path = expand_text(self, word);
        let place = self.state_place();
        rules::judge_write(&path, place.as_place(), &mut self.findings);
        self.written.push(path);
    }

    /// Returns the text that a name of a process substitution stands for.
    fn stream(&self, path: &str) -> Option<Input> {
        let number = path.strip_prefix("/dev/fd/")?.strip_prefix(STREAM)?;
        let printed = number.parse::<usize>().ok().and_then(|it| self.streams.get(it));
        Some(printed.cloned().flatten().map_or(Input::Unknown, Input::Text))
    }

    fn state_place(&self) -> OwnedPlace {
        OwnedPlace { home: self.state.home.clone(), directory: self.state.directory.clone() }
    }

    /// Judges a command whose words are expanded.
    fn dispatch(&mut self, fields: &[String], input: &Input) -> KnownOutput {
        self.deeper(|it| {
            let (first, arguments) = fields.split_first()?;
            if let Some(text) = it.alias_text(first, arguments) {
                it.active_aliases.push(first.clone());
                let printed = it.run_text(&text, input);
                it.active_aliases.pop();
                return printed;
            }
            let program = base_name(first);
            if first.contains(HOLE) && (program.is_empty() || !is_known(program)) {
                return unknown::dispatch_unknown(it, first, arguments, input);
            }
            // A pattern below the working directory finds files of the project.
            let is_pattern = first.starts_with('/') || !first.contains('/');
            if is_pattern && has_glob(program) && !matches!(program, "[" | "[[") {
                return unknown::dispatch_pattern(it, first, arguments, input);
            }
            if let Some(body) = it.state.function(first) {
                return calls::call(it, first, &body, arguments, input);
            }
            if first.contains('/')
                && let Some(script) = files::content(it, first)
            {
                return shells::run_input(it, arguments, &script);
            }
            it.run_program(program, arguments, input)
        })
    }

    fn run_program(&mut self, program: &str, arguments: &[String], input: &Input) -> KnownOutput {
        if let Some(printed) = builtins::run(self, program, arguments, input) {
            return printed;
        }
        if let Some(printed) = wrappers::run(self, program, arguments, input) {
            return printed;
        }
        if let Some(printed) = shells::run(self, program, arguments, input) {
            return printed;
        }
        let place = self.state_place();
        let place = place.as_place();
        let invocation = Invocation { program, arguments, input, place };
        rules::judge_program(&invocation, &mut self.findings);
        files::fetch(self, program, arguments);
        self.run_nested();
        printed::of(program, arguments, input, self.state.directory.as_deref())
    }

    /// Runs something of which only what never runs counts.
    fn suspect(&mut self, run: impl FnOnce(&mut Self) -> KnownOutput) {
        let before = self.findings.take_gravest();
        self.in_subshell(run);
        if self.findings.class() != CommandClass::Hardline {
            self.findings.take_gravest();
        }
        self.findings.restore(before);
    }

    fn run_nested(&mut self) {
        for nested in std::mem::take(&mut self.findings.nested) {
            match nested {
                NestedCommand::Text(text) => {
                    self.in_subshell(|it| it.deeper(|it| it.run_text(&text, &Input::Nothing)));
                }
                NestedCommand::Words(words) => {
                    self.in_subshell(|it| it.dispatch(&words, &Input::Nothing));
                }
                NestedCommand::Suspect(text) => {
                    self.suspect(|it| it.deeper(|it| it.run_text(&text, &Input::Nothing)));
                }
            }
        }
    }

    fn alias_text(&self, name: &str, arguments: &[String]) -> Option<String> {
        if self.active_aliases.iter().any(|it| it == name) {
            return None;
        }
        let text = self.state.alias(name)?;
        let quoted = arguments.iter().map(|it| format!(" '{}'", it.replace('\'', r"'\''")));
        Some(text.to_owned() + &quoted.collect::<String>())
    }
}

impl ExpansionHost for Evaluator {
    fn state(&mut self) -> &mut ShellState {
        &mut self.state
    }

    fn output(&mut self, body: &Rc<Vec<Command>>) -> KnownOutput {
        self.in_subshell(|it| it.deeper(|it| it.run_all(body, &Input::Nothing)))
    }

    fn open_stream(&mut self, body: &Rc<Vec<Command>>, reads: bool) -> String {
        let input = if reads { Input::Nothing } else { Input::Unknown };
        let printed = self.in_subshell(|it| it.deeper(|it| it.run_all(body, &input)));
        self.streams.push(printed);
        format!("/dev/fd/{STREAM}{}", self.streams.len() - 1)
    }

    fn spend(&mut self, bytes: usize) {
        self.expanded += bytes;
        if self.expanded > EXPANDED_BYTES_MAX {
            self.stop();
        }
    }
}

/// Returns the commands of `> >(…)`.
fn fed_process(redirect: &Redirect) -> Option<&[Command]> {
    match redirect {
        Redirect::Write(word) => match word.pieces.as_slice() {
            [Piece::Process { body, reads: false }] => Some(body),
            _ => None,
        },
        _ => None,
    }
}

/// A place that borrows nothing of the evaluator.
struct OwnedPlace {
    home: String,
    directory: Option<String>,
}

impl OwnedPlace {
    fn as_place(&self) -> Place<'_> {
        Place { home: &self.home, directory: self.directory.as_deref() }
    }
}
