use std::fmt::Write as _;

use deputize_core::authority::{ApproverMode, Grant};

use super::*;
use crate::config::{
    ChildApprovals, ChildToolsets, DelegationHost, DelegationLimits, DelegationOptions,
};
use crate::fixture::{ParentFixture, toolsets};

const PARENT: &str = "file/read_file file/write_file terminal/terminal web/web_fetch \
    mcp-git/git_log core/todo core/clarify mixed/memory mixed/note \
    delegation/delegate_task delegation/workflow - chat/send_message";

struct ToolsetCase<'a> {
    parent: &'a str,
    request: Option<&'a str>,
    role: Role,
    config: DelegationConfig,
}

impl Default for ToolsetCase<'_> {
    fn default() -> Self {
        let config = DelegationConfig {
            limits: DelegationLimits { max_spawn_depth: 2, ..DelegationLimits::default() },
            ..DelegationConfig::default()
        };
        Self { parent: PARENT, request: None, role: Role::Leaf, config }
    }
}

fn asked(toolsets: Option<&BTreeSet<ToolsetName>>, role: Role) -> ToolRequest<'_> {
    ToolRequest { toolsets, role, profile: None }
}

/// The only function here that knows the signature under test.
fn child(case: &ToolsetCase<'_>) -> String {
    let family = ParentFixture::new(case.parent);
    let request = case.request.map(toolsets);
    let child = child_tools(family.parent(), asked(request.as_ref(), case.role), &case.config);
    let names: Vec<&str> = child.tools.iter().map(ToolName::as_str).collect();
    let mut out = format!("{}: {}\n", child.role.as_str(), names.join(" "));
    for dropped in child.dropped.iter() {
        writeln!(out, "- {}/{}: {}", dropped.toolset, dropped.tool, dropped.reason).unwrap();
    }
    if let Some(why) = child.demoted {
        writeln!(out, "not an orchestrator: {why}").unwrap();
    }
    out
}

#[test]
fn a_leaf_that_names_nothing_gets_what_children_may_have() {
    insta::assert_snapshot!(child(&ToolsetCase::default()), @"
    leaf: git_log note read_file terminal web_fetch write_file
    - delegation/delegate_task: a leaf cannot delegate
    - delegation/workflow: a leaf cannot delegate
    - core/clarify: no child has it: a child has nobody to ask
    - mixed/memory: no child has it: what is remembered is the top agent's
    - core/todo: no child has it: the plan is the parent's
    ");
}

#[test]
fn a_leaf_has_nothing_to_hand_work_on_with_and_an_orchestrator_all_of_it() {
    let parent = "delegation/delegate_task delegation/delegate_control delegation/workflow";
    let tools = |role| {
        let case = ToolsetCase { parent, role, ..ToolsetCase::default() };
        child(&case).lines().next().unwrap().to_owned()
    };
    assert_eq!(tools(Role::Leaf), "leaf: ");
    let all = "orchestrator: delegate_control delegate_task workflow";
    assert_eq!(tools(Role::Orchestrator), all);
}

#[test]
fn an_orchestrator_keeps_the_tools_to_hand_work_on() {
    let role = Role::Orchestrator;
    insta::assert_snapshot!(child(&ToolsetCase { role, request: Some("file"), ..ToolsetCase::default() }), @"
    orchestrator: git_log read_file write_file delegate_task workflow
    - mixed/note: not asked for
    - terminal/terminal: not asked for
    - web/web_fetch: not asked for
    - core/clarify: no child has it: a child has nobody to ask
    - mixed/memory: no child has it: what is remembered is the top agent's
    - core/todo: no child has it: the plan is the parent's
    ");
}

#[test]
fn an_mcp_tool_stays_although_nobody_asked_unless_the_operator_says_otherwise() {
    let request = Some("web");
    insta::assert_snapshot!(child(&ToolsetCase { request, ..ToolsetCase::default() }), @"
    leaf: git_log web_fetch
    - mixed/note: not asked for
    - file/read_file: not asked for
    - terminal/terminal: not asked for
    - file/write_file: not asked for
    - delegation/delegate_task: a leaf cannot delegate
    - delegation/workflow: a leaf cannot delegate
    - core/clarify: no child has it: a child has nobody to ask
    - mixed/memory: no child has it: what is remembered is the top agent's
    - core/todo: no child has it: the plan is the parent's
    ");
    let config = DelegationConfig {
        options: DelegationOptions { inherit_mcp_toolsets: false, ..DelegationOptions::default() },
        ..DelegationConfig::default()
    };
    insta::assert_snapshot!(child(&ToolsetCase { request, config, ..ToolsetCase::default() }), @"
    leaf: web_fetch
    - mcp-git/git_log: not asked for
    - mixed/note: not asked for
    - file/read_file: not asked for
    - terminal/terminal: not asked for
    - file/write_file: not asked for
    - delegation/delegate_task: a leaf cannot delegate
    - delegation/workflow: a leaf cannot delegate
    - core/clarify: no child has it: a child has nobody to ask
    - mixed/memory: no child has it: what is remembered is the top agent's
    - core/todo: no child has it: the plan is the parent's
    ");
}

#[test]
fn a_name_that_only_looks_like_mcp_is_not_retained() {
    let family = ParentFixture::new("file/read_file file/mcp__git__log");
    let request = toolsets("web");
    let child = child_tools(
        family.parent(),
        asked(Some(&request), Role::Leaf),
        &DelegationConfig::default(),
    );
    assert_eq!(child.tools, []);
}

#[test]
fn the_ceiling_cuts_everything_the_way_to_hand_on_too() {
    let config = DelegationConfig {
        limits: DelegationLimits { max_spawn_depth: 2, ..DelegationLimits::default() },
        toolsets: ChildToolsets { ceiling: Some(toolsets("file web")), ..ChildToolsets::default() },
        ..DelegationConfig::default()
    };
    let role = Role::Orchestrator;
    insta::assert_snapshot!(child(&ToolsetCase { role, config, ..ToolsetCase::default() }), @"
    leaf: read_file web_fetch write_file
    - mcp-git/git_log: not in the ceiling for children
    - mixed/note: not in the ceiling for children
    - terminal/terminal: not in the ceiling for children
    - delegation/delegate_task: the ceiling for children does not have the toolset `delegation`
    - delegation/workflow: the ceiling for children does not have the toolset `delegation`
    - core/clarify: no child has it: a child has nobody to ask
    - mixed/memory: no child has it: what is remembered is the top agent's
    - core/todo: no child has it: the plan is the parent's
    not an orchestrator: the ceiling for children does not have the toolset `delegation`
    ");
}

#[test]
fn the_default_is_for_calls_that_name_none() {
    let config = || DelegationConfig {
        toolsets: ChildToolsets { default: toolsets("file ghost"), ..ChildToolsets::default() },
        ..DelegationConfig::default()
    };
    insta::assert_snapshot!(child(&ToolsetCase { config: config(), ..ToolsetCase::default() }), @"
    leaf: git_log read_file write_file
    - mixed/note: not in children's default toolsets
    - terminal/terminal: not in children's default toolsets
    - web/web_fetch: not in children's default toolsets
    - delegation/delegate_task: a leaf cannot delegate
    - delegation/workflow: a leaf cannot delegate
    - core/clarify: no child has it: a child has nobody to ask
    - mixed/memory: no child has it: what is remembered is the top agent's
    - core/todo: no child has it: the plan is the parent's
    ");
    let named = ToolsetCase { request: Some("web"), config: config(), ..ToolsetCase::default() };
    insta::assert_snapshot!(child(&named), @"
    leaf: git_log web_fetch
    - mixed/note: not asked for
    - file/read_file: not asked for
    - terminal/terminal: not asked for
    - file/write_file: not asked for
    - delegation/delegate_task: a leaf cannot delegate
    - delegation/workflow: a leaf cannot delegate
    - core/clarify: no child has it: a child has nobody to ask
    - mixed/memory: no child has it: what is remembered is the top agent's
    - core/todo: no child has it: the plan is the parent's
    ");
}

#[test]
fn why_an_orchestrator_becomes_a_leaf() {
    let why = |parent: &str, depth: u32, config: DelegationConfig| {
        let mut family = ParentFixture::new(parent);
        family.spec.depth = depth;
        child_tools(family.parent(), asked(None, Role::Orchestrator), &config).demoted
    };
    let deep = || DelegationConfig {
        limits: DelegationLimits { max_spawn_depth: 3, ..DelegationLimits::default() },
        ..DelegationConfig::default()
    };
    assert_eq!(why(PARENT, 1, deep()), None);
    let depth = |depth, limit| LeafReason::Depth { depth, limit, key: String::new() };
    assert_eq!(why(PARENT, 2, deep()), Some(depth(3, 3)));
    assert_eq!(why(PARENT, 0, DelegationConfig::default()), Some(depth(1, 1)));
    let disabled = DelegationConfig {
        options: DelegationOptions { orchestrator_enabled: false, ..deep().options },
        ..deep()
    };
    let reason = LeafReason::Disabled { key: String::new() };
    assert_eq!(why(PARENT, 0, disabled), Some(reason));
    assert_eq!(why("file/read_file", 0, deep()), Some(LeafReason::Parent));
}

#[test]
fn a_demotion_names_depth_limit_and_key_and_a_program_without_keys_none() {
    let why = |depth: u32, config: &DelegationConfig| {
        let mut family = ParentFixture::new(PARENT);
        family.spec.depth = depth;
        let child = child_tools(family.parent(), asked(None, Role::Orchestrator), config);
        child.demoted.map(|why| why.to_string()).unwrap_or_default()
    };
    let plain = DelegationConfig {
        limits: DelegationLimits { max_spawn_depth: 2, ..DelegationLimits::default() },
        ..DelegationConfig::default()
    };
    assert_eq!(why(1, &plain), "a child at depth 2 is a leaf: the depth limit is 2");
    let off = DelegationConfig {
        options: DelegationOptions { orchestrator_enabled: false, ..plain.options },
        ..plain.clone()
    };
    assert_eq!(why(0, &off), "no child may delegate");
    let named = DelegationConfig {
        host: DelegationHost {
            setting_names: [("max_spawn_depth", "levels"), ("orchestrator_enabled", "nesting")]
                .into_iter()
                .collect(),
            ..plain.host
        },
        ..plain
    };
    assert_eq!(why(1, &named), "a child at depth 2 is a leaf: levels is 2");
    assert_eq!(
        why(
            0,
            &DelegationConfig {
                options: DelegationOptions { orchestrator_enabled: false, ..named.options },
                ..named
            }
        ),
        "nesting is false"
    );
    let mut family = ParentFixture::new(PARENT);
    family.authority =
        family.authority.intersect(&Grant { spawn_depth: Some(1), ..Grant::default() });
    let deep = DelegationConfig {
        limits: DelegationLimits { max_spawn_depth: 3, ..DelegationLimits::default() },
        ..DelegationConfig::default()
    };
    let child = child_tools(family.parent(), asked(None, Role::Orchestrator), &deep);
    assert_eq!(child.demoted, Some(LeafReason::OneLevel), "no limit is at fault");
}

/// Settings under which commands are asked about, and by whom.
fn asking(approvals: ApproverMode, person_available: bool) -> DelegationConfig {
    let approval_effects = vec![deputize_core::Effects::Unknown];
    let config = DelegationConfig {
        approvals: ChildApprovals { mode: approvals, effects: approval_effects, person_available },
        ..DelegationConfig::default()
    };
    DelegationConfig { limits: DelegationLimits { max_spawn_depth: 2, ..config.limits }, ..config }
}

#[test]
fn a_childs_list_begins_like_its_parents() {
    use ApproverMode::{Auto, Deny};
    for config in [asking(Auto, true), asking(Deny, false), DelegationConfig::default()] {
        let config = DelegationConfig {
            limits: DelegationLimits { max_spawn_depth: 2, ..config.limits },
            ..config
        };
        let family = ParentFixture::under(PARENT, &config);
        for role in [Role::Leaf, Role::Orchestrator] {
            let child = child_tools(family.parent(), asked(None, role), &config);
            assert!(family.spec.tools.starts_with(&child.tools), "{:?}", child.tools);
        }
    }
}

#[test]
fn without_anybody_who_approves_it_a_child_has_no_tool_that_needs_approval() {
    use ApproverMode::{Ask, Auto, Deny};
    for (config, has) in [
        (asking(Deny, true), false),
        (asking(Ask, false), false),
        (asking(Ask, true), true),
        (asking(Auto, false), true),
        // Whatever its parent may be approved.
        (
            DelegationConfig {
                approvals: ChildApprovals { effects: Vec::new(), ..asking(Deny, true).approvals },
                ..asking(Deny, true)
            },
            true,
        ),
    ] {
        let mut family = ParentFixture::under(PARENT, &config);
        let open = Grant { approver: Some(Auto), ..family.spec.grant.clone() };
        family.authority = deputize_core::Authority::root(&family.catalog, &open);
        let child = child_tools(family.parent(), asked(None, Role::Orchestrator), &config);
        let dropped = child.dropped.iter().find(|it| it.tool.as_str() == "terminal");
        assert_eq!(child.tools.iter().any(|tool| tool.as_str() == "terminal"), has);
        assert_eq!(dropped.map(|it| &it.reason), (!has).then_some(&DropReason::Unapproved));
        assert_eq!(offered(family.parent(), &config).contains_key("terminal"), has);
    }
    // Nobody approves for a child what nobody may approve for its parent.
    let config = asking(Auto, true);
    let mut family = ParentFixture::under(PARENT, &config);
    let shut = Grant { approver: Some(Deny), ..Grant::default() };
    family.authority = family.authority.intersect(&shut);
    let child = child_tools(family.parent(), asked(None, Role::Leaf), &config);
    assert!(child.dropped.iter().any(|it| it.reason == DropReason::Unapproved));
}

#[test]
fn what_else_is_in_the_way_is_reported_before_the_approval() {
    let config = asking(ApproverMode::Deny, false);
    let reason = |request: Option<&str>, config: &DelegationConfig| {
        let family = ParentFixture::under(PARENT, config);
        let request = request.map(toolsets);
        let child = child_tools(family.parent(), asked(request.as_ref(), Role::Leaf), config);
        child.dropped.iter().find(|it| it.tool.as_str() == "terminal").unwrap().reason.clone()
    };
    assert_eq!(reason(None, &config), DropReason::Unapproved);
    assert_eq!(reason(Some("file"), &config), DropReason::NotRequested);
    let ceiling = DelegationConfig {
        toolsets: ChildToolsets { ceiling: Some(toolsets("file")), ..config.toolsets },
        ..config
    };
    assert_eq!(reason(None, &ceiling), DropReason::Ceiling { key: String::new() });
}
