//! Files that are deleted, moved or overwritten.

use crate::field::{base_name, has_glob, is_known};
use crate::findings::Findings;
use crate::invocation::Invocation;
use crate::paths::{Place, is_env_file, is_instructions, is_raw_device};
use crate::rule::{
    CREDENTIALS, DELETE_MANY, DELETE_OUTSIDE, INSTRUCTIONS, MOVE_SYSTEM, NETWORK_SHELL, OVERWRITE,
    RAW_DEVICE, RECURSIVE_DELETE, START_FILES, WIPE,
};

pub(super) fn judge(invocation: &Invocation<'_>, findings: &mut Findings) {
    match invocation.program {
        "rm" | "grm" | "del" | "unlink" | "rimraf" | "srm" | "trash" => {
            judge_rm(invocation, findings)
        }
        "rmdir" => judge_vital(invocation, findings, "deletes"),
        "mv" | "gmv" => judge_mv(invocation, findings),
        "cp" | "gcp" | "install" | "ln" | "link" => judge_copy(invocation, findings),
        "rsync" => judge_rsync(invocation, findings),
        "tee" | "sponge" => {
            for path in invocation.operands() {
                judge_write(path, invocation.place, findings);
            }
        }
        "truncate" => {
            for path in invocation.operands_beside(&["-s", "--size", "-r", "--reference"]) {
                judge_write(path, invocation.place, findings);
            }
            if invocation.value_of(&["-s", "--size"]) == Some("0") {
                findings.dangerous(&OVERWRITE);
            }
        }
        "sed" | "gsed" | "perl" | "ruby" if invocation.has(&["-i", "--in-place", "-pi"]) => {
            for path in invocation.operands() {
                judge_write(path, invocation.place, findings);
            }
        }
        "patch" | "ed" | "ex" | "vi" | "vim" | "nvim" | "nano" | "emacs" | "touch" | "mkdir" => {
            for path in invocation.operands() {
                judge_write(path, invocation.place, findings);
            }
        }
        "tar" | "bsdtar" => {
            let into = invocation.value_of(&["-C", "--directory"]);
            let extracts = invocation.arguments.first().is_some_and(|it| it.contains('x'))
                || invocation.has(&["-x", "--extract"]);
            if let Some(directory) = into.filter(|_| extracts) {
                judge_directory(directory, invocation.place, findings);
            }
            if invocation.has(&["--remove-files"]) {
                findings.dangerous(&DELETE_MANY);
            }
        }
        "unzip" => {
            if let Some(directory) = invocation.value_of(&["-d"]) {
                judge_directory(directory, invocation.place, findings);
            }
        }
        "zip" if invocation.has(&["-m", "--move"]) => findings.dangerous(&DELETE_MANY),
        "curl" | "wget" => {
            for path in invocation.values_of(&["-o", "--output", "-O", "--output-document"]) {
                judge_write(path, invocation.place, findings);
            }
        }
        _ => {}
    }
}

fn judge_rm(invocation: &Invocation<'_>, findings: &mut Findings) {
    let is_recursive =
        invocation.has(&["-r", "-R", "--recursive"]) || invocation.is(&["rimraf", "srm", "trash"]);
    let operands = invocation.operands();
    for path in &operands {
        judge_deletion(path, is_recursive, invocation.place, findings);
    }
    if invocation.has_unknown() {
        findings.dangerous(if is_recursive { &RECURSIVE_DELETE } else { &DELETE_MANY });
    }
}

/// Judges the deletion of one path.
fn judge_deletion(path: &str, is_recursive: bool, place: Place<'_>, findings: &mut Findings) {
    let is_all = has_glob(path);
    match place.vital(path) {
        Some(what) if is_recursive || is_all => {
            let how = if is_recursive { "recursive delete" } else { "delete" };
            let reason = if what == path {
                format!("{how} of {path}")
            } else {
                format!("{how} of {what}: {path}")
            };
            findings.hardline(&WIPE, reason);
        }
        _ if is_raw_device(path) => findings.hardline(&RAW_DEVICE, format!("deletes {path}")),
        _ if is_recursive => findings.dangerous(&RECURSIVE_DELETE),
        _ if !is_known(path) => findings.dangerous(&DELETE_MANY),
        _ if place.is_outside(path) => findings.dangerous(&DELETE_OUTSIDE),
        _ if matches!(path, "*" | "./*" | ".*" | "./.*" | "*.*") => {
            findings.dangerous(&DELETE_MANY)
        }
        _ if is_protected(path, place) => judge_write(path, place, findings),
        _ => {}
    }
}

fn is_protected(path: &str, place: Place<'_>) -> bool {
    place.is_obeyed(path) || place.is_credential(path) || is_env_file(path) || is_instructions(path)
}

fn judge_vital(invocation: &Invocation<'_>, findings: &mut Findings, verb: &str) {
    for path in invocation.operands() {
        if let Some(what) = invocation.place.vital(path) {
            findings.hardline(&WIPE, format!("{verb} {what}: {path}"));
        }
    }
}

fn judge_mv(invocation: &Invocation<'_>, findings: &mut Findings) {
    let operands = invocation.operands_beside(&["-S", "--suffix"]);
    let into = invocation.value_of(&["-t", "--target-directory"]);
    let (target, sources) = match (into, operands.split_last()) {
        (Some(target), _) => (target, operands.as_slice()),
        (None, Some((target, sources))) => (*target, sources),
        (None, None) => return,
    };
    for source in sources {
        if let Some(what) = invocation.place.vital(source) {
            findings.hardline(&WIPE, format!("moves {what} away: {source}"));
        } else if target == "/dev/null" {
            findings.dangerous(&DELETE_MANY);
        } else if invocation.place.is_system(source) {
            findings.dangerous(&MOVE_SYSTEM);
        } else if is_protected(source, invocation.place) {
            judge_write(source, invocation.place, findings);
        }
    }
    judge_target(target, sources, invocation.place, findings);
}

fn judge_copy(invocation: &Invocation<'_>, findings: &mut Findings) {
    let operands =
        invocation.operands_beside(&["-m", "--mode", "-o", "-g", "-S", "--suffix", "-t"]);
    let into = invocation.value_of(&["-t", "--target-directory"]);
    let (target, sources) = match (into, operands.split_last()) {
        (Some(target), _) => (target, operands.as_slice()),
        (None, Some((target, sources))) if !sources.is_empty() => (*target, sources),
        _ => return,
    };
    if sources.contains(&"/dev/null") {
        findings.dangerous(&OVERWRITE);
    }
    judge_target(target, sources, invocation.place, findings);
}

fn judge_target(target: &str, sources: &[&str], place: Place<'_>, findings: &mut Findings) {
    let is_template = |it: &&str| base_name(it).starts_with(".env.") && !is_env_file(it);
    if is_env_file(target) && sources.iter().all(is_template) {
        return;
    }
    let looks_like_directory = target.ends_with('/')
        || place.vital(target).is_some()
        || base_name(target) == "hooks"
        || base_name(target) == ".ssh";
    if looks_like_directory {
        judge_directory(target, place, findings);
        for source in sources {
            let path = format!("{}/{}", target.trim_end_matches('/'), base_name(source));
            judge_write(&path, place, findings);
        }
    } else {
        judge_write(target, place, findings);
    }
}

/// Judges that files are put into a directory.
fn judge_directory(directory: &str, place: Place<'_>, findings: &mut Findings) {
    let resolved = place.resolve(directory);
    if resolved == "/" || place.is_system(&format!("{resolved}/x")) {
        findings.dangerous(&MOVE_SYSTEM);
    }
}

fn judge_rsync(invocation: &Invocation<'_>, findings: &mut Findings) {
    let deletes = invocation.options().any(|it| it.starts_with("--delete") || it == "--del");
    let operands = invocation.operands_beside(&[
        "-e",
        "--rsh",
        "--exclude",
        "--include",
        "--exclude-from",
        "-f",
    ]);
    let Some(target) = operands.last() else { return };
    match invocation.place.vital(target) {
        Some(what) if deletes => findings.hardline(&WIPE, format!("deletes {what}: {target}")),
        _ if deletes => findings.dangerous(&DELETE_MANY),
        _ if invocation.has(&["--remove-source-files"]) => findings.dangerous(&DELETE_MANY),
        _ => judge_write(target, invocation.place, findings),
    }
}

/// Judges a path that a command writes.
pub(crate) fn judge_write(path: &str, place: Place<'_>, findings: &mut Findings) {
    if path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/") {
        findings.dangerous(&NETWORK_SHELL);
        return;
    }
    if is_raw_device(path) {
        findings.hardline(&RAW_DEVICE, format!("writes to {path}"));
        return;
    }
    let resolved = place.resolve(path);
    if resolved.starts_with("/proc/sysrq-trigger") {
        findings.hardline(&crate::rule::POWER, "turns the machine off or restarts it");
    } else if place.is_credential(path) || is_env_file(path) {
        findings.dangerous(&CREDENTIALS);
    } else if place.is_obeyed(path) {
        findings.dangerous(&START_FILES);
    } else if is_instructions(path) {
        findings.dangerous(&INSTRUCTIONS);
    } else if place.is_system(path) {
        findings.dangerous(&MOVE_SYSTEM);
    } else if base_name(path).ends_with("_history") {
        findings.dangerous(&crate::rule::HISTORY);
    }
}

/// Judges a path that a command reads.
pub(crate) fn judge_read(path: &str, place: Place<'_>, findings: &mut Findings) {
    if path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/") {
        findings.dangerous(&NETWORK_SHELL);
    } else if is_raw_device(path) {
        findings.dangerous(&crate::rule::DEVICE_ACCESS);
    } else if place.is_credential(path) || is_env_file(path) {
        findings.dangerous(&CREDENTIALS);
    }
}
