//! The names of toolsets, wherever the configuration has them.

use std::collections::BTreeSet;

use super::findings::Findings;
use super::place::{listed, nearest, shown};
use super::tree::{PlacedValue, Value};
use crate::hint::format_command;

/// Toolsets of later versions: naming one is no mistake.
pub const LATER: [&str; 2] = ["browser", "code"];

/// What the names of MCP servers' toolsets begin with.
pub const SERVERS: &str = "mcp-";

/// The keys that list toolsets.
const KEYS: [&[&str]; 3] =
    [&["toolsets"], &["delegation", "default_toolsets"], &["delegation", "toolset_ceiling"]];

/// Finds names of toolsets that the program does not have. Without any it is not known which it
/// has, and every name passes.
pub(super) fn check(config: &PlacedValue, known: &BTreeSet<String>, found: &mut Findings) {
    // What plugins bring is known when they were found; their names are checked then.
    let brought = config.entry("plugins").is_some_and(|it| !it.node.items().is_empty());
    if known.is_empty() || brought {
        return;
    }
    // Each server that is configured brings one.
    let servers = config.entry("mcp_servers").into_iter().flat_map(|entry| entry.node.entries());
    let servers = servers.map(|(name, _)| format!("mcp-{name}"));
    let known = &known.iter().cloned().chain(servers).collect::<BTreeSet<String>>();
    for path in KEYS {
        let key = path.join(".");
        for item in config.at(path).into_iter().flat_map(PlacedValue::items) {
            let Value::Text(name) = &item.value else { continue };
            if known.contains(name) {
                continue;
            }
            if LATER.contains(&name.as_str()) {
                let name = shown(name);
                let message = format!("`{key}`: toolset `{name}` has no tools in this version");
                found.warn(&item.place, message);
            } else if name.starts_with(SERVERS) {
                // The server may be configured elsewhere, or be taken out for a while.
                let servers =
                    known.iter().map(String::as_str).filter(|set| set.starts_with(SERVERS));
                let near = nearest(name, servers);
                let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                let name = shown(name);
                let remedy = match (near.as_str(), key.as_str()) {
                    ("", "toolsets") => {
                        let disable = format_command("tools disable");
                        format!("; to take it out of your file: {disable} {name}")
                    }
                    ("", _) => "; take it out if that server is gone".to_owned(),
                    _ => String::new(),
                };
                let message = format!(
                    "`{key}`: no server of `mcp_servers` gives the toolset `{name}`{near}{remedy}"
                );
                found.warn(&item.place, message);
            } else {
                found.error(&item.place, format!("`{key}`: {}", unknown(name, known)));
            }
        }
    }
}

fn unknown(name: &str, known: &BTreeSet<String>) -> String {
    let known = || known.iter().map(String::as_str);
    let hint = nearest(name, known()).map_or_else(
        || format!("there are {}", listed(known())),
        |near| format!("did you mean `{near}`?"),
    );
    format!("there is no toolset `{}`; {hint}", shown(name))
}
