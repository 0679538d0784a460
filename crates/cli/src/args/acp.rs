//! The arguments of `deputize acp`.

use std::path::PathBuf;

use clap::Args;

use super::{Approve, ModelChoice, OutputFormat, RunOptions, Settings, dollars};

#[derive(Debug, Args)]
pub(crate) struct Acp {
    #[command(flatten)]
    model: ModelChoice,
    /// Give the agent these toolsets only
    #[arg(short, long, value_name = "A,B", value_delimiter = ',')]
    toolsets: Vec<String>,
    /// Make at most this many model requests in a turn
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_iterations: Option<u32>,
    /// Spend at most this much in a session, with all children; the models must have prices
    #[arg(long, value_name = "USD", value_parser = dollars)]
    max_cost: Option<f64>,
    /// Send and receive at most this many tokens in a session, with all children
    #[arg(long, value_name = "N")]
    max_tokens_total: Option<u64>,
    /// The mode that a session begins in, which the editor may change [default: ask]
    #[arg(long, value_enum, value_name = "MODE")]
    approve: Option<Approve>,
    /// Read this file instead of the person's own configuration
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set a configuration key, such as delegation.max_spawn_depth=2; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl Acp {
    /// What it says of each session, as options of a run.
    pub(crate) fn options(&self) -> RunOptions {
        RunOptions {
            model: self.model.clone(),
            toolsets: self.toolsets.clone(),
            max_iterations: self.max_iterations,
            max_cost: self.max_cost,
            max_tokens_total: self.max_tokens_total,
            approve: self.approve,
            output: OutputFormat::Text,
            record: None,
            // The editor says where a session works.
            settings: Settings { cwd: None, config: self.config.clone(), set: self.set.clone() },
            quiet: false,
            verbose: false,
        }
    }
}
