//! Arguments of commands that serve others, for every run.

use std::path::PathBuf;

use clap::Args;

use super::{Approve, ModelChoice, OutputFormat, RunOptions, Settings, dollars};

#[derive(Debug, Args)]
pub(crate) struct SessionOptions {
    #[command(flatten)]
    model: ModelChoice,
    /// Give the agents only these toolsets
    #[arg(short, long, value_name = "A,B", value_delimiter = ',')]
    toolsets: Vec<String>,
    /// Give the agents a profile: its instructions, and at most its tools
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Limit on model requests in a turn
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_iterations: Option<u32>,
    /// Limit on the cost of a session, children included; the models need prices
    #[arg(long, value_name = "USD", value_parser = dollars, allow_negative_numbers = true)]
    max_cost: Option<f64>,
    /// Limit on the tokens of a session, sent and received, children included
    #[arg(long, value_name = "N")]
    max_tokens_total: Option<u64>,
    /// Read this file instead of your configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set a configuration key, such as delegation.max_spawn_depth=2; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Read the project's own files: AGENTS.md, CLAUDE.md, .cursorrules and skills
    #[arg(long)]
    project_files: bool,
}

impl SessionOptions {
    /// Returns the options of a run.
    pub(super) fn options(
        &self,
        approve: Option<Approve>,
        cwd: Option<PathBuf>,
        quiet: bool,
    ) -> RunOptions {
        let config = self.config.clone();
        let set = self.set.clone();
        RunOptions {
            images: Vec::new(),
            model: self.model.clone(),
            toolsets: self.toolsets.clone(),
            profile: self.profile.clone(),
            max_iterations: self.max_iterations,
            max_cost: self.max_cost,
            max_tokens_total: self.max_tokens_total,
            approve,
            output: OutputFormat::Text,
            record: None,
            settings: Settings { cwd, config, set, project_files: self.project_files },
            quiet,
            verbose: false,
        }
    }
}
