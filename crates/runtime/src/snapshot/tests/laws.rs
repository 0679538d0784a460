//! What holds for the records of any tree.

use proptest::prelude::*;

use super::*;

/// Agents of a random tree, each with some records.
fn tree_records() -> impl Strategy<Value = Vec<Record>> {
    let steps = proptest::collection::vec((any::<prop::sample::Index>(), 0..10u8), 1..60);
    steps.prop_map(|steps| {
        let mut agents = vec![top()];
        let mut records = vec![record(&top(), session_start()), started(&top())];
        for (which, what) in steps {
            let agent = which.get(&agents).clone();
            let event = match what {
                0..4 => {
                    let new = child(&agent, agents.len() as u32);
                    records.push(started(&new));
                    agents.push(new);
                    continue;
                }
                4 => request("p/m"),
                5 => reply(Some(0.25)),
                6 => call(CALL, "spawn", r#"{"goal":"a"}"#),
                7 => result(CALL, CallStatus::Denied, Vec::new()),
                8 => question(CALL),
                _ => end(&agent, Status::Completed),
            };
            records.push(record(&agent, event));
        }
        numbered(records)
    })
}

proptest! {
    #[test]
    fn in_any_order_each_agent_is_listed_once_below_its_parent(
        records in tree_records(),
        order in proptest::collection::vec(any::<u32>(), 62),
    ) {
        let mut shuffled: Vec<(u32, Record)> = order.into_iter().zip(records).collect();
        shuffled.sort_by_key(|(key, _)| *key);
        let shuffled: Vec<Record> = shuffled.into_iter().map(|(_, record)| record).collect();
        let snapshot = fold(&shuffled);
        let mut listed: Vec<&AgentId> = snapshot.agents().map(|agent| &agent.id).collect();
        let is_start = |record: &&Record| matches!(record.event, Event::AgentStart(_));
        let mut started: Vec<&AgentId> =
            shuffled.iter().filter(is_start).map(|record| &record.agent).collect();
        for (at, id) in listed.iter().enumerate() {
            let above = snapshot.agent(id).unwrap().parent.as_ref();
            let above = above.filter(|above| started.contains(above));
            prop_assert!(above.is_none_or(|above| listed[..at].contains(&above)), "{id}");
            prop_assert!(snapshot.task_path(id).split('.').count() <= id.ancestors().count().max(1));
        }
        listed.sort();
        started.sort();
        prop_assert_eq!(listed, started);
        prop_assert_eq!(snapshot.top().map(|top| &top.id), Some(&top()));
    }

    #[test]
    fn a_snapshot_is_the_same_wherever_its_fold_was_interrupted(
        records in tree_records(),
        at in any::<prop::sample::Index>(),
    ) {
        use deputize_core::Observer as _;
        let (before, after) = records.split_at(at.index(records.len()));
        let observer = SnapshotObserver::new(SessionSnapshot::new(tools()));
        observer.on_restore(before);
        after.iter().for_each(|record| observer.on_record(record));
        let whole = fold(&records);
        let agents = |snapshot: &SessionSnapshot| {
            snapshot.agents().cloned().collect::<Vec<AgentSnapshot>>()
        };
        prop_assert_eq!(agents(&observer.read()), agents(&whole));
        let live = observer.read();
        prop_assert_eq!((live.totals(), live.changes()), (whole.totals(), whole.changes()));
    }
}
