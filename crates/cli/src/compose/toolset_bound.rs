//! Which part of a named toolset the configuration gives to agents.

use std::collections::BTreeSet;

use deputize_core::{Catalog, ToolsetName};

use super::linked_tools::{LinkedTools, linked_catalog};
use super::settings::add_composites;
use crate::config::Config;

/// Returns the toolset itself if the configured ones have all its tools, or else toolsets that are a
/// part of both; none if there are none.
pub(crate) fn toolsets_within(config: &Config, name: &str) -> Vec<String> {
    let allowed = &config.toolsets;
    let whole = vec![name.to_owned()];
    if allowed.is_empty() || allowed.iter().any(|it| it == name) {
        return whole;
    }
    let mut catalog = linked_catalog(&LinkedTools::new(Vec::new()));
    add_composites(config, &mut catalog);
    let allowed = tools(config, &catalog, allowed);
    let wanted = tools(config, &catalog, &whole);
    if wanted.is_subset(&allowed) {
        return whole;
    }
    let common: Vec<String> = wanted.intersection(&allowed).cloned().collect();
    let single = catalog.toolsets();
    let sets = single.iter().chain(catalog.composites()).map(ToString::to_string);
    let mut left = common.clone();
    let mut within = Vec::new();
    // The names of toolsets that only servers and plugins bring are among the tools.
    let own = || config.composite_toolsets.values().flat_map(|parts| &parts.tools);
    let is_set = |name: &&String| catalog.get(name).is_none() && own().all(|tool| tool != *name);
    for set in sets.chain(common.iter().filter(is_set).cloned()) {
        let of_set = tools(config, &catalog, std::slice::from_ref(&set));
        if of_set.iter().all(|tool| common.contains(tool))
            && left.iter().any(|tool| of_set.contains(tool))
        {
            left.retain(|tool| !of_set.contains(tool));
            within.push(set);
        }
    }
    within
}

/// Returns the tools of some toolsets, and the names of those toolsets that only servers and
/// plugins bring.
fn tools(config: &Config, catalog: &Catalog, toolsets: &[String]) -> BTreeSet<String> {
    let mut tools = BTreeSet::new();
    let mut visited = BTreeSet::new();
    let mut left = toolsets.to_vec();
    while let Some(name) = left.pop() {
        if !visited.insert(name.clone()) {
            continue;
        }
        let set = ToolsetName::new(name.as_str());
        let is_in = |set: &ToolsetName, entry| catalog.includes(set, entry);
        let of_set = catalog.iter().filter(|entry| set.as_ref().is_ok_and(|set| is_in(set, entry)));
        let of_set: Vec<String> = of_set.map(|entry| entry.name().to_string()).collect();
        match config.composite_toolsets.get(&name) {
            Some(parts) => {
                tools.extend(parts.tools.iter().cloned());
                left.extend(parts.includes.iter().cloned());
            }
            None if of_set.is_empty() => drop(tools.insert(name)),
            None => {}
        }
        tools.extend(of_set);
    }
    tools
}
