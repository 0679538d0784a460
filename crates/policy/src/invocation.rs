//! One program with its arguments, as the rules see it.

use std::rc::Rc;

use crate::field::{HOLE, is_known};
use crate::paths::Place;

/// What a command reads from its standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// Nothing, or what the shell has.
    Nothing,
    Text(Rc<str>),
    File,
    Unknown,
}

/// What a command prints, if that is known.
pub(crate) type KnownOutput = Option<String>;

impl Input {
    /// Returns the input that an output is.
    pub(crate) fn from_output(printed: &KnownOutput) -> Self {
        printed.as_deref().map_or(Self::Unknown, |it| Self::Text(it.into()))
    }
}

/// A program and its arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Invocation<'a> {
    /// The name of the program, without its directory.
    pub(crate) program: &'a str,
    pub(crate) arguments: &'a [String],
    pub(crate) input: &'a Input,
    pub(crate) place: Place<'a>,
}

impl<'a> Invocation<'a> {
    pub(crate) fn is(&self, names: &[&str]) -> bool {
        names.contains(&self.program)
    }

    /// The arguments that are options.
    pub(crate) fn options(&self) -> impl Iterator<Item = &'a str> {
        let options = self.arguments.iter().map(String::as_str).take_while(|it| *it != "--");
        options.filter(|it| it.len() > 1 && it.starts_with('-'))
    }

    /// Whether one of the options stands among the arguments. A short one may stand in a cluster, a
    /// long one may have a value or be cut.
    pub(crate) fn has(&self, options: &[&str]) -> bool {
        self.options().any(|given| options.iter().any(|it| is_option(given, it)))
    }

    /// Whether an argument is one of the words, just so.
    pub(crate) fn has_word(&self, words: &[&str]) -> bool {
        self.arguments.iter().any(|it| words.contains(&it.as_str()))
    }

    /// The arguments that are no options.
    pub(crate) fn operands(&self) -> Vec<&'a str> {
        operands_of(self.arguments)
    }

    /// The operands, without values of the options that take one.
    pub(crate) fn operands_beside(&self, valued: &[&str]) -> Vec<&'a str> {
        let mut operands = Vec::new();
        let mut arguments = self.arguments.iter().map(String::as_str);
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                operands.extend(arguments);
                break;
            }
            if valued.contains(&argument) {
                arguments.next();
            } else if argument == "-" || !argument.starts_with('-') {
                operands.push(argument);
            }
        }
        operands
    }

    /// The value of an option: `-x V`, `-xV`, `--long V`, `--long=V`.
    pub(crate) fn value_of(&self, options: &[&str]) -> Option<&'a str> {
        self.values_of(options).into_iter().next()
    }

    pub(crate) fn values_of(&self, options: &[&str]) -> Vec<&'a str> {
        let mut values = Vec::new();
        let mut arguments = self.arguments.iter().map(String::as_str).peekable();
        while let Some(argument) = arguments.next() {
            for option in options {
                if argument == *option {
                    values.extend(arguments.peek().copied());
                } else if let Some(rest) = argument.strip_prefix(option) {
                    if option.starts_with("--") {
                        values.extend(rest.strip_prefix('='));
                    } else if option.len() == 2 {
                        values.push(rest);
                    }
                }
            }
        }
        values
    }

    /// Whether an argument is unknown, in whole or in part.
    pub(crate) fn has_unknown(&self) -> bool {
        self.arguments.iter().any(|it| !is_known(it))
    }
}

pub(crate) fn operands_of(arguments: &[String]) -> Vec<&str> {
    let mut only_operands = false;
    let mut operands = Vec::new();
    for argument in arguments {
        match argument.as_str() {
            "--" if !only_operands => only_operands = true,
            it if only_operands || it == "-" || !it.starts_with('-') => operands.push(it),
            _ => {}
        }
    }
    operands
}

/// Whether an argument gives an option.
pub(crate) fn is_option(given: &str, option: &str) -> bool {
    if let Some(long) = option.strip_prefix("--") {
        let Some(name) = given.strip_prefix("--") else { return false };
        let name = name.split('=').next().unwrap_or(name);
        return name == long || (name.len() > 2 && long.starts_with(name));
    }
    let mut letters = option.chars().skip(1);
    match (letters.next(), letters.next()) {
        (Some(letter), None) => {
            let cluster = given.strip_prefix('-').filter(|it| !it.starts_with('-'));
            let cluster = cluster.map(|it| it.split([HOLE, '=']).next().unwrap_or(it));
            cluster.is_some_and(|it| it.contains(letter))
        }
        // `-delete` and other long options with one dash.
        _ => given == option,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_stand_in_clusters_and_may_be_cut() {
        for (given, option) in [
            ("-rf", "-r"),
            ("--force", "--force"),
            ("--forc", "--force"),
            ("--force=x", "--force"),
            ("-delete", "-delete"),
        ] {
            assert!(is_option(given, option), "{given} {option}");
        }
        for (given, option) in
            [("--rf", "-r"), ("--format", "--force"), ("-d", "-delete"), ("--f", "--force")]
        {
            assert!(!is_option(given, option), "{given} {option}");
        }
    }
}
