//! The arguments of `deputize mcp` and `deputize mcp-serve`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum as _};

use super::serve::Every;
use super::{Approve, RunOptions, Settings, View};

const ADD_EXAMPLES: &str = "\
Examples:
  deputize mcp add files -- npx -y @modelcontextprotocol/server-filesystem
  deputize mcp add github --env 'GITHUB_TOKEN=${GITHUB_TOKEN}' -- github-mcp-server stdio
  deputize mcp add docs --url https://docs.example/mcp --header 'Authorization=Bearer ${DOCS_KEY}'

${NAME} stands for a variable of the environment, read when the server is started.";

#[derive(Debug, Subcommand)]
pub(crate) enum Mcp {
    /// List the servers that are configured, and how each stands; none is started
    List {
        #[command(flatten)]
        view: View,
    },
    /// Try a server, show all that it says of itself, and add it to the configuration
    #[command(after_help = ADD_EXAMPLES)]
    Add(Box<Add>),
    /// Take a server out of the configuration, and forget what was approved of it
    Remove {
        /// The server
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Start a server, ask what it has, and say how long that took
    Test {
        /// The server
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Show what a server says of itself, what changed since it was approved, and approve it
    Review {
        /// The server
        name: String,
        /// Approve without being asked: needed where no terminal is there to ask at
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
pub(crate) struct Add {
    /// Its name: letters, digits, `-` and `_`
    pub(crate) name: String,
    /// Reach a server that runs already, instead of starting one
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "env"])]
    pub(crate) url: Option<String>,
    /// A variable of its environment; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) env: Vec<(String, String)>,
    /// A header of each request to its URL; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, requires = "url")]
    pub(crate) header: Vec<(String, String)>,
    /// Start it in this directory, from which it may take code, or in the `workspace`, which is the
    /// one that agents work in [default: one that no project writes to]
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    pub(crate) start_in: Option<String>,
    /// How long its start may take [default: 30]; what is downloaded first may take minutes
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) start_timeout: Option<u32>,
    /// Add it without being asked: needed where no terminal is there to ask at
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// The program that is the server, with its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "url")]
    pub(crate) command: Vec<String>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("give NAME=VALUE".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct McpServe {
    /// Serve by HTTP at a port of this machine instead, 0 for any; the address is printed
    #[arg(long, value_name = "PORT")]
    pub(crate) http: Option<u16>,
    #[command(flatten)]
    every: Every,
    /// How questions about dangerous calls are answered; nobody can be asked [default: deny]
    #[arg(long, value_name = "MODE", value_parser = unasked())]
    approve: Option<Approve>,
    /// Work in this directory, and below it where a call says so
    #[arg(short = 'C', long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

/// The answers that need nobody.
fn unasked() -> impl TypedValueParser<Value = Approve> {
    let values = Approve::value_variants().iter().filter(|mode| **mode != Approve::Ask);
    PossibleValuesParser::new(values.filter_map(Approve::to_possible_value))
        .map(|mode| if mode == "auto" { Approve::Auto } else { Approve::Deny })
}

impl McpServe {
    /// What it says of each run.
    pub(crate) fn options(&self) -> RunOptions {
        self.every.options(self.approve, self.cwd.clone(), true)
    }
}
