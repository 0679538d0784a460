//! The arguments of `deputize toolsets`.

use clap::{Args, Subcommand};

use super::{Role, View};

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Toolsets {
    /// List toolsets and their tools
    List {
        #[command(flatten)]
        view: View,
    },
    /// Show which tools a child gets, and why it lacks the others
    Resolve {
        #[command(flatten)]
        child: ChildTools,
        #[command(flatten)]
        view: View,
    },
}

// The child whose tools are asked for.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ChildTools {
    /// Resolve for a child of the agent (the default)
    #[arg(long)]
    pub(crate) child: bool,
    /// Toolsets that the call names [default: none]
    #[arg(short, long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) toolsets: Vec<String>,
    /// Profile that the call names
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Role that the call names
    #[arg(long, value_enum)]
    pub(crate) role: Option<Role>,
    /// The child's depth below the top agent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3))]
    pub(crate) depth: Option<u32>,
}
