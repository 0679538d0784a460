//! A session snapshot that follows a session is the fold of the session's file.

use std::path::Path;
use std::sync::Arc;

use deputize_core::model::{Reply, Request, ToolChoice};
use deputize_core::{Cancel, Catalog, Message, Outcome, SessionId};
use deputize_runtime::snapshot::{AgentSnapshot, RunChanges, TreeTotals};
use deputize_runtime::{SessionConfig, SessionDir, SessionSnapshot, SnapshotObserver};
use proptest::prelude::*;
use serde_json::json;

use crate::fixture::{World, config, resumed, run, spec};
use crate::laws::CancelAfter;

/// All that a snapshot shows.
fn shown(snapshot: &SessionSnapshot) -> (Vec<AgentSnapshot>, TreeTotals, RunChanges, String) {
    let agents = snapshot.agents().cloned().collect();
    let end = snapshot.end();
    let turn = snapshot.turn();
    let rest = format!("{end:?} {turn} {:?}", snapshot.unstarted_tasks());
    (agents, snapshot.totals(), snapshot.changes().clone(), rest)
}

fn of_file(folder: &Path) -> SessionSnapshot {
    let stored = SessionDir::new(folder).read(&SessionId::literal("s")).unwrap();
    SessionSnapshot::of(Arc::new(Catalog::default()), &stored.records)
}

/// A session whose agents call these tools, step by step; those below the top one only the first.
fn program_config(steps: &[Vec<&'static str>], observer: &SnapshotObserver) -> SessionConfig {
    let planned = steps.to_vec();
    let rule = move |_: usize, request: &Request<'_>| {
        let is_reply = |message: &&Arc<Message>| matches!(&***message, Message::Assistant(_));
        let replies = request.messages.iter().filter(is_reply).count();
        Ok(match planned.get(replies) {
            Some(tools) if request.tool_choice == ToolChoice::Auto => {
                let arguments = |tool: &str| match tool {
                    "spawn" => json!({"list": ["one", "background two"]}),
                    "make" => json!({"command": "make it"}),
                    _ => json!({}),
                };
                Reply::calls("rule", tools.iter().map(|tool| (*tool, arguments(tool))))
            }
            _ => Reply::text("rule", "done"),
        })
    };
    let mut config = config(&Arc::new(World::default()), rule);
    config.observers.push(Arc::new(observer.clone()));
    config
}

fn cost(outcome: &Outcome) -> (u64, u64) {
    let usage = outcome.tree_usage();
    (usage.input, usage.output)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn live_and_stored_sessions_have_one_snapshot_also_after_a_resume(
        steps in proptest::collection::vec(
            proptest::collection::vec(
                proptest::sample::select(&["look", "make", "spawn", "crash", "act"][..]), 1..4),
            1..4),
        stop in 3..80u64,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        let live = SnapshotObserver::default();
        let cancel = Cancel::new();
        let mut first = program_config(&steps, &live);
        first.observers.push(Arc::new(CancelAfter(stop, cancel.clone())));
        let outcome = runtime.block_on(run(folder.path(), spec(folder.path()), first, &cancel));
        let before = shown(&live.read());
        prop_assert_eq!(&before, &shown(&of_file(folder.path())));
        let usage = before.1.tokens;
        prop_assert_eq!((usage.input, usage.output), cost(&outcome));

        let live = SnapshotObserver::default();
        let dir = SessionDir::new(folder.path());
        runtime.block_on(Box::pin(resumed(&dir, program_config(&steps, &live))));
        prop_assert_eq!(shown(&live.read()), shown(&of_file(folder.path())));
        prop_assert!(live.read().totals().agents() >= before.1.agents());
    }
}
