//! Model requests of an agent, their cost, and what compactions won.

use deputize_core::budget::{Cost, TokenEstimator};
use deputize_core::compaction::Compaction;
use deputize_core::model::{ModelError, Reply, Usage};

use crate::request_size::reply_bytes;

/// A compaction that makes a request shorter by less than one part in so many is useless.
const LEAST_GAIN_PART: u64 = 10;

/// Model requests of an agent, and their cost.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ModelUse {
    pub(super) requests: u32,
    /// The request that has no reply yet.
    pub(super) pending: Option<PendingRequest>,
    pub(super) cost: Cost,
    pub(super) tokens: TokenEstimator,
    /// Tokens of the conversation at the last reply; 0 before it.
    pub(super) context_tokens: u64,
    pub(super) compactions: CompactionGain,
}

/// What the last compactions won.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CompactionGain {
    /// Bytes of the request before the last one, until one after it is answered.
    before: Option<u64>,
    /// Whether the last one replaced a step that no model had answered.
    replaced_step: bool,
    /// Number of last ones that won too little.
    pub(super) useless: u32,
}

impl CompactionGain {
    /// Records a compaction of a request of so many bytes, and whether it replaced a step that no
    /// model had answered: the agent can only take that step again.
    fn record_compaction(&mut self, bytes: u64, replaces_step: bool) {
        // Or no request went through after the one before.
        if self.before.replace(bytes).is_some() || replaces_step {
            self.useless += 1;
        }
        self.replaced_step = replaces_step;
    }

    /// Records the bytes of a request that was answered.
    fn record_reply(&mut self, bytes: u64) {
        let Some(before) = self.before.take().filter(|_| !self.replaced_step) else { return };
        let won = before.saturating_sub(bytes);
        self.useless = if won < before / LEAST_GAIN_PART { self.useless + 1 } else { 0 };
    }
}

/// A request that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingRequest {
    /// The model as agents name it.
    pub(crate) model: String,
    pub(crate) bytes: u64,
}

impl ModelUse {
    pub(super) fn record_reply(&mut self, reply: &Reply, cost_usd: Option<f64>) {
        let context = reply.usage.in_context();
        if let Some(request) = self.pending.take() {
            if reply.usage.input > 0 {
                self.tokens.record_reply(request.bytes, reply_bytes(reply), context);
            }
            self.compactions.record_reply(request.bytes);
        }
        self.context_tokens = context.input.saturating_add(context.output);
        self.cost += Cost {
            tokens: reply.usage.input.saturating_add(reply.usage.output),
            usd: cost_usd.unwrap_or_default(),
            unpriced: cost_usd.is_none(),
        };
    }

    /// Records a compaction of a conversation of so many messages.
    pub(super) fn record_compaction(&mut self, compaction: &Compaction, messages: usize) {
        let replaces_step =
            messages.checked_sub(1).is_some_and(|last| !compaction.part.keeps(last));
        self.compactions.record_compaction(compaction.bytes_before, replaces_step);
        self.tokens.record_compaction();
        self.context_tokens = self.tokens.guess(compaction.bytes_after);
        self.cost += compaction.request.cost();
    }

    pub(super) fn record_failure(&mut self, error: &ModelError, cost: Cost) {
        let counted = error.usage.as_deref().filter(|usage| !error.estimated && usage.input > 0);
        if let (Some(request), Some(usage)) = (self.pending.take(), counted) {
            // Its reply does not enter the conversation.
            let usage = Usage { output: 0, ..usage.in_context() };
            self.tokens.record_reply(request.bytes, 0, usage);
        }
        self.cost += cost;
    }
}
