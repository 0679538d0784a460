//! The arguments of `deputize skills`.

use clap::Subcommand;

use super::{Settings, View};

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Skills {
    /// List skills, and files that are no skills
    List {
        #[command(flatten)]
        view: View,
    },
    /// Print a skill, or a file of it
    Show {
        /// The skill
        name: String,
        /// A file of the skill, by its path in the skill's folder
        file: Option<String>,
        #[command(flatten)]
        settings: Settings,
    },
    /// Edit a skill of yours with $VISUAL or $EDITOR; a new one begins with a template
    Edit {
        /// The skill
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Delete a skill of yours with all its files
    Rm {
        /// The skill
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
}
