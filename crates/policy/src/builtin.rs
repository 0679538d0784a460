//! Commands of the shell itself.

use crate::decode::print_format;
use crate::field::HOLE;
use crate::file_contents::FileContents;
use crate::findings::Findings;
use crate::invocation::Input;
use crate::nested_command::{Continuation, NestedCode, NestedCommand, NestedShell};
use crate::rule::{HISTORY, PIPE_TO_SHELL, UNKNOWN_CODE};
use crate::rules;
use crate::shell_state::ShellState;

/// A command of the shell itself, with what it may change.
pub(crate) struct Builtin<'a> {
    pub(crate) arguments: &'a [String],
    pub(crate) input: &'a Input,
    pub(crate) state: &'a mut ShellState,
    pub(crate) files: &'a FileContents,
    pub(crate) findings: &'a mut Findings,
}

impl Builtin<'_> {
    /// Runs the builtin; `None` if there is none of that name.
    pub(crate) fn run(&mut self, name: &str) -> Option<Continuation> {
        match name {
            "true" | "false" | ":" | "wait" | "exit" | "return" | "break" | "continue" | "test"
            | "[" | "[[" | "}" | "{" | "shopt" | "ulimit" | "umask" | "hash" | "bg" | "fg"
            | "jobs" | "disown" | "let" | "fi" | "done" | "then" | "do" | "else" | "unalias" => {}
            "eval" => return Some(run_code(self.arguments.join(" "), self.input)),
            "source" | "." => return Some(self.source()),
            "export" | "declare" | "typeset" | "local" | "readonly" => self.declare(),
            "unset" => self.unset(),
            "set" => self.set(),
            "shift" => self.shift(),
            "cd" | "pushd" | "popd" => self.change_directory(),
            "alias" => self.define_aliases(),
            "trap" => self.trap(),
            "read" | "mapfile" | "readarray" => self.read(name),
            "printf" if self.arguments.first().is_some_and(|it| it == "-v") => {
                if let [_, name, format, rest @ ..] = self.arguments {
                    self.state.assign(name, vec![print_format(format, rest)]);
                }
            }
            "history"
                if self.arguments.iter().any(|it| it.starts_with("-c") || it.starts_with("-d")) =>
            {
                self.findings.dangerous(&HISTORY);
            }
            _ => return None,
        }
        Some(Continuation::Output(Some(String::new())))
    }

    fn unset(&mut self) {
        for name in self.arguments.iter().filter(|it| !it.starts_with('-')) {
            self.state.unset(name);
        }
        if self.arguments.iter().any(|it| it == "HISTFILE") {
            self.findings.dangerous(&HISTORY);
        }
    }

    fn shift(&mut self) {
        let count = self.arguments.first().map_or(Some(1), |it| it.parse::<usize>().ok());
        let positional = self.state.positional.take();
        self.state.positional = count.zip(positional).map(|(count, mut all)| {
            all.drain(..count.min(all.len()));
            all
        });
    }

    fn define_aliases(&mut self) {
        for (name, text) in self.arguments.iter().filter_map(|it| it.split_once('=')) {
            self.state.define_alias(name, text);
            self.findings.runs_text(text);
        }
    }

    fn trap(&mut self) {
        let code = self.arguments.iter().find(|it| !it.starts_with('-'));
        if let Some(code) = code.filter(|_| self.arguments.len() > 1) {
            self.findings.runs(NestedCommand::new(NestedCode::Code(code.clone())));
        }
    }

    fn source(&mut self) -> Continuation {
        let Some(path) = self.arguments.first() else { return Continuation::Output(None) };
        let text = match path.as_str() {
            "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0" => Some(self.input.clone()),
            path => self.files.read(path),
        };
        match text {
            Some(Input::Text(text)) => return run_code(text.to_string(), &Input::Nothing),
            Some(_) => self.findings.dangerous(&PIPE_TO_SHELL),
            None if path.starts_with(HOLE) && !path.contains('/') => {
                self.findings.dangerous(&UNKNOWN_CODE);
            }
            None => {}
        }
        Continuation::Output(None)
    }

    fn declare(&mut self) {
        for (name, value) in self.arguments.iter().filter_map(|it| it.split_once('=')) {
            self.state.assign(name.trim_end_matches('+'), vec![value.to_owned()]);
            rules::judge_variable(name, value, self.findings);
        }
    }

    fn set(&mut self) {
        let from = self.arguments.iter().position(|it| it == "--");
        let plain = self.arguments.first().is_some_and(|it| !it.starts_with(['-', '+']));
        match from {
            Some(at) => {
                self.state.positional = self.arguments.get(at + 1..).map(<[String]>::to_vec);
            }
            None if plain => self.state.positional = Some(self.arguments.to_vec()),
            None => {}
        }
    }

    fn change_directory(&mut self) {
        let target = self.arguments.iter().find(|it| *it == "-" || !it.starts_with('-'));
        let home = self.state.home.clone();
        match target.map(String::as_str) {
            None => self.state.change_directory(Some(&home)),
            Some("-") => self.state.change_directory(None),
            Some(path) => self.state.change_directory(Some(path)),
        }
    }

    /// Assigns what is read to the names.
    fn read(&mut self, command: &str) {
        let mut names = Vec::new();
        let mut rest = self.arguments.iter();
        let mut is_array = command != "read";
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "-a" => is_array = true,
                "-t" if command != "read" => {}
                "-p" | "-d" | "-n" | "-N" | "-t" | "-u" | "-i" | "-c" | "-s" | "-O" => {
                    rest.next();
                }
                option if option.starts_with('-') => is_array |= option.ends_with('a'),
                name => names.push(name.to_owned()),
            }
        }
        if names.is_empty() {
            names.push(if is_array { "MAPFILE".into() } else { "REPLY".into() });
        }
        let Input::Text(text) = self.input else {
            for name in names {
                self.state.assign(&name, vec![HOLE.to_string()]);
            }
            return;
        };
        if command != "read" {
            let lines = text.lines().map(str::to_owned).collect();
            self.state.assign(names.first().map_or("MAPFILE", String::as_str), lines);
            return;
        }
        let separators = self.state.value("IFS").unwrap_or(" \t\n").to_owned();
        let line = text.lines().next().unwrap_or_default();
        let split = |c: char| separators.contains(c);
        if is_array {
            let parts = line.split(split).filter(|it| !it.is_empty()).map(str::to_owned).collect();
            self.state.assign(names.first().map_or("REPLY", String::as_str), parts);
            return;
        }
        let count = names.len();
        let mut parts = line.trim_matches(split).splitn(count, split);
        let several = text.trim_end_matches('\n').contains('\n');
        for name in names {
            let value = parts.next().unwrap_or_default();
            // Of several lines, a loop reads the next ones, too.
            let value = if several { HOLE.to_string() } else { value.to_owned() };
            self.state.assign(&name, vec![value]);
        }
    }
}

/// Runs a text in the present shell.
fn run_code(text: String, input: &Input) -> Continuation {
    let command = NestedCommand::new(NestedCode::Code(text)).with_input(input);
    Continuation::Command(command.in_shell(NestedShell::Present))
}
