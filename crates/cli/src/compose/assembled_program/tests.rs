use std::collections::BTreeSet;
use std::fs;

use deputize_core::agent::Role;
use deputize_core::authority::ApproverMode;
use deputize_core::clock::FixedClock;
use deputize_core::{AgentView, SessionId};
use deputize_tools::GrantedRoots;

use super::*;
use crate::compose::{LinkedTools, environment_secrets, toolset_names};
use crate::config::{Sources, load};
use crate::fixture::START;
use crate::process_env::ProcessEnv;

struct Bench {
    dir: tempfile::TempDir,
    env: ProcessEnv,
}

impl Bench {
    fn new() -> Self {
        let env = ProcessEnv::for_tests(&[("TZ", "UTC"), ("MY_TOKEN", "tok-1234567")]);
        Self { dir: tempfile::tempdir().unwrap(), env }
    }

    fn compose(&self, set: &[&str]) -> Result<AssembledProgram, String> {
        let cwd = self.dir.path().canonicalize().unwrap();
        let set = set.iter().map(|set| (*set).to_owned()).collect();
        let loaded = load(&Sources { cwd: cwd.clone(), set, ..Sources::default() }).unwrap();
        AssembledProgram::new(&AssemblyInput {
            links: &LinkedTools::new(vec![deputize_tools::LINK]),
            config: &loaded.config,
            environment: &self.env,
            overrides: ModelOverrides::default(),
            home: Some(cwd.clone()),
            protected: BTreeSet::from([cwd.join("own")]),
            cwd,
            clock: Arc::new(FixedClock(START)),
            profile: None,
            project_files: true,
            reported: BTreeSet::new(),
        })
        .map_err(|error| error.chain())
    }

    fn top(&self, set: &[&str]) -> AgentView {
        let composition = self.compose(set).unwrap();
        let session = SessionId::literal("s");
        let spec =
            composition.assembly.top_agent(&session, "offline", "Tidy up", ApproverMode::Ask);
        let authority = composition.assembly.authority(ApproverMode::Ask, spec.cwd.clone());
        composition.assembly.view(spec, authority, composition.tool_settings())
    }
}

fn describe(view: &AgentView) -> Vec<&str> {
    view.declared.iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn all_sessions_of_a_program_work_in_the_directory_that_it_was_assembled_in() {
    let composition = Bench::new().compose(&[]).unwrap();
    let roots = || composition.tool_settings().get_or_insert_with(GrantedRoots::default);
    assert!(Arc::ptr_eq(&roots(), &roots()));
}

#[test]
fn every_toolset_or_those_that_are_named() {
    let bench = Bench::new();
    let all = bench.top(&[]);
    assert!(describe(&all).contains(&"read_file") && describe(&all).contains(&"delegate_task"));
    assert_eq!(all.spec.role, Role::Orchestrator);
    let file = bench.top(&["toolsets=[file]"]);
    assert!(describe(&file).contains(&"read_file") && !describe(&file).contains(&"delegate_task"));
    assert_eq!(file.spec.role, Role::Leaf);
    assert!(!file.authority.has("delegate_task"), "what is not given is not allowed either");
}

#[test]
fn a_toolset_that_is_none_is_refused_and_one_of_a_later_version_is_passed_over() {
    let bench = Bench::new();
    let error = bench.compose(&["toolsets=[flie]"]).err().unwrap();
    let off = if cfg!(feature = "browser") { "browser, " } else { "" };
    let expected =
        format!("there is no toolset `flie`; known: {off}clarify, code_execution, coding");
    assert!(error.starts_with(&expected), "{error}");
    let composition = bench.compose(&["toolsets=[file, browser]"]).unwrap();
    assert_eq!(composition.assembly.tools.toolsets, [deputize_core::ToolsetName::literal("file")]);
}

#[test]
fn the_top_agent_reads_what_the_project_and_the_person_say_and_children_do_not() {
    let bench = Bench::new();
    fs::write(bench.dir.path().join("AGENTS.md"), "Use tabs.\n").unwrap();
    fs::write(bench.dir.path().join("SOUL.md"), "You are the gardener.\n").unwrap();
    let top = bench.top(&["system_prompt=Answer in French."]).spec.system.join("\n\n");
    for text in ["You are the gardener.", "Use tabs.", "Answer in French.", "Date: 2026-01-02"] {
        assert!(top.contains(text), "{text} is missing in {top}");
    }
    let composition = bench.compose(&["system_prompt=Answer in French."]).unwrap();
    let child = composition.assembly.delegation.host.child_base.join("\n\n");
    assert!(child.contains("Answer in French.") && child.contains("Date: 2026-01-02"));
    assert!(!child.contains("gardener") && !child.contains("tabs"), "{child}");
}

#[test]
fn writes_stay_under_the_working_directory() {
    let bench = Bench::new();
    let top = bench.top(&[]);
    let cwd = bench.dir.path().canonicalize().unwrap();
    assert!(top.authority.may_write(&cwd.join("a")));
    assert!(!top.authority.may_write(&cwd.join("..").canonicalize().unwrap().join("a")));
    let child = top
        .authority
        .intersect(&Grant { write: Some([cwd.join("own")].into()), ..Grant::default() });
    for authority in [&*top.authority, &child] {
        assert!(!authority.may_write(&cwd.join("own/config.yaml")), "what this program obeys");
    }
    assert_eq!(top.authority.spawn_depth(), 1);
    assert_eq!(top.authority.spawn_number(), 200);
}

#[test]
fn children_may_be_approved_although_the_top_agent_is_not() {
    let bench = Bench::new();
    let composition = bench.compose(&["delegation.subagent_auto_approve=true"]).unwrap();
    let session = SessionId::literal("s");
    let spec = composition.assembly.top_agent(&session, "offline", "x", ApproverMode::Deny);
    let authority = composition.assembly.authority(ApproverMode::Deny, spec.cwd.clone());
    let view = composition.assembly.view(spec, authority, composition.tool_settings());
    assert_eq!(deputize_core::policy::effective_mode(&view), ApproverMode::Deny);
    assert_eq!(view.authority.approver(), ApproverMode::Auto);
}

#[test]
fn a_model_without_its_key_is_reported_with_the_variable() {
    let bench = Bench::new();
    let composition = bench.compose(&[]).unwrap();
    let ask = |model: &str| {
        let model = Some(model.to_owned());
        let overrides = ModelOverrides { model, ..ModelOverrides::default() };
        composition.models(&overrides, &bench.env).map(|chosen| chosen.name)
    };
    let error = ask("openai/x").unwrap_err();
    assert_eq!(error.exit().code(), 3);
    assert_eq!(error.chain(), "provider openai needs a key: set OPENAI_API_KEY");
    assert_eq!(ask("offline").unwrap(), "offline");
    assert_eq!(ask("ollama/x").unwrap(), "ollama/x");
}

#[test]
fn a_limit_in_dollars_tells_that_a_model_here_counts_as_free() {
    let bench = Bench::new();
    let warnings = |set: &[&str], model: &str| {
        let overrides = ModelOverrides { model: Some(model.to_owned()), ..Default::default() };
        bench.compose(set).unwrap().models(&overrides, &bench.env).unwrap().warnings
    };
    let expected = "ollama/x is on this machine and counts as free; set providers.ollama.prices if it is \
                not";
    assert_eq!(warnings(&["budget.usd=1"], "ollama/x"), [expected]);
    assert!(warnings(&[], "ollama/x").is_empty());
    assert!(warnings(&["budget.usd=1"], "offline").is_empty());
    let priced = "providers.ollama={prices: {x: {input: 1, output: 2}}}";
    assert!(warnings(&["budget.usd=1", priced], "ollama/x").is_empty());
}

#[test]
fn a_limit_in_dollars_wants_the_price_of_each_model_that_an_agent_may_have() {
    let bench = Bench::new();
    let refused = |set: &[&str], model: &str| {
        let overrides = ModelOverrides { model: Some(model.to_owned()), ..Default::default() };
        let far = "providers.far={base_url: 'https://far.example/v1', prices: {cheap: {input: 1, \
                   output: 2}}}";
        let set: Vec<&str> = set.iter().copied().chain([far]).collect();
        let chosen = bench.compose(&set).unwrap().models(&overrides, &bench.env);
        chosen.err().map(|error| {
            assert_eq!(error.exit().code(), 2);
            error.chain()
        })
    };
    let run = "budget.usd=1";
    let children = "delegation.budget.usd=1";
    let unknown = |limit: &str| {
        Some(format!(
            "`{limit}` is a limit in dollars, and the price of `far/dear` is not known: set \
             `providers.far` to have `prices: {{\"dear\": {{input: 1, output: 2}}}}` (its dollars \
             per million tokens), or limit tokens instead"
        ))
    };
    // The top agent's own, which its children have too unless something says otherwise.
    assert_eq!(refused(&[run], "far/dear"), unknown("budget.usd"));
    assert_eq!(refused(&[children], "far/dear"), unknown("delegation.budget.usd"));
    let other = "delegation.model=far/cheap";
    assert_eq!(refused(&[children, other], "far/dear"), None);
    assert_eq!(refused(&[run, other], "far/dear"), unknown("budget.usd"));
    // Those that only children have.
    for of_child in ["delegation.model=far/dear", "delegation.models=[far/cheap, far/dear]"] {
        assert_eq!(refused(&[of_child], "offline"), None);
        assert_eq!(refused(&[run, of_child], "offline"), unknown("budget.usd"));
        assert_eq!(refused(&[children, of_child], "offline"), unknown("delegation.budget.usd"));
        let alone = "toolsets=[file]";
        assert_eq!(refused(&[run, of_child, alone], "offline"), None, "nobody has children");
    }
    // Another program says of itself what it costs, and nobody can look.
    let program = "delegation.acp_command=some-agent";
    assert_eq!(refused(&[program], "offline"), None);
    for limit in [run, children] {
        let actual = refused(&[limit, program], "offline").unwrap();
        let key = limit.trim_end_matches("=1");
        assert!(
            actual.starts_with(&format!("`{key}` is a limit in dollars, and the cost of children")),
            "{actual}"
        );
        assert!(actual.contains("`delegation.acp_command`"), "{actual}");
    }
    for key in ["budget.tokens", "delegation.budget.tokens"] {
        let limit = format!("{key}=1000");
        assert_eq!(refused(&[&limit], "offline"), None);
        let actual = refused(&[&limit, program], "offline").unwrap();
        assert!(
            actual.starts_with(&format!("`{key}` is a limit in tokens, and the tokens")),
            "{actual}"
        );
        assert_eq!(refused(&[&limit, program, "toolsets=[file]"], "offline"), None);
    }
}

#[test]
fn a_model_to_fall_back_on_is_not_left_out_in_silence() {
    let mut bench = Bench::new();
    let file = "fallback_models=[openrouter/some]";
    let composition = bench.compose(&[file]).unwrap();
    let overrides =
        |model: &str| ModelOverrides { model: Some(model.to_owned()), ..Default::default() };
    let error = composition.models(&overrides("openai/x"), &bench.env).map(|_| ()).unwrap_err();
    assert!(
        error.to_string().contains("fallback_models go on where a model fails, not"),
        "{error}"
    );

    bench.env.variables.insert("OPENROUTER_API_KEY".to_owned(), "a-long-key".to_owned());
    let composition = bench.compose(&[file, "budget.usd=1"]).unwrap();
    let actual = composition.models(&overrides("offline"), &bench.env).unwrap().warnings;
    assert_eq!(
        actual,
        [
            "fallback model openrouter/some is passed over: its price is not known, and the budget is \
          in dollars; set providers.openrouter.prices"
        ]
    );
    let composition = bench.compose(&[file]).unwrap();
    let actual = composition.models(&overrides("offline"), &bench.env).unwrap().warnings;
    assert!(actual.is_empty(), "{actual:?}");
}

#[test]
fn variables_that_sound_like_secrets_are_left_out_of_exports() {
    let bench = Bench::new();
    let secrets = environment_secrets(&bench.env);
    assert_eq!(secrets.scrub("a tok-1234567 b UTC"), "a [redacted:MY_TOKEN] b UTC");
}

#[test]
fn the_names_of_toolsets_are_known_without_the_tools() {
    let catalog = Catalog::linked(&[deputize_tools::LINK]).unwrap();
    let mut names = catalog.toolsets();
    names.extend(catalog.composites().cloned());
    names.insert(deputize_delegate::DELEGATION_TOOLSET);
    let names: BTreeSet<String> = names.iter().map(ToString::to_string).collect();
    assert_eq!(toolset_names(), names);
}

#[test]
fn the_offline_model_names_only_providers_that_are_known() {
    let text = include_str!("../other_models.md");
    let named: Vec<&str> = text.split('`').filter_map(|word| word.strip_suffix("/…")).collect();
    assert_eq!(named.len(), 4, "{text}");
    for provider in named {
        assert!(deputize_providers::known_provider(provider).is_some(), "{provider}");
    }
}

/// The crate of browsers is no dependency of the configuration, so it cannot lend its defaults.
#[cfg(feature = "browser")]
#[test]
fn browsers_have_the_same_limits_unless_set_in_the_program_and_its_library() {
    let limits = Bench::new().compose(&[]).unwrap().tools.browser.limits;
    assert_eq!(limits, deputize_browser::BrowserLimits::default());
}
