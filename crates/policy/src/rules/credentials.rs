//! Files with keys and passwords among the operands of any program.

use crate::findings::Findings;
use crate::invocation::Invocation;
use crate::paths::is_env_file;
use crate::rule::CREDENTIALS;

/// Programs that read or copy a file that is named to them.
const READERS: [&str; 41] = [
    "cat", "less", "more", "head", "tail", "bat", "nl", "tac", "cp", "mv", "base64", "xxd", "od",
    "hexdump", "strings", "grep", "egrep", "fgrep", "rg", "awk", "gawk", "sed", "cut", "sort",
    "tr", "tar", "zip", "gzip", "7z", "scp", "rsync", "curl", "wget", "nc", "git", "openssl",
    "gpg", "jq", "diff", "dd", "paste",
];
/// Programs that only ask whether a file is there, or what it is.
const LOOKERS: [&str; 9] = ["test", "[", "ls", "stat", "file", "echo", "printf", "chmod", "mkdir"];

pub(super) fn judge(invocation: &Invocation<'_>, findings: &mut Findings) {
    if LOOKERS.contains(&invocation.program)
        || invocation.program == "git" && is_message(invocation)
    {
        return;
    }
    let is_search = invocation.is(&["grep", "egrep", "fgrep", "rg", "awk", "gawk", "sed"]);
    let mut operands = invocation.operands();
    if is_search && !operands.is_empty() {
        // The pattern.
        operands.remove(0);
    }
    let is_reader = READERS.contains(&invocation.program);
    let target = invocation.is(&["cp", "mv"]).then(|| operands.pop()).flatten();
    let attached = invocation.arguments.iter().filter_map(|it| {
        let value = it.strip_prefix("-d").or_else(|| it.strip_prefix("-F")).unwrap_or(it);
        value.split_once('@').map(|it| it.1)
    });
    let assigned = invocation.arguments.iter().filter_map(|it| it.split_once('=').map(|it| it.1));
    let all = operands.iter().copied().chain(attached).chain(assigned.clone());
    for path in all {
        let hidden = invocation.place.is_credential(path);
        if (hidden && !path.contains(' ')) || (is_reader && is_env_file(path)) {
            findings.dangerous(&CREDENTIALS);
        }
    }
    if let Some(target) = target
        && invocation.place.is_credential(target)
    {
        findings.dangerous(&CREDENTIALS);
    }
}

/// Whether the words are a message or only names.
fn is_message(invocation: &Invocation<'_>) -> bool {
    let first = invocation.operands();
    matches!(
        first.first(),
        Some(&("commit" | "log" | "status" | "diff" | "show" | "check-ignore" | "rm" | "ls-files"))
    )
}
