//! The names that other programs have for tools.

use deputize_core::server_names::{server_toolset, split_server_tool};
use deputize_core::{ToolName, ToolsetName};

/// Names by which other programs delegate. What an agent may delegate follows from its role.
const DELEGATION: [&str; 2] = ["Agent", "Task"];

/// The names that other programs have for tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToolAliases {
    /// Each name with the tools that do no more than what it stands for.
    pub names: &'static [(&'static str, &'static [&'static str])],
    /// Each name with the tools that do no less, where these are others: what goes where it is
    /// denied.
    pub denials: &'static [(&'static str, &'static [&'static str])],
    /// Whether the names of MCP servers' tools, which are the same in other programs, stand for
    /// themselves.
    pub has_servers: bool,
}

/// What a name stands for where it is denied.
pub(crate) enum Denial {
    Tools(Vec<ToolName>),
    Toolset(ToolsetName),
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
        let mut own = self.names.iter().chain(self.denials);
        let is_own = own.any(|(_, tools)| tools.contains(&name));
        let tool = ToolName::new(name).ok().filter(|_| is_own || self.is_server_tool(name))?;
        Some(vec![tool])
    }

    /// Returns what a name stands for where it is denied; `None` if it stands for nothing here. A
    /// name that is spelled as those of tools here stands for itself.
    pub(crate) fn denial(self, name: &str) -> Option<Denial> {
        if let Some(server) = self.server(name) {
            return ToolsetName::new(server_toolset(server)).ok().map(Denial::Toolset);
        }
        let alias = self.denials.iter().find(|(alias, _)| *alias == name);
        if let Some((_, tools)) = alias {
            let tools = tools.iter().filter_map(|tool| ToolName::new(*tool).ok());
            return Some(Denial::Tools(tools.collect()));
        }
        let is_own = name.starts_with(|c: char| c.is_ascii_lowercase()) && !self.is_of_server(name);
        let own = || ToolName::new(name).ok().filter(|_| is_own);
        self.tools(name).or_else(|| Some(vec![own()?])).map(Denial::Tools)
    }

    /// Returns whether a name must deny something: if it stood for nothing, tools would stay.
    pub(crate) fn must_deny(self, name: &str) -> bool {
        name == "*" || self.is_of_server(name)
    }

    fn is_of_server(self, name: &str) -> bool {
        self.split_server_tool(name).is_some()
    }

    /// Returns the server that a name stands for as a whole.
    fn server(self, name: &str) -> Option<&str> {
        let (server, tool) = self.split_server_tool(name)?;
        (!server.is_empty() && tool.is_none_or(|tool| tool == "*")).then_some(server)
    }

    /// Returns whether a name is that of one tool of a server, and not of a whole server.
    fn is_server_tool(self, name: &str) -> bool {
        let parts = self.split_server_tool(name);
        parts.is_some_and(|(server, tool)| {
            !server.is_empty() && tool.is_some_and(|it| !it.is_empty())
        })
    }

    fn split_server_tool(self, name: &str) -> Option<(&str, Option<&str>)> {
        split_server_tool(name).filter(|_| self.has_servers)
    }
}
