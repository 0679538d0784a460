//! Describes `delegate_task` to an agent's model: built from the settings when the agent is made, and
//! then fixed.

use deputize_core::prompt::{FillError, fill};
use deputize_core::schema::{Schema, SchemaError};
use deputize_core::{CatalogEntry, Origin, ParentOnly, ToolDecl, ToolName};
use serde_json::{Value, json};

use crate::call_check::MOST_TASKS;
use crate::config::{DelegationConfig, OverLimit, ToolFlavor};
use crate::names::{DELEGATE_TASK, TASK_TOOL};
use crate::parent_view::ParentView;
use crate::profiles::profile_list;
use crate::toolset::{is_never, nests, offered};

const DESCRIPTION: &str = include_str!("../prompts/tool.md");
const BACKGROUND: &str = include_str!("../prompts/background.md");
const LIFETIME: &str = "The call returns when they have ended; an interrupt of the turn ends them.";
/// A child's own means, with and without commands.
const OWN: &str = "a conversation and a terminal session of its own";
const OWN_WITHOUT_COMMANDS: &str = "a conversation of its own";
/// Tools that children lack without approvals. The same words at every depth, so that orchestrators
/// send exactly their parent's tools.
const CANNOT: &str = ", run commands or use tools that need approval";
const SEEN: &str = "`summary` is the child's claim; `receipts` and `tool_trace` are what was seen.";
/// The same of children that are another program.
const CLAIMED: &str = "`summary` and `tool_trace` are claims of the child, which is another \
                       program; `receipts` stay empty.";
const TASK_DESCRIPTION: &str = include_str!("../prompts/task.md");

/// Purposes of toolsets. Others are described by the names of their tools.
const USES: [(&str, &str); 6] = [
    ("browser", "use pages"),
    ("file", "read, search, change"),
    ("file_read", "read, search"),
    ("skills", "read"),
    ("terminal", "run commands"),
    ("web", "search and read"),
];
/// Number of tools named for a toolset without a known purpose.
const NAMED_TOOLS: usize = 3;
/// Limit on the list of toolsets with purposes, in bytes; a longer one has only names.
const USES_BYTES: usize = 500;
/// Limit on the list of names, in bytes; more toolsets are counted.
const TOOLSETS_BYTES: usize = 700;

/// Why there is no description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescribeError {
    /// A template of this crate and its values do not fit.
    #[error("the description of `delegate_task` cannot be built")]
    Fill(#[source] FillError),
    /// The parameters are no schema.
    #[error("the parameters of `delegate_task` are not a schema")]
    Schema(#[source] SchemaError),
}

/// Returns the tool's declaration for this parent's model.
///
/// # Errors
/// When a text of this crate is broken; its tests build every one.
pub fn describe(
    parent: ParentView<'_>,
    config: &DelegationConfig,
) -> Result<ToolDecl, DescribeError> {
    if config.options.tool_name == ToolFlavor::Task {
        return describe_task(parent, config);
    }
    let nesting = nests(parent, config);
    let values = [
        ("own", own(parent, config)),
        ("instead", &*instead(parent)),
        ("limit", &*limit(config)),
        ("nesting", &*nesting_text(config, nesting)),
        ("lacks", &*lacks(parent, config)),
        ("seen", if config.is_external() { CLAIMED } else { SEEN }),
        ("lifetime", if config.options.background { BACKGROUND.trim_end() } else { LIFETIME }),
    ];
    let description = fill(DESCRIPTION, &values).map_err(DescribeError::Fill)?;
    let parameters = Schema::new(&parameters(parent, config, nesting));
    Ok(ToolDecl {
        name: DELEGATE_TASK,
        description: description.trim_end().to_owned(),
        parameters: parameters.map_err(DescribeError::Schema)?,
    })
}

/// The same for the form with one text.
fn describe_task(
    parent: ParentView<'_>,
    config: &DelegationConfig,
) -> Result<ToolDecl, DescribeError> {
    let tools = match withholds_any(parent, config) {
        true => "the basic tools for files; it cannot run commands",
        false => "the basic tools for files and commands",
    };
    let values = [("own", own(parent, config)), ("tools", tools), ("instead", &*instead(parent))];
    let description = fill(TASK_DESCRIPTION, &values);
    let text = "What to do, complete in itself: the goal, all that must be known for it (paths, \
                errors, constraints), and what to report";
    let parameters = Schema::new(&json!({
        "type": "object",
        "properties": {"description": {"type": "string", "description": text}},
        "required": ["description"],
    }));
    Ok(ToolDecl {
        name: TASK_TOOL,
        description: description.map_err(DescribeError::Fill)?.trim_end().to_owned(),
        parameters: parameters.map_err(DescribeError::Schema)?,
    })
}

/// Returns whether children lack the tools that need an approval.
fn withholds_any(parent: ParentView<'_>, config: &DelegationConfig) -> bool {
    config.withholds_any(parent.child_approver(config))
}

/// Returns what a child has of its own.
fn own(parent: ParentView<'_>, config: &DelegationConfig) -> &'static str {
    if withholds_any(parent, config) { OWN_WITHOUT_COMMANDS } else { OWN }
}

/// Says what not to delegate; a tool is named only if the parent has it.
fn instead(parent: ParentView<'_>) -> String {
    let with_tool = |work: &str, why| match parent.sent_parent_only(why) {
        Some(tool) => format!("{work} (`{tool}`)"),
        None => work.to_owned(),
    };
    format!(
        "{}; a single call; what needs the person (ask yourself); {}",
        with_tool("mechanical steps", ParentOnly::RunsScripts),
        with_tool("what must outlive the turn", ParentOnly::OutlivesTurn),
    )
}

fn limit(config: &DelegationConfig) -> String {
    let most = most_tasks(config);
    match config.limits.over_limit {
        OverLimit::Refuse => format!("at most {most}"),
        OverLimit::Queue => format!("at most {most} in a call, {} at a time", config.concurrency()),
    }
}

/// Returns the limit on the tasks of a call, regardless of earlier calls.
fn most_tasks(config: &DelegationConfig) -> usize {
    match (config.limits.over_limit, config.limits.max_children_per_session as usize) {
        (OverLimit::Refuse, _) => (config.concurrency() as usize).min(MOST_TASKS),
        (OverLimit::Queue, 0) => MOST_TASKS,
        (OverLimit::Queue, session) => session.min(MOST_TASKS),
    }
}

/// Returns the same words at every depth, so that orchestrators send exactly their parent's tools;
/// an agent's depth is in its prompt.
fn nesting_text(config: &DelegationConfig, nesting: bool) -> String {
    if nesting {
        return format!(
            "With role `orchestrator` a child may delegate parts of its task (the top agent is at \
             depth 0, agents at depth {} cannot).",
            config.leaf_depth()
        );
    }
    "Children cannot delegate.".to_owned()
}

/// Says which tools a child lacks, in the same words for every agent of a program, so that
/// orchestrators send exactly their parent's tools.
fn lacks(parent: ParentView<'_>, config: &DelegationConfig) -> String {
    if config.is_external() {
        return "It cannot ask you anything.".to_owned();
    }
    let cannot = if withholds_any(parent, config) { CANNOT } else { "" };
    let never = parent.catalog.iter();
    let never = never.filter(|entry| is_never(entry) && parent.can_use(entry));
    let never: Vec<&str> = never.map(|entry| entry.name().as_str()).collect();
    let lacks = match never.split_last() {
        Some((last, [])) => format!("; no child has {last}"),
        Some((last, others)) => format!("; no child has {} or {last}", others.join(", ")),
        None => String::new(),
    };
    format!("A leaf cannot ask you{cannot}{lacks}.")
}

/// The fields of one task, and of a call with one.
fn task_fields(config: &DelegationConfig, nesting: bool) -> Value {
    let mut task = json!({
        "goal": {"type": "string"},
        "context": {"type": "string"},
        "toolsets": {"type": "array", "items": {"type": "string"}},
        "max_iterations": {
            "type": "integer",
            "maximum": config.limits(None).max_iterations,
        },
        "output_schema": {"type": "object"},
    });
    if !config.models.choices.is_empty()
        && let Some(fields) = task.as_object_mut()
    {
        let model = json!({"type": "string", "enum": config.models.choices});
        fields.insert("model".to_owned(), model);
    }
    if !config.profiles.is_empty()
        && let Some(fields) = task.as_object_mut()
    {
        fields.insert("profile".to_owned(), json!({"type": "string"}));
    }
    if config.has_forks()
        && let Some(fields) = task.as_object_mut()
    {
        let history = json!({"type": "string", "enum": ["none", "fork"], "default": "none"});
        fields.insert("history".to_owned(), history);
    }
    if config.is_external()
        && let Some(fields) = task.as_object_mut()
    {
        // It has tools and limits of its own.
        fields.remove("profile");
        fields.remove("toolsets");
        fields.remove("max_iterations");
    }
    if nesting && let Some(fields) = task.as_object_mut() {
        fields.insert(
            "role".to_owned(),
            json!({"type": "string", "enum": ["leaf", "orchestrator"], "default": "leaf"}),
        );
    }
    task
}

fn parameters(parent: ParentView<'_>, config: &DelegationConfig, nesting: bool) -> Value {
    let task = task_fields(config, nesting);
    let mut call = task.clone();
    let mut tasks = json!({
        "type": "array",
        "items": {"type": "object", "properties": task, "required": ["goal"]},
    });
    if let Some(tasks) = tasks.as_object_mut() {
        tasks.insert("maxItems".to_owned(), json!(most_tasks(config)));
    }
    if let Some(fields) = call.as_object_mut() {
        fields.insert("tasks".to_owned(), tasks);
        if config.options.background {
            let text = "Return handles at once, and report each end by a message";
            fields.insert(
                "background".to_owned(),
                json!({"type": "boolean", "default": false, "description": text}),
            );
        }
        // Told once: the fields of a task in a batch are the same.
        for (name, text) in [
            ("output_schema", "JSON Schema of its answer, then in `output`"),
            ("profile", &profile_list(&config.profiles)),
            ("toolsets", &toolsets_text(parent, config)),
            ("history", "With `fork` it knows all that was said here until this call"),
        ] {
            if let Some(field) = fields.get_mut(name).and_then(Value::as_object_mut) {
                field.insert("description".to_owned(), json!(text));
            }
        }
    }
    json!({"type": "object", "properties": call})
}

/// The parent's toolsets, as far as a child can be given them, with a use for each.
fn toolsets_text(parent: ParentView<'_>, config: &DelegationConfig) -> String {
    let sets = offered(parent, config);
    let default: Vec<&str> = config
        .toolsets
        .default
        .iter()
        .map(|name| name.as_str())
        .filter(|name| sets.contains_key(name))
        .collect();
    let absent = match default.as_slice() {
        [] if config.toolsets.default.is_empty() => "Default: all.".to_owned(),
        [] => "Default: none.".to_owned(),
        some => format!("Default: {}.", some.join(", ")),
    };
    if sets.is_empty() {
        return "You have no toolsets to give.".to_owned();
    }
    let uses: Vec<String> = sets.iter().map(|(name, tools)| use_of(name, tools)).collect();
    let uses = uses.join("; ");
    let list = if uses.len() <= USES_BYTES { uses } else { names_only(sets.keys().copied()) };
    let is_kept = |entry: &CatalogEntry| {
        matches!(entry.origin, Origin::Mcp { .. }) && sets.contains_key(entry.toolset.as_str())
    };
    let stays = config.options.inherit_mcp_toolsets && parent.tools().any(is_kept);
    let stays = if stays { " Tools of MCP servers come along though not named." } else { "" };
    format!("Of yours: {list}. {absent}{stays}")
}

fn use_of(toolset: &str, tools: &[&ToolName]) -> String {
    if let Some((_, known)) = USES.iter().find(|(name, _)| *name == toolset) {
        return format!("{toolset} ({known})");
    }
    let named: Vec<&str> = tools.iter().take(NAMED_TOOLS).map(|name| name.as_str()).collect();
    match tools.len() - named.len() {
        0 => format!("{toolset} ({})", named.join(", ")),
        more => format!("{toolset} ({} and {more} more)", named.join(", ")),
    }
}

fn names_only<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let mut list = String::new();
    let mut left = names.len();
    for name in names {
        if list.len() + name.len() > TOOLSETS_BYTES {
            return format!("{list} and {left} more");
        }
        if !list.is_empty() {
            list.push_str(", ");
        }
        list.push_str(name);
        left -= 1;
    }
    list
}

#[cfg(test)]
mod tests {
    use deputize_core::profile::Profile;

    use super::*;
    use crate::config::{
        ChildApprovals, ChildModels, ChildToolsets, DelegationHost, DelegationLimits,
        DelegationOptions,
    };
    use crate::fixture::{ParentFixture, toolsets};

    const TYPICAL: &str = "file/read_file file/write_file terminal/terminal web/web_fetch \
        delegation/delegate_task";
    const FULL: &str = "file/read_file terminal/terminal web/web_fetch mcp-git/git_log \
        mcp-git/git_show mcp-git/git_blame mcp-git/git_diff code/execute_code core/clarify \
        core/cronjob core/memory core/todo delegation/delegate_task";

    fn show(family: &ParentFixture, config: &DelegationConfig) -> String {
        let decl = describe(family.parent(), config).unwrap();
        let parameters = serde_json::to_string_pretty(&decl.parameters.to_value()).unwrap();
        format!("{}\n\n{parameters}", decl.description)
    }

    #[test]
    fn every_combination_of_limits() {
        for (limit, over_limit) in [("refuse", OverLimit::Refuse), ("queue", OverLimit::Queue)] {
            for (nesting, max_spawn_depth, orchestrator_enabled) in
                [("flat", 1, true), ("nested", 3, true), ("switched_off", 3, false)]
            {
                let config = DelegationConfig {
                    limits: DelegationLimits {
                        over_limit,
                        max_spawn_depth,
                        max_concurrent_children: 5,
                        ..DelegationLimits::default()
                    },
                    options: DelegationOptions {
                        orchestrator_enabled,
                        ..DelegationOptions::default()
                    },
                    ..DelegationConfig::default()
                };
                let name = format!("{limit}_{nesting}");
                insta::assert_snapshot!(name, show(&ParentFixture::new(TYPICAL), &config));
            }
        }
    }

    #[test]
    fn where_nobody_approves_commands_they_are_not_offered() {
        let approval_effects = vec![deputize_core::Effects::Unknown];
        let config = DelegationConfig {
            approvals: ChildApprovals { effects: approval_effects, ..ChildApprovals::default() },
            limits: DelegationLimits { max_spawn_depth: 2, ..DelegationLimits::default() },
            ..DelegationConfig::default()
        };
        insta::assert_snapshot!(
            "no_commands",
            show(&ParentFixture::under(TYPICAL, &config), &config)
        );
        let task = DelegationConfig {
            options: DelegationOptions { tool_name: ToolFlavor::Task, ..config.options },
            ..config
        };
        let tools = TYPICAL.replace("delegate_task", "task");
        insta::assert_snapshot!(
            "task_no_commands",
            show(&ParentFixture::under(&tools, &task), &task)
        );
    }

    /// Returns the parts that may differ between descriptions: the text about limits and nesting,
    /// the limit on tasks, and whether a role is offered. Everything else must be equal.
    fn differs(decl: &ToolDecl) -> (String, String) {
        let line = decl.description.lines().find(|line| line.starts_with("One task:")).unwrap();
        let parameters = decl.parameters.to_value();
        let fields = &parameters["properties"];
        let most = &fields["tasks"]["maxItems"];
        let role = if fields.get("role").is_some() { "role" } else { "no role" };
        let rest = decl.description.replace(line, "");
        let (_, own) = line.split_once("`tasks`, ").unwrap();
        (format!("{most}, {role}; {own}"), rest)
    }

    #[test]
    fn every_combination_of_limits_nesting_depth_and_background() {
        use std::fmt::Write as _;
        let mut out = String::new();
        let mut rests = std::collections::BTreeSet::new();
        for background in [false, true] {
            for over_limit in [OverLimit::Refuse, OverLimit::Queue] {
                for max_concurrent_children in [1, 3, 50] {
                    for max_spawn_depth in [1, 2, 3] {
                        for orchestrator_enabled in [true, false] {
                            for depth in 0..max_spawn_depth {
                                let config = DelegationConfig {
                                    limits: DelegationLimits {
                                        over_limit,
                                        max_concurrent_children,
                                        max_spawn_depth,
                                        ..DelegationLimits::default()
                                    },
                                    options: DelegationOptions {
                                        background,
                                        orchestrator_enabled,
                                        ..DelegationOptions::default()
                                    },
                                    ..DelegationConfig::default()
                                };
                                let mut family = ParentFixture::new(TYPICAL);
                                family.spec.depth = depth;
                                let decl = describe(family.parent(), &config).unwrap();
                                let (own, rest) = differs(&decl);
                                rests.insert(rest);
                                writeln!(
                                    out,
                                    "{} {over_limit:?} {max_concurrent_children} at \
                                     {depth} of {max_spawn_depth} {}: {own}",
                                    if background { "background" } else { "turn" },
                                    if orchestrator_enabled { "nests" } else { "flat" }
                                )
                                .unwrap();
                            }
                        }
                    }
                }
            }
        }
        insta::assert_snapshot!("all_combinations", out);
        assert_eq!(rests.len(), 2, "one for children that end with the turn: {rests:#?}");
    }

    #[test]
    fn the_form_with_one_text() {
        let config = DelegationConfig {
            options: DelegationOptions {
                tool_name: ToolFlavor::Task,
                ..DelegationOptions::default()
            },
            ..DelegationConfig::default()
        };
        insta::assert_snapshot!("task", show(&ParentFixture::new(FULL), &config));
    }

    #[test]
    fn a_parent_with_everything_and_an_operator_who_narrows_it() {
        let family = ParentFixture::new(FULL);
        insta::assert_snapshot!("full", show(&family, &DelegationConfig::default()));
        let config = DelegationConfig {
            toolsets: ChildToolsets {
                default: toolsets("file ghost"),
                ceiling: Some(toolsets("file web mcp-git")),
                ..ChildToolsets::default()
            },
            ..DelegationConfig::default()
        };
        insta::assert_snapshot!("full_narrowed", show(&family, &config));
        let config = DelegationConfig {
            options: DelegationOptions { background: true, ..DelegationOptions::default() },
            ..DelegationConfig::default()
        };
        insta::assert_snapshot!("background", show(&ParentFixture::new(TYPICAL), &config));
        let config = DelegationConfig {
            limits: DelegationLimits { max_spawn_depth: 3, ..DelegationLimits::default() },
            host: DelegationHost {
                external_needs: vec![ToolName::literal("terminal")],
                ..DelegationHost::default()
            },
            ..DelegationConfig::default()
        };
        insta::assert_snapshot!("external", show(&ParentFixture::new(TYPICAL), &config));
        let bare = ParentFixture::new("delegation/delegate_task");
        insta::assert_snapshot!("bare", show(&bare, &DelegationConfig::default()));
    }

    #[test]
    fn agents_of_every_depth_read_the_same() {
        let config = DelegationConfig {
            limits: DelegationLimits { max_spawn_depth: 3, ..DelegationLimits::default() },
            ..DelegationConfig::default()
        };
        let mut family = ParentFixture::new(TYPICAL);
        let first = show(&family, &config);
        for depth in 1..3 {
            family.spec.depth = depth;
            assert_eq!(show(&family, &config), first);
        }
    }

    /// Everything described must be parsed: no field of a later version.
    #[test]
    fn what_is_described_is_what_is_read() {
        const EVERY_FIELD: [&str; 9] = [
            "context",
            "goal",
            "max_iterations",
            "model",
            "output_schema",
            "profile",
            "role",
            "tasks",
            "toolsets",
        ];
        let models = vec!["p/small".to_owned()];
        let config = DelegationConfig {
            models: ChildModels { choices: models, ..ChildModels::default() },
            profiles: vec![Profile { name: "look".to_owned(), ..Profile::default() }],
            limits: DelegationLimits { max_spawn_depth: 3, ..DelegationLimits::default() },
            ..DelegationConfig::default()
        };
        let decl = describe(ParentFixture::new(TYPICAL).parent(), &config).unwrap();
        let call = decl.parameters.to_value();
        let mut fields: Vec<&String> = call["properties"].as_object().unwrap().keys().collect();
        fields.sort();
        assert_eq!(fields, EVERY_FIELD);
        let mut arguments = serde_json::Map::new();
        for field in fields {
            arguments.insert(field.clone(), json!("x"));
        }
        let reading = crate::args::read(&Value::Object(arguments), &config);
        assert!(!reading.warnings.iter().any(|warning| warning.contains("unknown field")));
    }

    #[test]
    fn profiles_are_listed_a_line_each_as_far_as_there_is_room() {
        let profile = |name: String, from_project| Profile {
            name,
            description: "Does\nthat.".to_owned(),
            from_project,
            ..Profile::default()
        };
        let text = |profiles| {
            let config = DelegationConfig { profiles, ..DelegationConfig::default() };
            let decl = describe(ParentFixture::new(TYPICAL).parent(), &config).unwrap();
            let fields = decl.parameters.to_value()["properties"].clone();
            assert!(fields["tasks"]["items"]["properties"]["profile"].is_object());
            fields["profile"]["description"].as_str().unwrap().to_owned()
        };
        let few = vec![profile("look".to_owned(), false), profile("theirs".to_owned(), true)];
        assert_eq!(text(few), "Kinds:\nlook: Does that.\ntheirs (the project's): Does that.");
        let many = text((0..100).map(|n| profile(format!("p{n}"), false)).collect());
        assert!(many.contains("\np99") && !many.contains("p99:") && many.len() < 2_000, "{many}");
    }

    #[test]
    fn it_stays_short_whatever_the_parent_has() {
        let many: Vec<String> = (0..300)
            .map(|n| format!("mcp-server-with-a-long-name-{n}/tool_with_a_long_name_{n}"))
            .collect();
        let config = DelegationConfig {
            limits: DelegationLimits { max_spawn_depth: 3, ..DelegationLimits::default() },
            ..DelegationConfig::default()
        };
        for tools in [FULL.to_owned(), format!("{FULL} {}", many.join(" "))] {
            let decl = describe(ParentFixture::new(&tools).parent(), &config).unwrap();
            let bytes = decl.description.len() + decl.parameters.as_str().len();
            assert!(bytes < 3200, "{bytes}");
        }
    }

    #[test]
    fn toolsets_that_do_not_fit_are_counted() {
        let many: Vec<String> = (0..300).map(|n| format!("mcp-server-{n:03}/t{n}")).collect();
        let text = toolsets_text(
            ParentFixture::new(&many.join(" ")).parent(),
            &DelegationConfig::default(),
        );
        let named = text.matches("mcp-server-").count();
        assert!(text.contains(&format!(" and {} more.", 300 - named)), "{text}");
    }
}
