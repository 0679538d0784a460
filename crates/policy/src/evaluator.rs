//! Follows the commands of a text as a shell would, without running anything.

use std::rc::Rc;

use crate::builtin::Builtin;
use crate::call_stack::CallStack;
use crate::command_class::{CommandClass, CommandContext, CommandVerdict};
use crate::field::{HOLE, base_name, is_known};
use crate::file_contents::FileContents;
use crate::findings::Findings;
use crate::invocation::{Input, Invocation, KnownOutput};
use crate::limits::{LOOP_ROUNDS_MAX, TEXT_BYTES_MAX};
use crate::nested_command::{Continuation, NestedCode, NestedCommand, NestedShell};
use crate::parse::{ParseFailure, parse, readable_parts};
use crate::rule::{TOO_LONG, UNKNOWN_CODE, UNREADABLE};
use crate::shell_state::ShellState;
use crate::syntax::{AssignedValue, Assignment, Command, Redirect, SimpleCommand, Word};
use crate::word_expansion::{ExpansionHost, expand_text, expand_words};
use crate::work_counter::WorkCounter;
use crate::{program, rules};

/// Judges a text.
pub(crate) fn judge(text: &str, context: &CommandContext) -> CommandVerdict {
    let mut evaluator = Evaluator {
        state: ShellState::new(context),
        files: FileContents::default(),
        calls: CallStack::default(),
        work: WorkCounter::default(),
        findings: Findings::default(),
    };
    if text.len() > TEXT_BYTES_MAX {
        evaluator.findings.dangerous(&TOO_LONG);
        return evaluator.findings.into_verdict();
    }
    evaluator.run_text(text, &Input::Nothing);
    evaluator.judge_uncalled();
    evaluator.findings.into_verdict()
}

/// Walks the tree of a text.
struct Evaluator {
    state: ShellState,
    files: FileContents,
    calls: CallStack,
    work: WorkCounter,
    findings: Findings,
}

impl Evaluator {
    fn stop(&mut self) {
        self.work.stop();
        self.findings.dangerous(&TOO_LONG);
    }

    /// Runs something one level deeper.
    fn deeper(&mut self, run: impl FnOnce(&mut Self) -> KnownOutput) -> KnownOutput {
        if !self.work.enter() {
            self.stop();
            return None;
        }
        let printed = run(self);
        self.work.leave();
        printed
    }

    /// Runs something in a shell of its own, whose changes are lost.
    fn in_subshell(&mut self, run: impl FnOnce(&mut Self) -> KnownOutput) -> KnownOutput {
        self.in_shell(NestedShell::Copy, run)
    }

    fn in_shell(
        &mut self,
        shell: NestedShell,
        run: impl FnOnce(&mut Self) -> KnownOutput,
    ) -> KnownOutput {
        let state = match shell {
            NestedShell::Present => return run(self),
            NestedShell::Copy => self.state.clone(),
            NestedShell::New(state) => state,
        };
        self.spend(16 * self.state.size());
        let before = std::mem::replace(&mut self.state, state);
        let printed = run(self);
        self.state = before;
        printed
    }

    /// Runs something that may not run at all.
    fn if_at_all(&mut self, run: impl FnOnce(&mut Self) -> KnownOutput) -> KnownOutput {
        self.calls.enter_branch();
        let printed = run(self);
        self.calls.leave_branch();
        printed
    }

    /// Runs something beside something else.
    fn in_parallel(&mut self, run: impl FnOnce(&mut Self) -> KnownOutput) -> KnownOutput {
        self.calls.enter_parallel();
        let printed = run(self);
        self.calls.leave_parallel();
        printed
    }

    fn run_text(&mut self, text: &str, input: &Input) -> KnownOutput {
        if !self.work.count_parsed(text.len()) {
            self.stop();
            return None;
        }
        match parse(text) {
            Ok(parsed) => {
                if !parsed.is_complete {
                    self.findings.dangerous(&UNREADABLE);
                    for part in readable_parts(text) {
                        let code = NestedCode::SuspectText(part.to_owned());
                        self.run_nested(NestedCommand::new(code).with_input(&Input::Unknown));
                    }
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
            Command::Either(first, second) => it.run_either(first, second, input),
            Command::Pipeline(stages) => it.in_parallel(|it| it.run_pipeline(stages, input)),
            Command::Background(body) => {
                it.in_parallel(|it| it.in_subshell(|it| it.run(body, input)))
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
                it.calls.define(name, body);
                Some(String::new())
            }
            Command::For { variable, words, body } => {
                it.run_for(variable, words.as_deref(), body, input)
            }
            Command::While { condition, body } => it.run_while(condition, body, input),
            Command::Branches { conditions, bodies } => it.run_branches(conditions, bodies, input),
            Command::Words(words) => {
                for word in words {
                    expand_text(it, word);
                }
                Some(String::new())
            }
        })
    }

    fn run_pipeline(&mut self, stages: &[Command], input: &Input) -> KnownOutput {
        let mut input = input.clone();
        let mut printed = None;
        for stage in stages {
            printed = self.in_subshell(|it| it.run(stage, &input));
            input = Input::from_output(&printed);
        }
        printed
    }

    /// Runs `a || b`: the second part may not run.
    fn run_either(&mut self, first: &Command, second: &Command, input: &Input) -> KnownOutput {
        let printed = self.run(first, input);
        self.spend(16 * self.state.size());
        let before = self.state.clone();
        let other = self.if_at_all(|it| it.run(second, input));
        self.state.merge(&before);
        match (printed, other) {
            (Some(text), Some(other)) if text.is_empty() => Some(other),
            (Some(text), Some(_)) => Some(text),
            _ => None,
        }
    }

    /// Runs `for`: a round for each word, as far as they are known.
    fn run_for(
        &mut self,
        variable: &str,
        words: Option<&[Word]>,
        body: &[Command],
        input: &Input,
    ) -> KnownOutput {
        let mut values = match words {
            Some(words) => expand_words(self, words),
            None => self.state.values("@", None),
        };
        if values.len() > LOOP_ROUNDS_MAX {
            values.truncate(LOOP_ROUNDS_MAX);
            values.push(HOLE.to_string());
        }
        let mut printed = Some(String::new());
        for value in values {
            self.state.assign(variable, vec![value]);
            let more = self.if_at_all(|it| it.run_all(body, input));
            printed = printed.zip(more).map(|(text, more)| text + &more);
        }
        printed
    }

    /// Runs `while`: once as it begins, once with all unknown that a round changes.
    fn run_while(&mut self, condition: &[Command], body: &[Command], input: &Input) -> KnownOutput {
        self.spend(32 * self.state.size());
        let before = self.state.clone();
        self.run_all(condition, input);
        rules::judge_loop(condition, body, &mut self.findings);
        self.if_at_all(|it| it.run_all(body, input));
        self.state.forget_changes(&before);
        self.if_at_all(|it| {
            it.run_all(condition, input);
            it.run_all(body, input)
        });
        self.state.forget_changes(&before);
        None
    }

    /// Runs each body from the same state; what they leave in different states is unknown.
    fn run_branches(
        &mut self,
        conditions: &[Vec<Command>],
        bodies: &[Vec<Command>],
        input: &Input,
    ) -> KnownOutput {
        for condition in conditions {
            self.run_all(condition, input);
        }
        let before = self.state.clone();
        let mut merged = before.clone();
        for body in bodies {
            self.spend(16 * self.state.size());
            self.state = before.clone();
            self.if_at_all(|it| it.run_all(body, input));
            merged.merge(&self.state);
        }
        self.state = merged;
        None
    }

    fn run_simple(&mut self, simple: &SimpleCommand, input: &Input) -> KnownOutput {
        if !self.work.count_command() {
            self.stop();
            return None;
        }
        let fields = expand_words(self, &simple.words);
        let redirected = self.redirect(&simple.redirects);
        let input = redirected.as_ref().unwrap_or(input);
        // What the assignments before a command hide while it runs.
        let hides: &[_] = if fields.is_empty() { &[] } else { &simple.assignments };
        let before = self.state.values_of(hides);
        for assignment in &simple.assignments {
            self.assign(assignment);
        }
        let targets = self.files.take_targets();
        let Some(first) = fields.first() else { return Some(String::new()) };
        let printed = self.dispatch(&fields, input);
        self.files.write(targets, base_name(first), &printed);
        self.feed_processes(&simple.redirects, &printed);
        for (name, values) in before {
            self.state.assign(&name, values);
        }
        let is_silent = simple.redirects.iter().any(|it| matches!(it, Redirect::Write(_)));
        if is_silent && printed.is_some() { Some(String::new()) } else { printed }
    }

    /// Runs the commands of `> >(…)` with what was printed.
    fn feed_processes(&mut self, redirects: &[Redirect], printed: &KnownOutput) {
        for body in redirects.iter().filter_map(Redirect::fed_process) {
            let input = Input::from_output(printed);
            self.in_subshell(|it| it.deeper(|it| it.run_all(body, &input)));
        }
    }

    fn assign(&mut self, assignment: &Assignment) {
        let Assignment { name, appends, value, .. } = assignment;
        match value {
            AssignedValue::One(word) => {
                let text = expand_text(self, word);
                rules::judge_variable(name, &text, &mut self.findings);
                self.run_pending();
                self.state.assign_text(assignment, text);
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
                Redirect::Text(word) => input = Some(Input::Text(expand_text(self, word).into())),
                Redirect::Read(word) => {
                    let path = expand_text(self, word);
                    input = Some(self.files.stream(&path).unwrap_or(Input::File));
                    rules::judge_read(&path, self.state.place(), &mut self.findings);
                }
                Redirect::Write(_) if redirect.fed_process().is_some() => {}
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
        rules::judge_write(&path, self.state.place(), &mut self.findings);
        self.files.add_target(path);
    }

    /// Judges a command whose words are expanded.
    fn dispatch(&mut self, fields: &[String], input: &Input) -> KnownOutput {
        self.deeper(|it| {
            let (first, arguments) = fields.split_first()?;
            if !it.calls.is_active_alias(first)
                && let Some(text) = it.state.alias_text(first, arguments)
            {
                it.calls.enter_alias(first);
                let printed = it.run_text(&text, input);
                it.calls.leave_alias();
                return printed;
            }
            let found = program::run_unknown(first, arguments, input, &mut it.findings);
            if let Some(continuation) = found {
                return it.run_continuation(continuation);
            }
            if let Some(body) = it.state.function(first) {
                return it.call(first, &body, arguments, input);
            }
            if first.contains('/')
                && let Some(script) = it.files.content(first)
            {
                let findings = &mut it.findings;
                let continuation = program::run_input(&script, arguments, &it.state, findings);
                return it.run_continuation(continuation);
            }
            it.run_program(base_name(first), arguments, input)
        })
    }

    fn run_program(&mut self, program: &str, arguments: &[String], input: &Input) -> KnownOutput {
        let (files, findings) = (&mut self.files, &mut self.findings);
        let state = &mut self.state;
        let found = Builtin { arguments, input, state, files, findings }.run(program);
        let continuation = found.unwrap_or_else(|| {
            let place = self.state.place();
            let invocation = Invocation { program, arguments, input, place };
            program::run(&invocation, &self.state, &mut self.files, &mut self.findings)
        });
        self.run_continuation(continuation)
    }

    fn run_continuation(&mut self, continuation: Continuation) -> KnownOutput {
        match continuation {
            Continuation::Output(printed) => {
                self.run_pending();
                printed
            }
            Continuation::Command(command) => self.run_nested(command),
        }
    }

    /// Runs the body of a function, unless it runs already.
    fn call(
        &mut self,
        name: &str,
        body: &Rc<Command>,
        arguments: &[String],
        input: &Input,
    ) -> KnownOutput {
        if !self.calls.enter(name, body, &mut self.findings) {
            return None;
        }
        let before = self.state.positional.replace(arguments.to_vec());
        let printed = self.run(body, input);
        self.state.positional = before;
        self.calls.leave();
        printed
    }

    /// Judges functions that nothing called: a later command may.
    fn judge_uncalled(&mut self) {
        while let Some((name, body)) = self.calls.take_uncalled() {
            self.calls.enter(&name, &body, &mut self.findings);
            self.in_subshell(|it| {
                it.state.positional = None;
                it.run(&body, &Input::Unknown)
            });
            self.calls.leave();
        }
    }

    /// Runs the commands that the rules found in another one.
    fn run_pending(&mut self) {
        for command in self.findings.take_nested() {
            self.run_nested(command);
        }
    }

    /// Runs a command that another one runs; in its shell, those that are still to be judged come first.
    fn run_nested(&mut self, command: NestedCommand) -> KnownOutput {
        let NestedCommand { code, input, shell } = command;
        self.in_shell(shell, |it| {
            it.run_pending();
            match code {
                NestedCode::Words(words) => it.dispatch(&words, &input),
                NestedCode::Text(text) => it.deeper(|it| it.run_text(&text, &input)),
                NestedCode::Code(text) => {
                    if !is_known(&text) {
                        it.findings.dangerous(&UNKNOWN_CODE);
                    }
                    it.deeper(|it| it.run_text(&text, &input))
                }
                NestedCode::SuspectWords(words) => it.suspect(|it| it.dispatch(&words, &input)),
                NestedCode::SuspectText(text) => {
                    it.suspect(|it| it.deeper(|it| it.run_text(&text, &input)))
                }
            }
        })
    }

    /// Runs something of which only what never runs counts.
    fn suspect(&mut self, run: impl FnOnce(&mut Self) -> KnownOutput) -> KnownOutput {
        let before = self.findings.take_gravest();
        run(self);
        if self.findings.class() != CommandClass::Hardline {
            self.findings.take_gravest();
        }
        self.findings.restore(before);
        None
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
        self.files.open_stream(printed)
    }

    fn spend(&mut self, bytes: usize) {
        if !self.work.count_expanded(bytes) {
            self.stop();
        }
    }
}
