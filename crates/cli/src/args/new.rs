//! `deputize new`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum NewCommand {
    /// Create a crate with a tool, its tests, and a program that uses it
    ///
    /// It builds, and its tests pass at once. Inside a checkout of Deputize, it depends on that
    /// checkout; elsewhere, pass --path or --published.
    ToolCrate(Project),
}

#[derive(Debug, Args)]
pub(crate) struct Project {
    /// The directory; it must be new or empty
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Name of the crate [default: the directory's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Depend on this checkout of Deputize
    #[arg(long, value_name = "CHECKOUT", conflicts_with = "published")]
    pub(crate) path: Option<PathBuf>,
    /// Depend on the published crates, even inside a checkout
    #[arg(long)]
    pub(crate) published: bool,
}
