//! The rules for programs, redirects and variables.

mod ask_unless;
mod code;
mod credentials;
mod database;
mod devices;
mod files;
mod find;
mod git;
mod loops;
mod modes;
mod network;
mod options;
mod processes;
mod row;
mod table;
mod variables;

use crate::findings::Findings;
use crate::invocation::Invocation;

pub(crate) use code::{inline_code, judge_code};
pub(crate) use files::{judge_read, judge_write};
pub(crate) use loops::judge_loop;
pub(crate) use variables::judge_variable;

/// Judges a script, which is known by its name.
pub(crate) fn judge_script(invocation: &Invocation<'_>, findings: &mut Findings) {
    table::judge(invocation, findings);
}

/// Judges a program with its arguments by every rule.
pub(crate) fn judge_program(invocation: &Invocation<'_>, findings: &mut Findings) {
    if table::is_question(invocation) {
        return;
    }
    devices::judge(invocation, findings);
    processes::judge(invocation, findings);
    files::judge(invocation, findings);
    modes::judge(invocation, findings);
    find::judge(invocation, findings);
    git::judge(invocation, findings);
    network::judge(invocation, findings);
    database::judge(invocation, findings);
    options::judge(invocation, findings);
    table::judge(invocation, findings);
    ask_unless::judge(invocation, findings);
    credentials::judge(invocation, findings);
}
