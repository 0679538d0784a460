//! The arguments of `deputize policy`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Settings;

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  deputize policy explain --command 'git push --force'
  deputize policy explain --path src/main.rs --op write
  deputize policy explain --url http://192.168.0.1/
  printf '{\"id\": 1, \"command\": \"ls\"}\\n' | deputize policy explain --batch";

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum PolicyCommand {
    /// Print the decision about a command, a path or an address, with its rule
    ///
    /// Nothing runs, and no name is looked up in the network.
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Box<ExplainArgs>),
}

#[derive(Debug, Args)]
#[group(id = "subject", required = true, multiple = false, args = ["command", "path", "url", "batch"])]
pub(crate) struct ExplainArgs {
    /// A shell command
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    pub(crate) command: Option<String>,
    /// A path, for the file tools of an agent that works here
    #[arg(long, value_name = "PATH", requires = "op")]
    pub(crate) path: Option<PathBuf>,
    /// What is done with the path
    #[arg(long, value_enum, requires = "path")]
    pub(crate) op: Option<FileAccess>,
    /// An address of the web
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Read JSON lines with `id` and `command`, `path` and `op`, or `url` from standard input
    #[arg(long)]
    pub(crate) batch: bool,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

/// What is done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileAccess {
    Read,
    Write,
}
