//! Children that are another program.

use super::*;

#[test]
fn an_external_child_is_refused_where_it_is_not_due_what_a_command_may_do() {
    let family = ParentFixture::new("file/read_file file/write_file terminal/terminal web/fetch");
    let external = |config: DelegationConfig| DelegationConfig {
        approvals: ChildApprovals { mode: ApproverMode::Ask, ..config.approvals },
        host: DelegationHost {
            external_needs: vec![tool_name("terminal"), tool_name("write_file")],
            ..config.host
        },
        ..config
    };
    let sets = |names: &str| toolsets(names);
    let plain = json!({"goal": "A"});
    let named = json!({"tasks": [{"goal": "A"}, {"goal": "B", "toolsets": ["file"]}]});
    let ceiling = DelegationConfig {
        toolsets: ChildToolsets { ceiling: Some(sets("file web")), ..ChildToolsets::default() },
        ..DelegationConfig::default()
    };
    let default = DelegationConfig {
        toolsets: ChildToolsets { default: sets("terminal"), ..ChildToolsets::default() },
        ..DelegationConfig::default()
    };
    let cases = [(&plain, ceiling), (&plain, default), (&named, DelegationConfig::default())];
    let actual: Vec<String> = cases
        .into_iter()
        .map(|(call, config)| {
            let Err(PlanError::Refused(refusal)) = made(&family, call, &external(config)) else {
                panic!("{call} should be refused");
            };
            let [error] = refusal.errors() else { panic!("{refusal:?}") };
            let CallError { code, task_index, field, value, remedy, .. } = error;
            format!("{} {task_index:?} {field} {value}: {remedy}", code.as_str())
        })
        .collect();
    insta::assert_snapshot!(actual.join("\n"));
    let all = json!({"goal": "A", "toolsets": ["file", "terminal"]});
    made(&family, &all, &external(DelegationConfig::default())).unwrap();
    let poor = ParentFixture::new("file/read_file file/write_file");
    assert!(
        refused(&poor, &plain, &external(DelegationConfig::default())).contains("does not have it")
    );
}

#[test]
fn what_has_no_effect_on_an_external_child_is_reported_with_the_reason() {
    let family = ParentFixture::new("file/write_file terminal/terminal delegation/delegate_task");
    let config = DelegationConfig {
        approvals: ChildApprovals { mode: ApproverMode::Auto, ..ChildApprovals::default() },
        limits: DelegationLimits { max_spawn_depth: 2, ..DelegationLimits::default() },
        host: DelegationHost {
            external_needs: vec![tool_name("terminal"), tool_name("write_file")],
            ..DelegationHost::default()
        },
        ..DelegationConfig::default()
    };
    let call = json!({"goal": "A", "role": "orchestrator", "max_iterations": 3});
    let why = "children are another program here";
    let plan = made(&family, &call, &config).unwrap();
    assert_eq!(
        plan.warnings,
        [
            format!("`max_iterations` has no effect: {why}"),
            format!("task 0 got less than it asked for: role orchestrator ({why})")
        ]
    );
    let actual = refused(&family, &json!({"goal": "A", "model": "p/small"}), &config);
    assert!(actual.contains("E_MODEL") && actual.contains(why), "{actual}");
}

#[test]
fn an_external_child_is_refused_where_nothing_that_children_want_may_be_approved() {
    let family = ParentFixture::new("file/write_file terminal/terminal");
    let config = |approvals| DelegationConfig {
        approvals: ChildApprovals { mode: approvals, ..ChildApprovals::default() },
        host: DelegationHost {
            external_needs: vec![tool_name("terminal"), tool_name("write_file")],
            ..DelegationHost::default()
        },
        ..DelegationConfig::default()
    };
    let call = json!({"tasks": [{"goal": "A"}, {"goal": "B"}]});
    for may in [ApproverMode::Ask, ApproverMode::Auto] {
        made(&family, &call, &config(may)).unwrap();
    }
    let actual = refused(&family, &call, &config(ApproverMode::Deny));
    assert_eq!(actual.matches("E_EXTERNAL").count(), 1, "once for the call: {actual}");
    assert!(
        actual.contains("nobody approves what children") && !actual.contains("approvals"),
        "{actual}"
    );
    // What the settings allow an agent may still lack.
    let mut family = family;
    let narrow = Grant { approver: Some(ApproverMode::Deny), ..Grant::default() };
    family.authority = family.authority.intersect(&narrow);
    let actual = refused(&family, &call, &config(ApproverMode::Auto));
    assert!(actual.contains("E_EXTERNAL") && actual.contains("children of this agent"), "{actual}");
}
