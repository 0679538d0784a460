//! Options that several commands have.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

// Where the configuration comes from.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Settings {
    /// Work in this directory
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Read this file instead of your configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Set a configuration key, such as delegation.max_spawn_depth=2; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Read the project's own files: AGENTS.md, CLAUDE.md, .cursorrules, skills and profiles
    #[arg(long)]
    pub(crate) project_files: bool,
}

// Which model answers.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ModelChoice {
    /// The model; `offline` needs no key and no network
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Address of the model's provider
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Environment variable that holds the key
    #[arg(long, value_name = "NAME")]
    pub(crate) api_key_env: Option<String>,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct View {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    /// Give the agent only these toolsets
    #[arg(short, long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) toolsets: Vec<String>,
    /// Give the agent a profile: its instructions, and at most its tools
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Limit on model requests; at it, one more without tools asks for a closing answer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_iterations: Option<u32>,
    /// Limit on the cost of the session: all its runs, and children; the models need prices
    #[arg(long, value_name = "USD", value_parser = dollars, allow_negative_numbers = true)]
    pub(crate) max_cost: Option<f64>,
    /// Limit on the tokens of the session, sent and received: all its runs, and children
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens_total: Option<u64>,
    /// Who approves dangerous calls [default: ask at a terminal, otherwise deny]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) approve: Option<Approve>,
    /// Format of standard output
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = OutputFormat::Text)]
    pub(crate) output: OutputFormat,
    /// Show the model an image with the message: PNG, JPEG, WebP or GIF; repeat it for more
    #[arg(long = "image", value_name = "FILE")]
    pub(crate) images: Vec<PathBuf>,
    /// Record all input from outside into a new file, for `run --replay FILE`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Show no progress
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Show every call, and stream replies
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// An amount of money that is one.
pub(super) fn dollars(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount >= 0.0 => Ok(amount),
        _ => Err("give an amount in dollars, such as 0.50".to_owned()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Approve {
    /// Ask the person at the terminal or in the editor
    Ask,
    /// Deny every call
    Deny,
    /// Approve every call, and record it
    Auto,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// The answer
    Text,
    /// One JSON object at the end
    Json,
    /// One JSON object per line for each event
    Events,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Does the work itself
    Leaf,
    /// May delegate
    Orchestrator,
}
