//! The configuration of a supervisor.

use crate::helper::Helper;

/// Configures a supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupervisorConfig {
    /// The program that starts commands, and ends them also when this one is killed. It is
    /// started at the first command. Without one, a thread of this program does its work, which
    /// is gone with this program: what runs then goes on.
    pub helper: Option<Helper>,
    /// Whether the helper gives the commands of each owner a PID namespace of their own where it
    /// may. Everything in it can be ended at once; a command in it sees the processes of its
    /// owner only.
    pub namespaces: bool,
    /// The soft limit of open files that commands get, if not the one that this program has. See
    /// [`raise_open_files`](crate::raise_open_files).
    pub open_files: Option<u64>,
}

impl Default for SupervisorConfig {
    fn default() -> Self {
        Self { helper: None, namespaces: true, open_files: None }
    }
}
