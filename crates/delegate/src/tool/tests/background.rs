//! Background children, and the tool by which they are reached.

use super::*;

#[tokio::test]
async fn a_background_child_is_reported_as_one_that_was_waited_for() {
    let config = DelegationConfig {
        limits: DelegationLimits { max_summary_bytes: 40, ..DelegationLimits::default() },
        options: DelegationOptions { background: true, ..DelegationOptions::default() },
        ..DelegationConfig::default()
    };
    let rig = Rig::new(config);
    let root = rig.agent.id().clone();
    let read = rig.folder.path().join("read.txt");
    std::fs::write(&read, "old").unwrap();
    rig.agent.session.files.record_read(&root, &read, FileVersion::of(b"old"));
    let goal = format!("I wrote ghost.rs. {}", "x".repeat(60));
    let arguments = json!({"tasks": [{"goal": goal}, {"goal": "late 0"}], "background": true});
    rig.call(arguments).await.unwrap();
    // A command of the first one writes behind the ledger's back.
    std::fs::write(&read, "newer").unwrap();
    let specs = rig.home.attached.lock().clone();
    let mut first = outcome(&specs[0], Status::Completed);
    first.receipts.commands.push(("make".to_owned(), Some(0)));
    let mut second = outcome(&specs[1], Status::Completed);
    ended(&mut second, "late 0");
    let background = crate::BackgroundPolicy::new(rig.tool.config.clone(), Arc::new(FixedClock(0)));
    let describe = async |index: usize, child: &mut Outcome| {
        let found = background.inspect(&rig.agent, &specs[index], child).await;
        child.inspection = found.map(Box::new);
        let output = background.report_end(&rig.agent, child).await;
        // The facts of the host stand in no frame of the child's.
        assert_eq!(output.source, Some(Source::tool("delegate_task")));
        let value: Value = serde_json::from_str(&output.content).unwrap();
        (value["results"][0].clone(), output.notes.join("\n"))
    };
    let (entry, notes) = describe(0, &mut first).await;
    assert_eq!(entry["stale_paths"], json!([read]));
    assert_eq!(entry["unseen_writes"], json!(["ghost.rs"]));
    let path = entry["summary_path"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), goal);
    assert!(notes.contains("Changed since you read them") && notes.contains("ghost.rs"), "{notes}");
    let (entry, notes) = describe(1, &mut second).await;
    assert!(Path::new(entry["diagnostic_path"].as_str().unwrap()).exists(), "{entry}");
    assert_eq!((&entry["stale_paths"], notes.as_str()), (&Value::Null, ""));
}

#[tokio::test]
async fn stopping_all_must_be_said_and_lists_are_read_leniently() {
    let rig = Rig::new(DelegationConfig::default());
    let control = crate::ControlTool::new().unwrap();
    let child = rig.agent.id().child(deputize_core::CallId::new(1, 0), 0);
    *rig.home.known.lock() = vec![child.clone()];
    let cx = ToolCx {
        call: deputize_core::CallId::new(2, 0),
        agent: Arc::clone(&rig.agent),
        cancel: rig.cancel.clone(),
    };
    for agents in
        [json!({}), json!({"agents": null}), json!({"agents": "[]"}), json!({"agents": []})]
    {
        let mut arguments = agents.clone();
        arguments["action"] = json!("stop");
        let actual = refusal(control.call(arguments.clone(), &cx).await);
        assert!(actual.contains("`all`: true"), "{actual}");
        arguments["action"] = json!("list");
        assert!(control.call(arguments, &cx).await.unwrap().content.contains(child.as_str()));
    }
    assert_eq!(rig.home.stopped.load(Ordering::SeqCst), 0);
    let listed = json!([child]).to_string();
    for chosen in [json!({"all": true}), json!({"agents": [child]}), json!({"agents": listed})] {
        let mut arguments = chosen;
        arguments["action"] = json!("stop");
        control.call(arguments, &cx).await.unwrap();
    }
    assert_eq!(rig.home.stopped.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_call_of_delegate_control_is_read_as_one_of_delegate_task() {
    let rig = Rig::new(DelegationConfig::default());
    let control = crate::ControlTool::new().unwrap();
    assert!(control.reads_itself());
    let child = rig.agent.id().child(deputize_core::CallId::new(1, 0), 0);
    *rig.home.known.lock() = vec![child.clone()];
    let cx = ToolCx {
        call: deputize_core::CallId::new(2, 0),
        agent: Arc::clone(&rig.agent),
        cancel: rig.cancel.clone(),
    };
    // What says nothing is absent, words are taken in any case, and what nobody reads is told.
    let odd = json!({
        "action": " List ", "agents": "[]", "all": null, "message": "", "wait_for": [], "id": 1,
    });
    for arguments in [odd.clone(), json!(odd.to_string())] {
        let actual = control.call(arguments, &cx).await.unwrap().content;
        let actual: serde_json::Value = serde_json::from_str(&actual).unwrap();
        assert_eq!(actual["agents"][0]["agent"], json!(child));
        assert_eq!(actual["warnings"], json!(["unknown field `id` ignored"]));
    }
    let stopped = json!({"action": "stop", "all": "true", "agents": null});
    assert!(!control.call(stopped, &cx).await.unwrap().content.contains("warnings"));
    assert_eq!(rig.home.stopped.load(Ordering::SeqCst), 1);
    // All that is wrong is told at once, and nothing is done.
    let mut wrong = String::new();
    for arguments in [
        json!({"action": "halt", "agents": [child, "s/9", 7], "all": "perhaps", "wait_for": "one"}),
        json!({"action": "stop", "agents": ["s/9", child]}),
        json!({"action": "message", "agents": [child], "message": "\u{200b}", "colour": 1}),
        json!({"action": "message", "message": "x".repeat(70_000)}),
        json!({}),
        json!([1]),
        json!("{\"action\": "),
    ] {
        wrong += &format!("{}\n", refusal(control.call(arguments, &cx).await));
    }
    insta::assert_snapshot!(wrong);
    assert_eq!(rig.home.stopped.load(Ordering::SeqCst), 1);
}
