//! Variables that make other programs run code.

use crate::field::base_name;
use crate::findings::Findings;
use crate::rule::{ENVIRONMENT, HISTORY};

/// Variables of which any value is code, or the path of code.
const CODE: [&str; 16] = [
    "LD_PRELOAD",
    "LD_AUDIT",
    "DYLD_INSERT_LIBRARIES",
    "BASH_ENV",
    "PERL5OPT",
    "PERL5DB",
    "PYTHONSTARTUP",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
    "GIT_TEMPLATE_DIR",
    "GIT_EXEC_PATH",
    "BASH_FUNC_",
    "PROMPT_COMMAND",
    "PYTHONINSPECT",
    "GCONV_PATH",
    "GIT_CONFIG_COUNT",
];
/// Variables whose value is a command that some program runs.
const COMMANDS: [&str; 20] = [
    "GIT_SSH_COMMAND",
    "GIT_SSH",
    "GIT_PAGER",
    "PAGER",
    "MANPAGER",
    "EDITOR",
    "VISUAL",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_EXTERNAL_DIFF",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "GIT_PROXY_COMMAND",
    "PSQL_PAGER",
    "TAR_OPTIONS",
    "RSYNC_RSH",
];
/// Programs that such a value may name.
const KNOWN: [&str; 26] = [
    "cat", "less", "more", "bat", "delta", "true", "false", ":", "vi", "vim", "nvim", "nano",
    "emacs", "code", "ed", "sed", "echo", "ssh", "head", "most", "hx", "micro", "subl", "open",
    "xdg-open", "firefox",
];

/// Judges the assignment of a variable.
pub(crate) fn judge_variable(name: &str, value: &str, findings: &mut Findings) {
    if value.is_empty() {
        return;
    }
    if name == "HISTFILE" && value == "/dev/null" {
        findings.dangerous(&HISTORY);
    }
    if CODE.iter().any(|it| *it == name || (it.ends_with('_') && name.starts_with(it))) {
        findings.dangerous(&ENVIRONMENT);
    }
    if COMMANDS.contains(&name) {
        let program = value.split_whitespace().next().map(base_name).unwrap_or_default();
        let is_plain =
            !value.contains([';', '|', '&', '$', '`', '\n']) && !value.contains("ProxyCommand");
        if !is_plain || !KNOWN.contains(&program) {
            findings.dangerous(&ENVIRONMENT);
            findings.suspects(value);
        }
    }
    let loads = ["--require", "-r ", "--import", "--loader", "--experimental-loader"];
    if name == "NODE_OPTIONS" && loads.iter().any(|it| value.contains(it)) {
        findings.dangerous(&ENVIRONMENT);
    }
    if name.starts_with("GIT_CONFIG_VALUE") || name.starts_with("GIT_CONFIG_KEY") {
        findings.dangerous(&ENVIRONMENT);
    }
}
