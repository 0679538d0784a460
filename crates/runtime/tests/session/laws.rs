//! Whatever tools do, each call has one result.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::model::{Reply, Request, ToolChoice};
use deputize_core::{CallId, Cancel, CancelReason, Event, Observer, Record};
use proptest::prelude::*;
use serde_json::json;

use crate::fixture::{World, config, run, spec};

const TOOLS: [&str; 7] = ["look", "act", "crash", "broken", "wait", "deaf", "nothing"];

/// Cancels when so many records were kept.
pub(crate) struct CancelAfter(pub(crate) u64, pub(crate) Cancel);

impl Observer for CancelAfter {
    fn on_record(&self, record: &Record) {
        if record.seq == self.0 {
            self.1.cancel(CancelReason::Interrupted);
        }
    }
}

/// Calls asked for, and how many results each has, by agent and call.
fn counted(world: &World) -> BTreeMap<CallId, u32> {
    let mut results = BTreeMap::new();
    for record in world.records.lock().iter() {
        match &record.event {
            Event::ModelResponse { iteration, reply, .. } => {
                for slot in 0..u32::try_from(reply.calls.len()).unwrap() {
                    results.insert(CallId::new(*iteration, slot), 0);
                }
            }
            Event::ToolEnd(end) => *results.get_mut(&end.result.call).unwrap() += 1,
            _ => {}
        }
    }
    results
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn whatever_tools_do_each_call_has_one_result(
        steps in proptest::collection::vec(
            proptest::collection::vec(proptest::sample::select(&TOOLS[..]), 1..6), 1..4),
        stop in 3..40u64,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let world = Arc::new(World::default());
        let planned = steps.clone();
        let rule = move |_: usize, request: &Request<'_>| {
            let asked = request.messages.iter().filter(|message| {
                matches!(&***message, deputize_core::Message::Assistant(_))
            });
            Ok(match planned.get(asked.count()) {
                Some(tools) if request.tool_choice == ToolChoice::Auto => {
                    Reply::calls("rule", tools.iter().map(|tool| (*tool, json!({}))))
                }
                _ => Reply::text("rule", "done"),
            })
        };
        let cancel = Cancel::new();
        let mut config = config(&world, rule);
        config.observers.push(Arc::new(CancelAfter(stop, cancel.clone())));
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        // What waits for ever ends at its time limit, on the paused clock at once.
        let running = run(folder.path(), spec(folder.path()), config, &cancel);
        let outcome = runtime.block_on(running);
        for (call, results) in counted(&world) {
            prop_assert_eq!(results, 1, "{} of {:?}, stopped at {}: {:?}", call, steps, stop, outcome);
        }
        let asked: usize = outcome.trace.len();
        prop_assert_eq!(asked, counted(&world).len(), "the fold has them too");
    }
}
