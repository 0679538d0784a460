//! Commands of which the program is not known.

use super::{Evaluator, KnownOutput};
use crate::field::{HOLE, base_name};
use crate::glob;
use crate::invocation::Input;
use crate::rule::UNKNOWN_COMMAND;

/// Programs that a pattern in the place of a program is tried with.
const PATTERN_PROGRAMS: [&str; 8] =
    ["rm", "dd", "mkfs", "shutdown", "reboot", "poweroff", "halt", "shred"];

/// Judges a command whose program is unknown in part.
pub(super) fn dispatch_unknown(
    it: &mut Evaluator,
    first: &str,
    arguments: &[String],
    input: &Input,
) -> KnownOutput {
    it.findings.dangerous(&UNKNOWN_COMMAND);
    let bare = first.replace(HOLE, "");
    if bare.is_empty() {
        // An empty word is no word: `$SUDO rm`.
        it.dispatch(arguments, input);
    } else {
        let fields = [&[bare], arguments].concat();
        it.suspect(|it| it.dispatch(&fields, input));
    }
    None
}

/// Judges a command whose program is a pattern.
pub(super) fn dispatch_pattern(
    it: &mut Evaluator,
    first: &str,
    arguments: &[String],
    input: &Input,
) -> KnownOutput {
    it.findings.dangerous(&UNKNOWN_COMMAND);
    let program = base_name(first);
    let is_absolute = first.starts_with('/');
    let matches = |name: &&str| is_absolute && glob::matches(program, name);
    for candidate in PATTERN_PROGRAMS.into_iter().filter(matches) {
        let fields = [&[candidate.to_owned()], arguments].concat();
        it.suspect(|it| it.dispatch(&fields, input));
    }
    None
}
