//! One key of the person's configuration file changed by a program. The rest of the file stays as
//! it is, byte for byte; what cannot be done so is left to the person.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::keys::Config;
use super::load::{Sources, load};
use crate::exit::CliError;

#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("there is no place for a configuration: set DEPUTIZE_HOME to a directory")]
    NoPlace,
    #[error("cannot read `{}`", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write `{}`", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` is written in a way that is not changed by a program", .0.display())]
    Form(PathBuf),
}

/// The file, its text, and what it means alone: what is set elsewhere has no say in that.
pub(crate) struct Own {
    pub(crate) path: PathBuf,
    text: String,
    pub(crate) config: Config,
}

impl Own {
    /// Reads it. One that is not there says nothing.
    pub(crate) fn read(sources: &Sources) -> Result<Self, CliError> {
        let path = sources.user_file().ok_or(FileError::NoPlace).map_err(CliError::failed)?;
        // A link stays one: what it leads to is changed.
        let path = path.canonicalize().unwrap_or(path);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(CliError::failed(FileError::Read { path, source })),
        };
        let config = if text.is_empty() {
            Config::default()
        } else {
            load(&alone(path.clone())).map_err(CliError::usage)?.config
        };
        Ok(Self { path, text, config })
    }
}

fn alone(file: PathBuf) -> Sources {
    Sources { config_file: Some(file), cwd: "/dev/null".into(), ..Sources::default() }
}

/// Changes the text of the file, and holds that it then says what it is to say. An error tells
/// whether the person may do it by hand.
pub(crate) fn change(
    sources: &Sources,
    edit: impl FnOnce(&str) -> Option<String>,
    is_right: impl FnOnce(&Config, &Config) -> bool,
) -> Result<PathBuf, (CliError, bool)> {
    let Own { path, text, config: before } = Own::read(sources).map_err(|error| (error, false))?;
    let by_hand = || (CliError::failed(FileError::Form(path.clone())), true);
    let changed = edit(&text).ok_or_else(by_hand)?;
    let wrong = |source| (CliError::failed(FileError::Write { path: path.clone(), source }), false);
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(wrong)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(wrong)?;
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

/// The place of a key of the whole file: its lines, and which of them is the key's.
pub(crate) fn place<'t>(text: &'t str, key: &str) -> (Vec<&'t str>, Option<usize>) {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_key =
        |line: &&str| line.strip_prefix(key).and_then(|rest| rest.strip_prefix(':')).is_some();
    let at = lines.iter().position(is_key);
    (lines, at)
}

pub(crate) fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Whether a line is empty or a remark.
pub(crate) fn says_nothing(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// A list of names under a key of the whole file, with one more or one less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    Add(&'a str),
    Remove(&'a str),
}

/// The text with an item of a list more or less, where `all` is then the list. Nothing where the
/// list is not written on one line, nor with one item a line.
pub(crate) fn with_item(text: &str, key: &str, item: Item<'_>, all: &[String]) -> Option<String> {
    let (lines, at) = place(text, key);
    let list = format!("[{}]", all.join(", "));
    let Some(at) = at else {
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return Some(format!("{text}{end}{key}: {list}\n"));
    };
    let (before, rest) = lines.split_at_checked(at)?;
    let (line, below) = rest.split_first()?;
    let value = line.split_once(':')?.1.trim_start();
    if value.starts_with('[') {
        let (open, close) = (line.find('[')?, line.find(']')?);
        let (head, tail) = (line.get(..open)?, line.get(close + 1..)?);
        return Some(format!("{}{head}{list}{tail}{}", before.concat(), below.concat()));
    }
    if !says_nothing(value) {
        return None;
    }
    let items = below.iter().position(|line| !says_nothing(line) && name_of(line).is_none());
    let (items, after) = below.split_at_checked(items.unwrap_or(below.len()))?;
    let kept: Vec<&str> = match item {
        Item::Add(_) => items.to_vec(),
        Item::Remove(name) => {
            items.iter().filter(|line| name_of(line) != Some(name)).copied().collect()
        }
    };
    let last = kept.iter().rposition(|line| name_of(line).is_some())?;
    let (mut items, remarks) = (kept.get(..=last)?.concat(), kept.get(last + 1..)?.concat());
    if let Item::Add(name) = item {
        let deep = indent(kept.get(last)?);
        let end = if items.ends_with('\n') { "" } else { "\n" };
        items = format!("{items}{end}{}- {name}\n", " ".repeat(deep));
    }
    Some(format!("{}{line}{items}{remarks}{}", before.concat(), after.concat()))
}

/// The text without a key of the whole file that has a list, which is written as above.
pub(crate) fn without_key(text: &str, key: &str) -> Option<String> {
    let (lines, at) = place(text, key);
    let (before, rest) = lines.split_at_checked(at?)?;
    let (line, below) = rest.split_first()?;
    let value = line.split_once(':')?.1.trim_start();
    if value.starts_with('[') {
        return value.contains(']').then(|| format!("{}{}", before.concat(), below.concat()));
    }
    if !says_nothing(value) {
        return None;
    }
    let items = below.iter().position(|line| !says_nothing(line) && name_of(line).is_none());
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

    fn changed(text: &str, item: Item<'_>, all: &[&str]) -> Option<String> {
        let all: Vec<String> = all.iter().map(|name| (*name).to_owned()).collect();
        with_item(text, "toolsets", item, &all)
    }

    #[test]
    fn a_list_that_is_not_there_is_written_at_the_end() {
        let file = "# mine\nmodel: offline";
        let now = changed(file, Item::Remove("web"), &["file", "terminal"]).unwrap();
        assert_eq!(now, "# mine\nmodel: offline\ntoolsets: [file, terminal]\n");
        assert_eq!(changed("", Item::Add("x"), &["x"]).unwrap(), "toolsets: [x]\n");
    }

    #[test]
    fn a_list_on_one_line_keeps_what_stands_around_it() {
        let file = "a: 1\ntoolsets: [file,  terminal] # only these\nb: 2\n";
        let now = changed(file, Item::Remove("terminal"), &["file"]).unwrap();
        assert_eq!(now, "a: 1\ntoolsets: [file] # only these\nb: 2\n");
    }

    #[test]
    fn an_item_of_its_own_line_comes_and_goes_with_its_remark() {
        let file =
            "toolsets: # given\n  - file   # reads\n  # runs\n  - 'terminal'\n\n# next\nb: 2\n";
        let now = changed(file, Item::Remove("file"), &["terminal"]).unwrap();
        assert_eq!(now, "toolsets: # given\n  # runs\n  - 'terminal'\n\n# next\nb: 2\n");
        let now = changed(file, Item::Add("web"), &["file", "terminal", "web"]).unwrap();
        assert_eq!(now, file.replace("'terminal'\n", "'terminal'\n  - web\n"));
        let flat = "toolsets:\n- file\n- web";
        let now = changed(flat, Item::Add("x"), &["file", "web", "x"]).unwrap();
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
            assert_eq!(changed(file, Item::Remove("web"), &["file"]), None, "{file}");
        }
    }
}
