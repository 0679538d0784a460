//! The servers of the Model Context Protocol: `mcp_servers`.

use std::collections::BTreeMap;

use deputize_mcp::{ServerLimits, ToolFilter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::Secret;

/// An MCP server: a `command` to start, or a `url` to connect to. In `env` and `headers`,
/// `${NAME}` stands for the variable NAME of this program's environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpServer {
    /// Program that serves on its standard input and output.
    pub command: Option<String>,
    /// Arguments of `command`.
    pub args: Vec<String>,
    /// Its environment variables, beside PATH, HOME and the like; it gets no others.
    pub env: BTreeMap<String, Secret>,
    /// Directory that the program is started in, from which it may take code: an absolute path, or
    /// `workspace` for the one that agents work in. Without it, one that no project writes to.
    pub cwd: Option<String>,
    /// Address of a server that is already running.
    pub url: Option<String>,
    /// Headers sent with every request to `url`.
    pub headers: BTreeMap<String, Secret>,
    /// How people sign in to `url`, where it does not say all of it itself.
    #[serde(skip_serializing_if = "ServerSignIn::is_default")]
    pub oauth: ServerSignIn,
    /// Which of its tools are offered.
    pub tools: ToolFilter,
    /// Time limit in seconds from its start to the list of its tools.
    #[schemars(range(min = 1, max = 600))]
    pub start_timeout_seconds: u32,
    /// Time limit in seconds of a call without an answer and without progress.
    #[schemars(range(min = 1, max = 3600))]
    pub call_timeout_seconds: u32,
    /// Whether an editor named it, for one session: no file can say that.
    #[serde(skip)]
    pub of_editor: bool,
}

impl Default for McpServer {
    fn default() -> Self {
        Self {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            url: None,
            headers: BTreeMap::new(),
            oauth: ServerSignIn::default(),
            tools: ToolFilter::default(),
            start_timeout_seconds: ServerLimits::START_SECONDS,
            call_timeout_seconds: ServerLimits::IDLE_SECONDS,
            of_editor: false,
        }
    }
}

/// The sign-in to a server by OAuth. Most servers need none of this.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSignIn {
    /// Id of this program as a registered client. Without it, the program registers itself.
    pub client_id: Option<String>,
    /// Secret of that client, mostly `${NAME}`.
    pub client_secret: Option<Secret>,
    /// Scopes to ask for. Empty: what the server asks for.
    pub scopes: Vec<String>,
    /// Port of the redirect address `http://127.0.0.1:PORT/callback` that is registered for
    /// `client_id`. 0: any.
    pub redirect_port: u16,
    /// Hosts of the sign-in that may have private addresses, as HOST or HOST:PORT.
    pub allow_hosts: Vec<String>,
}

impl ServerSignIn {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
