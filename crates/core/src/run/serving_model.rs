//! The model that serves an agent.

/// The model of the last request and the model of the last reply, by the names that agents use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ServingModel {
    requested: String,
    served: String,
}

impl ServingModel {
    /// Records the model of a request. Returns whether it is another one than before.
    pub(super) fn record_request(&mut self, model: &str) -> bool {
        let is_other = self.requested != model;
        if is_other {
            model.clone_into(&mut self.requested);
        }
        is_other
    }

    /// Records that a reply, or part of one, arrived: from the requested model, or from `own_name`,
    /// as the model calls itself, if the record of the request is missing.
    pub(super) fn record_reply(&mut self, own_name: &str) {
        let name = if self.requested.is_empty() { own_name } else { &self.requested };
        name.clone_into(&mut self.served);
    }

    /// Returns the model of the last reply; empty before the first.
    pub(super) fn served(&self) -> &str {
        &self.served
    }
}
