//! The arguments of `deputize profiles`.

use clap::Subcommand;

use super::{Settings, View};

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Profiles {
    /// List profiles, and files that are no profiles
    List {
        #[command(flatten)]
        view: View,
    },
    /// Show what agents of a profile get, and what they are told
    Show {
        /// The profile
        name: String,
        #[command(flatten)]
        view: View,
    },
    /// Create a profile of yours from a template, and print its path
    New {
        /// The profile
        name: String,
        /// Take the place of the program's profile of this name
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        settings: Settings,
    },
}
