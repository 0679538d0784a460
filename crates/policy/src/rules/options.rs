//! Options that make a program run another one, or undo its limits.

use crate::findings::Findings;
use crate::invocation::{Input, Invocation};
use crate::rule::{CONTAINER_ESCAPE, INLINE_CODE, UNKNOWN_CODE};

/// A program with options whose value it runs as a command.
const RUNNING: &[(&str, &str)] = &[
    ("rg", "--pre"),
    ("sort", "--compress-program"),
    (
        "tar",
        "--to-command --use-compress-program --checkpoint-action --rmt-command --rsh-command -I",
    ),
    ("man", "-P --pager -H --html"),
    ("less", "-o"),
    ("rsync", "-e --rsh --rsync-path"),
    ("ssh", "-oProxyCommand -oLocalCommand"),
    ("scp", "-S -oProxyCommand"),
    ("zip", "-TT --unzip-command"),
    ("git", "--upload-pack --receive-pack --exec --ext-diff -O --open-files-in-pager --extcmd -x"),
    ("split", "--filter"),
    ("gdb", "-ex -eval-command --eval-command"),
    ("wget", "--use-askpass"),
    ("curl", "-K --config"),
    ("make", "SHELL"),
    ("flock", "-c --command"),
    ("vim", "-c --cmd"),
    ("vi", "-c"),
    ("nvim", "-c --cmd"),
    ("emacs", "--eval -f --execute"),
    ("jq", ""),
    ("strace", "-o"),
    ("tcpdump", "-z"),
    ("watch", ""),
    ("ctags", "--options"),
    ("openssl", "-engine -provider"),
];

/// Programs that run commands from their standard input, now or later.
const INPUT_RUNNERS: [&str; 5] = ["at", "batch", "crontab", "make", "gmake"];

pub(super) fn judge(invocation: &Invocation<'_>, findings: &mut Findings) {
    let running = RUNNING.iter().find(|it| it.0 == invocation.program && !it.1.is_empty());
    // What git runs is judged by its own rules.
    if let Some((_, options)) = running.filter(|it| it.0 != "git") {
        let options: Vec<&str> = options.split_whitespace().collect();
        for value in invocation.values_of(&options) {
            judge_value(invocation.program, value, findings);
        }
        let set = invocation.arguments.iter().filter_map(|it| it.split_once('='));
        for (name, value) in
            set.filter(|(name, _)| options.contains(name) && !name.starts_with("--"))
        {
            let _name = name;
            judge_value(invocation.program, value, findings);
        }
    }
    if matches!(invocation.program, "awk" | "gawk" | "mawk" | "nawk") {
        judge_awk(invocation, findings);
    }
    if matches!(invocation.program, "sed" | "gsed") {
        judge_sed(invocation, findings);
    }
    if invocation.is(&["docker", "podman", "nerdctl"]) {
        judge_mounts(invocation, findings);
    }
    if invocation.is(&["ssh", "scp", "sftp"]) {
        for value in invocation.values_of(&["-o"]) {
            if let Some((name, command)) = value.split_once(['=', ' '])
                && ["proxycommand", "localcommand"].contains(&name.to_lowercase().as_str())
            {
                findings.runs_text(command);
            }
        }
    }
    if invocation.is(&["less", "more", "most", "vim", "vi", "nvim", "view"]) {
        let starts = invocation.arguments.iter().filter_map(|it| it.strip_prefix('+'));
        for command in
            starts.filter_map(|it| it.trim_start_matches(['+', ':']).strip_prefix(['!', '|']))
        {
            findings.dangerous(&INLINE_CODE);
            findings.suspects(command);
        }
    }
    if let (Input::Text(text), true) = (invocation.input, invocation.is(&INPUT_RUNNERS)) {
        for line in text.lines().take(64) {
            findings.suspects(line.trim());
            // The times of `crontab` come before its command.
            findings.suspects(line.split_whitespace().skip(5).collect::<Vec<_>>().join(" "));
        }
    }
    if invocation.is(&["make", "gmake"])
        && invocation.value_of(&["-f", "--file", "--makefile"]) == Some("-")
    {
        findings.dangerous(&UNKNOWN_CODE);
    }
    if invocation.is(&["make", "gmake"]) {
        for text in invocation.values_of(&["--eval"]) {
            findings.dangerous(&INLINE_CODE);
            findings.suspects(
                text.rsplit("shell").next().unwrap_or(text).trim_matches([' ', ')', ':']),
            );
        }
    }
}

fn judge_value(program: &str, value: &str, findings: &mut Findings) {
    match program {
        "tar" if value.starts_with("exec=") => {
            findings.dangerous(&INLINE_CODE);
            findings.runs_text(value.trim_start_matches("exec="));
        }
        "tar"
            if ["zstd", "gzip", "pigz", "xz", "bzip2", "lz4", "pixz", "lbzip2", "dot", "echo"]
                .iter()
                .any(|it| value.starts_with(it)) => {}
        "tar" if value.chars().all(char::is_numeric) => {}
        "rsync" if value.starts_with("ssh") && !value.contains("ProxyCommand") => {}
        "strace" if !value.starts_with(['|', '!']) => {}
        "gdb"
            if !value.starts_with("shell")
                && !value.starts_with('!')
                && !value.contains("system(") => {}
        "vim" | "vi" | "nvim" if !value.contains('!') && !value.contains("system(") => {}
        "man" if ["cat", "less", "more"].contains(&value) => {}
        "curl" => findings.dangerous(&UNKNOWN_CODE),
        _ => {
            findings.dangerous(&INLINE_CODE);
            let text = value.trim_start_matches(['!', ':', '|']).trim_start_matches("shell ");
            findings.suspects(text);
        }
    }
}

/// `system("…")`, `"…" | getline` and `print | "…"`.
fn judge_awk(invocation: &Invocation<'_>, findings: &mut Findings) {
    let Some(program) = invocation.operands_beside(&["-F", "-v", "-f"]).into_iter().next() else {
        return;
    };
    let pipes = program.contains("| \"") || program.contains("|\"") || program.contains("|&");
    if program.contains("system(")
        || pipes
        || program.contains("| getline")
        || program.contains("|getline")
    {
        findings.dangerous(&INLINE_CODE);
        let quoted = program.split('"').skip(1).step_by(2);
        for text in quoted.take(32) {
            findings.suspects(text);
        }
    }
}

/// The command `e`, and the flag of `s` of that name.
fn judge_sed(invocation: &Invocation<'_>, findings: &mut Findings) {
    let given = invocation.values_of(&["-e", "--expression"]);
    let first =
        invocation.operands_beside(&["-e", "--expression", "-f", "--file"]).into_iter().next();
    let scripts = if given.is_empty() { first.into_iter().collect() } else { given };
    for script in scripts {
        let script = script.trim();
        let command =
            script.trim_start_matches(|c: char| c.is_ascii_digit() || c == '$' || c == ',');
        let runs = command.strip_prefix("e ").or_else(|| (command == "e").then_some(""));
        if let Some(text) = runs {
            findings.dangerous(&INLINE_CODE);
            findings.suspects(text);
        }
        let mut chars = script.chars();
        if chars.next() == Some('s')
            && let Some(mark) = chars.next()
        {
            let mut parts = script.split(mark).skip(2);
            let (with, flags) =
                (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            if flags.starts_with(|c: char| "gIi0123456789e".contains(c))
                && flags.split([';', ' ', '\n']).next().is_some_and(|it| it.contains('e'))
            {
                findings.dangerous(&INLINE_CODE);
                findings.suspects(with);
            }
        }
    }
}

/// Mounts of the system, of the container service, and namespaces of the host.
fn judge_mounts(invocation: &Invocation<'_>, findings: &mut Findings) {
    let mounts = invocation.values_of(&["-v", "--volume"]);
    let sources = mounts.iter().filter_map(|it| it.split(':').next());
    let risky = sources.filter(|it| it.starts_with('/') || it.starts_with('~')).any(|it| {
        invocation.place.vital(it).is_some()
            || it.contains("docker.sock")
            || invocation.place.is_credential(it)
            || invocation.place.is_system(it)
    });
    let bound = invocation.values_of(&["--mount"]);
    let bound = bound
        .iter()
        .any(|it| it.contains("source=/,") || it.contains("src=/,") || it.contains("docker.sock"));
    let host = invocation.arguments.iter().any(|it| {
        matches!(
            it.as_str(),
            "--pid=host"
                | "--ipc=host"
                | "--userns=host"
                | "--uts=host"
                | "--security-opt=seccomp=unconfined"
        )
    });
    let spaces = invocation.values_of(&["--pid", "--ipc", "--userns", "--uts"]).contains(&"host");
    if risky || bound || host || spaces {
        findings.dangerous(&CONTAINER_ESCAPE);
    }
}
