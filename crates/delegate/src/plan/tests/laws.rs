//! What holds for any call, any configuration and any tree of agents.

use proptest::prelude::*;

use super::strategies::{NAMES, any_json, calls, holds, policies, some_of, trees};
use super::*;

/// Down every path of a tree: nobody has what the parent lacks, in any dimension.
#[test]
fn a_child_is_within_its_parent() {
    holds(trees(), 20, |(own, levels)| {
        let mut families = vec![ParentFixture::new(&own.join(" "))];
        let mut depth = 0;
        for (arguments, config) in levels {
            let mut next = Vec::new();
            for family in &families {
                let Ok(plan) = made(family, &arguments, &config) else { continue };
                for spec in plan.specs {
                    let child = family.below((*spec).clone());
                    is_within_its_parent(&child, family, &config)?;
                    next.push(child);
                }
            }
            depth += u32::from(!next.is_empty());
            families = next;
        }
        // A grandchild lived.
        Ok(depth > 1)
    });
}

fn is_within_its_parent(
    child: &ParentFixture,
    family: &ParentFixture,
    config: &DelegationConfig,
) -> Result<(), TestCaseError> {
    prop_assert!(child.authority.is_within(&family.authority));
    prop_assert!(child.spec.approver <= child.authority.approver());
    prop_assert!(child.authority.spawn_depth() < family.authority.spawn_depth());
    let has = |name: &str| child.parent().has(name);
    prop_assert!(!["todo", "clarify", "execute_code", "memory"].iter().any(|n| has(n)));
    let hands_on = ["delegate_task", "delegate_control", "workflow"];
    prop_assert!(child.spec.role == Role::Orchestrator || !hands_on.iter().any(|n| has(n)));
    prop_assert_eq!(child.parent().tools().count(), child.spec.tools.len());
    if let Some(ceiling) = &config.toolsets.ceiling {
        prop_assert!(child.parent().toolsets().is_subset(ceiling));
    }
    Ok(())
}

/// However a child comes back (tried again, taken up from the journal, after the tools of the
/// program or the authority of its parent changed): it has nothing that its parent lacks now.
#[test]
fn nothing_that_comes_back_has_more_than_its_parent_has_now() {
    let later = (some_of(&NAMES), some_of(&NAMES), 0..3_u32, any::<bool>(), 0..3_usize);
    holds((calls(), policies(), later), 60, |((own, arguments), config, later)| {
        let (left, changed, spawn_depth, network, approver) = later;
        let family = ParentFixture::new(&own.join(" "));
        let Ok(plan) = made(&family, &arguments, &config) else { return Ok(false) };
        // Later: some tools are taken from the parent, some are other tools of the same name.
        let modes = [ApproverMode::Deny, ApproverMode::Ask, ApproverMode::Auto];
        let kept = left.iter().map(|path| tool_name(path.rsplit('/').next().unwrap()));
        let now = family.authority.intersect(&Grant {
            tools: Some(kept.collect()),
            spawn_depth: Some(spawn_depth),
            network: Some(network),
            approver: Some(modes[approver]),
            ..Grant::default()
        });
        let program = ParentFixture::swapped(&own.join(" "), &changed.join(" "));
        for spec in &plan.specs {
            // As the journal gives it back: a grant, which is met with what the parent has now.
            let stored = serde_json::to_value(spec).unwrap();
            let stored: AgentSpec = serde_json::from_value(stored).unwrap();
            prop_assert_eq!(&stored.grant, &spec.grant);
            for again in
                [now.intersect(&stored.grant), now.intersect(&spec.grant).intersect(&stored.grant)]
            {
                prop_assert!(again.is_within(&now) && again.is_within(&family.authority));
                prop_assert_eq!(&again, &again.intersect(&stored.grant));
                for entry in program.iter() {
                    let permitted = again.permits(entry).is_ok();
                    prop_assert!(!permitted || now.permits(entry).is_ok());
                    let name = format!("/{}", entry.name());
                    let is_other = changed.iter().any(|path| path.ends_with(&name));
                    prop_assert!(!(permitted && is_other));
                }
            }
        }
        Ok(true)
    });
}

#[test]
fn every_tool_of_the_parent_is_kept_or_explained() {
    holds((calls(), policies()), 60, |((own, arguments), config)| {
        let family = ParentFixture::new(&own.join(" "));
        let Ok(plan) = made(&family, &arguments, &config) else { return Ok(false) };
        for (spec, dropped) in plan.specs.iter().zip(&plan.dropped) {
            let mut all: Vec<_> = dropped.iter().map(|dropped| dropped.tool.clone()).collect();
            all.extend(spec.tools.clone());
            all.sort();
            let mut parent = family.spec.tools.clone();
            parent.sort();
            prop_assert_eq!(all, parent);
        }
        Ok(true)
    });
}

proptest! {
    #[test]
    fn any_arguments_give_children_or_errors_and_always_the_same(arguments in any_json()) {
        let family = ParentFixture::new(TOOLS);
        let config = DelegationConfig::default();
        let plan = made(&family, &arguments, &config);
        prop_assert_eq!(&plan, &made(&family, &arguments, &config));
        match plan {
            Ok(plan) => {
                prop_assert!(!plan.specs.is_empty());
                prop_assert!(plan.specs.iter().all(|spec| !spec.goal.trim().is_empty()));
            }
            Err(PlanError::Refused(refusal)) => {
                prop_assert!(!refusal.errors().is_empty());
                prop_assert!(serde_json::from_str::<Value>(&refusal.to_json()).is_ok());
            }
            Err(PlanError::Prompt(error)) => prop_assert!(false, "{}", error),
        }
    }
}
