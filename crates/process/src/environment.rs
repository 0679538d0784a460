//! The environment of a child: an allow list, never what this process happens to have.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Variables that a child gets from its parent's environment.
const ALLOWED: &[&str] = &["HOME", "LANG", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];
const ALLOWED_PREFIX: &[u8] = b"LC_";

/// Variables by which a loader, an interpreter or a tool runs foreign code.
const HOOKS: &[&str] = &[
    "BASHOPTS",
    "BASH_ENV",
    "CORECLR_PROFILER_PATH",
    "DOTNET_STARTUP_HOOKS",
    "ENV",
    "EXINIT",
    "FPATH",
    "GCONV_PATH",
    "GIT_ASKPASS",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_TEMPLATE_DIR",
    "GLIBC_TUNABLES",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LESSCLOSE",
    "LESSOPEN",
    "LUA_INIT",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NPM_CONFIG_NODE_OPTIONS",
    "NPM_CONFIG_SCRIPT_SHELL",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PERLLIB",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "PROMPT_COMMAND",
    "PS4",
    "RUBYLIB",
    "RUBYOPT",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "SHELLOPTS",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "VIMINIT",
    "ZDOTDIR",
    "_JAVA_OPTIONS",
    "npm_config_node_options",
    "npm_config_script_shell",
];

/// Whole families of such variables. `BASH_FUNC_` is how a shell hands on its functions.
const HOOK_PREFIXES: &[&[u8]] = &[b"BASH_FUNC_", b"DYLD_", b"GIT_CONFIG", b"LD_", b"PYTHON"];

/// Returns the environment that every child starts from: the allowed variables of `parent`.
///
/// What the user names is added to it; then [`drop_hooks`] has the last word.
#[must_use]
pub fn base_env(parent: &BTreeMap<OsString, OsString>) -> BTreeMap<OsString, OsString> {
    let allowed = |name: &OsStr| {
        ALLOWED.iter().any(|allowed| name == *allowed)
            || name.as_encoded_bytes().starts_with(ALLOWED_PREFIX)
    };
    parent
        .iter()
        .filter(|(name, _)| allowed(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns true if a loader, an interpreter or a tool runs code that this variable names.
#[must_use]
pub fn is_hook(name: &OsStr) -> bool {
    HOOKS.iter().any(|hook| name == *hook)
        || HOOK_PREFIXES.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix))
}

/// Removes the variables that [`is_hook`] names, and returns their names.
pub fn drop_hooks(env: &mut BTreeMap<OsString, OsString>) -> Vec<OsString> {
    env.extract_if(.., |name, _| is_hook(name)).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(names: &[&str]) -> BTreeMap<OsString, OsString> {
        names.iter().map(|name| ((*name).into(), "v".into())).collect()
    }

    fn names(env: &BTreeMap<OsString, OsString>) -> Vec<&str> {
        env.keys().map(|name| name.to_str().unwrap()).collect()
    }

    #[test]
    fn only_the_allowed_variables_are_taken() {
        let parent = env(&[
            "PATH",
            "HOME",
            "USER",
            "SHELL",
            "LANG",
            "LC_ALL",
            "LC_TIME",
            "TERM",
            "TZ",
            "TMPDIR",
            "OPENAI_API_KEY",
            "LD_PRELOAD",
            "BASH_ENV",
            "PWD",
            "PATHS",
            "path",
            "XLC_ALL",
            "IFS",
            "SSH_AUTH_SOCK",
            "http_proxy",
            "BASH_FUNC_ls%%",
            "DEPUTIZE_OWNER",
            "",
        ]);
        assert_eq!(
            names(&base_env(&parent)),
            ["HOME", "LANG", "LC_ALL", "LC_TIME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"]
        );
    }

    #[test]
    fn hooks_are_dropped_and_named() {
        let mut named = env(&[
            "LD_PRELOAD",
            "LD_AUDIT",
            "DYLD_INSERT_LIBRARIES",
            "BASH_ENV",
            "ENV",
            "GIT_SSH_COMMAND",
            "GIT_CONFIG_COUNT",
            "NODE_OPTIONS",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "PERL5OPT",
            "BASH_FUNC_git%%",
            "GIT_AUTHOR_NAME",
            "LDFLAGS",
            "ENVIRONMENT",
            "NODE_ENV",
            "MY_LD_PRELOAD",
        ]);
        let dropped = drop_hooks(&mut named);
        assert_eq!(dropped.len(), 12, "{dropped:?}");
        assert_eq!(
            names(&named),
            ["ENVIRONMENT", "GIT_AUTHOR_NAME", "LDFLAGS", "MY_LD_PRELOAD", "NODE_ENV"]
        );
    }
}
