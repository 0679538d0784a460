//! Protected paths: no file tool writes them, even in a directory that its agent may write. And
//! instructions for agents, which are written if a person agrees.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use crate::escape::is_invisible;

/// Path endings of files that other programs obey without asking anyone. The first is a directory,
/// or a file that names one.
const NAMES: [&str; 23] = [
    ".git",
    ".gitmodules",
    ".gitconfig",
    ".config/git/config",
    ".husky",
    ".envrc",
    ".mcp.json",
    ".cursor/mcp.json",
    ".vscode",
    ".idea",
    ".npmrc",
    ".ssh",
    ".config/autostart",
    ".profile",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
];
/// Path endings of files and folders that agents and other programs of the kind read as instructions
/// or as settings of theirs.
const INSTRUCTIONS: [&str; 21] = [
    "AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.md",
    "CLAUDE.local.md",
    "GEMINI.md",
    ".cursorrules",
    ".cursor/rules",
    ".windsurfrules",
    ".github/copilot-instructions.md",
    ".github/instructions",
    ".opencode/agent",
    ".agents/skills",
    ".claude/agents",
    ".claude/commands",
    ".claude/hooks",
    ".claude/rules",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/skills",
    // For agents that work inside `.deputize`; to others all of it is closed.
    ".deputize/agents",
    ".deputize/skills",
];
/// Another name of `.git` on file systems with short names.
const SHORT_GIT: &str = "git~1";

/// Why a path is protected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtectedPath {
    /// It is, or lies below, a path with a name that other programs obey.
    #[error(
        "{}, and nobody would be asked. Leave it to the person, or use a command that they can \
         approve, such as `git config` for `.git`",
        self.rule()
    )]
    Name(&'static str),
    /// It is, or lies below, a path given to
    /// [`Authority::with_protected_paths`](crate::Authority::with_protected_paths).
    #[error(
        "{}, and nobody would be asked. Leave it to the person, and tell them what to change",
        self.rule()
    )]
    Own(PathBuf),
}

impl ProtectedPath {
    /// Returns the rule for a person, without the advice that a model gets.
    #[must_use]
    pub fn rule(&self) -> String {
        let (path, why) = match self {
            Self::Name(name) => ((*name).to_owned(), "other programs run what stands there"),
            Self::Own(path) => {
                (path.display().to_string(), "this program or another obeys what stands there")
            }
        };
        format!("file tools do not write `{path}` or below it: {why}")
    }

    /// Returns why a path is protected by the names in it.
    pub(crate) fn by_name(path: &Path) -> Option<Self> {
        let names = plain_names(path);
        let is_short = names.iter().any(|name| name == SHORT_GIT);
        let git = NAMES.first().filter(|_| is_short);
        git.or_else(|| NAMES.iter().find(|guarded| has_in_it(&names, Path::new(guarded))))
            .map(|guarded| Self::Name(guarded))
    }

    /// Returns why a path is protected by one of these: it lies below an absolute one, or anywhere
    /// below a path with the names of a relative one.
    pub(crate) fn by_place<'a>(
        path: &Path,
        kept: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Option<Self> {
        let names = plain_names(path);
        let holds = |kept: &&PathBuf| {
            if kept.is_absolute() { lies_in(path, kept) } else { has_in_it(&names, kept) }
        };
        kept.into_iter().find(holds).cloned().map(Self::Own)
    }
}

/// Returns the name of the instructions for agents that a path is or lies in; `None` if it is none.
/// To write there needs an approval, because later sessions obey it.
///
/// ```
/// use deputize_core::protected_path::instruction_file;
///
/// assert_eq!(instruction_file("/w/docs/agents.md".as_ref()), Some("AGENTS.md"));
/// assert_eq!(instruction_file("/w/.claude/agents/review.md".as_ref()), Some(".claude/agents"));
/// assert_eq!(instruction_file("/w/docs/my-agents.md".as_ref()), None);
/// ```
#[must_use]
pub fn instruction_file(path: &Path) -> Option<&'static str> {
    let names = plain_names(path);
    INSTRUCTIONS.into_iter().find(|name| has_in_it(&names, Path::new(name)))
}

/// Folds the case of a name as file systems may: by uppercase first, for which `ſ` is `S` and `ﬁ` is
/// `FI`.
fn fold_case(name: &str) -> String {
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// Returns the names in a path as a file system may interpret them: some ignore case, invisible
/// characters, trailing dots and spaces, or everything after a colon.
fn plain_names(path: &Path) -> Vec<String> {
    let plain = |name: &OsStr| {
        let name = name.to_string_lossy();
        let visible: String = name.chars().filter(|c| !is_invisible(*c)).collect();
        let plain = visible.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
        fold_case(plain)
    };
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(plain(name)),
        _ => None,
    });
    names.collect()
}

/// Returns whether the names of a protected path occur consecutively among these.
fn has_in_it(names: &[String], guarded: &Path) -> bool {
    let guarded = plain_names(guarded);
    !guarded.is_empty() && names.windows(guarded.len()).any(|names| *names == *guarded)
}

/// Returns whether a path is a folder or lies below it, ignoring case as some file systems do.
fn lies_in(path: &Path, folder: &Path) -> bool {
    let fold = |part: Component<'_>| fold_case(&part.as_os_str().to_string_lossy());
    let mut parts = path.components();
    folder.components().all(|wanted| parts.next().is_some_and(|part| fold(part) == fold(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_guarded_in_every_spelling_that_a_file_system_may_take_for_it() {
        for path in [
            "/w/.git",
            "/w/.git/config",
            "/w/a/.GIT/hooks/pre-commit",
            "/w/.git/modules/x/config",
            "/w/.Git./config",
            "/w/.git /config",
            "/w/.g\u{200c}it/config",
            "/w/.git::$INDEX_ALLOCATION/config",
            "/w/GIT~1/config",
            "/w/.gitmodules",
            "/w/a/.envrc",
            "/w/.MCP.json",
            "/w/.mcp.j\u{17f}on",
            "/w/.gitmodule\u{17f}",
            "/w/.gitcon\u{fb01}g",
            "/h/.gitconfig",
            "/h/.GitConfig.",
            "/h/.config/git/config",
            "/h/.Config/GIT/config",
            "/w/.husky/pre-commit",
            "/w/a/.Husky/_/x",
            "/w/.cursor/mcp.json",
            "/w/.vscode/tasks.json",
            "/w/.VSCode/settings.json",
            "/w/a/.idea/workspace.xml",
            "/w/.npmrc",
            "/h/.SSH/authorized_keys",
            "/h/.config/autostart/x.desktop",
            "/h/.profile",
            "/h/.bashrc",
            "/h/.bash_profile",
            "/h/.bash_login",
            "/h/.bash_logout",
            "/h/.zshrc",
            "/h/.zshenv",
            "/h/.zprofile",
            "/h/.zlogin",
            "/h/.zlogout",
        ] {
            assert!(ProtectedPath::by_name(Path::new(path)).is_some(), "{path}");
        }
    }

    #[test]
    fn names_of_ordinary_work_are_not_guarded() {
        for path in [
            "/w/.gitignore",
            "/w/.gitattributes",
            "/w/.github/workflows/ci.yml",
            "/w/git/config",
            "/w/x.git/config",
            "/w/.env",
            "/w/.pre-commit-config.yaml",
            "/w/.editorconfig",
            "/w/vscode/settings.json",
            "/w/husky/x",
            "/w/a.npmrc",
            "/w/.nvmrc",
            "/w/profile",
            "/w/.profiles/x",
            "/w/ssh/config",
            "/w/.bashrc.d/x",
            "/w/.cursor/notes.md",
            "/w/.config/app.yaml",
            "/w/.config/autostart.md",
            "/w/mcp.json",
            "/w/gitconfig",
            "/w/.config/git",
            "/w/.config/git/ignore",
            "/w/git/config",
            "/w/.config/x/git/config",
            "/w/...",
        ] {
            assert_eq!(ProtectedPath::by_name(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn a_relative_path_guards_what_has_its_names_anywhere() {
        let kept = [PathBuf::from(".own"), PathBuf::from(".köke")];
        let guards = |path: &str| ProtectedPath::by_place(Path::new(path), &kept).is_some();
        for path in
            ["/w/.\u{212a}Ö\u{212a}E", "/w/.own", "/w/.own/config.yaml", "/w/a/.OWN./x", "/.own"]
        {
            assert!(guards(path), "{path}");
        }
        for path in ["/w/own", "/w/.own2/x", "/w/.ow/n"] {
            assert!(!guards(path), "{path}");
        }
    }

    #[test]
    fn a_folder_guards_itself_and_what_is_below() {
        let kept = ["/h/.config/deputize", "/h/ärzte"].map(PathBuf::from);
        let guards = |path: &str| ProtectedPath::by_place(Path::new(path), &kept).is_some();
        for path in [
            "/h/.config/deputize",
            "/h/.config/deputize/mcp/x",
            "/h/.Config/Deputize/x",
            "/H/ÄRZTE/x",
        ] {
            assert!(guards(path), "{path}");
        }
        for path in ["/h", "/h/.config", "/h/.config/deputize2", "/h/.config/other/deputize"] {
            assert!(!guards(path), "{path}");
        }
    }
}
