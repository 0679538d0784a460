//! Cancelled calls.

use super::*;

#[tokio::test]
async fn an_interrupt_reaches_the_children_and_their_work_is_reported() {
    let rig = Rig::new(DelegationConfig {
        limits: DelegationLimits {
            over_limit: OverLimit::Queue,
            max_concurrent_children: 2,
            ..DelegationLimits::default()
        },
        ..DelegationConfig::default()
    });
    let interrupt = async {
        rig.until_attached(3).await;
        rig.cancel.cancel(CancelReason::Interrupted);
    };
    let (result, ()) = tokio::join!(rig.call(tasks(&["a", "wait b", "wait c", "d"])), interrupt);
    let Err(ToolError::Cancelled(output)) = result else { panic!("{result:?}") };
    assert_eq!(
        entries(&output),
        [
            "completed | a",
            "interrupted | wait b | interrupted",
            "interrupted | wait c | interrupted",
            "interrupted | interrupted: it was not started"
        ]
    );
    let [ToolEffect::NotBegun { agent, task_index: 3, status, error, .. }] = &output.facts[..]
    else {
        panic!("{:?}", output.facts)
    };
    assert_eq!((agent.as_str(), *status), ("s1/1.0.3", Status::Interrupted));
    assert_eq!(error, "interrupted: it was not started");
    assert_eq!(rig.attached(), ["a", "wait b", "wait c"]);
    assert_eq!(rig.home.running.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_call_that_is_cancelled_already_starts_nobody() {
    let rig = Rig::new(DelegationConfig::default());
    rig.cancel.cancel(CancelReason::Interrupted);
    let result = rig.call(tasks(&["a", "b"])).await;
    let Err(ToolError::Cancelled(output)) = result else { panic!("{result:?}") };
    assert_eq!(entries(&output).len(), 2);
    assert_eq!(rig.attached(), [] as [&str; 0]);
}

#[tokio::test]
async fn a_call_that_is_dropped_gives_its_place_back() {
    let rig = Rig::new(DelegationConfig {
        limits: DelegationLimits { max_concurrent_children: 1, ..DelegationLimits::default() },
        ..DelegationConfig::default()
    });
    tokio::select! {
        biased;
        _ = rig.call(json!({"goal": "wait a"})) => panic!("it waits"),
        () = rig.until_attached(1) => {}
        () = pending() => {}
    }
    assert!(rig.call(json!({"goal": "b"})).await.is_ok());
}

#[tokio::test]
async fn what_a_child_of_an_earlier_process_came_to_is_reported_in_a_call_that_is_cancelled_too() {
    let rig = Rig::new(DelegationConfig::default());
    let begun = rig.agent.id().child(deputize_core::CallId::new(1, 0), 0);
    *rig.home.known.lock() = vec![begun];
    rig.cancel.cancel(CancelReason::Interrupted);
    let Err(ToolError::Cancelled(output)) = rig.call(tasks(&["a", "b"])).await else { panic!() };
    assert_eq!(rig.attached(), ["a"]);
    assert_eq!(
        entries(&output),
        ["completed | a", "interrupted | interrupted: it was not started"]
    );
}
