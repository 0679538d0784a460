//! `deputize new`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum New {
    /// Write a crate with a tool, tests of it, and a program that has it
    ///
    /// It builds, and its tests pass at once. Inside a checkout of Deputize it depends on that
    /// checkout; elsewhere say --path or --published.
    ToolCrate(Project),
}

#[derive(Debug, Args)]
pub(crate) struct Project {
    /// The directory; one that is there must be empty
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The crate's name [default: that of the directory]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Depend on this checkout of Deputize
    #[arg(long, value_name = "CHECKOUT", conflicts_with = "published")]
    pub(crate) path: Option<PathBuf>,
    /// Depend on the published crates, also inside a checkout
    #[arg(long)]
    pub(crate) published: bool,
}
