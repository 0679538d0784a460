//! Commands of the shell itself.

use super::{Evaluator, KnownOutput, files};
use crate::decode::print_format;
use crate::field::{HOLE, is_known};
use crate::invocation::Input;
use crate::rule::{HISTORY, PIPE_TO_SHELL, UNKNOWN_CODE};
use crate::rules;

/// Runs a builtin; `None` if there is none of that name.
pub(super) fn run(
    it: &mut Evaluator,
    name: &str,
    arguments: &[String],
    input: &Input,
) -> Option<KnownOutput> {
    let nothing = Some(String::new());
    Some(match name {
        "true" | "false" | ":" | "wait" | "exit" | "return" | "break" | "continue" | "test"
        | "[" | "[[" | "}" | "{" | "shopt" | "ulimit" | "umask" | "hash" | "bg" | "fg" | "jobs"
        | "disown" | "let" | "fi" | "done" | "then" | "do" | "else" => nothing,
        "eval" => {
            let text = arguments.join(" ");
            run_code(it, &text, input)
        }
        "source" | "." => source(it, arguments, input),
        "export" | "declare" | "typeset" | "local" | "readonly" => {
            declare(it, arguments);
            nothing
        }
        "unset" => {
            unset(it, arguments);
            nothing
        }
        "set" => {
            set(it, arguments);
            nothing
        }
        "shift" => {
            shift(it, arguments);
            nothing
        }
        "cd" | "pushd" | "popd" => {
            change_directory(it, arguments);
            nothing
        }
        "alias" => {
            define_aliases(it, arguments);
            nothing
        }
        "unalias" => nothing,
        "trap" => {
            trap(it, arguments);
            nothing
        }
        "read" | "mapfile" | "readarray" => {
            read(it, name, arguments, input);
            nothing
        }
        "printf" if arguments.first().is_some_and(|it| it == "-v") => {
            if let [_, name, format, rest @ ..] = arguments {
                it.state.assign(name, vec![print_format(format, rest)]);
            }
            nothing
        }
        "history" if arguments.iter().any(|it| it.starts_with("-c") || it.starts_with("-d")) => {
            it.findings.dangerous(&HISTORY);
            nothing
        }
        _ => return None,
    })
}

fn unset(it: &mut Evaluator, arguments: &[String]) {
    for name in arguments.iter().filter(|it| !it.starts_with('-')) {
        it.state.unset(name);
    }
    if arguments.iter().any(|it| it == "HISTFILE") {
        it.findings.dangerous(&HISTORY);
    }
}

fn shift(it: &mut Evaluator, arguments: &[String]) {
    let count = arguments.first().map_or(Some(1), |it| it.parse::<usize>().ok());
    let positional = it.state.positional.take();
    it.state.positional = count.zip(positional).map(|(count, mut all)| {
        all.drain(..count.min(all.len()));
        all
    });
}

fn define_aliases(it: &mut Evaluator, arguments: &[String]) {
    for (name, text) in arguments.iter().filter_map(|it| it.split_once('=')) {
        it.state.define_alias(name, text);
        it.in_subshell(|it| it.deeper(|it| it.run_text(text, &Input::Nothing)));
    }
}

fn trap(it: &mut Evaluator, arguments: &[String]) {
    let code = arguments.iter().find(|it| !it.starts_with('-'));
    if let Some(code) = code.filter(|_| arguments.len() > 1) {
        it.in_subshell(|it| run_code(it, code, &Input::Nothing));
    }
}

/// Runs a text that a shell is given.
pub(super) fn run_code(it: &mut Evaluator, text: &str, input: &Input) -> KnownOutput {
    if !is_known(text) {
        it.findings.dangerous(&UNKNOWN_CODE);
    }
    it.deeper(|it| it.run_text(text, input))
}

fn source(it: &mut Evaluator, arguments: &[String], input: &Input) -> KnownOutput {
    let path = arguments.first()?;
    let text = match path.as_str() {
        "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0" => Some(input.clone()),
        path => it.stream(path).or_else(|| files::content(it, path)),
    };
    match text {
        Some(Input::Text(text)) => run_code(it, &text, &Input::Nothing),
        Some(_) => {
            it.findings.dangerous(&PIPE_TO_SHELL);
            None
        }
        None => {
            if path.starts_with(HOLE) && !path.contains('/') {
                it.findings.dangerous(&UNKNOWN_CODE);
            }
            None
        }
    }
}

fn declare(it: &mut Evaluator, arguments: &[String]) {
    for (name, value) in arguments.iter().filter_map(|it| it.split_once('=')) {
        it.state.assign(name.trim_end_matches('+'), vec![value.to_owned()]);
        let place = it.state_place();
        rules::judge_variable(name, value, place.as_place(), &mut it.findings);
        it.run_nested();
    }
}

fn set(it: &mut Evaluator, arguments: &[String]) {
    let from = arguments.iter().position(|it| it == "--");
    let plain = arguments.first().is_some_and(|it| !it.starts_with(['-', '+']));
    match from {
        Some(at) => it.state.positional = arguments.get(at + 1..).map(<[String]>::to_vec),
        None if plain => it.state.positional = Some(arguments.to_vec()),
        None => {}
    }
}

fn change_directory(it: &mut Evaluator, arguments: &[String]) {
    let target = arguments.iter().find(|it| *it == "-" || !it.starts_with('-'));
    let home = it.state.home.clone();
    match target.map(String::as_str) {
        None => it.state.change_directory(Some(&home)),
        Some("-") => it.state.change_directory(None),
        Some(path) => it.state.change_directory(Some(path)),
    }
}

/// Assigns what is read to the names.
fn read(it: &mut Evaluator, command: &str, arguments: &[String], input: &Input) {
    let mut names = Vec::new();
    let mut rest = arguments.iter();
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
    let Input::Text(text) = input else {
        for name in names {
            it.state.assign(&name, vec![HOLE.to_string()]);
        }
        return;
    };
    if command != "read" {
        let lines = text.lines().map(str::to_owned).collect();
        it.state.assign(names.first().map_or("MAPFILE", String::as_str), lines);
        return;
    }
    let separators = it.state.value("IFS").unwrap_or(" \t\n").to_owned();
    let line = text.lines().next().unwrap_or_default();
    let split = |c: char| separators.contains(c);
    if is_array {
        let parts = line.split(split).filter(|it| !it.is_empty()).map(str::to_owned).collect();
        it.state.assign(names.first().map_or("REPLY", String::as_str), parts);
        return;
    }
    let count = names.len();
    let mut parts = line.trim_matches(split).splitn(count, split);
    let several = text.trim_end_matches('\n').contains('\n');
    for name in names {
        let value = parts.next().unwrap_or_default();
        // Of several lines, a loop reads the next ones, too.
        let value = if several { HOLE.to_string() } else { value.to_owned() };
        it.state.assign(&name, vec![value]);
    }
}
