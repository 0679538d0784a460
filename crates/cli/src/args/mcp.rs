//! The arguments of `deputize mcp` and `deputize mcp-serve`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum as _};

use super::serve::SessionOptions;
use super::{Approve, RunOptions, Settings, View};

const ADD_EXAMPLES: &str = "\
Examples:
  deputize mcp add files -- npx -y @modelcontextprotocol/server-filesystem
  deputize mcp add github --env 'GITHUB_TOKEN=${GITHUB_TOKEN}' -- github-mcp-server stdio
  deputize mcp add docs --url https://docs.example/mcp --header 'Authorization=Bearer ${DOCS_KEY}'

${NAME} is replaced by an environment variable when the server starts.";

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Mcp {
    /// List configured servers and their state, without starting any
    List {
        #[command(flatten)]
        view: View,
    },
    /// Try a server, show its tools, and add it to the configuration
    #[command(after_help = ADD_EXAMPLES)]
    Add(Box<AddServer>),
    /// Remove a server from the configuration, with its approval
    Remove {
        /// The server
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Sign in to a server by its `url` (OAuth) in a browser; the token is kept for its owner
    Login(LoginArgs),
    /// Forget the sign-in to a server
    Logout {
        /// The server
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Start a server, list its tools, and report the time
    Test {
        /// The server
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Show a server's tools and what changed since their approval, and approve them
    Review {
        /// The server
        name: String,
        /// Approve without asking; required without a terminal
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        settings: Settings,
    },
}

#[derive(Debug, Args)]
#[command(override_usage = "\
    deputize mcp add [OPTIONS] <NAME> -- <COMMAND>...\n       \
    deputize mcp add [OPTIONS] <NAME> --url <URL>")]
pub(crate) struct AddServer {
    /// Name of the server: letters, digits, `-` and `_`
    pub(crate) name: String,
    /// Connect to a running server instead of starting one
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "env"])]
    pub(crate) url: Option<String>,
    /// Environment variable for the server; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) env: Vec<(String, String)>,
    /// Header of each request to its URL; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, requires = "url")]
    pub(crate) header: Vec<(String, String)>,
    /// Start it in this directory, or in `workspace`, where agents work; it may load code from
    /// there [default: a directory that no project writes to]
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    pub(crate) start_in: Option<String>,
    /// Time limit of its start [default: 30]; allow minutes for a first download
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) start_timeout: Option<u32>,
    /// Add it without asking; required without a terminal
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// The server's program, with its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "url")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The server
    pub(crate) name: String,
    /// Only print the address; the address that the browser ends at may be pasted here
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Time limit of the sign-in
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) timeout: u32,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("give NAME=VALUE".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct McpServe {
    /// Serve HTTP on this port of this machine instead, 0 for any; prints the address
    #[arg(long, value_name = "PORT")]
    pub(crate) http: Option<u16>,
    #[command(flatten)]
    options: SessionOptions,
    /// Whether dangerous calls are approved; nobody can be asked [default: deny]
    #[arg(long, value_name = "MODE", value_parser = unasked())]
    approve: Option<Approve>,
    /// Work in this directory; calls may name one below it
    #[arg(short = 'C', long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

/// Returns the approval modes that ask nobody.
fn unasked() -> impl TypedValueParser<Value = Approve> {
    let values = Approve::value_variants().iter().filter(|mode| **mode != Approve::Ask);
    PossibleValuesParser::new(values.filter_map(Approve::to_possible_value))
        .map(|mode| if mode == "auto" { Approve::Auto } else { Approve::Deny })
}

impl McpServe {
    /// Returns the options of each run.
    pub(crate) fn options(&self) -> RunOptions {
        self.options.options(self.approve, self.cwd.clone(), true)
    }
}
