//! The arguments of `deputize acp`.

use clap::Args;

use super::serve::SessionOptions;
use super::{Approve, RunOptions};

#[derive(Debug, Args)]
pub(crate) struct Acp {
    #[command(flatten)]
    options: SessionOptions,
    /// Approval mode of new sessions, which the editor may change [default: ask]
    #[arg(long, value_enum, value_name = "MODE")]
    approve: Option<Approve>,
}

impl Acp {
    /// Returns the options of each session. The editor sets the working directory.
    pub(crate) fn options(&self) -> RunOptions {
        self.options.options(self.approve, None, false)
    }
}
