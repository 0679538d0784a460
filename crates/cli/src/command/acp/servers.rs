//! The MCP servers that an editor adds to the configured ones, for one session.

use deputize_acp::serve::{McpServerSpec, McpTransport};
use deputize_core::sanitize::for_terminal_line;
use deputize_mcp::{SERVER_CHARS, toolset};

use crate::config::{Config, McpServer, Secret};

/// Limit on the servers that an editor may add to one session.
const MOST: usize = 32;
/// Limit on a shown name, in characters.
const NAME_CHARS: usize = 60;

/// Adds servers to the configuration. Returns notes on those that are left out.
pub(super) fn add(named: &[McpServerSpec], config: &mut Config) -> Vec<String> {
    let mut notes = Vec::new();
    for (at, server) in named.iter().enumerate() {
        let name = name(&server.name);
        let why = match config.mcp_servers.get(&name) {
            _ if at >= MOST => format!("{MOST} are the most for one session"),
            _ if toolset(&name).is_none() => "its name has no letter and no digit".to_owned(),
            Some(other) if other.of_editor => format!("another one is called `{name}` too"),
            Some(_) => format!("your configuration has one that is called `{name}`"),
            None => {
                config.mcp_servers.insert(name, entry(&server.way));
                continue;
            }
        };
        let displayed = for_terminal_line(&server.name, NAME_CHARS);
        notes.push(format!("the editor's MCP server `{displayed}` is not used: {why}"));
    }
    notes
}

/// Returns the editor's name for a server, made fit for the names of tools.
fn name(given: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = given.trim().chars().map(plain).collect();
    // No server's name has two marks in a row, nor one at its end.
    let mut words: Vec<&str> = name.split('_').filter(|word| !word.is_empty()).collect();
    if name.starts_with('_') {
        words.insert(0, "");
    }
    let name: String = words.join("_").chars().take(SERVER_CHARS).collect();
    let name = name.trim_end_matches('_').to_owned();
    if name.contains(|c: char| c.is_ascii_alphanumeric()) { name } else { String::new() }
}

fn entry(way: &McpTransport) -> McpServer {
    let secret = |(name, value): &(String, String)| (name.clone(), Secret::new(value.as_str()));
    let entry = McpServer { of_editor: true, ..McpServer::default() };
    match way {
        McpTransport::Stdio { command, args, env } => McpServer {
            command: Some(command.to_string_lossy().into_owned()),
            args: args.clone(),
            env: env.iter().map(secret).collect(),
            ..entry
        },
        McpTransport::Http { url, headers } => McpServer {
            url: Some(url.clone()),
            headers: headers.iter().map(secret).collect(),
            ..entry
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str) -> McpServerSpec {
        let way = McpTransport::Http { url: "http://127.0.0.1:9/".to_owned(), headers: Vec::new() };
        McpServerSpec { name: name.to_owned(), way }
    }

    #[test]
    fn names_become_ones_that_tools_can_have_and_nobody_takes_anothers_place() {
        let mut config = Config::default();
        config.mcp_servers.insert("files".to_owned(), McpServer::default());
        let named = ["My Server", "files", "my server", "My.Server", "…", &"x".repeat(99)];
        let notes = add(&named.map(server), &mut config);
        let names: Vec<&str> = config.mcp_servers.keys().map(String::as_str).collect();
        assert_eq!(names, ["My_Server", "files", "my_server", &"x".repeat(SERVER_CHARS)]);
        assert_eq!(
            notes,
            [
                "the editor's MCP server `files` is not used: your configuration has one that is \
                 called `files`",
                "the editor's MCP server `My.Server` is not used: another one is called \
                 `My_Server` too",
                "the editor's MCP server `…` is not used: its name has no letter and no digit",
            ]
        );
        assert!(!config.mcp_servers["files"].of_editor, "the person's own stays");
    }

    #[test]
    fn more_servers_than_the_limit_are_reported() {
        let mut config = Config::default();
        let named: Vec<McpServerSpec> = (0..=MOST).map(|n| server(&format!("s{n}"))).collect();
        let notes = add(&named, &mut config);
        assert_eq!((config.mcp_servers.len(), notes.len()), (MOST, 1));
        assert!(notes[0].ends_with("32 are the most for one session"), "{notes:?}");
    }
}
