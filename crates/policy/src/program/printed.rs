//! What programs print, where that follows from their arguments and input alone.

use crate::decode::{from_base64, from_hex, print_format, translate, unescape_ansi_c, without};
use crate::field::{HOLE, base_name};
use crate::invocation::{Input, Invocation, KnownOutput};
use crate::limits::VALUE_BYTES_MAX;

/// Returns what a program prints; `None` if that is unknown.
pub(super) fn output_of(invocation: &Invocation<'_>) -> KnownOutput {
    let Invocation { program, arguments, input, place } = *invocation;
    let text = match input {
        Input::Text(text) => Some(&**text),
        _ => None,
    };
    let has = |words: &[&str]| arguments.iter().any(|it| words.contains(&it.as_str()));
    let operands: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|it| !it.starts_with('-')).collect();
    match program {
        "echo" => Some(echo(arguments)),
        "printf" => {
            let (format, rest) = arguments.split_first()?;
            let (format, rest) = if format == "--" { rest.split_first()? } else { (format, rest) };
            Some(print_format(format, rest))
        }
        "cat" | "tee" if operands.is_empty() || operands == ["-"] => text.map(str::to_owned),
        "tee" | "sort" | "uniq" | "nl" | "fold" if operands.len() < 2 => text.map(str::to_owned),
        "base64" | "openssl" | "basenc" if has(&["-d", "--decode", "-D", "-di"]) => {
            text.and_then(from_base64)
        }
        "xxd" if has(&["-r", "-rp", "-pr", "-r-p"]) => text.and_then(from_hex),
        "rev" => text.map(|it| {
            let reverse = |line: &str| line.chars().rev().collect::<String>() + "\n";
            it.lines().map(reverse).collect()
        }),
        "tr" => match (text, operands.as_slice(), has(&["-d", "--delete"])) {
            (Some(text), [set], true) => Some(without(text, set)),
            (Some(text), [from, to], false) if !has(&["-c", "-s"]) => {
                Some(translate(text, from, to))
            }
            _ => None,
        },
        "sed" => text.and_then(|text| substitute(text, operands.as_slice())),
        "head" | "tail" if arguments.is_empty() => text.map(str::to_owned),
        "which" | "type" => operands.last().map(|it| format!("{it}\n")),
        "basename" => operands.first().map(|it| format!("{}\n", base_name(it))),
        "pwd" => place.directory.map(|it| format!("{it}\n")),
        program if is_initializer(program, arguments) => Some(String::new()),
        "clear" | "sleep" | "mkdir" | "touch" => Some(String::new()),
        _ => None,
    }
    .filter(|it| it.len() < VALUE_BYTES_MAX)
}

/// Programs that print code for a shell, which `eval` and `source` are made for.
const INITIALIZERS: [&str; 26] = [
    "pyenv",
    "rbenv",
    "nodenv",
    "goenv",
    "jenv",
    "direnv",
    "ssh-agent",
    "brew",
    "opam",
    "fnm",
    "conda",
    "mamba",
    "micromamba",
    "starship",
    "dircolors",
    "zoxide",
    "mise",
    "asdf",
    "thefuck",
    "kubectl",
    "helm",
    "gh",
    "npm",
    "luarocks",
    "pip",
    "docker",
];
/// Words with which they do.
const INITIALIZING: [&str; 13] = [
    "init",
    "hook",
    "shellenv",
    "env",
    "completion",
    "-s",
    "activate",
    "export",
    "path",
    "shell.bash",
    "-b",
    "virtualenv-init",
    "--path",
];

fn is_initializer(program: &str, arguments: &[String]) -> bool {
    INITIALIZERS.contains(&program)
        && arguments.iter().any(|it| INITIALIZING.contains(&it.as_str()))
}

fn echo(arguments: &[String]) -> String {
    let is_option = |it: &&String| {
        it.len() > 1 && it.starts_with('-') && it.chars().skip(1).all(|c| "neE".contains(c))
    };
    let options: Vec<_> = arguments.iter().take_while(is_option).collect();
    let words = arguments.get(options.len()..).unwrap_or_default().join(" ");
    let escapes = options.iter().any(|it| it.contains('e'));
    let ending = if options.iter().any(|it| it.contains('n')) { "" } else { "\n" };
    let words = if escapes { unescape_ansi_c(&words) } else { words };
    words + ending
}

/// Returns a text after `s/a/b/g` without patterns.
fn substitute(text: &str, operands: &[&str]) -> Option<String> {
    let [script] = operands else { return None };
    let mut chars = script.chars();
    let mark = chars.next().filter(|it| *it == 's').and_then(|_| chars.next())?;
    let mut parts = chars.as_str().split(mark);
    let (from, to, flags) = (parts.next()?, parts.next()?, parts.next()?);
    let special = |it: &str| it.contains(['.', '*', '[', '\\', '^', '$', '&', '+', '?', HOLE]);
    if from.is_empty() || special(from) || special(to) || !matches!(flags, "" | "g") {
        return None;
    }
    let count = if flags == "g" { usize::MAX } else { 1 };
    let lines = text.lines().map(|it| it.replacen(from, to, count) + "\n");
    Some(lines.collect())
}
