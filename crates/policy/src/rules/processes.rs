//! Ends of processes.

use crate::field::is_known;
use crate::findings::Findings;
use crate::invocation::Invocation;
use crate::rule::{KILL_ALL, KILL_UNKNOWN};

pub(super) fn judge(invocation: &Invocation<'_>, findings: &mut Findings) {
    match invocation.program {
        "kill" => judge_kill(invocation, findings),
        "killall5" => findings.hardline(&KILL_ALL, KILL_ALL.reason),
        "pkill" | "killall" | "skill" => {
            let operands = invocation.operands_beside(&["-s", "--signal", "-t", "-P", "-g", "-G"]);
            let by_user = invocation.has(&["-u", "-U", "--euid", "--uid", "--user"]);
            let every = |it: &&str| matches!(*it, "." | ".*" | "^" | "*" | "" | "^.*" | ".+");
            let is_pattern = invocation.program == "pkill" || invocation.has(&["-r", "--regexp"]);
            let all = is_pattern && operands.iter().any(every)
                || invocation.has_word(&["-1"]) && operands.is_empty();
            let root = by_user
                && invocation.has_word(&["root"])
                && operands.iter().all(|it| *it == "root");
            if all || root {
                findings.hardline(&KILL_ALL, KILL_ALL.reason);
            }
        }
        _ => {}
    }
}

/// `kill -9 -1` and the like; an unknown process.
fn judge_kill(invocation: &Invocation<'_>, findings: &mut Findings) {
    let mut rest = invocation.arguments;
    let is_list = |it: &String| it.starts_with("-l") || it.starts_with("-L") || it == "--list";
    if rest.first().is_some_and(is_list) || rest == ["-0"] {
        return;
    }
    match rest.first().map(String::as_str) {
        Some("-s" | "-n" | "--signal") => rest = rest.get(2..).unwrap_or_default(),
        // The first word with a dash is a signal, if a process follows.
        Some(signal) if signal.starts_with('-') && signal != "--" && rest.len() > 1 => {
            rest = rest.get(1..).unwrap_or_default();
        }
        _ => {}
    }
    let mut only_looks = invocation.arguments.first().is_some_and(|it| it == "-0");
    for process in rest.iter().filter(|it| *it != "--") {
        if process == "-1" {
            findings.hardline(&KILL_ALL, KILL_ALL.reason);
        }
        if process == "1" {
            findings.hardline(&KILL_ALL, "ends the first process, and with it all");
        }
        only_looks |= process == "-0";
        if !is_known(process) && !only_looks {
            findings.dangerous(&KILL_UNKNOWN);
        }
    }
}
