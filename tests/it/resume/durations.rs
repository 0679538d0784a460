//! Times after a kill and a resume: what was taken before counts, and the time between does not.

use std::sync::Arc;

use deputize_core::model::Reply;
use deputize_core::{Event, Outcome, Record};
use deputize_delegate::DelegationConfig;
use serde_json::{Value, json};

use crate::simulated::{SimulatedRule, results, resumed, run, text};

fn end(records: &[Record], depth: u32) -> Outcome {
    let ends = records.iter().filter(|record| record.depth == depth);
    let mut ends = ends.filter_map(|record| match &record.event {
        Event::AgentEnd(outcome) => Some((**outcome).clone()),
        _ => None,
    });
    ends.next_back().expect("an end")
}

#[tokio::test(start_paused = true)]
async fn times_add_up_after_a_kill_at_any_record() {
    // The child asks twice: 5 s and 7 s. Its parent takes 2 s before it and 3 s after it.
    let rule: Arc<SimulatedRule> = Arc::new(|task: &str, results: usize| match (task, results) {
        ("go", 0) => (2_000, Reply::calls("m", [("delegate_task", json!({"goal": "count"}))])),
        ("go", _) => (3_000, Reply::text("m", "Done.")),
        (_, 0) => (5_000, Reply::calls("m", [("no_such_tool", json!({}))])),
        _ => (7_000, Reply::text("m", "It is counted.")),
    });
    let folder = tempfile::tempdir().unwrap();
    let policy = DelegationConfig::default();
    let whole = run(folder.path(), &policy, &rule).await;
    assert_eq!(whole.duration_ms, 17_000);
    let whole = text(folder.path());
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let mut after_the_child_began = 0;
    for kept in 4..=lines.len() {
        // An hour later. A request that was under way is sent again: its whole time counts anew.
        let (outcome, records) = resumed(&lines[..kept], (&policy, &rule), 3_600_000).await;
        let child = end(&records, 1);
        let (_, result) = results(&records).remove(0);
        let json = &result[result.find("{\"results\"").unwrap()..=result.rfind('}').unwrap()];
        let actual: Value = serde_json::from_str(json).unwrap();
        let ms = |value: &Value| (value.as_f64().unwrap() * 1000.0).round() as u64;
        let entry = ms(&actual["results"][0]["duration_seconds"]);
        let call = ms(&actual["total_duration_seconds"]);
        // A turn that was over without its end is gone on with by one more request.
        let top = 17_000 + 3_000 * u64::from(outcome.iterations - 2);
        let all = (entry, call, outcome.duration_ms);
        assert_eq!(all, (12_000, 12_000, top), "after {kept} lines");
        assert_eq!((child.duration_ms, end(&records, 0).duration_ms), (12_000, top));
        let tool_end = records.iter().find_map(|record| match &record.event {
            Event::ToolEnd(end) if record.depth == 0 => Some(end.ms),
            _ => None,
        });
        assert_eq!(tool_end, Some(12_000), "after {kept} lines");
        after_the_child_began += u32::from(lines[..kept].iter().any(|it| it.contains("count")));
    }
    assert!(after_the_child_began > 8, "{whole}");
}
