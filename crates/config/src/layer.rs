//! The layers above the defaults: a file, environment variables, and options.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use super::place::{ConfigPlace, ConfigSource, Problem, printable};
use super::schema;
use super::tree::{self, MAX_DEPTH, PlacedEntry, PlacedValue, Value};

/// Bytes of a configuration file.
pub const MAX_FILE_BYTES: u64 = 262_144;

/// Prefix of the environment variables that set keys.
const ENV_PREFIX: &str = "DEPUTIZE__";

/// Reads a configuration file. `None`: there is none, or nothing of it could be read, and then
/// `problems` says why. A missing file is a problem only when it `must_exist`.
pub(super) fn file(
    path: &Path,
    must_exist: bool,
    problems: &mut Vec<Problem>,
) -> Option<PlacedValue> {
    let source = Arc::new(ConfigSource::File(path.to_owned()));
    match read(path) {
        Ok(bytes) => {
            let text = utf8(&bytes, &source).map_err(|problem| problems.push(problem)).ok()?;
            let root = tree::parse(text, &source, problems)?;
            mapping(root, problems)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && !must_exist => None,
        Err(error) => {
            let message = match error.kind() {
                io::ErrorKind::NotFound => "there is no such file".to_owned(),
                _ => printable(&error.to_string()),
            };
            problems.push(Problem::new(&ConfigPlace::whole(&source), message));
            None
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a FIFO would wait for a writer.
    let kind = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_symlink() => {
            return Err(io::Error::other("this link leads nowhere"));
        }
        other => other?.file_type(),
    };
    if kind.is_dir() {
        return Err(io::Error::other("this is a directory; name the file in it"));
    }
    if !kind.is_file() {
        return Err(io::Error::other("this is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let size = fs::metadata(path).map_or(0, |meta| meta.len()).max(bytes.len() as u64);
        let message = format!("it has {size} bytes; a configuration has at most {MAX_FILE_BYTES}");
        return Err(io::Error::other(message));
    }
    Ok(bytes)
}

fn utf8<'a>(bytes: &'a [u8], source: &Arc<ConfigSource>) -> Result<&'a str, Problem> {
    std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let good = String::from_utf8_lossy(good);
        let line = good.matches('\n').count() as u64 + 1;
        let column = good.chars().rev().take_while(|c| *c != '\n').count() as u64 + 1;
        Problem::new(
            &ConfigPlace::at(source, line, column),
            "this byte is not UTF-8; save it as UTF-8",
        )
    })
}

/// Returns the root as a mapping; an empty file is an empty mapping.
fn mapping(root: PlacedValue, problems: &mut Vec<Problem>) -> Option<PlacedValue> {
    match root.value {
        Value::Map(_) => Some(root),
        Value::Null => Some(PlacedValue::empty_map(root.place)),
        _ => {
            let message = "a configuration is a mapping, such as `model: ollama/NAME`";
            problems.push(Problem::new(&root.place, message));
            None
        }
    }
}

/// A command-line option that sets a key.
#[derive(Debug, Clone, PartialEq)]
pub struct FlagValue {
    /// The option as the person writes it, such as `--max-iterations`.
    pub flag: String,
    /// The key that it sets, dotted.
    pub key: String,
    /// The value.
    pub value: serde_json::Value,
}

impl FlagValue {
    pub(super) fn layer(&self) -> PlacedValue {
        let place = ConfigPlace::whole(&Arc::new(ConfigSource::Flag(self.flag.clone())));
        let path: Vec<String> = self.key.split('.').map(str::to_owned).collect();
        let node = PlacedValue::from_json(&self.value, &place);
        nest(&path, node, &place)
    }
}

/// One layer for each variable that sets a key. In a name two underscores separate keys, and
/// upper and lower case are the same; names of providers and servers are lower case.
pub(super) fn env(env: &BTreeMap<String, String>, problems: &mut Vec<Problem>) -> Vec<PlacedValue> {
    let set = env.iter().filter_map(|(name, value)| {
        let key = name.strip_prefix(ENV_PREFIX)?;
        let source = Arc::new(ConfigSource::Env(name.clone()));
        let path: Vec<&str> = key.split("__").collect();
        assignment(&canonical(&path), value, &source, problems)
    });
    set.collect()
}

/// The keys as the schema spells them.
fn canonical(path: &[&str]) -> Vec<String> {
    let mut schema = Some(schema::json_schema());
    path.iter()
        .map(|part| {
            let mut keys = schema.into_iter().flat_map(schema::keys);
            let key = keys.find(|key| key.eq_ignore_ascii_case(part));
            let key = key.map_or_else(|| part.to_lowercase(), str::to_owned);
            schema = schema.and_then(|schema| schema::child(schema, &key));
            key
        })
        .collect()
}

/// One layer for each `--set KEY=VALUE`.
pub(super) fn set(options: &[String], problems: &mut Vec<Problem>) -> Vec<PlacedValue> {
    let set = options.iter().filter_map(|option| {
        let Some((key, value)) = option.split_once('=') else {
            let place = ConfigPlace::whole(&Arc::new(ConfigSource::Set(option.clone())));
            problems.push(Problem::new(&place, "this takes KEY=VALUE"));
            return None;
        };
        let source = Arc::new(ConfigSource::Set(key.to_owned()));
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        assignment(&path, value, &source, problems)
    });
    set.collect()
}

fn assignment(
    path: &[String],
    value: &str,
    source: &Arc<ConfigSource>,
    problems: &mut Vec<Problem>,
) -> Option<PlacedValue> {
    let place = ConfigPlace::whole(source);
    if path.iter().any(String::is_empty) || path.len() > MAX_DEPTH {
        problems.push(Problem::new(&place, "this does not name a key"));
        return None;
    }
    let node = if reads_as_text(path, value) {
        PlacedValue { place: place.clone(), value: Value::Text(value.to_owned()) }
    } else {
        tree::parse(value, source, problems)?
    };
    Some(nest(path, node, &place))
}

/// Whether the value is taken letter by letter: where the key holds text, no quotes are needed
/// around what looks like a number. `null` is null all the same, and nothing is empty text.
fn reads_as_text(path: &[String], value: &str) -> bool {
    let text = schema::at(path).is_some_and(schema::is_text);
    value.is_empty() || text && !matches!(value, "null" | "~")
}

fn nest(path: &[String], node: PlacedValue, place: &ConfigPlace) -> PlacedValue {
    path.iter().rev().fold(node, |node, key| {
        let entry = PlacedEntry { key: place.clone(), node };
        PlacedValue { place: place.clone(), value: Value::Map([(key.clone(), entry)].into()) }
    })
}
