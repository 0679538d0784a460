//! Children with profiles.

use std::collections::BTreeMap;

use deputize_core::profile::ProfileTools;
use proptest::prelude::*;

use super::strategies::{NAMES, SETS, calls, holds, policies, some_of};
use super::*;

fn profile(name: &str) -> Profile {
    Profile {
        name: name.to_owned(),
        description: format!("Does {name}."),
        instructions: format!("Do {name}."),
        ..Profile::default()
    }
}

/// A profile with these toolsets.
fn bounded(name: &str, sets: &str) -> Profile {
    let tools = ProfileTools { toolsets: Some(toolsets(sets)), ..ProfileTools::default() };
    Profile { tools, ..profile(name) }
}

fn with(profiles: Vec<Profile>) -> DelegationConfig {
    DelegationConfig {
        profiles,
        limits: DelegationLimits { max_spawn_depth: 2, ..DelegationLimits::default() },
        ..DelegationConfig::default()
    }
}

#[test]
fn a_profile_bounds_its_child_and_speaks_to_it() {
    let look = Profile {
        max_iterations: Some(7),
        reasoning_effort: Some("low".to_owned()),
        role: Some(Role::Leaf),
        output_schema: Some(json!({"type": "object"})),
        ..bounded("look", "file")
    };
    let config = with(vec![look, profile("free")]);
    let call = json!({"profile": "look", "role": "orchestrator", "max_iterations": 9, "tasks": [
        {"goal": "A"},
        {"goal": "B", "toolsets": ["file", "web"], "max_iterations": 5},
        {"goal": "C", "profile": "free"},
    ]});
    let plan = made(&ParentFixture::new(TOOLS), &call, &config).unwrap();
    let shown: Vec<String> = plan
        .specs
        .iter()
        .map(|spec| {
            let tools: Vec<&str> = spec.tools.iter().map(ToolName::as_str).collect();
            format!(
                "{:?} {} {} [{}] {:?} {} schema {}",
                spec.profile,
                spec.role.as_str(),
                spec.limits.max_iterations,
                tools.join(" "),
                spec.options.reasoning_effort,
                spec.toolsets.iter().map(ToString::to_string).collect::<Vec<_>>().join("+"),
                spec.output_schema.is_some(),
            )
        })
        .collect();
    let system = plan.specs[0].system.join("\n=\n");
    let parts = [shown.join("\n"), plan.warnings.join("\n"), system];
    insta::assert_snapshot!(parts.join("\n\n=====\n"));
    // It has all tools of its parent, and so its prompt in its first message.
    assert!(plan.specs[2].task.contains("YOUR PROFILE, `free`:\nDo free.\n\nYOUR TASK:\nC"));
}

#[test]
fn a_tool_of_a_profile_that_nobody_approves_is_a_warning() {
    let approvals = ChildApprovals {
        effects: vec![deputize_core::Effects::Unknown],
        ..ChildApprovals::default()
    };
    let profiles = vec![bounded("tests", "file terminal"), profile("free")];
    let config = DelegationConfig { approvals, ..with(profiles) };
    let family = ParentFixture::under("file/read_file terminal/terminal", &config);
    let warnings = |call: Value| made(&family, &call, &config).unwrap().warnings.join("\n");
    let why = "(it needs approval, which children cannot get)";
    assert_eq!(
        warnings(json!({"goal": "A", "profile": "tests"})),
        format!("task 0 got less than its profile `tests` names: terminal {why}")
    );
    // A call that names toolsets is told of these, and a profile that names none bounds nothing.
    assert_eq!(
        warnings(json!({"goal": "A", "profile": "tests", "toolsets": ["file", "terminal"]})),
        format!("task 0 got less than it asked for: terminal {why}")
    );
    assert_eq!(warnings(json!({"goal": "A", "profile": "free"})), "");
}

#[test]
fn a_profile_that_is_not_there_is_an_error_that_names_those_that_are() {
    let family = ParentFixture::new(TOOLS);
    let call = json!({"tasks": [{"goal": "A", "profile": "lok"}, {"goal": "B", "profile": 7}]});
    insta::assert_snapshot!(refused(&family, &call, &with(vec![profile("look"), profile("free")])));
    let actual = refused(&family, &json!({"goal": "A", "profile": "x"}), &with(Vec::new()));
    assert!(actual.contains("leave `profile` out: there are none"), "{actual}");
    let wrong = Profile { output_schema: Some(json!({"type": 7})), ..profile("look") };
    let actual = refused(&family, &json!({"goal": "A", "profile": "look"}), &with(vec![wrong]));
    assert!(actual.contains("E_PROFILE") && actual.contains("is no JSON Schema"), "{actual}");
}

#[test]
fn a_faulty_profile_starts_nothing_and_the_error_says_what_is_wrong_with_its_file() {
    let fault = "/agents/look.md: `role` must be `leaf` or `orchestrator`".to_owned();
    let config = DelegationConfig {
        faulty_profiles: BTreeMap::from([("look".to_owned(), fault)]),
        ..with(vec![profile("free")])
    };
    let call = json!({"goal": "A", "profile": "look"});
    let said = refused(&ParentFixture::new(TOOLS), &call, &config);
    let expected = "its file is faulty, and a person must correct it (/agents/look.md: `role` must be \
                `leaf` or `orchestrator`): leave `profile` out";
    assert!(said.contains("E_PROFILE") && said.contains(expected), "{said}");
}

#[test]
fn a_model_of_a_profile_is_used_only_if_it_is_offered() {
    let own = Profile { model: Some("p/own".to_owned()), ..profile("own") };
    let model = |choices: &[&str], by_profile: Option<&str>, call: Value| {
        let models = ChildModels {
            choices: choices.iter().map(|name| (*name).to_owned()).collect(),
            by_profile: by_profile
                .map(|it| ("own".to_owned(), it.to_owned()))
                .into_iter()
                .collect(),
            ..ChildModels::default()
        };
        let config = DelegationConfig { models, ..with(vec![own.clone()]) };
        let plan = made(&ParentFixture::new(TOOLS), &call, &config).unwrap();
        format!("{} {}", plan.specs[0].model, plan.warnings.join("; "))
    };
    let call = json!({"goal": "A", "profile": "own"});
    assert_eq!(model(&["p/own"], None, call.clone()), "p/own ");
    assert_eq!(model(&["p/own"], Some("p/cheap"), call.clone()), "p/cheap ");
    let chosen = json!({"goal": "A", "profile": "own", "model": "p/other"});
    assert_eq!(model(&["p/other"], Some("p/cheap"), chosen), "p/other ");
    assert_eq!(
        model(&[], None, call),
        "local/qwen3 the profile `own` names the model `p/own`, which is not offered for children; \
         the child has another one"
    );
}

#[test]
fn the_words_of_a_project_are_framed_and_give_no_permission() {
    let theirs = Profile { from_project: true, ..profile("theirs") };
    let call = json!({"goal": "A", "profile": "theirs"});
    let plan = made(&ParentFixture::new(TOOLS), &call, &with(vec![theirs])).unwrap();
    let system = plan.specs[0].system.join("\n");
    assert!(system.contains("they give no permission.\n<project:agents/theirs "), "{system}");
}

#[test]
fn siblings_with_one_profile_share_it_before_their_tasks() {
    let config = with(vec![profile("look")]);
    let call = json!({"profile": "look", "tasks": [{"goal": "A"}, {"goal": "B"}]});
    let plan = made(&ParentFixture::new(TOOLS), &call, &config).unwrap();
    let [one, two] = plan.specs.as_slice() else { panic!() };
    assert!(one.system[0].ends_with("Do look.") && one.system[0] == two.system[0]);
}

#[test]
fn external_children_have_no_profile() {
    let config = DelegationConfig {
        host: DelegationHost {
            external_needs: vec![tool_name("terminal")],
            ..DelegationHost::default()
        },
        approvals: ChildApprovals { mode: ApproverMode::Auto, ..ChildApprovals::default() },
        ..with(vec![profile("look")])
    };
    let family = ParentFixture::new("terminal/terminal delegation/delegate_task");
    let actual = refused(&family, &json!({"goal": "A", "profile": "look"}), &config);
    assert!(actual.contains("children are another program here"), "{actual}");
}

/// Any profile: bounds on toolsets and tools, a role, a limit, a model.
fn profiles() -> impl Strategy<Value = Profile> {
    let names = |all: Vec<&'static str>| {
        all.into_iter().map(|path| tool_name(path.rsplit('/').next().unwrap())).collect()
    };
    let sets = proptest::option::of(some_of(&SETS));
    let only = proptest::option::of(some_of(&NAMES).prop_map(names));
    let without = (some_of(&NAMES).prop_map(names), some_of(&SETS));
    let roles = [None, Some(Role::Leaf), Some(Role::Orchestrator)];
    let role = proptest::sample::select(roles.to_vec());
    let model = proptest::option::of(Just("p/own".to_owned()));
    (sets, only, without, role, proptest::option::of(1..80_u32), model).prop_map(
        |(sets, only, (without, denied), role, max_iterations, model)| {
            let without_toolsets = toolsets(&denied.join(" "));
            let toolsets = sets.map(|sets| toolsets(&sets.join(" ")));
            let tools = ProfileTools { toolsets, only, without, without_toolsets };
            Profile { tools, role, max_iterations, model, ..profile("any") }
        },
    )
}

/// A child with a profile has no more than it would have without. A profile for orchestrators stands
/// for the role that a task may ask for itself.
#[test]
fn a_profile_never_widens() {
    holds((calls(), policies(), profiles()), 40, |((own, mut call), config, profile)| {
        let family = ParentFixture::new(&own.join(" "));
        let own_model = profile.model.clone();
        let narrowed = DelegationConfig { profiles: vec![profile.clone()], ..config.clone() };
        if profile.role == Some(Role::Orchestrator) {
            call["tasks"][0]["role"] = json!("orchestrator");
        }
        let Ok(without) = made(&family, &call, &config) else { return Ok(false) };
        call["profile"] = json!("any");
        if profile.role == Some(Role::Orchestrator) {
            call["tasks"][0].as_object_mut().unwrap().remove("role");
        }
        let with = made(&family, &call, &narrowed);
        let with = with.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let mut is_narrower = false;
        for (with, without) in with.specs.iter().zip(&without.specs) {
            let child = family.authority.intersect(&with.grant);
            prop_assert!(child.is_within(&family.authority.intersect(&without.grant)));
            prop_assert!(with.tools.iter().all(|tool| without.tools.contains(tool)));
            prop_assert!(with.limits.max_iterations <= without.limits.max_iterations);
            prop_assert_eq!(&with.model, &without.model, "{:?} is not offered", own_model);
            prop_assert!(profile.role != Some(Role::Leaf) || with.role == Role::Leaf);
            prop_assert!(with.approver <= without.approver && with.cwd == without.cwd);
            is_narrower |= with.tools.len() < without.tools.len();
        }
        Ok(is_narrower)
    });
}
