//! The targets of messages: `messaging`.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::findings::Findings;
use super::known;
use super::place::shown;
use super::secret::Secret;
use super::tree::{PlacedEntry, PlacedValue, Value};

/// Where agents may send messages. Without a target they cannot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MessagingConfig {
    /// The targets by name. Models read the names and nothing else.
    pub targets: BTreeMap<String, MessageTargetEntry>,
    /// Seconds in which a message must be delivered.
    #[schemars(range(min = 1, max = 300))]
    pub timeout_seconds: u32,
}

impl Default for MessagingConfig {
    fn default() -> Self {
        Self { targets: BTreeMap::new(), timeout_seconds: 30 }
    }
}

/// A target of messages: `url`, `url_env`, `file`, `command` or `notification`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MessageTargetEntry {
    /// Address that takes the message as a JSON document, by POST.
    pub url: Option<String>,
    /// Environment variable that holds the address, for addresses that are secrets.
    pub url_env: Option<String>,
    /// Headers sent to the address. `${NAME}` stands for the variable NAME of this program's
    /// environment.
    pub headers: BTreeMap<String, Secret>,
    /// Member of the JSON document that has the text.
    pub text_key: String,
    /// File to which messages are appended: an absolute path, or one that begins with `~/`.
    pub file: Option<String>,
    /// Program and arguments. It reads the message from standard input. No shell reads them.
    pub command: Vec<String>,
    /// Whether messages are notifications on your screen.
    pub notification: bool,
}

impl Default for MessageTargetEntry {
    fn default() -> Self {
        Self {
            url: None,
            url_env: None,
            headers: BTreeMap::new(),
            text_key: "text".to_owned(),
            file: None,
            command: Vec::new(),
            notification: false,
        }
    }
}

/// The keys that say what a target is.
const KINDS: [&str; 5] = ["url", "url_env", "file", "command", "notification"];

/// What a schema cannot tell: each target is of one kind, and addresses, names and paths are some.
pub(super) fn check(config: &PlacedValue, found: &mut Findings) {
    let Some(targets) = config.at(&["messaging", "targets"]) else { return };
    for (name, entry) in targets.entries() {
        found.check_name("target", name, &entry.key);
        let path = format!("messaging.targets.{}", shown(name));
        check_kind(&path, entry, found);
        if let Some(url) = entry.node.at(&["url"])
            && let Some(text) = url.text()
            && let Err(fault) = known::server_url(text)
        {
            found.error(&url.place, format!("`{path}.url` {fault}"));
        }
        if let Some(variable) = entry.node.at(&["url_env"])
            && let Some(text) = variable.text()
            && !known::is_env_name(text)
        {
            let message = format!("`{path}.url_env`: `{}` cannot be a variable", shown(text));
            found.error(&variable.place, message);
        }
        if let Some(file) = entry.node.at(&["file"])
            && let Some(text) = file.text()
            && !(text.starts_with("~/") || Path::new(text).is_absolute())
        {
            let message = format!("`{path}.file` must be an absolute path or begin with `~/`");
            found.error(&file.place, message);
        }
    }
}

fn check_kind(path: &str, entry: &PlacedEntry, found: &mut Findings) {
    let is_set = |key: &&str| match entry.node.at(&[*key]).map(|node| &node.value) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::List(items)) => !items.is_empty(),
        Some(_) => true,
    };
    let kinds: Vec<&str> = KINDS.into_iter().filter(is_set).collect();
    let all = KINDS.map(|kind| format!("`{kind}`")).join(", ");
    match kinds.as_slice() {
        [kind] => {
            let is_webhook = kind.starts_with("url");
            for key in ["headers", "text_key"] {
                if let Some(other) = entry.node.entry(key).filter(|_| !is_webhook) {
                    let message = format!("`{path}.{key}` does nothing without an address");
                    found.error(&other.key, message);
                }
            }
        }
        [] => found.error(&entry.key, format!("`{path}` needs one of {all}")),
        several => {
            let several = several.join(", ");
            found.error(&entry.key, format!("`{path}` has {several}; keep one of {all}"));
        }
    }
}
