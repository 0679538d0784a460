//! Keys that are known and checked, but not obeyed yet.

use super::place::{Problem, shown};
use super::schema;
use super::tree::{Node, Value};

/// Keys without effect in this version; `*` stands for any name. A feature that arrives deletes
/// its line.
const WITHOUT_EFFECT: &[&str] = &[
    "approvals.allow",
    "approvals.deny",
    "budget",
    "chat",
    "compaction",
    "control",
    "delegation.acp_args",
    "delegation.acp_command",
    "delegation.acp_env",
    "delegation.api_key",
    "delegation.api_key_env",
    "delegation.background",
    "delegation.base_url",
    "delegation.budget",
    "delegation.heartbeat_seconds",
    "delegation.inherit_mcp_toolsets",
    "delegation.max_output_tokens",
    "delegation.provider",
    "delegation.reasoning_effort",
    "delegation.stale_idle_seconds",
    "delegation.stale_in_tool_seconds",
    "delegation.tool_name",
    "delegation.tool_schemas",
    "delegation.workflow",
    "fallback_models",
    "fetch",
    "hooks",
    "inactivity_timeout_seconds",
    "mcp_servers",
    "plugins",
    "providers.*.context_window",
    "providers.*.tools",
    "sandbox",
];

/// Warns of each key without effect whose value is not its default anyway.
pub(super) fn warn(config: &Node, warnings: &mut Vec<Problem>) {
    for pattern in WITHOUT_EFFECT {
        let pattern: Vec<&str> = pattern.split('.').collect();
        visit(config, &pattern, &mut Vec::new(), warnings);
    }
}

fn visit(node: &Node, pattern: &[&str], path: &mut Vec<String>, warnings: &mut Vec<Problem>) {
    let Some((first, rest)) = pattern.split_first() else { return };
    for (key, entry) in node.entries() {
        if *first != "*" && first != key {
            continue;
        }
        path.push(key.clone());
        if !rest.is_empty() {
            visit(&entry.node, rest, path, warnings);
        } else if differs(&entry.node, path) {
            let message = format!("`{}` has no effect in this version", shown(&path.join(".")));
            warnings.push(Problem::new(&entry.key, message));
        }
        path.pop();
    }
}

/// Whether anything under the node is not what it would be without it.
fn differs(node: &Node, path: &mut Vec<String>) -> bool {
    if !matches!(node.value, Value::Map(_)) {
        let default = schema::at(path).and_then(|schema| schema.get("default"));
        return default != Some(&node.to_json());
    }
    node.entries().any(|(key, entry)| {
        path.push(key.clone());
        let differs = differs(&entry.node, path);
        path.pop();
        differs
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_a_key_and_they_are_sorted() {
        for pattern in WITHOUT_EFFECT {
            let path: Vec<String> = pattern.split('.').map(str::to_owned).collect();
            assert!(schema::at(&path).is_some(), "{pattern}");
        }
        assert!(WITHOUT_EFFECT.is_sorted());
    }
}
