//! Counts the work for one command.

use crate::limits::{COMMANDS_MAX, DEPTH_MAX, EXPANDED_BYTES_MAX, PARSED_BYTES_MAX};

/// The work so far. Each method that counts returns whether the work may go on.
#[derive(Default)]
pub(crate) struct WorkCounter {
    commands: usize,
    expanded_bytes: usize,
    parsed_bytes: usize,
    depth: usize,
    is_over: bool,
}

impl WorkCounter {
    /// Ends the work: nothing is entered any more.
    pub(crate) fn stop(&mut self) {
        self.is_over = true;
    }

    /// Counts a simple command.
    pub(crate) fn count_command(&mut self) -> bool {
        self.commands += 1;
        self.commands <= COMMANDS_MAX
    }

    /// Counts bytes that expansion made.
    pub(crate) fn count_expanded(&mut self, bytes: usize) -> bool {
        self.expanded_bytes += bytes;
        self.expanded_bytes <= EXPANDED_BYTES_MAX
    }

    /// Counts bytes that are to be parsed.
    pub(crate) fn count_parsed(&mut self, bytes: usize) -> bool {
        self.parsed_bytes += bytes;
        self.parsed_bytes <= PARSED_BYTES_MAX && !self.is_over
    }

    /// Goes one level deeper, if it may.
    pub(crate) fn enter(&mut self) -> bool {
        let may_enter = !self.is_over && self.depth < DEPTH_MAX;
        self.depth += usize::from(may_enter);
        may_enter
    }

    /// Goes back from a level that was entered.
    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }
}
