//! Finding the program once, before anything is started.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Why a program is not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// No directory has it.
    #[error("program `{}` not found in PATH ({}); install it or give its absolute path{}", name.display(), show_path(path.as_deref()), arguments(name))]
    NotFound {
        /// The name that was looked up.
        name: OsString,
        /// Where it was looked up.
        path: Option<OsString>,
    },
    /// There is no such file.
    #[error("program `{}` does not exist", path.display())]
    Missing {
        /// The path that was given.
        path: PathBuf,
    },
    /// The file is there, and it cannot be run.
    #[error("`{}` is not an executable file; set its execute permission or run it by its interpreter", path.display())]
    NotExecutable {
        /// Path of the file.
        path: PathBuf,
    },
    /// A path that depends on a working directory.
    #[error("program `{}` is a relative path; give an absolute path or a plain name{}", name.display(), arguments(name))]
    Relative {
        /// The given name.
        name: OsString,
    },
}

/// Returns advice for a name that looks like a whole line of a shell.
fn arguments(name: &OsStr) -> &'static str {
    match name.as_bytes().contains(&b' ') {
        true => "; no shell reads it: arguments are given by themselves, not behind the name",
        false => "",
    }
}

fn show_path(path: Option<&OsStr>) -> String {
    path.map_or_else(|| "not set".to_owned(), |path| path.display().to_string())
}

/// Finds the program: an absolute path is checked, a name is looked up in `path` (directories
/// separated by `:`). Relative and empty entries of `path` are passed over: they would make the
/// program depend on the working directory.
///
/// # Errors
///
/// If there is no such program, or it cannot be run.
pub fn resolve_program(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, ProgramError> {
    if name.as_bytes().contains(&b'/') {
        return check_path(Path::new(name));
    }
    let mut refused = None;
    for dir in path.unwrap_or_default().as_bytes().split(|byte| *byte == b':') {
        let dir = Path::new(OsStr::from_bytes(dir));
        if name.is_empty() || !dir.is_absolute() {
            continue;
        }
        let file = dir.join(name);
        if is_executable(&file) {
            return Ok(file);
        }
        if refused.is_none() && file.is_file() {
            refused = Some(file);
        }
    }
    Err(match refused {
        Some(path) => ProgramError::NotExecutable { path },
        None => {
            ProgramError::NotFound { name: name.to_owned(), path: path.map(OsStr::to_os_string) }
        }
    })
}

fn check_path(path: &Path) -> Result<PathBuf, ProgramError> {
    if !path.is_absolute() {
        return Err(ProgramError::Relative { name: path.into() });
    }
    if is_executable(path) {
        return Ok(path.to_owned());
    }
    let path = path.to_owned();
    Err(if path.exists() {
        ProgramError::NotExecutable { path }
    } else {
        ProgramError::Missing { path }
    })
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn place(dir: &Path, name: &str, mode: u32) -> PathBuf {
        let file = dir.join(name);
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn the_first_executable_file_in_the_path_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let a = dir.path().join("a");
        let b = dir.path().join("b");
        fs::create_dir_all(a.join("tool")).unwrap();
        fs::create_dir_all(&b).unwrap();
        place(&a, "plain", 0o644);
        let tool = place(&b, "tool", 0o755);
        let path = OsString::from(format!(":rel:{}:{}", a.display(), b.display()));
        let find = |name: &str| resolve_program(name.as_ref(), Some(&path));

        assert_eq!(find("tool").unwrap(), tool);
        assert!(matches!(find("plain"), Err(ProgramError::NotExecutable { .. })));
        assert!(matches!(find("none"), Err(ProgramError::NotFound { .. })));
        assert!(matches!(find(""), Err(ProgramError::NotFound { .. })));
        assert!(matches!(find("./tool"), Err(ProgramError::Relative { .. })));
        assert_eq!(find(tool.to_str().unwrap()).unwrap(), tool);
        assert!(matches!(find(a.to_str().unwrap()), Err(ProgramError::NotExecutable { .. })));
        assert!(matches!(find("/no/such/file"), Err(ProgramError::Missing { .. })));
        assert!(matches!(
            resolve_program("tool".as_ref(), None),
            Err(ProgramError::NotFound { path: None, .. })
        ));
    }
}
