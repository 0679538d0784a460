//! Names of what MCP servers bring: tools `mcp__SERVER__TOOL` in the toolset `mcp-SERVER`. Only what
//! a person or a file names is read this way; where a tool comes from is its
//! [`Origin`](crate::Origin).

/// How the names of all tools of servers begin.
const TOOL_PREFIX: &str = "mcp__";
/// How the names of all toolsets of servers begin.
const TOOLSET_PREFIX: &str = "mcp-";

/// Returns the name of a server's toolset.
///
/// ```
/// use deputize_core::server_names::{server_of_toolset, server_toolset};
///
/// assert_eq!(server_toolset("git"), "mcp-git");
/// assert_eq!(server_of_toolset("mcp-git"), Some("git"));
/// assert_eq!(server_of_toolset("file"), None);
/// ```
#[must_use]
pub fn server_toolset(server: &str) -> String {
    format!("{TOOLSET_PREFIX}{server}")
}

/// Returns the server whose toolset has this name; `None` if it is not named like one of a server.
#[must_use]
pub fn server_of_toolset(toolset: &str) -> Option<&str> {
    toolset.strip_prefix(TOOLSET_PREFIX)
}

/// Returns the name of a server's tool.
///
/// ```
/// use deputize_core::server_names::{is_tool_of, server_tool, split_server_tool};
///
/// let name = server_tool("git", "log");
/// assert_eq!(name, "mcp__git__log");
/// assert_eq!(split_server_tool(&name), Some(("git", Some("log"))));
/// assert_eq!(split_server_tool("mcp__git"), Some(("git", None)));
/// assert_eq!(split_server_tool("log"), None);
/// assert!(is_tool_of(&name, "git") && !is_tool_of(&name, "gi"));
/// ```
#[must_use]
pub fn server_tool(server: &str, tool: &str) -> String {
    format!("{TOOL_PREFIX}{server}__{tool}")
}

/// Returns the server and the tool that a name stands for, without the tool if it names the server
/// alone; `None` if it is not named like a tool of a server.
#[must_use]
pub fn split_server_tool(name: &str) -> Option<(&str, Option<&str>)> {
    let rest = name.strip_prefix(TOOL_PREFIX)?;
    Some(rest.split_once("__").map_or((rest, None), |(server, tool)| (server, Some(tool))))
}

/// Returns whether a name is that of a tool of this server.
#[must_use]
pub fn is_tool_of(name: &str, server: &str) -> bool {
    matches!(split_server_tool(name), Some((of, Some(_))) if of == server)
}
