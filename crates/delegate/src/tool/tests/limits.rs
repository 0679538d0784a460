//! How many children and calls there may be.

use super::*;

#[tokio::test]
async fn a_queue_runs_all_and_never_more_than_may_at_once() {
    let config = DelegationConfig {
        limits: DelegationLimits { over_limit: OverLimit::Queue, ..DelegationLimits::default() },
        ..DelegationConfig::default()
    };
    let rig = Rig::new(config);
    let goals: Vec<String> = (0..40).map(|n| format!("part {n}")).collect();
    let goals: Vec<&str> = goals.iter().map(String::as_str).collect();
    let (first, last) = goals.split_at(20);
    let (one, two) = tokio::join!(rig.call(tasks(first)), rig.call(tasks(last)));
    assert_eq!(entries(&one.unwrap()).len() + entries(&two.unwrap()).len(), 40);
    assert_eq!(rig.home.most.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn tasks_of_several_calls_share_the_slots_and_wait_for_them() {
    let rig = Rig::new(DelegationConfig::default());
    let (one, two) = tokio::join!(rig.call(tasks(&["a", "b"])), rig.call(tasks(&["c", "d"])));
    assert_eq!(entries(&one.unwrap()).len() + entries(&two.unwrap()).len(), 4);
    assert_eq!(rig.home.most.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn of_more_calls_than_may_run_the_first_ones_do() {
    let rig = Rig::new(DelegationConfig {
        limits: DelegationLimits { max_concurrent_children: 2, ..DelegationLimits::default() },
        ..DelegationConfig::default()
    });
    let third = async {
        rig.until_attached(2).await;
        let refused = refusal(rig.call(json!({"goal": "c"})).await);
        rig.home.release.cancel(CancelReason::Interrupted);
        refused
    };
    let (one, two, refused) = tokio::join!(
        rig.call(json!({"goal": "wait a"})),
        rig.call(json!({"goal": "wait b"})),
        third
    );
    assert!(one.is_ok() && two.is_ok());
    insta::assert_snapshot!(refused, @r#"{"error":"no child was started: 1 thing in this call is wrong, see `errors`","errors":[{"code":"E_TOO_MANY_CALLS","task_index":null,"task":null,"field":"goal","value":"c","remedy":"2 calls of `delegate_task` are running, which is the limit: put the work into one call with `tasks`, make this call when one of them has ended, or have the person raise the limit"}],"warnings":[]}"#);
    assert_eq!(rig.attached(), ["wait a", "wait b"]);
    // Those that ended make room.
    assert!(rig.call(json!({"goal": "d"})).await.is_ok());
}

#[tokio::test]
async fn a_session_has_so_many_children_and_a_call_over_that_starts_none() {
    let rig = Rig::new(DelegationConfig {
        limits: DelegationLimits { max_children_per_session: 4, ..DelegationLimits::default() },
        ..DelegationConfig::default()
    });
    assert!(rig.call(tasks(&["a", "b"])).await.is_ok());
    insta::assert_snapshot!(refusal(rig.call(tasks(&["c", "d", "e"])).await), @r#"{"error":"no child was started: 1 thing in this call is wrong, see `errors`","errors":[{"code":"E_TOO_MANY_CHILDREN","task_index":null,"task":null,"field":"tasks","value":3,"remedy":"this call would start 3 children, which is too many: 2 were started and the limit is 4; continue with the results so far, or send fewer tasks"}],"warnings":[]}"#);
    assert_eq!(rig.attached(), ["a", "b"]);
    assert!(rig.call(tasks(&["c", "d"])).await.is_ok());
    // Repeating a call costs nothing, since it attaches the same children.
    rig.slot.store(2, Ordering::SeqCst);
    assert!(rig.call(tasks(&["c", "d"])).await.is_ok());
}

#[tokio::test]
async fn limits_that_are_reached_are_reported_with_all_else_that_is_wrong() {
    let config = DelegationConfig {
        limits: DelegationLimits { max_concurrent_children: 1, ..DelegationLimits::default() },
        ..DelegationConfig::default()
    };
    let rig = Rig::new(DelegationConfig {
        limits: DelegationLimits { max_children_per_session: 2, ..config.limits },
        ..config
    });
    let wrong = async {
        rig.until_attached(1).await;
        let tasks = json!([{"goal": " "}, {"goal": "b", "toolsets": ["none"]}]);
        let refused = refusal(rig.call(json!({ "tasks": tasks })).await);
        rig.home.release.cancel(CancelReason::Interrupted);
        refused
    };
    let (one, refused) = tokio::join!(rig.call(json!({"goal": "wait a"})), wrong);
    assert!(one.is_ok());
    let refused: Value = serde_json::from_str(&refused).unwrap();
    let codes: Vec<&str> = refused["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["code"].as_str().unwrap())
        .collect();
    assert_eq!(
        codes,
        ["E_TOO_MANY_CHILDREN", "E_TOO_MANY_CALLS", "E_TOO_MANY_TASKS", "E_GOAL", "E_TOOLSET"]
    );
    // A call that was wrong has taken no place and counts no child.
    assert!(rig.call(json!({"goal": "b"})).await.is_ok());
    assert_eq!(rig.attached(), ["wait a", "b"]);
}

#[tokio::test]
async fn children_of_an_earlier_process_count_and_the_limit_is_named() {
    let rig = Rig::new(DelegationConfig {
        limits: DelegationLimits { max_children_per_session: 3, ..DelegationLimits::default() },
        ..DelegationConfig::default()
    });
    let root = rig.agent.id().clone();
    let earlier = root.child(deputize_core::CallId::new(9, 0), 0);
    let below = earlier.child(deputize_core::CallId::new(1, 0), 0);
    *rig.home.known.lock() = vec![earlier, below];
    let actual = refusal(rig.call(tasks(&["a", "b"])).await);
    assert!(actual.contains("2 were started and the limit is 3"), "{actual}");
    assert!(actual.contains("would start 2 children, which is too many"), "{actual}");
    assert!(rig.call(tasks(&["a"])).await.is_ok());

    // The agent's own limit is another one.
    let rig = Rig::new(DelegationConfig {
        limits: DelegationLimits { max_children_per_session: 300, ..DelegationLimits::default() },
        ..DelegationConfig::default()
    });
    *rig.home.known.lock() =
        (0..199).map(|n| root.child(deputize_core::CallId::new(9, 0), n)).collect();
    let actual = refusal(rig.call(tasks(&["a", "b"])).await);
    let part = "199 were started and the limit is 200 (for all below this agent";
    assert!(actual.contains(part), "{actual}");
}

#[tokio::test]
async fn a_task_that_a_pause_kept_waiting_did_not_fail() {
    let rig = Rig::new(DelegationConfig::default());
    let output = rig.call(tasks(&["paused"])).await.unwrap();
    assert!(entries(&output)[0].starts_with("interrupted | "), "{:?}", entries(&output));
    assert!(matches!(&output.facts[..], [ToolEffect::NotBegun { task_index: 0, .. }]));
}
