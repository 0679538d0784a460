//! Programs that run the command in their arguments.

mod lookup;
mod table;

use super::{Evaluator, KnownOutput, shells};
use crate::field::{HOLE, is_known};
use crate::invocation::{Input, Invocation};
use crate::rule::UNKNOWN_COMMAND;
use crate::rules;
use table::Style;

/// Runs what a wrapper runs; `None` if the program is no wrapper.
pub(super) fn run(
    it: &mut Evaluator,
    program: &str,
    arguments: &[String],
    input: &Input,
) -> Option<KnownOutput> {
    match program {
        "env" | "cross-env" => return Some(run_env(it, arguments, input)),
        "command" if arguments.first().is_some_and(|it| it == "-v" || it == "-V") => {
            return Some(arguments.get(1).map(|it| format!("{it}\n")));
        }
        "xargs" => return Some(run_xargs(it, arguments, input)),
        "find" | "fd" | "fdfind" => {
            run_find(it, program, arguments);
            return Some(None);
        }
        "parallel" => return Some(run_parallel(it, arguments, input)),
        "busybox" | "toybox" => return Some(it.dispatch(arguments, input)),
        _ => {}
    }
    let (wrapper, rest) = lookup::find(program, arguments)?;
    if let Some(rule) = wrapper.rule {
        it.findings.dangerous(rule);
    }
    judge_outer(it, program, arguments, input);
    let command = lookup::command(wrapper, rest);
    Some(match (&wrapper.style, command) {
        (_, None) => None,
        (Style::Words, Some(words)) => {
            if words.is_empty() {
                None
            } else {
                it.dispatch(&words, input)
            }
        }
        (Style::Joined, Some(words)) => run_joined(it, &words, input),
        (Style::Each | Style::OptionText(_), Some(words)) => {
            for text in &words {
                it.in_subshell(|it| shells::run_text(it, text, input));
            }
            None
        }
    })
}

/// Judges the program itself, by its own rules.
fn judge_outer(it: &mut Evaluator, program: &str, arguments: &[String], input: &Input) {
    let place = it.state_place();
    let invocation = Invocation { program, arguments, input, place: place.as_place() };
    rules::judge_program(&invocation, &mut it.findings);
    it.run_nested();
}

fn run_joined(it: &mut Evaluator, words: &[String], input: &Input) -> KnownOutput {
    match (words.is_empty(), input) {
        // `ssh host <<END`
        (true, Input::Text(text)) => it.in_subshell(|it| shells::run_text(it, text, input)),
        (true, _) => None,
        (false, _) => it.in_subshell(|it| shells::run_text(it, &words.join(" "), input)),
    }
}

fn run_env(it: &mut Evaluator, arguments: &[String], input: &Input) -> KnownOutput {
    let mut rest = arguments;
    let before = it.state.clone();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if let Some((name, value)) = first.split_once('=').filter(|_| !first.starts_with('-')) {
            let place = it.state_place();
            rules::judge_variable(name, value, place.as_place(), &mut it.findings);
            it.run_nested();
            it.state.assign(name, vec![value.to_owned()]);
            continue;
        }
        match first.as_str() {
            "-u" | "--unset" | "-C" | "--chdir" => rest = rest.get(1..).unwrap_or_default(),
            "-S" | "--split-string" => {
                let text = rest.join(" ");
                let printed = run_joined(it, &[text], input);
                it.state = before;
                return printed;
            }
            option if option.starts_with("-S") || option.starts_with("-vS") => {
                let text = option.split_once('S').map_or("", |it| it.1);
                let text = [&[text.to_owned()], rest].concat().join(" ");
                let printed = run_joined(it, &[text], input);
                it.state = before;
                return printed;
            }
            option if option.starts_with("--split-string=") => {
                let text = option.split_once('=').map_or("", |it| it.1);
                let text = [&[text.to_owned()], rest].concat().join(" ");
                return run_joined(it, &[text], input);
            }
            option if option.starts_with('-') => {}
            _ => {
                let fields = [std::slice::from_ref(first), rest].concat();
                let printed = it.dispatch(&fields, input);
                it.state = before;
                return printed;
            }
        }
    }
    None
}

/// Runs the command with the words of the input behind it, as far as they are known.
fn run_xargs(it: &mut Evaluator, arguments: &[String], input: &Input) -> KnownOutput {
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
        return it.dispatch(&command, &Input::Nothing);
    };
    for word in words.iter().take(crate::limits::LOOP_ROUNDS_MAX) {
        let fields: Vec<_> = command.iter().map(|it| it.replace(&place, word)).collect();
        it.in_subshell(|it| it.dispatch(&fields, &Input::Nothing));
    }
    None
}

fn run_parallel(it: &mut Evaluator, arguments: &[String], input: &Input) -> KnownOutput {
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
    for value in values.iter().take(crate::limits::LOOP_ROUNDS_MAX) {
        let text = words.join(" ");
        let text = match (text.is_empty(), text.contains("{}")) {
            (true, _) => value.clone(),
            (false, true) => text.replace("{}", value),
            (false, false) => format!("{text} {value}"),
        };
        if words.is_empty() && !is_known(&text) {
            it.findings.dangerous(&UNKNOWN_COMMAND);
        } else {
            it.in_subshell(|it| it.deeper(|it| it.run_text(&text, &Input::Nothing)));
        }
    }
    None
}

/// Runs the commands of `-exec` with an unknown file, and judges the deletion of all that is found.
fn run_find(it: &mut Evaluator, program: &str, arguments: &[String]) {
    judge_outer(it, program, arguments, &Input::Nothing);
    let mut rest = arguments;
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
        it.in_subshell(|it| it.dispatch(&fields, &Input::Nothing));
    }
}
