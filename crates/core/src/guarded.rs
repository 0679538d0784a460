//! What no file tool writes, although it lies under a directory that its agent may write.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use crate::door::is_invisible;

/// Names that programs take commands from without asking anybody. The first is a directory, or a
/// file that names one.
const NAMES: [&str; 4] = [".git", ".gitmodules", ".envrc", ".mcp.json"];
/// What `.git` is called too where file systems have short names.
const SHORT_GIT: &str = "git~1";

/// Why a path is not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Guarded {
    /// It is, or lies below, something of a name that other programs take commands from.
    #[error(
        "file tools do not write `{0}` or below it: other programs run what stands there, and \
         nobody would be asked. Leave it to the person, or use a command that they can approve, \
         such as `git config` for `.git`"
    )]
    Name(&'static str),
    /// It lies in a folder of the runtime itself.
    #[error(
        "file tools do not write `{}` or below it: this program obeys what stands there \
         (settings, approvals, sessions). Leave it to the person, and tell them what to change",
        .0.display()
    )]
    Own(PathBuf),
}

impl Guarded {
    /// What guards a path by the names in it.
    pub(crate) fn by_name(path: &Path) -> Option<Self> {
        path.components().find_map(|part| match part {
            Component::Normal(name) => guarded_name(name).map(Self::Name),
            _ => None,
        })
    }

    /// What guards a path because it lies in one of these folders.
    pub(crate) fn by_place<'a>(
        path: &Path,
        kept: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Option<Self> {
        kept.into_iter().find(|kept| lies_in(path, kept)).cloned().map(Self::Own)
    }
}

/// The guarded name that a file system may take a name for: some compare without regard to case,
/// pass over invisible characters, dots and spaces at the end, or what is behind a colon.
fn guarded_name(name: &OsStr) -> Option<&'static str> {
    let name = name.to_string_lossy();
    let visible: String = name.chars().filter(|c| !is_invisible(*c)).collect();
    let plain = visible.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    let is = |guarded: &str| plain.eq_ignore_ascii_case(guarded);
    if is(SHORT_GIT) { NAMES.first().copied() } else { NAMES.into_iter().find(|name| is(name)) }
}

/// Whether a path is a folder or lies below it, without regard to case, as on some file systems.
fn lies_in(path: &Path, folder: &Path) -> bool {
    let mut parts = path.components();
    folder.components().all(|wanted| {
        parts.next().is_some_and(|part| part.as_os_str().eq_ignore_ascii_case(wanted.as_os_str()))
    })
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
        ] {
            assert!(Guarded::by_name(Path::new(path)).is_some(), "{path}");
        }
        for path in [
            "/w/.gitignore",
            "/w/.gitattributes",
            "/w/.github/workflows/ci.yml",
            "/w/git/config",
            "/w/x.git/config",
            "/w/.env",
            "/w/.vscode/settings.json",
            "/w/mcp.json",
            "/w/...",
        ] {
            assert_eq!(Guarded::by_name(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn a_folder_guards_itself_and_what_is_below() {
        let kept = [PathBuf::from("/h/.config/deputize")];
        let guards = |path: &str| Guarded::by_place(Path::new(path), &kept).is_some();
        for path in ["/h/.config/deputize", "/h/.config/deputize/mcp/x", "/h/.Config/Deputize/x"] {
            assert!(guards(path), "{path}");
        }
        for path in ["/h", "/h/.config", "/h/.config/deputize2", "/h/.config/other/deputize"] {
            assert!(!guards(path), "{path}");
        }
    }
}
