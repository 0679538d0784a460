//! Interpreters of other languages, with their program as an argument, in a file, or on standard input.

use crate::field::base_name;
use crate::file_contents::FileContents;
use crate::findings::Findings;
use crate::invocation::{Input, Invocation};
use crate::nested_command::{Continuation, NestedCode, NestedCommand, NestedShell};
use crate::rule::PIPE_TO_SHELL;
use crate::rules;

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

/// Runs an interpreter; `None` if the program is none.
pub(super) fn run(
    invocation: &Invocation<'_>,
    files: &FileContents,
    findings: &mut Findings,
) -> Option<Continuation> {
    let Invocation { program, arguments, input, place } = *invocation;
    let name = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !INTERPRETERS.contains(&program) && !INTERPRETERS.contains(&name) {
        return None;
    }
    let inline = rules::inline_code(invocation);
    let mut codes: Vec<String> = inline.iter().map(|it| (*it).to_owned()).collect();
    if inline.is_empty() {
        match read_source(invocation, files) {
            Some(Input::Text(text)) => codes.push(text.to_string()),
            Some(Input::Unknown) => findings.dangerous(&PIPE_TO_SHELL),
            Some(Input::Nothing | Input::File) | None => {}
        }
    }
    let module = arguments.iter().position(|it| it == "-m").filter(|_| program.starts_with("py"));
    if let Some(at) = module {
        let words = arguments.get(at + 1..).unwrap_or_default().to_vec();
        let command = NestedCommand::new(NestedCode::Words(words)).with_input(input);
        findings.runs(command.in_shell(NestedShell::Present));
    } else if let Some(at) = arguments.iter().position(|it| !it.starts_with('-')) {
        let (script, rest) = arguments.split_at(at + 1);
        let program = script.last().map(|it| base_name(it)).unwrap_or_default();
        if inline.is_empty() {
            let script = Invocation { program, arguments: rest, input, place };
            rules::judge_script(&script, findings);
        }
    }
    for code in codes {
        rules::judge_code(program, &code, place, findings);
    }
    rules::judge_program(invocation, findings);
    Some(Continuation::Output(None))
}

/// Returns the program that an interpreter is not given in its arguments.
fn read_source(invocation: &Invocation<'_>, files: &FileContents) -> Option<Input> {
    let valued = ["-W", "-X", "-I", "-r", "--require", "--loader", "-m"];
    let is_module = invocation.program.starts_with("py") && invocation.has_word(&["-m"]);
    let is_question = invocation.has_word(&["--version", "-V", "-v", "--help", "-h"]);
    match invocation.operands_beside(&valued).first() {
        Some(&("-" | "/dev/stdin" | "/dev/fd/0")) => Some(invocation.input.clone()),
        Some(script) => files.read(script),
        None if is_module || is_question => None,
        None => Some(invocation.input.clone()),
    }
}
