//! Who answers the questions of an agent that is built, and sees what happens.

use std::sync::Arc;

use deputize_core::authority::ApproverMode;
use deputize_core::hook::Hook;
use deputize_core::policy::{ApprovalAnswer, Question};
use deputize_core::{Approver, BoxFuture, Cancel, Observer, Record};

/// Who answers questions and sees what happens.
#[derive(Default)]
pub(super) struct HandlerSettings {
    pub(super) approver: Option<Arc<dyn Approver>>,
    pub(super) observers: Vec<Arc<dyn Observer>>,
    pub(super) hooks: Vec<Arc<dyn Hook>>,
}

impl HandlerSettings {
    /// How questions are answered.
    pub(super) const fn mode(&self) -> ApproverMode {
        match self.approver {
            Some(_) => ApproverMode::Ask,
            None => ApproverMode::Deny,
        }
    }
}

/// Answers questions by a function.
pub(super) struct ApproveFn<F>(pub(super) F);

impl<F: Fn(&Question) -> ApprovalAnswer + Send + Sync> Approver for ApproveFn<F> {
    fn ask<'a>(&'a self, question: &'a Question, _: &'a Cancel) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move { (self.0)(question) })
    }
}

/// Calls a function with each record.
pub(super) struct RecordFn<F>(pub(super) F);

impl<F: Fn(&Record) + Send + Sync> Observer for RecordFn<F> {
    fn on_record(&self, record: &Record) {
        (self.0)(record);
    }
}
