//! Nested calls: those that a running call makes of its agent's tools.

use std::sync::{Arc, Weak};

use deputize_core::event::JournalError;
use deputize_core::nested_call::{NestedCall, NestedCaller, NestedResult};
use deputize_core::{BoxFuture, ToolCall};
use tokio::sync::RwLock;
use tracing::{Instrument as _, info_span};

use crate::agent_context::AgentContext;
use crate::tool_runner::ToolRunner;

/// Makes the nested calls of one agent.
pub(crate) struct NestedRunner {
    cx: Weak<AgentContext>,
    /// Held by calls that run: for reading by those that may run side by side.
    side_by_side: RwLock<()>,
}

impl NestedRunner {
    pub(crate) fn new(cx: &Arc<AgentContext>) -> Self {
        Self { cx: Arc::downgrade(cx), side_by_side: RwLock::default() }
    }

    async fn run(&self, nested: NestedCall<'_>) -> Result<NestedResult, JournalError> {
        let Some(cx) = self.cx.upgrade() else {
            return Ok(NestedResult::refused("the agent has ended"));
        };
        let outer = nested.outer.call;
        if outer.nested.is_some() {
            return Ok(NestedResult::refused("a nested call can make no calls itself"));
        }
        let call = ToolCall {
            id: outer.nested_call(nested.number),
            name: nested.tool.to_owned(),
            arguments: cx.shared.config.secrets.scrub(nested.arguments).into_owned(),
        };
        let runner = ToolRunner::for_nested_call(&cx, Arc::clone(&nested.on_question));
        if runner.spawns(&call) {
            let text = format!("{} starts agents, which a nested call cannot do", nested.tool);
            return Ok(NestedResult::refused(text));
        }
        let is_parallel = runner.is_parallel(&call);
        let _beside = if is_parallel { Some(self.side_by_side.read().await) } else { None };
        let _alone = if is_parallel { None } else { Some(self.side_by_side.write().await) };
        let span = info_span!("call", id = %call.id, tool = call.name);
        let result = runner.run_nested(&call, &nested.outer.cancel.child()).instrument(span).await;
        cx.publish();
        result
    }
}

impl NestedCaller for NestedRunner {
    fn call<'a>(
        &'a self,
        call: NestedCall<'a>,
    ) -> BoxFuture<'a, Result<NestedResult, JournalError>> {
        Box::pin(self.run(call))
    }
}
