//! Programs that run the command in their arguments.

mod lookup;
mod table;

use crate::field::{HOLE, is_known};
use crate::findings::Findings;
use crate::invocation::{Input, Invocation};
use crate::limits::{LOOP_ROUNDS_MAX, VALUE_BYTES_MAX};
use crate::nested_command::{Continuation, NestedCode, NestedCommand, NestedShell};
use crate::rules;
use table::Style;

/// Runs what a wrapper runs; `None` if the program is no wrapper.
pub(super) fn run(invocation: &Invocation<'_>, findings: &mut Findings) -> Option<Continuation> {
    let Invocation { program, arguments, input, .. } = *invocation;
    match program {
        "command" if arguments.first().is_some_and(|it| it == "-v" || it == "-V") => {
            return Some(Continuation::Output(arguments.get(1).map(|it| format!("{it}\n"))));
        }
        "xargs" => return Some(run_xargs(arguments, input, findings)),
        "find" | "fd" | "fdfind" => {
            run_find(invocation, findings);
            return Some(Continuation::Output(None));
        }
        "parallel" => {
            run_parallel(arguments, input, findings);
            return Some(Continuation::Output(None));
        }
        "busybox" | "toybox" => return Some(run_words(arguments.to_vec(), input)),
        _ => {}
    }
    let (wrapper, rest) = lookup::find(program, arguments)?;
    if let Some(rule) = wrapper.rule {
        findings.dangerous(rule);
    }
    // The program itself has rules, too.
    rules::judge_program(invocation, findings);
    let words = lookup::command(wrapper, rest);
    Some(match wrapper.style {
        Style::Words => run_words(words, input),
        Style::Joined => run_joined(&words, input),
        Style::Each | Style::OptionText(_) => {
            for text in words {
                findings.runs(NestedCommand::new(NestedCode::Code(text)).with_input(input));
            }
            Continuation::Output(None)
        }
    })
}

fn run_words(words: Vec<String>, input: &Input) -> Continuation {
    let command = NestedCommand::new(NestedCode::Words(words)).with_input(input);
    Continuation::Command(command.in_shell(NestedShell::Present))
}

fn run_joined(words: &[String], input: &Input) -> Continuation {
    let text = match (words.is_empty(), input) {
        // `ssh host <<END`
        (true, Input::Text(text)) => text.to_string(),
        (true, _) => return Continuation::Output(None),
        (false, _) => words.join(" "),
    };
    Continuation::Command(NestedCommand::new(NestedCode::Code(text)).with_input(input))
}

/// Runs the command with the words of the input behind it, as far as they are known.
fn run_xargs(arguments: &[String], input: &Input, findings: &mut Findings) -> Continuation {
    let (options, mut command) = lookup::split_options(
        arguments,
        "adEILnPs",
        &["--arg-file", "--delimiter", "--max-args", "--max-procs", "--replace"],
    );
    let place = options.iter().enumerate().find_map(|(at, option)| {
        let value = option.strip_prefix("-I")?;
        if value.is_empty() { options.get(at + 1).cloned() } else { Some(value.to_owned()) }
    });
    let place = place.or_else(|| {
        let replaces = |it: &String| it == "-i" || it.starts_with("--replace");
        options.iter().any(replaces).then(|| "{}".to_owned())
    });
    if command.is_empty() {
        command.push("echo".to_owned());
    }
    let by_line = place.is_some() || options.iter().any(|it| it == "-0" || it == "--null");
    let unquoted = |it: &str| it.trim().trim_matches(['"', '\'']).to_owned();
    let words: Vec<String> = match input {
        Input::Text(text) if by_line => text.split(['\n', '\0']).map(unquoted).collect(),
        Input::Text(text) => text.split_whitespace().map(unquoted).collect(),
        _ => vec![HOLE.to_string()],
    };
    let words: Vec<String> = words.into_iter().filter(|it| !it.is_empty()).collect();
    let Some(place) = place else {
        command.extend(words);
        let command = NestedCommand::new(NestedCode::Words(command));
        return Continuation::Command(command.in_shell(NestedShell::Present));
    };
    let places = command.iter().map(|it| it.matches(&place).count()).sum();
    for word in words.iter().take(LOOP_ROUNDS_MAX) {
        let word = &repeatable(word, places);
        findings.runs_words(command.iter().map(|it| it.replace(&place, word)).collect());
    }
    Continuation::Output(None)
}

/// Returns a word that is put into so many places; unknown, if that makes a long text.
fn repeatable(word: &str, places: usize) -> String {
    if word.len().saturating_mul(places) > VALUE_BYTES_MAX {
        return HOLE.to_string();
    }
    word.to_owned()
}

fn run_parallel(arguments: &[String], input: &Input, findings: &mut Findings) {
    let (_, command) =
        lookup::split_options(arguments, "jNnaIS", &["--jobs", "--arg-file", "--joblog"]);
    let marks = [":::", "::::", ":::+"];
    let mark = command.iter().position(|it| marks.contains(&it.as_str())).unwrap_or(command.len());
    let (words, values) = command.split_at(mark);
    let values: Vec<String> = match (values.get(1..), input) {
        (Some(values), _) if command.get(mark).is_some_and(|it| it == ":::") => values.to_vec(),
        (_, Input::Text(text)) => text.lines().map(str::to_owned).collect(),
        _ => vec![HOLE.to_string()],
    };
    for value in values.iter().take(LOOP_ROUNDS_MAX) {
        let text = words.join(" ");
        let places = text.matches("{}").count();
        let text = match (text.is_empty(), places > 0) {
            (true, _) => value.clone(),
            (false, true) => text.replace("{}", &repeatable(value, places)),
            (false, false) => format!("{text} {value}"),
        };
        if words.is_empty() && !is_known(&text) {
            findings.runs_words(vec![HOLE.to_string()]);
        } else {
            findings.runs_text(text);
        }
    }
}

/// Runs the commands of `-exec` with an unknown file, and judges the deletion of all that is found.
fn run_find(invocation: &Invocation<'_>, findings: &mut Findings) {
    let program = invocation.program;
    rules::judge_program(&Invocation { input: &Input::Nothing, ..*invocation }, findings);
    let mut rest = invocation.arguments;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let runs = matches!(first.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir")
            || (program != "find"
                && matches!(first.as_str(), "-x" | "-X" | "--exec" | "--exec-batch"));
        if !runs {
            continue;
        }
        let end = rest.iter().position(|it| it == ";" || it == "+").unwrap_or(rest.len());
        let (command, after) = rest.split_at(end);
        rest = after;
        let mut fields: Vec<_> =
            command.iter().map(|it| it.replace("{}", &HOLE.to_string())).collect();
        if program != "find"
            && fields.len() == command.len()
            && !command.iter().any(|it| it.contains("{}"))
        {
            fields.push(HOLE.to_string());
        }
        findings.runs_words(fields);
    }
}
