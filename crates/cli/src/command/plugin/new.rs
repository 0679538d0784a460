//! `deputize plugin new`: a plugin project that builds and passes its check.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::exit::CliError;
use crate::surroundings::{Surroundings, print};

/// Where this program was built, for projects made with one that was not published.
const SOURCE: &str = env!("CARGO_MANIFEST_DIR");

const MANIFEST: &str = include_str!("new/Cargo.toml.in");
const LIBRARY: &str = include_str!("new/lib.rs.in");
const IGNORED: &str = "/target\n";

/// Why there is no project.
#[derive(Debug, thiserror::Error)]
enum NewError {
    #[error(
        "`{0}` cannot be the name of a project: use lower case letters, digits, `-` and `_`, and \
         begin with a letter"
    )]
    Name(String),
    #[error("`{}` is there and is not empty; name a directory that is to be made", .0.display())]
    Taken(PathBuf),
    #[error("`{}` cannot be written", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Writes a project, and says what comes next.
pub(super) fn new(around: &Surroundings, dir: &Path) -> Result<(), CliError> {
    let path = around.cwd(None)?.join(dir);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !is_name(&name) {
        return Err(CliError::usage(NewError::Name(name)));
    }
    let is_empty = fs::read_dir(&path).map(|mut entries| entries.next().is_none());
    if path.symlink_metadata().is_ok() && !is_empty.unwrap_or(false) {
        return Err(CliError::usage(NewError::Taken(path)));
    }
    let manifest = MANIFEST
        .replace("{name}", &name)
        .replace("{core}", &dependency("crates/core", "deputize-core"))
        .replace("{plugin}", &dependency("plugins/sdk", "deputize-plugin"));
    let library = LIBRARY.replace("{name}", &name);
    for (file, text) in
        [("Cargo.toml", manifest.as_str()), ("src/lib.rs", &library), (".gitignore", IGNORED)]
    {
        write(&path.join(file), text).map_err(CliError::failed)?;
    }
    let (start, end) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let built = format!("target/release/{start}{}{end}", name.replace('-', "_"));
    print(&format!(
        "A tool crate that is also a plugin: {shown}\n\n\
         cd {shown}\n\
         cargo test\n\
         cargo build --release\n\
         deputize plugin check {built}\n\n\
         The check prints what the configuration needs for it.\n",
        shown = dir.display()
    ))
}

/// What a manifest says after the name of one of our crates: where it is, when this program was
/// built from a checkout that is still there; else its version.
fn dependency(place: &str, name: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let here = Path::new(SOURCE).ancestors().nth(2).map(|root| root.join(place));
    let manifest = here.as_ref().and_then(|path| fs::read_to_string(path.join("Cargo.toml")).ok());
    match here {
        Some(path) if manifest.is_some_and(|text| text.contains(&format!("\"{name}\""))) => {
            // As JSON: a path may hold anything.
            let path = serde_json::Value::String(path.display().to_string());
            format!("path = {path}, version = \"{version}\"")
        }
        _ => format!("version = \"{version}\""),
    }
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= 64
        && name.chars().all(plain)
}

fn write(path: &Path, text: &str) -> Result<(), NewError> {
    let failed = |source| NewError::Write { path: path.to_owned(), source };
    fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
    fs::write(path, text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_cargo_and_a_file_system_take() {
        assert!(is_name("my-words_2"));
        for name in ["", "2words", "My", "a/b", "a b", "..", &"a".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn a_crate_of_ours_is_found_where_it_is_or_by_its_version() {
        assert!(dependency("crates/core", "deputize-core").starts_with("path = \""));
        let version = format!("version = \"{}\"", env!("CARGO_PKG_VERSION"));
        assert_eq!(dependency("crates/core", "deputize-elsewhere"), version);
        assert_eq!(dependency("crates/none", "deputize-none"), version);
    }
}
