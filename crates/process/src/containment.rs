//! How process trees are contained.

/// How process trees are contained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Containment {
    /// A PID namespace for each owner: the kernel ends everything in it at once.
    PidNamespace,
    /// The process table, read until nothing of the tree is left.
    ProcessTable,
    /// Process groups: a process that leaves its group is not found.
    ProcessGroups,
}
