//! The arguments of `deputize memory`.

use clap::Subcommand;

use super::{Settings, View};

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum MemoryCommand {
    /// List all entries
    List {
        #[command(flatten)]
        view: View,
    },
    /// Print a memory as agents read it
    Show {
        /// The memory: user or work
        topic: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Edit a memory with $VISUAL or $EDITOR
    Edit {
        /// The memory: user or work
        topic: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Delete an entry
    Rm {
        /// The memory: user or work
        topic: String,
        /// A part of the entry
        text: String,
        #[command(flatten)]
        settings: Settings,
    },
}
