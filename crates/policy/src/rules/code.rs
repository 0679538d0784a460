//! Inline programs of interpreters, by a small look.

use crate::field::{HOLE, is_known};
use crate::findings::Findings;
use crate::invocation::Invocation;
use crate::paths::Place;
use crate::rule::{FORK_BOMB, INLINE_CODE, KILL_ALL, UNKNOWN_CODE, WIPE};

/// Parts of programs that run commands, load code, or hide it.
const RUNS: [&str; 46] = [
    "os.system",
    "subprocess",
    "popen",
    "os.exec",
    "os.spawn",
    "pty.spawn",
    "posix_spawn",
    "exec(",
    "eval(",
    "__import__",
    "importlib",
    "getattr(",
    "compile(",
    "b64decode",
    "unhexlify",
    "fromhex",
    "codecs.decode",
    "child_process",
    "execsync",
    "spawnsync",
    "execfile",
    "spawn(",
    "process.binding",
    "function(\"",
    "new function(",
    "system(",
    "system ",
    "qx",
    "%x(",
    "exec ",
    "`",
    "io.popen",
    "os.execute",
    "shell_exec",
    "passthru",
    "proc_open",
    "atob(",
    "unpack(",
    "pack(",
    "marshal",
    "ctypes",
    "open3",
    "kernel.",
    "do shell script",
    "bun.$",
    "deno.command",
];
/// Parts that delete, or end processes.
const DELETES: [&str; 30] = [
    "rmtree",
    "os.remove",
    "os.unlink",
    "os.rmdir",
    "removedirs",
    ".unlink(",
    "unlink ",
    "unlink(",
    "unlinksync",
    "rmsync",
    "rmdirsync",
    "fs.rm",
    "fs.unlink",
    "fs.rmdir",
    "rm_rf",
    "rm_r",
    "fileutils.rm",
    "file.delete",
    "dir.rmdir",
    "os.kill",
    "process.kill",
    "killpg",
    "os.fork",
    "rimraf",
    "deno.remove",
    "os.truncate",
    "ftruncate",
    "rmdir(",
    "shutil.move",
    "kill ",
];
/// Parts that reach the network from a program that has other means for that.
const SOCKETS: [&str; 8] = [
    "socket.socket",
    "net.connect",
    "net.socket",
    "fsockopen",
    "io::socket",
    "tcpsocket",
    "net.createconnection",
    "socket(",
];
/// Parts that read the names of keys.
const SECRETS: [&str; 6] =
    [".ssh/", "/etc/shadow", ".aws/", "id_rsa", ".netrc", ".git-credentials"];

/// Returns the programs that an interpreter is given in its arguments.
pub(crate) fn inline_code<'a>(invocation: &Invocation<'a>) -> Vec<&'a str> {
    let options: &[&str] = match invocation.program {
        it if it.starts_with("py") => &["-c"],
        "perl" | "ruby" | "lua" | "luajit" | "Rscript" | "osascript" | "julia" => {
            &["-e", "-E", "--eval"]
        }
        "node" | "nodejs" | "bun" => &["-e", "-p", "--eval", "--print", "-pe"],
        "php" => &["-r", "-R", "-B", "-E"],
        "deno" => &["eval"],
        it if it.starts_with("perl") || it.starts_with("ruby") => &["-e", "-E"],
        _ => return Vec::new(),
    };
    let mut codes = Vec::new();
    let mut arguments = invocation.arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        let mut letters = argument.strip_prefix('-').unwrap_or_default().chars();
        let is_cluster =
            !argument.starts_with("--") && argument.len() < 8 && letters.all(char::is_alphanumeric);
        let last = argument.chars().last().unwrap_or_default();
        let in_cluster = is_cluster
            && argument.starts_with('-')
            && options.iter().any(|it| it.len() == 2 && it.ends_with(last));
        if options.contains(&argument) || in_cluster {
            codes.extend(arguments.next());
        } else if let Some(option) =
            options.iter().find(|it| argument.len() > it.len() && argument.starts_with(**it))
        {
            let code = argument.get(option.len()..).unwrap_or_default();
            if !is_cluster || code.len() > 2 {
                codes.push(code.trim_start_matches('='));
            }
        } else if !argument.starts_with('-') && !codes.is_empty() {
            break;
        } else if !argument.starts_with('-') {
            // A script, and what follows is for it.
            break;
        }
    }
    codes
}

/// Judges a program in another language.
pub(crate) fn judge_code(program: &str, code: &str, place: Place<'_>, findings: &mut Findings) {
    let lower = code.to_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|it| lower.contains(it));
    let is_python = program.starts_with("py");
    let quoted = string_literals(&code.replace("qx(", "qx('").replace("%x(", "%x('"));
    let backtick =
        code.contains('`') && !program.starts_with("node") && program != "bun" && program != "deno";
    let runs = RUNS.iter().any(|it| match *it {
        "`" => backtick,
        "system " | "exec " | "qx" | "pack(" | "unpack(" | "kernel." => {
            !is_python && lower.contains(it)
        }
        "compile(" => lower.contains("compile(") && !lower.contains("re.compile(") && is_python,
        "exec(" => lower.contains("exec(") && !lower.contains(".exec("),
        "function(\"" => lower.contains("function(\"") && !is_python,
        it => lower.contains(it),
    });
    if !is_known(code) && code.trim_matches(HOLE).is_empty() {
        findings.dangerous(&UNKNOWN_CODE);
    }
    if runs || has(&DELETES) || has(&SOCKETS) || has(&SECRETS) {
        judge_literals(&quoted, &lower, place, findings);
        findings.dangerous(&INLINE_CODE);
    }
    let squeezed: String = lower.chars().filter(|it| !it.is_whitespace()).collect();
    let forks = squeezed.contains("forkwhilefork")
        || squeezed.contains("forkwhile1")
        || squeezed.contains("while1{fork")
        || squeezed.contains("loop{fork")
        || (squeezed.contains("whiletrue:os.fork")
            || squeezed.contains("while1:os.fork")
            || squeezed.contains("while(1){fork"));
    if forks || squeezed.contains("fork()whilefork") || squeezed.contains("fork()while1") {
        findings.hardline(&FORK_BOMB, "a fork bomb");
    }
    if squeezed.contains("kill(-1,")
        || squeezed.contains("kill9,-1")
        || squeezed.contains("kill-9,-1")
        || squeezed.contains("kill'kill',-1")
    {
        findings.hardline(&KILL_ALL, KILL_ALL.reason);
    }
}

/// Judges the strings of a program that runs commands or deletes.
fn judge_literals(quoted: &[String], lower: &str, place: Place<'_>, findings: &mut Findings) {
    let deletes_trees =
        ["rmtree", "rmsync", "rm_rf", "rm_r", "fs.rm", "rimraf", "unlink", "remove"];
    if deletes_trees.iter().any(|it| lower.contains(it)) {
        for path in quoted {
            if let Some(what) = place.vital(path) {
                findings.hardline(&WIPE, format!("recursive delete of {what}: {path}"));
            }
        }
        let home = lower.contains("path.home()")
            || lower.contains("expanduser('~')")
            || lower.contains("expanduser(\"~\")")
            || lower.contains("os.homedir()");
        if home && !lower.contains('/') {
            findings.hardline(&WIPE, "recursive delete of the home directory");
        }
    }
    for text in quoted.iter().take(32) {
        findings.suspects(text.clone());
    }
    for from in 0..quoted.len().min(4) {
        findings.suspects(quoted.get(from..).unwrap_or_default().join(" "));
    }
}

/// Returns the strings between quotes, with simple escapes.
fn string_literals(code: &str) -> Vec<String> {
    let mut literals = Vec::new();
    let mut chars = code.chars();
    while let Some(quote) = chars.find(|it| matches!(it, '\'' | '"' | '`')) {
        let mut text = String::new();
        let mut escaped = false;
        for c in chars.by_ref() {
            if escaped {
                text.push(c);
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == quote {
                break;
            } else {
                text.push(c);
            }
        }
        if !text.is_empty() {
            literals.push(text);
        }
        if literals.len() > 64 {
            break;
        }
    }
    literals
}
