//! `deputize prompt`: what a model would be sent.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::authority::ApproverMode;
use deputize_core::message::UserMessage;
use deputize_core::model::{Request, ToolChoice};
use deputize_core::server_names::server_of_toolset;
use deputize_core::{AgentView, CallId, Message, SessionId, ToolName};
use deputize_delegate::{
    DELEGATION_TOOLSET, DelegationPlan, ParentView, PlanError, Refusal, plan, read,
};
use deputize_runtime::prompt::summary_request;
use serde_json::{Value, json};

use crate::args::{ChildPrompt, Prompt, Role};
use crate::command::run::overrides;
use crate::compose::{
    AssembledProgram, AssemblyInput, LinkedTools, ModelSelection, TopProfile, load_config, mcp,
};
use crate::config::{FlagValue, ModelOverrides};
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;
use crate::stdio::{print, tell};

/// The model that is named when none is configured.
const NO_MODEL: &str = "MODEL";

/// Prints what was asked for.
pub(crate) fn prompt(links: &LinkedTools, env: &ProcessEnv, args: &Prompt) -> Result<(), CliError> {
    let sources = env.sources(&args.settings, flags(args))?;
    let mut loaded = load_config(env, &sources)?;
    let overrides = overrides(&args.model);
    let profile = args.profile.as_deref().filter(|_| !args.child.child);
    let profile = match profile {
        Some(name) => {
            let here = AssemblyInput::here(links, &loaded.config, env, &sources);
            let found = TopProfile::find(&here, name, &overrides)?;
            loaded.config.clone_from(&found.config);
            found.warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
            Some(found)
        }
        None => None,
    };
    let here = AssemblyInput::here(links, &loaded.config, env, &sources);
    let composition = AssembledProgram::new(&AssemblyInput {
        overrides: overrides.clone(),
        profile: profile.as_ref().map(|profile| &profile.profile),
        ..here
    })?;
    composition.warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    let asked = select_model(&composition, &overrides)?;
    let session = SessionId::literal("preview");
    let mode = ApproverMode::Deny;
    let top = composition.assembly.top_agent(&session, &asked.name, &args.prompt, mode);
    let top = AgentSpec { options: asked.options.clone(), ..top };
    let authority = composition.assembly.authority(mode, top.cwd.clone());
    let view = composition.assembly.view(top, authority, composition.tool_settings());
    let view = if args.child.child { child(&composition, &view, args, env)? } else { view };
    show(&view, &asked, args)
}

/// The toolsets are the agent's, as `run` has them, unless they are those of a call.
fn flags(args: &Prompt) -> Vec<FlagValue> {
    if args.child.child || args.toolsets.is_empty() {
        return Vec::new();
    }
    let flag = "--toolsets".to_owned();
    let key = "toolsets".to_owned();
    vec![FlagValue { flag, key, value: json!(args.toolsets) }]
}

/// The models as `run` would ask them. Without any, the rest can be shown all the same.
fn select_model(
    composition: &AssembledProgram,
    overrides: &ModelOverrides,
) -> Result<ModelSelection, CliError> {
    if composition.config.model.is_empty() && *overrides == ModelOverrides::default() {
        return Ok(composition.asked_nothing(NO_MODEL));
    }
    composition.asked(overrides)
}

/// The child that the agent would get for this call.
fn child(
    composition: &AssembledProgram,
    parent: &AgentView,
    args: &Prompt,
    env: &ProcessEnv,
) -> Result<AgentView, CliError> {
    let parent = at_depth(composition, parent, &args.child, env)?;
    let plan = planned(composition, &parent, &call(args)?)?;
    plan.warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    for dropped in plan.dropped.iter().flat_map(|dropped| dropped.iter()) {
        tell(&format!("note: without {}: {}", dropped.tool, dropped.reason));
    }
    let spec = plan.specs.into_iter().next().ok_or_else(|| CliError::failed("no child"))?;
    let authority = parent.authority.intersect(&spec.grant);
    Ok(composition.assembly.view(
        Arc::unwrap_or_clone(spec),
        authority,
        composition.tool_settings(),
    ))
}

/// The children that a call of this agent would make.
pub(super) fn planned(
    composition: &AssembledProgram,
    parent: &AgentView,
    arguments: &Value,
) -> Result<DelegationPlan, CliError> {
    let reading = read(arguments, &composition.assembly.delegation);
    let call = CallId::new(1, 0);
    let planned = plan(reading, call, ParentView::of(parent), &composition.assembly.delegation)
        .map_err(|error| match error {
            PlanError::Refused(refusal) => {
                let error = CliError::usage(NoChild(refusal));
                match of_server(composition, arguments).or_else(|| of_program(composition)) {
                    Some(hint) => error.hint(hint),
                    None => error,
                }
            }
            PlanError::Prompt(_) => CliError::failed(error),
        })?;
    let tool = composition.assembly.delegation.tool();
    if !ParentView::of(parent).has(tool.as_str()) {
        return Err(CliError::usage(NoTool(tool)).hint(format!(
            "`{}` shows the toolsets of agents; `{} delegation` gives them that one",
            format_command("tools list"),
            format_command("tools enable")
        )));
    }
    Ok(planned)
}

/// How a person lets external programs start, where nothing that children want is approved.
fn of_program(composition: &AssembledProgram) -> Option<String> {
    let policy = &composition.assembly.delegation;
    let is_denied =
        !policy.host.external_needs.is_empty() && policy.approvals.mode == ApproverMode::Deny;
    is_denied.then(|| {
        "set `delegation.approvals` to `ask` (asks you at each start) or `auto` (starts them \
         unasked)"
            .to_owned()
    })
}

/// Why a toolset that a call names is not there, where it is that of a configured MCP server.
fn of_server(composition: &AssembledProgram, arguments: &Value) -> Option<String> {
    let there = composition.assembly.tools.catalog.toolsets();
    let named = arguments.get("toolsets")?.as_array()?.iter().filter_map(Value::as_str);
    let missing = |name: &str| !there.iter().any(|set| set.as_str() == name);
    let mut named = named.filter(|name| missing(name));
    let servers: Vec<String> = mcp::toolsets(&composition.config).collect();
    let name = named.find(|name| servers.iter().any(|server| server == name))?;
    let server = server_of_toolset(name)?;
    let given = &composition.config.toolsets;
    Some(if given.is_empty() || given.iter().any(|given| given == name) {
        format!(
            "`{name}` is the toolset of the MCP server {server}, which offers no tools now; the \
             warning says why, and `{}` shows its state",
            format_command("mcp list")
        )
    } else {
        format!(
            "`{name}` is the toolset of the MCP server {server}, which agents do not have: \
             `{} {name}`",
            format_command("tools enable")
        )
    })
}

/// The parent of a child at the asked depth: an orchestrator with all that such a one may have.
fn at_depth(
    composition: &AssembledProgram,
    parent: &AgentView,
    child: &ChildPrompt,
    env: &ProcessEnv,
) -> Result<AgentView, CliError> {
    let cwd = match &child.workspace {
        None => parent.spec.cwd.clone(),
        Some(workspace) => env.cwd(Some(workspace))?,
    };
    let spec = AgentSpec { cwd, ..(*parent.spec).clone() };
    let view =
        composition.assembly.view(spec, (*parent.authority).clone(), composition.tool_settings());
    above(composition, view, child.depth.unwrap_or(1))
}

/// The agent of which a child would be so deep below the top one: that one, or an orchestrator
/// below it.
pub(super) fn above(
    composition: &AssembledProgram,
    top: AgentView,
    depth: u32,
) -> Result<AgentView, CliError> {
    let mut view = top;
    for _ in 1..depth {
        let call = json!({ "goal": "Hand parts of it on.", "role": "orchestrator" });
        let plan = planned(composition, &view, &call)?;
        let spec = plan.specs.into_iter().next().ok_or_else(|| CliError::failed("no child"))?;
        let authority = view.authority.intersect(&spec.grant);
        view = composition.assembly.view(
            Arc::unwrap_or_clone(spec),
            authority,
            composition.tool_settings(),
        );
    }
    Ok(view)
}

/// The call that the options describe.
fn call(args: &Prompt) -> Result<Value, CliError> {
    let mut call = json!({ "goal": args.child.goal });
    let schema = args.child.output_schema.as_deref().map(schema).transpose()?;
    let role = args.child.role.map(role_word);
    let toolsets = named(&args.toolsets);
    let optional = [
        ("context", args.child.context.as_ref().map(|text| json!(text))),
        ("role", role.map(|role| json!(role))),
        ("profile", args.profile.as_ref().map(|name| json!(name))),
        ("toolsets", toolsets.map(|names| json!(names))),
        ("output_schema", schema),
    ];
    if let Some(map) = call.as_object_mut() {
        for (key, value) in optional {
            map.extend(value.map(|value| (key.to_owned(), value)));
        }
    }
    Ok(call)
}

/// The toolsets that a call would name: an empty text is none, as in a call.
pub(super) fn named(toolsets: &[String]) -> Option<&[String]> {
    toolsets.iter().any(|name| !name.trim().is_empty()).then_some(toolsets)
}

/// A role as a call names it.
pub(super) const fn role_word(role: Role) -> &'static str {
    match role {
        Role::Leaf => "leaf",
        Role::Orchestrator => "orchestrator",
    }
}

/// Limit on a file with a schema, in bytes.
const SCHEMA_BYTES: u64 = 1024 * 1024;

/// Kind of a file with a schema.
#[derive(Debug, thiserror::Error)]
enum SchemaFile {
    #[error("--output-schema: {0} cannot be read")]
    Read(String, #[source] io::Error),
    #[error("--output-schema: {0} is not JSON")]
    Json(String, #[source] serde_json::Error),
}

fn schema(path: &Path) -> Result<Value, CliError> {
    let name = path.display().to_string();
    let text = read_bounded(path)
        .map_err(|error| CliError::usage(SchemaFile::Read(name.clone(), error)))?;
    serde_json::from_slice(&text).map_err(|error| CliError::usage(SchemaFile::Json(name, error)))
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a FIFO would wait for a writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(SCHEMA_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SCHEMA_BYTES {
        return Err(io::Error::other(format!("it has more than {SCHEMA_BYTES} bytes")));
    }
    Ok(bytes)
}

/// The fault of a call, with the person's values.
#[derive(Debug, thiserror::Error)]
#[error("{}", describe_refusal(.0))]
struct NoChild(Refusal);

/// Why an agent can make no call at all.
#[derive(Debug, thiserror::Error)]
#[error(
    "there would be no child: the agent does not have `{0}`, the tool of the toolset `{DELEGATION_TOOLSET}`"
)]
struct NoTool(ToolName);

fn describe_refusal(refusal: &Refusal) -> String {
    let what = refusal.errors().iter().map(|error| match error.field.as_str() {
        "" => error.remedy.clone(),
        field => format!("{field} {}: {}", error.value, error.remedy),
    });
    format!("there would be no child: {}", what.collect::<Vec<_>>().join("\n"))
}

fn show(view: &AgentView, asked: &ModelSelection, args: &Prompt) -> Result<(), CliError> {
    if args.json {
        let body = body(view, asked, args.compaction)?;
        let body = String::from_utf8(body).map_err(CliError::failed)?;
        return print(&format!("{body}\n"));
    }
    if args.compaction {
        return print(&format!("{}\n", summary_request()));
    }
    let system = view.spec.system.join("\n\n");
    let tools = tools(view)?;
    match (args.system, args.tools) {
        (true, _) => print(&format!("{system}\n")),
        (false, true) => print(&tools),
        (false, false) => {
            let task = &view.spec.task;
            print(&format!("=== system\n{system}\n\n=== tools\n{tools}\n=== user\n{task}\n"))
        }
    }
}

fn tools(view: &AgentView) -> Result<String, CliError> {
    let mut out = String::new();
    for tool in &view.declared {
        let schema: Value =
            serde_json::from_str(tool.parameters.as_str()).map_err(CliError::failed)?;
        out.push_str(&format!("{}\n{}\n{schema:#}\n\n", tool.name, tool.description));
    }
    Ok(out)
}

/// The first request, to the byte; or the one for a summary of the task's message.
fn body(view: &AgentView, asked: &ModelSelection, summary: bool) -> Result<Vec<u8>, CliError> {
    let mut messages: Vec<Arc<Message>> = view.spec.prefill.iter().cloned().map(Arc::new).collect();
    let request = summary.then(|| summary_request().to_owned());
    let texts = [view.spec.task.clone()].into_iter().chain(request);
    messages.extend(texts.map(|text| Arc::new(Message::User(UserMessage::new(text)))));
    let request = Request {
        model: &view.spec.model,
        system: &view.spec.system,
        tools: &view.declared,
        messages: &messages,
        tool_choice: if summary { ToolChoice::None } else { ToolChoice::Auto },
        options: &view.spec.options,
    };
    asked.body(&request)
}
