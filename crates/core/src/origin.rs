//! Where tools come from, and their identity.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::name::ToolName;

/// Where a tool comes from. Nothing derives this from the prefix of a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// A crate linked into the program.
    Linked {
        /// The crate's name.
        krate: String,
    },
    /// A plugin.
    Plugin {
        /// The library's path.
        path: PathBuf,
    },
    /// An MCP server.
    Mcp {
        /// The server's name in the configuration.
        server: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linked { krate } => write!(f, "crate {krate}"),
            Self::Plugin { path } => write!(f, "plugin {}", path.display()),
            Self::Mcp { server } => write!(f, "mcp {server}"),
        }
    }
}

/// Identity of a tool, to which rights apply: another tool of the same name has another identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolIdentity<'t> {
    /// The tool's name.
    pub name: &'t ToolName,
    /// Where it comes from.
    pub origin: &'t Origin,
    /// The digest of its arguments' schema.
    pub schema: Arc<str>,
}
