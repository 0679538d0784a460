//! The names of toolsets, wherever the configuration has them.

use std::collections::BTreeSet;

use deputize_core::ToolsetName;
use deputize_core::server_names::{server_of_toolset, server_toolset};

use super::findings::Findings;
use super::place::{listed, nearest, shown};
use super::tree::{PlacedEntry, PlacedValue, Value};
use crate::hint::format_command;

/// Toolsets that a program may be built without: naming one is no mistake.
pub const OPTIONAL: [&str; 2] = [BROWSER, "session_search"];

/// Returns that the program was built without a toolset, if a feature brings it.
#[must_use]
pub fn built_without(toolset: &str) -> Option<String> {
    let toolset = OPTIONAL.into_iter().find(|optional| *optional == toolset)?;
    // Each is brought by the feature of its name.
    let feature = toolset.replace('_', "-");
    let what = format!("the toolset `{toolset}`, the feature `{feature}`");
    Some(format!("this program was built without {what}"))
}

/// The toolset that `browser.enabled` turns on.
pub const BROWSER: &str = "browser";

/// The key of toolsets that are made of others.
const COMPOSITES: &str = "composite_toolsets";
/// The key of what such a one includes.
const INCLUDES: &str = "includes";

/// The keys that list toolsets.
const KEYS: [&[&str]; 3] =
    [&["toolsets"], &["delegation", "default_toolsets"], &["delegation", "toolset_ceiling"]];

/// Returns the toolset of a tool.
pub(super) type ToolsetOfTool = fn(&str) -> Option<String>;

/// Finds names of toolsets that the program does not have. Without any it is not known which it
/// has, and every name passes.
pub(super) fn check(
    config: &PlacedValue,
    known: &BTreeSet<String>,
    of_tool: Option<ToolsetOfTool>,
    found: &mut Findings,
) {
    check_composites(config, known, found);
    // What plugins bring is known when they were found; their names are checked then.
    let brought = config.entry("plugins").is_some_and(|it| !it.node.items().is_empty());
    if known.is_empty() || brought {
        return;
    }
    // Each server that is configured brings one.
    let servers = config.entry("mcp_servers").into_iter().flat_map(|entry| entry.node.entries());
    let servers = servers.map(|(name, _)| server_toolset(name));
    let own = composites(config).map(|(name, _)| name.to_owned());
    let known = &known.iter().cloned().chain(servers).chain(own).collect::<BTreeSet<String>>();
    let lists = KEYS.map(|path| (path.join("."), config.at(path)));
    let included = composites(config)
        .map(|(name, entry)| (format!("{COMPOSITES}.{}.{INCLUDES}", shown(name)), includes(entry)));
    for (key, list) in lists.into_iter().chain(included) {
        for item in list.into_iter().flat_map(PlacedValue::items) {
            let Value::Text(name) = &item.value else { continue };
            let is_off = name == BROWSER && !has_browser(config);
            if known.contains(name) && !is_off {
                continue;
            }
            if known.contains(name) {
                let message = format!("`{key}`: toolset `{BROWSER}` is off: set `browser.enabled`");
                found.warn(&item.place, message);
                continue;
            }
            if OPTIONAL.contains(&name.as_str()) {
                let lack = built_without(name).unwrap_or_default();
                let message = format!("`{key}`: {lack}");
                // A file may be for other programs too, and an option is for this one.
                if item.place.is_on_command_line() {
                    found.error(&item.place, message);
                } else {
                    found.warn(&item.place, message);
                }
            } else if is_of_server(name) && !item.place.is_on_command_line() {
                // The server may be configured elsewhere, or be taken out for a while.
                let servers = known.iter().map(String::as_str).filter(|set| is_of_server(set));
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
                found.error(&item.place, format!("`{key}`: {}", unknown(name, known, of_tool)));
            }
        }
    }
}

/// Returns whether a toolset is named like that of an MCP server.
fn is_of_server(toolset: &str) -> bool {
    server_of_toolset(toolset).is_some()
}

fn has_browser(config: &PlacedValue) -> bool {
    let enabled = config.at(&["browser", "enabled"]);
    enabled.is_some_and(|enabled| matches!(enabled.value, Value::Bool(true)))
}

/// Returns the toolsets that the configuration makes.
fn composites(config: &PlacedValue) -> impl Iterator<Item = (&str, &PlacedEntry)> {
    let entries = config.entry(COMPOSITES).into_iter().flat_map(|entry| entry.node.entries());
    entries.map(|(name, entry)| (name.as_str(), entry))
}

/// Returns the list of what a toolset includes.
fn includes(entry: &PlacedEntry) -> Option<&PlacedValue> {
    entry.node.at(&[INCLUDES])
}

/// Finds toolsets of the configuration whose name is none, or is that of another one, and those that
/// include themselves.
fn check_composites(config: &PlacedValue, known: &BTreeSet<String>, found: &mut Findings) {
    for (name, entry) in composites(config) {
        let key = format!("{COMPOSITES}.{}", shown(name));
        if let Err(error) = ToolsetName::new(name) {
            found.error(&entry.key, format!("`{key}`: {error}"));
        } else if known.contains(name) || OPTIONAL.contains(&name) || is_of_server(name) {
            let message =
                format!("`{key}`: the program has a toolset of this name; choose another");
            found.error(&entry.key, message);
        }
        let is_empty = |part: &str| entry.node.at(&[part]).is_none_or(|it| it.items().is_empty());
        if is_empty("tools") && is_empty(INCLUDES) {
            let message =
                format!("`{key}` has no tools: name tools in `tools`, or toolsets in `{INCLUDES}`");
            found.error(&entry.key, message);
        }
        if let Some(circle) = circle(config, name) {
            let message = format!("`{key}` includes itself: {}", circle.join(" → "));
            found.error(&entry.key, message);
        }
    }
}

/// Returns the way from a toolset back to itself; `None` if there is none.
fn circle(config: &PlacedValue, start: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![start]];
    let mut visited = BTreeSet::new();
    while let Some(way) = ways.pop() {
        let entry = way.last().and_then(|last| composites(config).find(|(name, _)| name == last));
        let next = entry.and_then(|(_, entry)| includes(entry));
        for name in next.into_iter().flat_map(PlacedValue::items).filter_map(PlacedValue::text) {
            if name == start {
                return Some(way.iter().chain([&name]).map(|name| shown(name)).collect());
            }
            if visited.insert(name) {
                ways.push(way.iter().copied().chain([name]).collect());
            }
        }
    }
    None
}

fn unknown(name: &str, known: &BTreeSet<String>, of_tool: Option<ToolsetOfTool>) -> String {
    if name.is_empty() {
        return "the name of a toolset is empty".to_owned();
    }
    if let Some(lack) = built_without(name) {
        return lack;
    }
    let known = || known.iter().map(String::as_str);
    let hint = if let Some(set) = of_tool.and_then(|of_tool| of_tool(name)) {
        format!("that is a tool of the toolset `{set}`")
    } else if let Some(near) = nearest(name, known()) {
        format!("did you mean `{near}`?")
    } else {
        format!("there are {}", listed(known()))
    };
    format!("there is no toolset `{}`; {hint}", shown(name))
}
