//! `deputize prompt`: what a model would be sent.

use std::sync::Arc;

use deputize_core::{
    AgentSpec, AgentView, ApproverMode, CallId, Message, Request, SessionId, ToolChoice, ToolCrate,
    UserMessage,
};
use deputize_delegate::{Parent, PlanError, Refusal, plan, read};
use deputize_providers::openai_chat::request_body;
use serde_json::{Value, json};

use crate::args::{ChildPrompt, Prompt, Role};
use crate::command::run::overrides;
use crate::compose::{Asked, Composition, Ingredients};
use crate::config::{FlagValue, ModelOverrides};
use crate::exit::CliError;
use crate::surroundings::{Surroundings, print, tell};

/// The model that is named when none is configured.
const NO_MODEL: &str = "MODEL";

/// Prints what was asked for.
pub(crate) fn prompt(
    links: &[ToolCrate],
    around: &Surroundings,
    args: &Prompt,
) -> Result<(), CliError> {
    let sources = around.sources(&args.settings, flags(args))?;
    let loaded = around.load(&sources)?;
    let composition =
        Composition::new(&Ingredients::here(links, &loaded.config, around, &sources))?;
    composition.warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    let asked = asked(&composition, &overrides(&args.model))?;
    let session = SessionId::literal("preview");
    let mode = ApproverMode::Deny;
    let top = composition.top_agent(&session, &asked.name, &args.prompt, mode);
    let top = AgentSpec { options: asked.options.clone(), ..top };
    let authority = composition.authority(mode, top.cwd.clone());
    let view = composition.view(top, authority);
    let view = if args.child.child { child(&composition, &view, args, around)? } else { view };
    show(&view, &asked, args)
}

/// The toolsets are the agent's, as `run` has them, unless they are those of a call.
fn flags(args: &Prompt) -> Vec<FlagValue> {
    if args.child.child || args.toolsets.is_empty() {
        return Vec::new();
    }
    let (flag, key) = ("--toolsets".to_owned(), "toolsets".to_owned());
    vec![FlagValue { flag, key, value: json!(args.toolsets) }]
}

/// The models as `run` would ask them. Without any, the rest can be shown all the same.
fn asked(composition: &Composition, overrides: &ModelOverrides) -> Result<Asked, CliError> {
    if composition.config.model.is_empty() && *overrides == ModelOverrides::default() {
        return Ok(composition.asked_nothing(NO_MODEL));
    }
    composition.asked(overrides)
}

/// The child that the agent would get for this call.
fn child(
    composition: &Composition,
    parent: &AgentView,
    args: &Prompt,
    around: &Surroundings,
) -> Result<AgentView, CliError> {
    let parent = at_depth(composition, parent, &args.child, around)?;
    let reading = read(&call(args), &composition.delegation);
    let call = CallId { step: 1, slot: 0 };
    let plan =
        plan(reading, call, Parent::of(&parent), &composition.delegation).map_err(|error| {
            match error {
                PlanError::Refused(refusal) => CliError::usage(NoChild(refusal)),
                PlanError::Prompt(_) => CliError::failed(error),
            }
        })?;
    plan.warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    for dropped in plan.dropped.iter().flatten() {
        tell(&format!("note: without {}: {}", dropped.tool, dropped.reason));
    }
    let spec = plan.specs.into_iter().next().ok_or_else(|| CliError::failed("no child"))?;
    let authority = parent.authority.meet(&spec.grant);
    Ok(composition.view(spec, authority))
}

/// The parent of a child at the asked depth.
fn at_depth(
    composition: &Composition,
    parent: &AgentView,
    child: &ChildPrompt,
    around: &Surroundings,
) -> Result<AgentView, CliError> {
    let above = child.depth.unwrap_or(1).saturating_sub(1);
    let mut id = parent.spec.id.clone();
    for _ in 0..above {
        id = id.child(CallId { step: 1, slot: 0 }, 0);
    }
    let cwd = match &child.workspace {
        None => parent.spec.cwd.clone(),
        Some(workspace) => around.cwd(Some(workspace))?,
    };
    let parent_of = id.ancestors().next();
    let spec = AgentSpec { parent: parent_of, id, depth: above, cwd, ..(*parent.spec).clone() };
    let levels = composition.delegation.leaf_depth().saturating_sub(above);
    let grant = deputize_core::Grant { spawn_depth: Some(levels), ..Default::default() };
    Ok(composition.view(spec, parent.authority.meet(&grant)))
}

/// The call that the options describe.
fn call(args: &Prompt) -> Value {
    let mut call = json!({ "goal": args.child.goal });
    let role = args.child.role.map(|role| match role {
        Role::Leaf => "leaf",
        Role::Orchestrator => "orchestrator",
    });
    let toolsets = Some(&args.toolsets).filter(|names| !names.is_empty());
    let optional = [
        ("context", args.child.context.as_ref().map(|text| json!(text))),
        ("role", role.map(|role| json!(role))),
        ("toolsets", toolsets.map(|names| json!(names))),
    ];
    if let Some(map) = call.as_object_mut() {
        for (key, value) in optional {
            map.extend(value.map(|value| (key.to_owned(), value)));
        }
    }
    call
}

/// What is wrong with a call, with the values that the person gave.
#[derive(Debug, thiserror::Error)]
#[error("{}", told(.0))]
struct NoChild(Refusal);

fn told(refusal: &Refusal) -> String {
    let what = refusal.errors().iter().map(|error| match error.field.as_str() {
        "" => error.remedy.clone(),
        field => format!("{field} {}: {}", error.value, error.remedy),
    });
    format!("there would be no child: {}", what.collect::<Vec<_>>().join("\n"))
}

fn show(view: &AgentView, asked: &Asked, args: &Prompt) -> Result<(), CliError> {
    if args.json {
        let body = String::from_utf8(body(view, asked)?).map_err(CliError::failed)?;
        return print(&format!("{body}\n"));
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

/// The first request, to the byte. For a model without a wire, as Chat Completions has it.
fn body(view: &AgentView, asked: &Asked) -> Result<Vec<u8>, CliError> {
    let (model, dialect) = asked.wire(&view.spec.model)?;
    let message = UserMessage { text: view.spec.task.clone(), from: None };
    let mut messages: Vec<Arc<Message>> = view.spec.prefill.iter().cloned().map(Arc::new).collect();
    messages.push(Arc::new(Message::User(message)));
    let request = Request {
        model,
        system: &view.spec.system,
        tools: &view.declared,
        messages: &messages,
        tool_choice: ToolChoice::Auto,
        options: &view.spec.options,
    };
    Ok(request_body(&request, &dialect))
}
