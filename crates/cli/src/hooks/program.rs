//! Whether the program of a hook is there, as far as that can be seen without running it.

use std::path::{Path, PathBuf};

use super::commands;
use crate::config::Hooks;
use crate::process_env::ProcessEnv;

/// Builtin commands of a shell.
const SHELL: [&str; 38] = [
    ".", ":", "alias", "bg", "break", "case", "cd", "command", "continue", "echo", "eval", "exec",
    "exit", "export", "false", "fg", "for", "getopts", "hash", "if", "kill", "printf", "pwd",
    "read", "readonly", "return", "set", "shift", "test", "times", "trap", "true", "type",
    "ulimit", "umask", "unset", "until", "while",
];

/// Returns the keys of the hooks whose program cannot be run, each with what is wrong.
pub(crate) fn faults(hooks: &Hooks, env: &ProcessEnv) -> Vec<(String, String)> {
    let faulty = commands(hooks).filter_map(|hook| {
        let why = fault(&hook.command, env)?;
        let key = format!("hooks.{}", hook.point.as_str());
        let text = format!("`{key}`: {why}; a hook that cannot run stops nothing");
        Some((key, text))
    });
    faulty.collect()
}

/// Returns the fault of a command's first word, if that is a plain path or name. A path that
/// depends on the directory of the agent is not looked for.
fn fault(command: &str, env: &ProcessEnv) -> Option<String> {
    let ends = |c: char| c.is_whitespace() || ";&|<>()".contains(c);
    let (word, rest) = command
        .trim_start()
        .split_at(command.trim_start().find(ends).unwrap_or(command.trim_start().len()));
    let plain = |c: char| c.is_alphanumeric() || "_-./+~@%,".contains(c);
    let defines = rest.trim_start().starts_with('(');
    if word.is_empty() || defines || !word.chars().all(plain) || SHELL.contains(&word) {
        return None;
    }
    let path = match word.strip_prefix("~/") {
        Some(own) => Path::new(env.var("HOME")?).join(own),
        None if word.starts_with('/') => PathBuf::from(word),
        None if word.contains(['/', '~']) => return None,
        None => {
            return on_path(word, env)
                .is_none()
                .then(|| format!("there is no program `{word}` on the PATH"));
        }
    };
    match path.metadata() {
        Err(error) => Some(format!("`{word}` cannot be run: {error}")),
        Ok(meta) if meta.is_dir() => Some(format!("`{word}` is a directory")),
        Ok(_) if runs(&path) => None,
        Ok(_) => Some(format!("`{word}` may not be run (chmod +x {word})")),
    }
}

/// A program that is found by its name.
pub(crate) fn on_path(program: &str, env: &ProcessEnv) -> Option<PathBuf> {
    let path = env.var("PATH").unwrap_or_default();
    std::env::split_paths(path).map(|dir| dir.join(program)).find(|path| runs(path))
}

fn runs(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_first_word_is_looked_for() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("plain"), "").unwrap();
        let home = home.path().to_str().unwrap();
        let bin = "/usr/bin:/bin";
        let env = ProcessEnv::for_tests(&[("HOME", home), ("PATH", bin)]);
        for fine in [
            "cat >> ~/calls",
            "sh -c true",
            "  /bin/sh -c true",
            "cd /nowhere && x",
            "X=1 nothing",
            "\"$HOME/x\"",
            "$HOME/x",
            "./in-the-project",
            "~someone/x",
            "check() { :; }; check",
            "(nothing)",
            "# a remark",
            "",
            "[ -e x ]",
            "{ x; }",
            "echo>x",
        ] {
            assert_eq!(fault(fine, &env), None, "{fine}");
        }
        let describe = |command| fault(command, &env).unwrap();
        assert_eq!(
            describe("no-such-program"),
            "there is no program `no-such-program` on the PATH"
        );
        assert_eq!(
            describe("no-such-program|cat"),
            "there is no program `no-such-program` on the PATH"
        );
        assert_eq!(describe("~/plain -x"), "`~/plain` may not be run (chmod +x ~/plain)");
        assert!(describe("~/typo").starts_with("`~/typo` cannot be run: No such file"));
        assert_eq!(describe("/usr/bin"), "`/usr/bin` is a directory");
    }
}
