//! The names that other programs have for tools.

use deputize_core::ToolName;

/// Names by which other programs delegate. What an agent may delegate follows from its role.
const DELEGATION: [&str; 2] = ["Agent", "Task"];

/// The names that other programs have for tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToolAliases {
    /// Each name with the tools that it stands for.
    pub names: &'static [(&'static str, &'static [&'static str])],
    /// Beginning of the names of MCP servers' tools, which are the same in other programs; empty if
    /// there are none.
    pub servers: &'static str,
}

impl ToolAliases {
    pub(crate) fn is_delegation(self, name: &str) -> bool {
        DELEGATION.contains(&name)
    }

    /// Returns the tools that a name stands for; `None` if it stands for nothing here. The names of
    /// the tools themselves stand for them.
    pub(crate) fn tools(self, name: &str) -> Option<Vec<ToolName>> {
        if self.is_delegation(name) {
            return Some(Vec::new());
        }
        let alias = self.names.iter().find(|(alias, _)| *alias == name);
        if let Some((_, tools)) = alias {
            return Some(tools.iter().filter_map(|tool| ToolName::new(*tool).ok()).collect());
        }
        let is_own = self.names.iter().any(|(_, tools)| tools.contains(&name));
        let tool = ToolName::new(name).ok().filter(|_| is_own || self.is_server_tool(name))?;
        Some(vec![tool])
    }

    /// Returns whether a name is that of one tool of a server, and not of a whole server.
    fn is_server_tool(self, name: &str) -> bool {
        let rest = name.strip_prefix(self.servers).filter(|_| !self.servers.is_empty());
        let parts = rest.and_then(|rest| rest.split_once("__"));
        parts.is_some_and(|(server, tool)| !server.is_empty() && !tool.is_empty())
    }
}
