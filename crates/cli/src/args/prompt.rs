//! The arguments of `deputize prompt`.

use std::path::PathBuf;

use clap::Args;

use super::{ModelChoice, Role, Settings};

#[derive(Debug, Args)]
pub(crate) struct Prompt {
    /// The message
    #[arg(value_name = "PROMPT", default_value = "Hello.")]
    pub(crate) prompt: String,
    /// Print the system text only
    #[arg(long, conflicts_with_all = ["tools", "json"])]
    pub(crate) system: bool,
    /// Print the tools only
    #[arg(long, conflicts_with = "json")]
    pub(crate) tools: bool,
    /// Print the whole request as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print what a compaction asks for; with --json, its request after this message alone
    #[arg(long, conflicts_with_all = ["system", "tools"])]
    pub(crate) compaction: bool,
    #[command(flatten)]
    pub(crate) child: ChildPrompt,
    /// Profile of the agent; with --child, the one that the call names
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Toolsets of the agent; with --child, those that the call requests
    #[arg(short, long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) toolsets: Vec<String>,
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ChildPrompt {
    /// Print the request of a child instead
    #[arg(long, requires = "goal")]
    pub(crate) child: bool,
    /// The child's goal
    #[arg(long, value_name = "GOAL", requires = "child")]
    pub(crate) goal: Option<String>,
    /// Context for the child's goal
    #[arg(long, value_name = "CONTEXT", requires = "child")]
    pub(crate) context: Option<String>,
    /// The child's role
    #[arg(long, value_enum, requires = "child")]
    pub(crate) role: Option<Role>,
    /// The child's depth below the top agent
    #[arg(long, value_name = "N", requires = "child", value_parser = clap::value_parser!(u32).range(1..=3))]
    pub(crate) depth: Option<u32>,
    /// The child's working directory
    #[arg(long, value_name = "DIR", requires = "child")]
    pub(crate) workspace: Option<PathBuf>,
    /// File with a JSON Schema for the child's answer
    #[arg(long, value_name = "FILE", requires = "child")]
    pub(crate) output_schema: Option<PathBuf>,
}
