//! What a project and its user tell agents in files of their own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use deputize_core::truncate::truncate_lines;
use deputize_documents::{read_exact_text, read_text};
use deputize_runtime::prompt::PROJECT_FILE_BYTES;

/// Files of a project that speak to agents, in each directory from the repository's root down.
const NAMES: [&str; 3] = ["AGENTS.md", "CLAUDE.md", ".cursorrules"];
/// The file of the person's home directory that says who the agent is.
const SOUL: &str = "SOUL.md";
/// A larger file is not read at all.
const FILE_BYTES: u64 = 1024 * 1024;

/// The files of a project that speak to agents.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Project {
    /// The root of the repository, if it is in one.
    pub root: Option<PathBuf>,
    /// Paths as the model reads them, and texts.
    pub files: Vec<(String, String)>,
    /// Files that were not read, or not all of them, and why.
    pub warnings: Vec<String>,
}

/// Reads `AGENTS.md`, `CLAUDE.md` and `.cursorrules` from the root of the repository that holds
/// `cwd` down to `cwd`. A link may not lead out of the repository, and of several names of one file
/// the first counts.
#[must_use]
pub fn read(cwd: &Path) -> Project {
    let root = root(cwd);
    let top = root.clone().unwrap_or_else(|| cwd.to_owned());
    let mut project = Project { root, ..Project::default() };
    let mut dirs: Vec<&Path> = cwd.ancestors().take_while(|dir| dir.starts_with(&top)).collect();
    dirs.reverse();
    let mut known = BTreeSet::new();
    for path in dirs.iter().flat_map(|dir| NAMES.map(|name| dir.join(name))) {
        if path.canonicalize().is_ok_and(|real| !known.insert(real)) {
            continue;
        }
        let shown = path.strip_prefix(&top).unwrap_or(&path).to_string_lossy().into_owned();
        match read_text(&path, FILE_BYTES, Some(&top)) {
            Ok(Some(text)) => {
                // A file may hold the character itself.
                if text.contains(char::REPLACEMENT_CHARACTER)
                    && read_exact_text(&path, FILE_BYTES).is_err()
                {
                    let mark = char::REPLACEMENT_CHARACTER;
                    let warning =
                        format!("{shown} is not all UTF-8 text: `{mark}` stands for the rest");
                    project.warnings.push(warning);
                }
                project.files.push((shown, text));
            }
            Ok(None) => {}
            Err(error) => project.warnings.push(format!("{shown} was not read: {error}")),
        }
    }
    project
}

/// Returns the root of the repository that holds a directory.
#[must_use]
pub fn root(cwd: &Path) -> Option<PathBuf> {
    cwd.ancestors().find(|dir| dir.join(".git").exists()).map(Path::to_owned)
}

/// Reads `SOUL.md` of the user's home directory of the program, which says who the agent is, up to
/// the limit of a project file. Adds a warning if it cannot be read, is not UTF-8 text, or is longer.
pub fn identity(home: &Path, warnings: &mut Vec<String>) -> Option<String> {
    let read = read_exact_text(&home.join(SOUL), FILE_BYTES);
    let read = read.inspect_err(|error| warnings.push(format!("{SOUL} was not read: {error}")));
    let mut text = read.ok().flatten()?;
    let (bytes, shown) = (text.len(), truncate_lines(&text, PROJECT_FILE_BYTES).len());
    if shown < bytes {
        warnings.push(format!(
            "{SOUL} has {bytes} bytes, and {shown} are in the prompt: it has room for \
             {PROJECT_FILE_BYTES} bytes; shorten it"
        ));
        text.truncate(shown);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(project: &Project) -> Vec<&str> {
        project.files.iter().map(|(path, _)| path.as_str()).collect()
    }

    #[test]
    fn files_from_the_root_down_and_none_above_or_beside() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let repo = base.join("repo");
        fs::create_dir_all(repo.join("a/b")).unwrap();
        fs::create_dir_all(repo.join("a/c")).unwrap();
        for path in ["AGENTS.md", "repo/AGENTS.md", "repo/a/.cursorrules", "repo/a/b/AGENTS.md"] {
            fs::write(base.join(path), path).unwrap();
        }
        fs::write(repo.join("a/c/AGENTS.md"), "beside").unwrap();
        let project = read(&repo.join("a/b"));
        assert_eq!(names(&project), ["AGENTS.md"], "without a repository only its own");
        fs::write(repo.join(".git"), "gitdir: elsewhere").unwrap();
        let project = read(&repo.join("a/b"));
        assert_eq!(names(&project), ["AGENTS.md", "a/.cursorrules", "a/b/AGENTS.md"]);
        assert_eq!(project.files[0].1, "repo/AGENTS.md");
        assert_eq!((project.root, project.warnings), (Some(repo), Vec::<String>::new()));
    }

    #[test]
    fn a_file_that_is_not_all_text_is_read_and_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("AGENTS.md"), b"Caf\xe9.\n").unwrap();
        fs::write(dir.path().join("CLAUDE.md"), "Café.\n").unwrap();
        let project = read(dir.path());
        assert_eq!(names(&project), ["AGENTS.md", "CLAUDE.md"]);
        let warning = "AGENTS.md is not all UTF-8 text: `\u{fffd}` stands for the rest";
        assert_eq!(project.warnings, [warning]);
    }

    #[test]
    fn what_must_not_be_read_is_not_and_said() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let repo = base.join("repo");
        fs::create_dir_all(repo.join(".git")).unwrap();
        fs::write(base.join("secret"), "s").unwrap();
        std::os::unix::fs::symlink("../secret", repo.join("AGENTS.md")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, repo.join(".cursorrules"), 0o600.into()).unwrap();
        let project = read(&repo);
        assert_eq!(project.files, Vec::new());
        assert_eq!(
            project.warnings,
            [
                "AGENTS.md was not read: it is a link that leaves the project",
                ".cursorrules was not read: it is not a regular file"
            ]
        );
        fs::remove_file(repo.join("AGENTS.md")).unwrap();
        fs::write(repo.join("AGENTS.md"), vec![b'x'; FILE_BYTES as usize + 1]).unwrap();
        assert!(read(&repo).warnings[0].contains("1048577 bytes, more than 1048576"));
    }

    #[test]
    fn an_identity_is_read_as_it_is_up_to_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let read = || {
            let mut warnings = Vec::new();
            (identity(dir.path(), &mut warnings), warnings.join("\n"))
        };
        assert_eq!(read(), (None, String::new()));
        fs::write(dir.path().join(SOUL), "I am\n").unwrap();
        assert_eq!(read(), (Some("I am\n".to_owned()), String::new()));
        fs::write(dir.path().join(SOUL), b"I am\n\xff").unwrap();
        let fault = "SOUL.md was not read: line 2 is not UTF-8 text";
        assert_eq!(read(), (None, fault.to_owned()));
        fs::write(dir.path().join(SOUL), "I am long.\n".repeat(10_000)).unwrap();
        let cut = "SOUL.md has 110000 bytes, and 16379 are in the prompt: it has room for 16384 bytes; \
                   shorten it";
        assert_eq!(read(), (Some("I am long.\n".repeat(16_379 / 11)), cut.to_owned()));
    }
}
