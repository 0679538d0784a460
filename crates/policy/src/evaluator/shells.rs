//! Shells and interpreters, with their program as an argument, in a file, or on standard input.

use super::{Evaluator, KnownOutput, builtins, files};
use crate::field::{HOLE, base_name};
use crate::invocation::{Input, Invocation};
use crate::rule::{PIPE_TO_SHELL, UNKNOWN_COMMAND};
use crate::rules;

const SHELLS: [&str; 14] = [
    "sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish", "csh", "tcsh", "rbash", "ksh93",
    "yash", "hush",
];
const INTERPRETERS: [&str; 18] = [
    "python",
    "python2",
    "python3",
    "pypy",
    "pypy3",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "php",
    "lua",
    "luajit",
    "deno",
    "bun",
    "Rscript",
    "tclsh",
    "julia",
    "osascript",
];

/// Runs a shell or an interpreter; `None` if the program is neither.
pub(super) fn run(
    it: &mut Evaluator,
    program: &str,
    arguments: &[String],
    input: &Input,
) -> Option<KnownOutput> {
    if SHELLS.contains(&program) {
        return Some(run_shell(it, arguments, input));
    }
    let name = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if INTERPRETERS.contains(&program) || (name != program && INTERPRETERS.contains(&name)) {
        run_interpreter(it, program, arguments, input);
        return Some(None);
    }
    None
}

/// Runs a text as a shell does, of which a part may be unknown.
pub(super) fn run_text(it: &mut Evaluator, text: &str, input: &Input) -> KnownOutput {
    builtins::run_code(it, text, input)
}

fn run_shell(it: &mut Evaluator, arguments: &[String], input: &Input) -> KnownOutput {
    let mut rest = arguments;
    let (mut is_text, mut reads_input) = (false, false);
    while let Some((first, behind)) = rest.split_first() {
        let is_option = first.len() > 1 && first.starts_with(['-', '+']);
        if !is_option {
            break;
        }
        rest = behind;
        if first == "--" {
            break;
        }
        if matches!(first.as_str(), "--rcfile" | "--init-file") {
            rest = rest.get(1..).unwrap_or_default();
            continue;
        }
        let is_cluster = !first.starts_with("--");
        is_text |= (is_cluster && first.contains('c')) || first.starts_with("--command");
        reads_input |= is_cluster && first.starts_with('-') && first.contains('s');
        if is_cluster && first.ends_with(['o', 'O']) {
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    match rest.split_first() {
        Some((text, positional)) if is_text => {
            let name = positional.first().cloned();
            let positional = positional.get(1..).unwrap_or_default().to_vec();
            it.in_subshell(|it| {
                it.state.name = name.unwrap_or_else(|| "bash".to_owned());
                it.state.positional = Some(positional);
                run_text(it, text, input)
            })
        }
        Some(_) if reads_input => run_input(it, rest, input),
        Some((script, positional)) => run_script(it, script, positional, input),
        None => run_input(it, &[], input),
    }
}

fn run_script(
    it: &mut Evaluator,
    script: &str,
    positional: &[String],
    input: &Input,
) -> KnownOutput {
    if matches!(script, "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0") {
        return run_input(it, positional, input);
    }
    if let Some(input) = it.stream(script).or_else(|| files::content(it, script)) {
        return run_input(it, positional, &input);
    }
    if script.starts_with(HOLE) && !script.contains('/') {
        it.findings.dangerous(&UNKNOWN_COMMAND);
    }
    None
}

/// Runs the text on standard input.
pub(super) fn run_input(it: &mut Evaluator, positional: &[String], input: &Input) -> KnownOutput {
    match input {
        Input::Text(text) => {
            let positional = positional.to_vec();
            it.in_subshell(|it| {
                it.state.positional = Some(positional);
                run_text(it, text, &Input::Nothing)
            })
        }
        Input::Unknown => {
            it.findings.dangerous(&PIPE_TO_SHELL);
            None
        }
        Input::File | Input::Nothing => None,
    }
}

fn run_interpreter(it: &mut Evaluator, program: &str, arguments: &[String], input: &Input) {
    let place = it.state_place();
    let place = place.as_place();
    let invocation = Invocation { program, arguments, input, place };
    let inline = rules::inline_code(&invocation);
    let mut codes: Vec<String> = inline.iter().map(|it| (*it).to_owned()).collect();
    if inline.is_empty() {
        let operands =
            invocation.operands_beside(&["-W", "-X", "-I", "-r", "--require", "--loader", "-m"]);
        let is_module = program.starts_with("py") && invocation.has_word(&["-m"]);
        let is_question = invocation.has_word(&["--version", "-V", "-v", "--help", "-h"]);
        let source = match operands.first() {
            Some(&("-" | "/dev/stdin" | "/dev/fd/0")) => Some(input.clone()),
            Some(script) => it.stream(script).or_else(|| files::content(it, script)),
            None if is_module || is_question => None,
            None => Some(input.clone()),
        };
        match source {
            Some(Input::Text(text)) => codes.push(text),
            Some(Input::Unknown) => it.findings.dangerous(&PIPE_TO_SHELL),
            Some(Input::Nothing | Input::File) | None => {}
        }
    }
    if let Some(at) =
        arguments.iter().position(|it| it == "-m").filter(|_| program.starts_with("py"))
    {
        it.dispatch(arguments.get(at + 1..).unwrap_or_default(), input);
    } else if let Some(at) = arguments.iter().position(|it| !it.starts_with('-')) {
        let (script, rest) = arguments.split_at(at + 1);
        let program = script.last().map(|it| base_name(it)).unwrap_or_default();
        let invocation = Invocation { program, arguments: rest, input, place };
        if inline.is_empty() {
            rules::judge_script(&invocation, &mut it.findings);
        }
    }
    for code in codes {
        rules::judge_code(program, &code, place, &mut it.findings);
    }
    rules::judge_program(&invocation, &mut it.findings);
    it.run_nested();
}
