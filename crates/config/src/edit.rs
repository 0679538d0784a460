//! One key of the person's configuration file changed by a program. The rest of the file stays as
//! it is, byte for byte; what cannot be done so is left to the person.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use deputize_file_lock::{LockError, lock};

use tempfile::NamedTempFile;

use super::keys::Config;
use super::load::{ConfigError, Sources, load};

/// How long another process that changes the file is waited for.
const LOCK_LIMIT: Duration = Duration::from_secs(20);

/// Why the person's configuration file was not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The environment names no home directory.
    #[error("no directory for the configuration: set DEPUTIZE_HOME to one")]
    NoPlace,
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// Another process changes the file, and does not end.
    #[error(
        "another process has been changing `{}` for {} seconds; try again when it has ended",
        .0.display(),
        LOCK_LIMIT.as_secs()
    )]
    Busy(PathBuf),
    /// The file has mistakes already.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Only a person can make this change, by hand.
    #[error("`{}` has a form that this program cannot edit; edit it by hand", .0.display())]
    Form(PathBuf),
}

/// The person's file, and what it means without environment and options.
#[derive(Debug)]
pub struct UserFile {
    /// Where the file is; a symbolic link is followed.
    pub path: PathBuf,
    text: String,
    /// The configuration of this file alone.
    pub config: Config,
}

impl UserFile {
    /// Reads the file. A missing file is an empty one.
    ///
    /// # Errors
    /// When there is no place for the file, it cannot be read, or has mistakes.
    pub fn read(sources: &Sources) -> Result<Self, FileError> {
        let path = real_path(sources)?;
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(FileError::Read { path, source }),
        };
        let config =
            if text.is_empty() { Config::default() } else { load(&alone(path.clone()))?.config };
        Ok(Self { path, text, config })
    }
}

/// Keeps other processes from changing the person's file, from before it is read until it is
/// written. Ends when it is dropped.
#[derive(Debug)]
pub struct UserFileLock(#[expect(dead_code, reason = "the lock ends with the file")] File);

impl UserFileLock {
    /// Waits for the lock of the file.
    ///
    /// # Errors
    /// When there is no place for the file, another process holds the lock for long, or nothing can
    /// be written there.
    pub fn wait(sources: &Sources) -> Result<Self, FileError> {
        let file = real_path(sources)?;
        // The file itself is replaced by a change, so it cannot be what is locked.
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let path = file.with_file_name(format!(".{name}.lock"));
        let wrong = |source| FileError::Write { path: path.clone(), source };
        fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(wrong)?;
        let held = File::create(&path).map_err(wrong)?;
        lock(held, LOCK_LIMIT, || false).map(Self).map_err(|error| match error {
            LockError::Busy => FileError::Busy(file),
            error => wrong(error.into()),
        })
    }
}

/// Returns where the person's file is. A link stays one: what it leads to is changed.
fn real_path(sources: &Sources) -> Result<PathBuf, FileError> {
    let path = sources.user_file().ok_or(FileError::NoPlace)?;
    Ok(path.canonicalize().unwrap_or(path))
}

fn alone(file: PathBuf) -> Sources {
    Sources { config_file: Some(file), cwd: "/dev/null".into(), ..Sources::default() }
}

/// Changes the text of the file, and checks with `is_right` that the configuration before and
/// after differ as they should. Only who holds the lock may change it.
///
/// # Errors
/// [`FileError::Form`] where the text is written in a way that `edit` cannot change.
pub fn change(
    _lock: &UserFileLock,
    sources: &Sources,
    edit: impl FnOnce(&str) -> Option<String>,
    is_right: impl FnOnce(&Config, &Config) -> bool,
) -> Result<PathBuf, FileError> {
    let UserFile { path, text, config: before } = UserFile::read(sources)?;
    let by_hand = || FileError::Form(path.clone());
    let changed = edit(&text).ok_or_else(by_hand)?;
    let wrong = |source| FileError::Write { path: path.clone(), source };
    let mut file = new_file(&path).map_err(wrong)?;
    file.write_all(changed.as_bytes()).map_err(wrong)?;
    let now = load(&alone(file.path().to_owned())).map_err(|_| by_hand())?.config;
    if !is_right(&before, &now) {
        return Err(by_hand());
    }
    if let Ok(old) = fs::metadata(&path) {
        fs::set_permissions(file.path(), old.permissions()).map_err(wrong)?;
    }
    file.as_file().sync_all().map_err(wrong)?;
    file.persist(&path).map_err(|error| wrong(error.error))?;
    Ok(path)
}

/// Creates the file that takes the place of another. Only who holds the lock does, so its name is
/// always the same, and what a killed process left under it goes.
fn new_file(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = format!(".{}.new", path.file_name().unwrap_or_default().to_string_lossy());
    let _there_may_be_none = fs::remove_file(folder.join(&name));
    tempfile::Builder::new().prefix(&name).rand_bytes(0).tempfile_in(folder)
}

/// Returns the lines of a file, and the index of the line of a top-level key.
pub fn find_key<'t>(text: &'t str, key: &str) -> (Vec<&'t str>, Option<usize>) {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_key =
        |line: &&str| line.strip_prefix(key).and_then(|rest| rest.strip_prefix(':')).is_some();
    let at = lines.iter().position(is_key);
    (lines, at)
}

/// Counts the spaces before a line's text.
pub fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Returns whether a line is empty or a comment.
pub fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// A change of a list of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListChange<'a> {
    /// Adds a name.
    Add(&'a str),
    /// Removes a name.
    Remove(&'a str),
}

/// Returns the text with an item added to a list or removed from it, where `all` is then the list.
/// `None` if the list is not written on one line, nor with one item a line.
pub fn with_item(text: &str, key: &str, change: ListChange<'_>, all: &[String]) -> Option<String> {
    let (lines, at) = find_key(text, key);
    let list = format!("[{}]", all.join(", "));
    let Some(at) = at else {
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return Some(format!("{text}{end}{key}: {list}\n"));
    };
    let (before, rest) = lines.split_at_checked(at)?;
    let (line, below) = rest.split_first()?;
    let value = line.split_once(':')?.1.trim_start();
    if value.starts_with('[') {
        let open = line.find('[')?;
        let close = line.find(']')?;
        let head = line.get(..open)?;
        let tail = line.get(close + 1..)?;
        return Some(format!("{}{head}{list}{tail}{}", before.concat(), below.concat()));
    }
    if !is_blank(value) {
        return None;
    }
    let items = below.iter().position(|line| !is_blank(line) && name_of(line).is_none());
    let (items, after) = below.split_at_checked(items.unwrap_or(below.len()))?;
    let kept: Vec<&str> = match change {
        ListChange::Add(_) => items.to_vec(),
        ListChange::Remove(name) => {
            items.iter().filter(|line| name_of(line) != Some(name)).copied().collect()
        }
    };
    let last = kept.iter().rposition(|line| name_of(line).is_some())?;
    let mut items = kept.get(..=last)?.concat();
    let remarks = kept.get(last + 1..)?.concat();
    if let ListChange::Add(name) = change {
        let deep = indent(kept.get(last)?);
        let end = if items.ends_with('\n') { "" } else { "\n" };
        items = format!("{items}{end}{}- {name}\n", " ".repeat(deep));
    }
    Some(format!("{}{line}{items}{remarks}{}", before.concat(), after.concat()))
}

/// Returns the text without a key of the whole file that has a list, which is written as above.
pub fn without_key(text: &str, key: &str) -> Option<String> {
    let (lines, at) = find_key(text, key);
    let (before, rest) = lines.split_at_checked(at?)?;
    let (line, below) = rest.split_first()?;
    let value = line.split_once(':')?.1.trim_start();
    if value.starts_with('[') {
        return value.contains(']').then(|| format!("{}{}", before.concat(), below.concat()));
    }
    if !is_blank(value) {
        return None;
    }
    let items = below.iter().position(|line| !is_blank(line) && name_of(line).is_none());
    let (items, after) = below.split_at_checked(items.unwrap_or(below.len()))?;
    let last = items.iter().rposition(|line| name_of(line).is_some())?;
    Some(format!("{}{}{}", before.concat(), items.get(last + 1..)?.concat(), after.concat()))
}

/// The name in a line that is an item of a list.
fn name_of(line: &str) -> Option<&str> {
    let item = line.trim().strip_prefix("- ")?;
    let item = item.split_once(" #").map_or(item, |(item, _)| item).trim();
    Some(item.trim_matches(['"', '\'']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str, change: ListChange<'_>, all: &[&str]) -> Option<String> {
        let all: Vec<String> = all.iter().map(|name| (*name).to_owned()).collect();
        with_item(text, "toolsets", change, &all)
    }

    #[test]
    fn a_list_that_is_not_there_is_written_at_the_end() {
        let file = "# mine\nmodel: offline";
        let now = changed(file, ListChange::Remove("web"), &["file", "terminal"]).unwrap();
        assert_eq!(now, "# mine\nmodel: offline\ntoolsets: [file, terminal]\n");
        assert_eq!(changed("", ListChange::Add("x"), &["x"]).unwrap(), "toolsets: [x]\n");
    }

    #[test]
    fn a_list_on_one_line_keeps_what_stands_around_it() {
        let file = "a: 1\ntoolsets: [file,  terminal] # only these\nb: 2\n";
        let now = changed(file, ListChange::Remove("terminal"), &["file"]).unwrap();
        assert_eq!(now, "a: 1\ntoolsets: [file] # only these\nb: 2\n");
    }

    #[test]
    fn an_item_of_its_own_line_comes_and_goes_with_its_remark() {
        let file =
            "toolsets: # given\n  - file   # reads\n  # runs\n  - 'terminal'\n\n# next\nb: 2\n";
        let now = changed(file, ListChange::Remove("file"), &["terminal"]).unwrap();
        assert_eq!(now, "toolsets: # given\n  # runs\n  - 'terminal'\n\n# next\nb: 2\n");
        let now = changed(file, ListChange::Add("web"), &["file", "terminal", "web"]).unwrap();
        assert_eq!(now, file.replace("'terminal'\n", "'terminal'\n  - web\n"));
        let flat = "toolsets:\n- file\n- web";
        let now = changed(flat, ListChange::Add("x"), &["file", "web", "x"]).unwrap();
        assert_eq!(now, "toolsets:\n- file\n- web\n- x\n");
    }

    #[test]
    fn a_list_that_is_not_needed_goes_with_its_items() {
        let without = |text| without_key(text, "toolsets");
        let file = "a: 1\ntoolsets: [file,  terminal] # only these\nb: 2\n";
        assert_eq!(without(file).unwrap(), "a: 1\nb: 2\n");
        let file =
            "toolsets: # given\n  - file   # reads\n  # runs\n  - 'terminal'\n\n# next\nb: 2\n";
        assert_eq!(without(file).unwrap(), "\n# next\nb: 2\n");
        for file in ["toolsets: [file,\n  web]\n", "toolsets: &all [file]\n", "b: 2\n"] {
            assert_eq!(without(file), None, "{file}");
        }
    }

    #[test]
    fn what_is_written_otherwise_is_not_touched() {
        for file in ["toolsets: [file,\n  web]\n", "toolsets: &all [file]\n", "toolsets:\n  file\n"]
        {
            assert_eq!(changed(file, ListChange::Remove("web"), &["file"]), None, "{file}");
        }
    }
}
