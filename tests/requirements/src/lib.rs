//! What tests need beyond Rust and a C compiler, and the list of those that lack it.
//!
//! ```no_run
//! use deputize_requirements::{program, require};
//!
//! #[test]
//! fn a_server_in_python_is_reached() {
//!     require!(program("python3"));
//!     // …
//! }
//! # fn main() {}
//! ```
//!
//! Where Python is missing, this test ends at once. The harness counts it as passed, so it is also
//! entered in [`NOT_RUN`], in the target folder, with the reason. A test that runs removes its
//! entry.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file in the target folder with a line for each test that did not run: its name and why.
pub const NOT_RUN: &str = "not-run.txt";

/// Takes from the environment of a nested cargo what cargo has set for this test.
///
/// The build script of `ring` watches these variables: with them cargo builds everything above
/// `ring` again, here and at the next build of the same target folder.
pub fn remove_package_env(cargo: &mut Command) {
    let ours =
        |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| name.starts_with(start));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(ours)) {
        cargo.env_remove(name);
    }
}

/// Returns the value of a requirement. Where it is not met, enters the enclosing test in the list
/// and returns from it.
#[macro_export]
macro_rules! require {
    ($requirement:expr) => {
        match $crate::check($crate::test_path!(), $requirement) {
            Some(value) => value,
            None => return,
        }
    };
}

/// The path of the enclosing function, with its crate.
#[macro_export]
macro_rules! test_path {
    () => {{
        fn here() {}
        $crate::enclosing(here)
    }};
}

/// Returns the path of the function in which this one is defined.
#[must_use]
pub fn enclosing<F>(_: F) -> &'static str {
    let path = std::any::type_name::<F>();
    let (path, _) = path.rsplit_once("::").unwrap_or((path, ""));
    path.trim_end_matches("::{{closure}}")
}

/// Returns the name by which the harness knows a test: its path without the crate.
#[must_use]
pub fn harness_name(test_path: &str) -> &str {
    test_path.split_once("::").map_or(test_path, |(_, name)| name)
}

/// Enters a test in the list, or removes it, and returns the value of its requirement.
pub fn check<T>(test: &str, requirement: Result<T, String>) -> Option<T> {
    let file = target_folder().map(|folder| folder.join(NOT_RUN));
    let reason = requirement.as_ref().err();
    if let Some(reason) = reason {
        // Past the harness, which shows nothing of a test that passes.
        let _closed = writeln!(io::stderr(), "not run: {test}: {reason}");
    }
    if let Some(Err(error)) = file.map(|file| update(&file, test, reason.map(String::as_str))) {
        let _closed = writeln!(io::stderr(), "{NOT_RUN} cannot be written: {error}");
    }
    requirement.ok()
}

/// Holds that a program is in PATH.
///
/// # Errors
/// Says that it is not.
pub fn program(name: &str) -> Result<(), String> {
    if has_program(name) { Ok(()) } else { Err(format!("`{name}` is not in PATH")) }
}

/// Whether a program is in PATH.
#[must_use]
pub fn has_program(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()))
}

/// Holds that this program runs as root.
///
/// # Errors
/// Says that it does not.
pub fn root() -> Result<(), String> {
    // The owner of what is opened as this process, so that no system call of our own is needed.
    match fs::metadata("/proc/self").map(|own| own.uid()) {
        Ok(0) => Ok(()),
        _ => Err("it needs root".to_owned()),
    }
}

/// Writes the list anew: with this test and its reason, or without the test.
fn update(file: &Path, test: &str, reason: Option<&str>) -> io::Result<()> {
    if reason.is_none() && !file.exists() {
        return Ok(());
    }
    let mut list = OpenOptions::new();
    let mut list: File = list.read(true).write(true).create(true).truncate(false).open(file)?;
    // Tests of several programs write at once; the lock ends with the file.
    list.lock()?;
    let mut text = String::new();
    list.read_to_string(&mut text)?;
    let entry = format!("{test}: ");
    let mut lines: Vec<String> =
        text.lines().filter(|line| !line.starts_with(&entry)).map(str::to_owned).collect();
    lines.extend(reason.map(|reason| {
        let words: Vec<&str> = reason.split_whitespace().collect();
        entry + &words.join(" ")
    }));
    lines.sort();
    list.set_len(0)?;
    list.rewind()?;
    for line in lines {
        writeln!(list, "{line}")?;
    }
    Ok(())
}

/// The folder that cargo builds this program in.
fn target_folder() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let is_target = |folder: &&Path| fs::exists(folder.join("CACHEDIR.TAG")).unwrap_or(false);
    program.ancestors().find(is_target).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_listed_until_it_runs() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("list");
        update(&file, "it::a", None).unwrap();
        assert!(!file.exists(), "nothing to remove");
        update(&file, "it::b", Some("`node` is not in PATH")).unwrap();
        update(&file, "it::a", Some("npm says:\n  no network")).unwrap();
        update(&file, "it::b", Some("`npm` is not in PATH")).unwrap();
        let read = || fs::read_to_string(&file).unwrap();
        assert_eq!(read(), "it::a: npm says: no network\nit::b: `npm` is not in PATH\n");
        update(&file, "it::a", None).unwrap();
        assert_eq!(read(), "it::b: `npm` is not in PATH\n");
        update(&file, "it::b", None).unwrap();
        assert_eq!(read(), "");
    }

    #[test]
    fn a_test_is_named_by_its_path_also_inside_a_closure() {
        let path =
            "deputize_requirements::tests::a_test_is_named_by_its_path_also_inside_a_closure";
        assert_eq!(test_path!(), path);
        let (inner, outer) =
            (|| test_path!(), |inner: fn() -> &'static str| (inner(), test_path!()));
        assert_eq!(outer(inner), (path, path));
        let name = "tests::a_test_is_named_by_its_path_also_inside_a_closure";
        assert_eq!(harness_name(test_path!()), name);
    }

    #[test]
    fn what_is_required_is_had_or_missing() {
        assert_eq!(program("sh"), Ok(()));
        assert_eq!(program("no-such-program"), Err("`no-such-program` is not in PATH".to_owned()));
        assert_eq!(check(test_path!(), Ok(7)), Some(7));
    }
}
