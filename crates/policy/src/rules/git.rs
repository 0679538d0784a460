//! git.

use super::row::{Row, row};
use crate::findings::Findings;
use crate::invocation::{Invocation, is_option};
use crate::rule::{
    CREDENTIALS, GIT_CONFIG, GIT_DELETE, GIT_DISCARD, GIT_REMOTE, RECURSIVE_DELETE, REMOTE_STATE,
};

const ROWS: &[Row] = &[
    row("reset", "--hard --merge --keep", &GIT_DISCARD),
    row("checkout", "-f --force -B", &GIT_DISCARD),
    row("switch", "-f --force --discard-changes -C --force-create", &GIT_DISCARD),
    row("checkout-index", "-f --force", &GIT_DISCARD),
    row("read-tree", "--reset", &GIT_DISCARD),
    row("worktree remove", "-f --force", &GIT_DISCARD),
    row("submodule deinit", "", &GIT_DISCARD),
    row("stash drop", "", &GIT_DELETE),
    row("stash clear", "", &GIT_DELETE),
    row("branch", "-D -M -C -f --force", &GIT_DELETE),
    row("tag", "-d --delete -f --force", &GIT_DELETE),
    row("update-ref", "", &GIT_DELETE),
    row("symbolic-ref", "-d --delete", &GIT_DELETE),
    row("reflog expire", "", &GIT_DELETE),
    row("reflog delete", "", &GIT_DELETE),
    row("gc", "--prune --aggressive", &GIT_DELETE),
    row("prune", "", &GIT_DELETE),
    row("filter-branch", "", &GIT_DELETE),
    row("filter-repo", "", &GIT_DELETE),
    row("replace", "", &GIT_DELETE),
    row("lfs prune", "", &GIT_DELETE),
    row(
        "push",
        "-f --force --force-with-lease --force-if-includes --mirror --delete -d --prune",
        &GIT_REMOTE,
    ),
    row("remote remove", "", &GIT_DELETE),
    row("remote rm", "", &GIT_DELETE),
    row("remote set-url", "", &GIT_REMOTE),
    row("send-email", "", &REMOTE_STATE),
    row("svn dcommit", "", &REMOTE_STATE),
    row("credential", "", &CREDENTIALS),
    row("credential-store", "", &CREDENTIALS),
    row("credential-cache", "", &CREDENTIALS),
    row("daemon", "", &REMOTE_STATE),
    row("instaweb", "", &REMOTE_STATE),
];
/// Options before the subcommand that take a value.
const GLOBAL: [&str; 6] = ["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"];
/// Keys, or parts of keys, whose value git runs or obeys.
const RUNNING_KEYS: [&str; 23] = [
    "core.pager",
    "core.editor",
    "core.sshcommand",
    "core.fsmonitor",
    "core.hookspath",
    "core.askpass",
    "core.gitproxy",
    "sequence.editor",
    "diff.external",
    ".textconv",
    "credential.",
    ".helper",
    "gpg.program",
    ".cmd",
    ".clean",
    ".smudge",
    ".process",
    "uploadpack",
    "receivepack",
    "include.path",
    "includeif.",
    "insteadof",
    "url.",
];

pub(super) fn judge(invocation: &Invocation<'_>, findings: &mut Findings) {
    if invocation.program != "git" {
        return;
    }
    let mut rest = invocation.arguments;
    while let Some((first, behind)) = rest.split_first() {
        if !first.starts_with('-') {
            break;
        }
        rest = behind;
        if GLOBAL.contains(&first.as_str()) {
            if first == "-c" {
                judge_setting(rest.first().map(String::as_str).unwrap_or_default(), findings);
            }
            rest = rest.get(1..).unwrap_or_default();
        } else if let Some(setting) = first.strip_prefix("-c") {
            judge_setting(setting, findings);
        } else if first.starts_with("--config-env") || first.starts_with("--exec-path=") {
            findings.dangerous(&GIT_CONFIG);
        }
    }
    let Some((subcommand, arguments)) = rest.split_first() else { return };
    let inner = Invocation { program: subcommand, arguments, ..*invocation };
    if inner.has_word(&["--help", "-h"]) {
        return;
    }
    judge_rows(&inner, findings);
    judge_subcommand(&inner, findings);
    judge_running(&inner, findings);
}

fn judge_rows(inner: &Invocation<'_>, findings: &mut Findings) {
    if inner.has(&["--dry-run"]) || inner.program == "push" && inner.has(&["-n"]) {
        return;
    }
    // git takes any beginning of a long option.
    let is_given = |it: &str, option: &str| {
        is_option(it, option) || (it.starts_with("--") && it.len() > 2 && option.starts_with(it))
    };
    let has = |option: &str| inner.options().any(|it| is_given(it, option));
    let operands = inner.operands();
    for row in ROWS.iter().filter(|it| it.matches(inner.program, &operands, &has)) {
        findings.dangerous(row.rule);
    }
}

fn judge_subcommand(inner: &Invocation<'_>, findings: &mut Findings) {
    let operands = inner.operands();
    match inner.program {
        "clean" => {
            let looks = inner.has(&["-n", "--dry-run"]) || inner.arguments.is_empty();
            if !looks {
                findings.dangerous(&GIT_DISCARD);
            }
        }
        "checkout" => {
            let makes = inner.has(&["-b", "--orphan", "--track", "-t", "--detach"]);
            let paths = inner
                .arguments
                .iter()
                .position(|it| it == "--")
                .is_some_and(|at| at + 1 < inner.arguments.len());
            let is_path =
                |it: &&str| matches!(*it, "." | "./" | ":/" | "*") || it.starts_with("./");
            let many = operands.len() > 1 && !makes && !inner.has(&["--ours", "--theirs"]);
            if paths || many || operands.iter().any(is_path) {
                findings.dangerous(&GIT_DISCARD);
            }
        }
        "restore" => {
            let staged = inner.has(&["--staged", "-S"]) && !inner.has(&["--worktree", "-W"]);
            if !staged {
                findings.dangerous(&GIT_DISCARD);
            }
        }
        "push" if operands.iter().skip(1).any(|it| it.starts_with(['+', ':'])) => {
            findings.dangerous(&GIT_REMOTE);
        }
        "branch" if inner.has(&["-d", "--delete"]) && inner.has(&["-r", "--force"]) => {
            findings.dangerous(&GIT_DELETE)
        }
        "rm" => {
            let cached = inner.has(&["--cached"]);
            if !cached && inner.has(&["-r", "-f", "--force"]) {
                findings.dangerous(&RECURSIVE_DELETE);
            }
        }
        "config" => judge_config(inner, findings),
        "clone" | "fetch" | "pull" | "ls-remote" | "remote" | "submodule" => {
            if operands.iter().any(|it| it.starts_with("ext::") || it.starts_with("fd::")) {
                findings.dangerous(&GIT_CONFIG);
                findings.suspects(
                    operands.iter().find_map(|it| it.strip_prefix("ext::")).unwrap_or_default(),
                );
            }
            for setting in inner.values_of(&["-c", "--config"]) {
                judge_setting(setting, findings);
            }
        }
        _ => {}
    }
}

/// Subcommands and options that run a command.
fn judge_running(inner: &Invocation<'_>, findings: &mut Findings) {
    let operands = inner.operands();
    match (inner.program, operands.first().copied()) {
        ("submodule", Some("foreach")) => {
            findings.runs_text(operands.get(1..).unwrap_or_default().join(" "))
        }
        ("bisect", Some("run")) => {
            let at = inner.arguments.iter().position(|it| it == "run").unwrap_or(0);
            findings.runs_words(inner.arguments.get(at + 1..).unwrap_or_default().to_vec());
        }
        ("rebase", _) => {
            for command in inner.values_of(&["-x", "--exec"]) {
                findings.runs_text(command);
            }
        }
        ("difftool" | "mergetool", _) => {
            for command in inner.values_of(&["-x", "--extcmd"]) {
                findings.dangerous(&GIT_CONFIG);
                findings.suspects(command);
            }
        }
        ("grep", _)
            if inner.options().any(|it| it.starts_with("-O") || it.starts_with("--open-files")) =>
        {
            findings.dangerous(&GIT_CONFIG);
        }
        ("fetch" | "clone" | "ls-remote" | "pull" | "push" | "archive", _) => {
            for command in inner.values_of(&["--upload-pack", "--receive-pack", "--exec"]) {
                findings.dangerous(&GIT_CONFIG);
                findings.suspects(command);
            }
        }
        _ => {}
    }
}

fn is_running_key(key: &str) -> bool {
    let key = key.to_lowercase();
    key.starts_with("alias.") || RUNNING_KEYS.iter().any(|it| key.contains(it))
}

/// Judges `key=value` behind `-c`.
fn judge_setting(setting: &str, findings: &mut Findings) {
    let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
    let harmless = ["cat", "less", "true", "false", "", "vim", "nano", ":"];
    if is_running_key(key) && !harmless.contains(&value) {
        findings.dangerous(&GIT_CONFIG);
        findings.suspects(value.trim_start_matches('!'));
    }
}

fn judge_config(inner: &Invocation<'_>, findings: &mut Findings) {
    let reads = inner.has(&["--get", "--get-all", "--get-regexp", "--list", "-l", "--show-origin"]);
    let operands = inner.operands_beside(&["-f", "--file", "--blob"]);
    let operands = match operands.split_first() {
        Some((&("get" | "list"), _)) => return,
        Some((&("set" | "unset"), rest)) => rest,
        _ => operands.as_slice(),
    };
    if reads
        || operands.len() < 2
            && !inner.has(&["--unset", "--unset-all", "--remove-section", "--edit", "-e"])
    {
        return;
    }
    let Some(key) = operands.first() else {
        findings.dangerous(&GIT_CONFIG);
        return;
    };
    let value = operands.get(1).copied().unwrap_or_default();
    let is_alias = key.to_lowercase().starts_with("alias.");
    let own = [
        "user.",
        "init.",
        "pull.",
        "push.",
        "color.",
        "core.autocrlf",
        "merge.",
        "rebase.",
        "fetch.",
        "rerere.",
    ];
    let global = inner.has(&["--global", "--system"]);
    let harmless = ["cat", "less", "true", "false", "vim", "nano", "code --wait"].contains(&value);
    let runs = is_running_key(key) && (!is_alias || value.starts_with('!'));
    let foreign = global && !is_alias && !own.iter().any(|it| key.starts_with(it));
    if runs && !harmless {
        findings.dangerous(&GIT_CONFIG);
        findings.suspects(value.trim_start_matches('!'));
    } else if foreign || inner.has(&["--system"]) {
        findings.dangerous(&GIT_CONFIG);
    }
}
