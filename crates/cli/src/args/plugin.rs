//! The arguments of `deputize plugin`.

use std::path::PathBuf;

use clap::Subcommand;

use super::{Project, View};

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Plugin {
    /// List configured plugins, and whether each works
    List {
        #[command(flatten)]
        view: View,
    },
    /// Check a plugin's file, run its examples, and print its configuration entry
    ///
    /// The file is checked before any of its code runs. Then the examples of each tool run in a
    /// separate process.
    Check {
        /// The library, such as target/release/libwords.so
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// Directory in which the examples run [default: a new, empty one]
        #[arg(long, value_name = "DIR")]
        within: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Create a plugin project that builds and passes its check
    ///
    /// Inside a checkout of Deputize, the project depends on that checkout; elsewhere, pass --path
    /// or --published.
    New(Project),
}
