//! The arguments of `deputize acp`.

use clap::Args;

use super::serve::Every;
use super::{Approve, RunOptions};

#[derive(Debug, Args)]
pub(crate) struct Acp {
    #[command(flatten)]
    every: Every,
    /// Approval mode of new sessions, which the editor may change [default: ask]
    #[arg(long, value_enum, value_name = "MODE")]
    approve: Option<Approve>,
}

impl Acp {
    /// Returns the options of each session. The editor sets the working directory.
    pub(crate) fn options(&self) -> RunOptions {
        self.every.options(self.approve, None, false)
    }
}
