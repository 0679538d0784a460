//! The keys of a dynamic plugin.

use deputize_plugin_host::MEMORY_MB;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::findings::Findings;
use super::place::shown;
use super::tree::{PlacedValue, Value};

/// A dynamic plugin. `deputize plugin check FILE` looks at one and prints its entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginEntry {
    /// The library's file: an absolute path, or one that begins with `~/`.
    pub path: String,
    /// Its SHA-256 in hexadecimal; another file is refused.
    #[schemars(regex(pattern = "^[0-9a-fA-F]{64}$"))]
    pub sha256: String,
    /// Whether it runs in a process of its own. Without one it has all of this program's rights,
    /// and its faults may end the program: for plugins that you built yourself.
    #[serde(default = "yes")]
    pub isolated: bool,
    /// Variables of this program's environment that its own process gets, by name, beside PATH,
    /// HOME and the like; it gets no others.
    #[serde(default)]
    pub env: Vec<String>,
    /// How much memory its own process may take, in MB (1,048,576 bytes), beside what the process
    /// takes without it.
    #[serde(default = "some_memory")]
    #[schemars(range(min = 16, max = 1_048_576))]
    pub memory_mb: u32,
}

fn yes() -> bool {
    true
}

fn some_memory() -> u32 {
    MEMORY_MB
}

/// Whether a variable of the environment can be called so.
fn is_variable(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What a schema cannot tell: where the files are.
pub(super) fn check(config: &PlacedValue, found: &mut Findings) {
    let Some(plugins) = config.entry("plugins") else { return };
    let mut paths: Vec<&str> = Vec::new();
    for item in plugins.node.items() {
        let Some(path) = item.at(&["path"]) else { continue };
        let Value::Text(text) = &path.value else { continue };
        if !(text.starts_with("~/") || std::path::Path::new(text).is_absolute()) {
            let shown = shown(text);
            let message =
                format!("`plugins`: `{shown}` must be an absolute path or begin with `~/`");
            found.error(&path.place, message);
        }
        if paths.contains(&text.as_str()) {
            found.error(&path.place, format!("`plugins` has `{}` twice", shown(text)));
        }
        paths.push(text);
        for name in item.at(&["env"]).into_iter().flat_map(PlacedValue::items) {
            if let Value::Text(named) = &name.value
                && !is_variable(named)
            {
                let message = format!(
                    "`plugins`: `env` of `{}` names `{}`, which cannot be a variable; it is a list of \
                     names, whose values come from this program's environment",
                    shown(text),
                    // A value that was written there may be a secret.
                    shown(named.split('=').next().unwrap_or_default())
                );
                found.error(&name.place, message);
            }
        }
        let inside = item.at(&["isolated"]).is_some_and(|it| it.value == Value::Bool(false));
        for key in ["env", "memory_mb"] {
            if let Some(extra) = item.entry(key).filter(|_| inside) {
                let message = format!(
                    "`plugins`: `{key}` of `{}` does nothing without a process of its own \
                     (`isolated: true`)",
                    shown(text)
                );
                found.error(&extra.key, message);
            }
        }
    }
}
