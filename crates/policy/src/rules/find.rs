//! `find` that deletes.

use crate::field::base_name;
use crate::findings::Findings;
use crate::invocation::Invocation;
use crate::rule::{DELETE_MANY, WIPE};

/// Tests that leave nearly everything.
const WIDE: [&str; 19] = [
    "-type",
    "-mindepth",
    "-maxdepth",
    "-depth",
    "-xdev",
    "-mount",
    "-follow",
    "-print",
    "-delete",
    "-exec",
    "-execdir",
    "-ok",
    "-noleaf",
    "-ls",
    "-o",
    "-a",
    "-or",
    "-and",
    "-print0",
];
const DELETERS: [&str; 5] = ["rm", "shred", "unlink", "rmdir", "srm"];

pub(super) fn judge(invocation: &Invocation<'_>, findings: &mut Findings) {
    if invocation.program != "find" {
        return;
    }
    let arguments = invocation.arguments;
    let is_place = |it: &&String| !it.starts_with(['-', '(', '!']);
    let options =
        arguments.iter().take_while(|it| ["-H", "-L", "-P"].contains(&it.as_str())).count();
    let arguments = arguments.get(options..).unwrap_or_default();
    let places: Vec<_> = arguments.iter().take_while(is_place).collect();
    let tests = arguments.get(places.len()..).unwrap_or_default();
    let runs_deleter = tests.windows(2).any(|pair| match pair {
        [action, program] => {
            ["-exec", "-execdir", "-ok", "-okdir"].contains(&action.as_str())
                && (DELETERS.contains(&base_name(program))
                    || ["sudo", "env", "sh", "bash"].contains(&base_name(program)))
        }
        _ => false,
    });
    let runs_deleter = runs_deleter
        && tests.iter().any(|it| {
            DELETERS.iter().any(|name| it.split_whitespace().any(|word| base_name(word) == *name))
        });
    if !invocation.has_word(&["-delete"]) && !runs_deleter {
        return;
    }
    let is_option = |it: &&String| {
        it.len() > 1 && it.starts_with('-') && it.chars().nth(1).is_some_and(char::is_alphabetic)
    };
    let before_action = tests.iter().take_while(|it| !it.starts_with("-exec"));
    let everything = |it: &str| tests.windows(2).any(|pair| pair == [it, "*"]);
    let narrow = before_action
        .filter(is_option)
        .any(|it| !WIDE.contains(&it.as_str()) && !everything(it.as_str()));
    let vital = places.iter().find_map(|it| invocation.place.vital(it).map(|what| (what, it)));
    match vital {
        Some((what, path)) if !narrow => {
            findings.hardline(&WIPE, format!("recursive delete of {what}: {path}"))
        }
        _ => findings.dangerous(&DELETE_MANY),
    }
}
