//! Progress of agents on standard error.

pub(crate) mod agent_text;
mod call_groups;
mod call_result;
pub(crate) mod changes;
mod failures;
mod frame;
pub(crate) mod layout;
pub(crate) mod line;
mod line_backlog;
pub(crate) mod live;
pub(crate) mod plain;
pub(crate) mod refused_calls;
mod run_figures;
mod screen_state;
mod screen_writer;
mod shown_reasons;
pub(crate) mod summary;
pub(crate) mod surface;
mod unreadable_calls;

/// How much to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    /// Errors only.
    Quiet,
    /// Errors and progress.
    Normal,
    /// Every call, and streamed replies.
    Verbose,
}
