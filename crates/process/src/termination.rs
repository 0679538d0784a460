//! The termination of one scope: how it is done, and how far it is.

use std::time::Instant;

use crate::protocol::ReaperReport;
use crate::scope::Scope;
use crate::termination_report::TerminationReport;
use crate::tree_kill::{GRACE, KILL_LIMIT, TreeKill};

/// The ending of one scope.
#[derive(Debug)]
pub(crate) struct Termination {
    pub(crate) scope: Scope,
    /// `None` if no request waits for the report.
    pub(crate) ticket: Option<u64>,
    pub(crate) began: Instant,
    pub(crate) way: TerminationMethod,
}

/// By which means.
#[derive(Debug)]
pub(crate) enum TerminationMethod {
    /// By looking for everybody.
    TreeKill(TreeKill),
    /// With the help of their namespace.
    PidNamespace(NamespacePhase),
}

/// The step that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespacePhase {
    /// No process was asked to end.
    Asking,
    /// They were asked to end, and have the grace for it.
    Waiting,
    /// All of them were killed, others of the namespace were not.
    Killed,
    /// The namespace is being ended, whose first process has this number.
    Dying(i32),
}

impl TerminationMethod {
    pub(crate) fn asking() -> Self {
        Self::PidNamespace(NamespacePhase::Asking)
    }
}

impl Termination {
    /// True while looking less often will do.
    pub(crate) fn is_patient(&self, now: Instant) -> bool {
        match &self.way {
            TerminationMethod::TreeKill(kill) => kill.is_waiting(now),
            TerminationMethod::PidNamespace(NamespacePhase::Waiting) => !self.grace_is_over(now),
            TerminationMethod::PidNamespace(phase) => matches!(phase, NamespacePhase::Dying(_)),
        }
    }

    /// True if looking at the process table is of no use: the kernel says when it is done.
    pub(crate) fn waits_for_kernel(&self, now: Instant) -> bool {
        matches!(self.way, TerminationMethod::PidNamespace(NamespacePhase::Dying(_)))
            && !self.limit_is_over(now)
    }

    pub(crate) fn grace_is_over(&self, now: Instant) -> bool {
        now.duration_since(self.began) >= GRACE
    }

    pub(crate) fn limit_is_over(&self, now: Instant) -> bool {
        now.duration_since(self.began) > GRACE + KILL_LIMIT
    }

    /// Puts the answer among the reports.
    pub(crate) fn answer(&self, reports: &mut Vec<ReaperReport>, ended: TerminationReport) {
        reports.extend(self.ticket.map(|ticket| ReaperReport::Ended(ticket, ended)));
    }
}
