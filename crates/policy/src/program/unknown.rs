//! Commands of which the program is not known.

use crate::field::{HOLE, base_name, has_glob, is_known};
use crate::findings::Findings;
use crate::glob;
use crate::invocation::Input;
use crate::nested_command::{Continuation, NestedCode, NestedCommand, NestedShell};
use crate::rule::UNKNOWN_COMMAND;

/// Programs that a pattern in the place of a program is tried with.
const PATTERN_PROGRAMS: [&str; 8] =
    ["rm", "dd", "mkfs", "shutdown", "reboot", "poweroff", "halt", "shred"];

/// Judges a command whose program is not known; `None` if it is.
pub(crate) fn run_unknown(
    first: &str,
    arguments: &[String],
    input: &Input,
    findings: &mut Findings,
) -> Option<Continuation> {
    let program = base_name(first);
    if first.contains(HOLE) && (program.is_empty() || !is_known(program)) {
        run_hole(first, arguments, input, findings);
        return Some(Continuation::Output(None));
    }
    // A pattern below the working directory finds files of the project.
    let is_pattern = first.starts_with('/') || !first.contains('/');
    if is_pattern && has_glob(program) && !matches!(program, "[" | "[[") {
        run_pattern(first, arguments, input, findings);
        return Some(Continuation::Output(None));
    }
    None
}

/// Judges a command whose program is unknown in part.
fn run_hole(first: &str, arguments: &[String], input: &Input, findings: &mut Findings) {
    findings.dangerous(&UNKNOWN_COMMAND);
    let bare = first.replace(HOLE, "");
    if bare.is_empty() {
        // An empty word is no word: `$SUDO rm`.
        let command = NestedCommand::new(NestedCode::Words(arguments.to_vec()));
        findings.runs(command.with_input(input).in_shell(NestedShell::Present));
    } else {
        suspect_words(bare, arguments, input, findings);
    }
}

/// Judges a command whose program is a pattern.
fn run_pattern(first: &str, arguments: &[String], input: &Input, findings: &mut Findings) {
    findings.dangerous(&UNKNOWN_COMMAND);
    let program = base_name(first);
    let is_absolute = first.starts_with('/');
    let matches = |name: &&str| is_absolute && glob::matches(program, name);
    for candidate in PATTERN_PROGRAMS.into_iter().filter(matches) {
        suspect_words(candidate.to_owned(), arguments, input, findings);
    }
}

fn suspect_words(program: String, arguments: &[String], input: &Input, findings: &mut Findings) {
    let fields = [&[program], arguments].concat();
    findings.runs(NestedCommand::new(NestedCode::SuspectWords(fields)).with_input(input));
}
