//! Finds the command in a wrapper's arguments.

use super::table::{Style, WRAPPERS, Wrapper};

/// Returns the wrapper, and the arguments behind its words.
pub(super) fn find<'a>(
    program: &str,
    arguments: &'a [String],
) -> Option<(&'static Wrapper, &'a [String])> {
    WRAPPERS.iter().find_map(|wrapper| {
        let mut words = wrapper.words.split(' ');
        if words.next() != Some(program) {
            return None;
        }
        let mut rest = arguments;
        for word in words {
            let at = rest.iter().position(|it| !it.starts_with('-'))?;
            if rest.get(at)? != word {
                return None;
            }
            rest = rest.get(at + 1..)?;
        }
        Some((wrapper, rest))
    })
}

/// Returns the words or texts that a wrapper runs.
pub(super) fn command(wrapper: &Wrapper, arguments: &[String]) -> Vec<String> {
    if let Style::OptionText(names) = wrapper.style {
        return option_values(arguments, names);
    }
    let long: Vec<&str> = wrapper.long.split(' ').filter(|it| !it.is_empty()).collect();
    let (_, rest) = split_options(arguments, wrapper.short, &long);
    let rest = rest.get(wrapper.skip..).unwrap_or_default();
    let rest = match rest.split_first() {
        Some((mark, behind)) if mark == "--" => behind,
        _ => rest,
    };
    let is_assignment = |it: &&String| {
        it.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    // `time {` and `coproc NAME {`: the brace is a word to the grammar.
    let brace = rest.iter().take(2).position(|it| it == "{" || it == "!").map_or(0, |at| at + 1);
    let rest = rest.get(brace..).unwrap_or_default();
    if !matches!(wrapper.style, Style::Words) {
        return rest.to_vec();
    }
    let assigned = rest.iter().take_while(is_assignment).count();
    rest.get(assigned..).unwrap_or_default().to_vec()
}

fn option_values(arguments: &[String], names: &[&str]) -> Vec<String> {
    let mut values = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        for name in names {
            let cluster = name.len() == 2
                && argument.starts_with('-')
                && !argument.starts_with("--")
                && argument.ends_with(name.trim_start_matches('-'));
            if argument == name || cluster {
                values.extend(rest.next().cloned());
                break;
            } else if let Some(value) = argument.strip_prefix(name) {
                values.extend(value.strip_prefix('=').map(str::to_owned));
            }
        }
    }
    values
}

/// Splits options, with their values, from what follows them.
pub(super) fn split_options(
    arguments: &[String],
    short: &str,
    long: &[&str],
) -> (Vec<String>, Vec<String>) {
    let mut at = 0;
    while let Some(argument) = arguments.get(at) {
        if argument == "--" {
            let (options, rest) = arguments.split_at(at);
            return (options.to_vec(), rest.get(1..).unwrap_or_default().to_vec());
        }
        if argument.len() < 2 || !argument.starts_with('-') {
            break;
        }
        let takes = if argument.starts_with("--") {
            long.contains(&argument.as_str())
        } else {
            // In a cluster, the value follows at once unless the letter is the last one.
            let valued = |c: char| short.contains(c);
            let letters = argument.chars().skip(1);
            letters.clone().position(valued).is_some_and(|it| it + 2 == argument.chars().count())
                || long.contains(&argument.as_str())
        };
        at += 1 + usize::from(takes);
    }
    let (options, rest) = arguments.split_at(at.min(arguments.len()));
    (options.to_vec(), rest.to_vec())
}
