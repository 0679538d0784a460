//! The result of ending a process tree.

/// The result of ending a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "processes may be left that could not be ended"]
pub struct TerminationReport {
    /// Numbers of the processes that were still alive at the limit, for example because they
    /// changed their user or hang in the kernel.
    pub left: Vec<i32>,
    /// At the limit, nobody was seen alive, but processes went on ending that must have been
    /// started by somebody: a tree that changes faster than it can be stopped.
    pub restless: bool,
    /// The process table could not be read, always or at the last look: process groups were
    /// killed, and who had left them was not seen. Always so where there is no `/proc`.
    pub groups_only: bool,
}

impl TerminationReport {
    /// Returns true if it is certain that nothing is left. So in every normal case on Linux.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.left.is_empty() && !self.restless && !self.groups_only
    }
}
