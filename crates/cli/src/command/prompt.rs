//! `deputize prompt`: what a model would be sent.

use std::sync::Arc;

use deputize_core::{
    AgentSpec, AgentView, ApproverMode, CallId, Message, Request, SessionId, ToolChoice, ToolCrate,
    UserMessage,
};
use deputize_delegate::{Parent, plan, read};
use deputize_providers::Endpoint;
use deputize_providers::openai_chat::{Dialect, request_body};
use deputize_runtime::SystemClock;
use serde_json::{Value, json};

use crate::args::{ChildPrompt, Prompt, Role};
use crate::command::run::overrides;
use crate::compose::{Composition, Ingredients};
use crate::config::resolve_model;
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
    let sources = around.sources(&args.settings, Vec::new())?;
    let mut loaded = around.load(&sources)?;
    if !args.child.child && !args.toolsets.is_empty() {
        loaded.config.toolsets.clone_from(&args.toolsets);
    }
    let composition = Composition::new(&Ingredients {
        links,
        config: &loaded.config,
        surroundings: around,
        cwd: sources.cwd.clone(),
        home: sources.home(),
        clock: Arc::new(SystemClock),
    })?;
    composition.warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    let choice = resolve_model(&loaded.config, &overrides(&args.model)).ok();
    let model = choice.map_or_else(|| NO_MODEL.to_owned(), |choice| choice.model);
    let session = SessionId::literal("preview");
    let mode = ApproverMode::Deny;
    let top = composition.top_agent(&session, &model, &args.prompt, mode);
    let authority = composition.authority(mode, top.cwd.clone());
    let view = composition.view(top, authority);
    let view = if args.child.child { child(&composition, &view, args, around)? } else { view };
    show(&view, args)
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
    let plan = plan(reading, call, Parent::of(&parent), &composition.delegation)
        .map_err(CliError::usage)?;
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

fn show(view: &AgentView, args: &Prompt) -> Result<(), CliError> {
    let system = view.spec.system.join("\n\n");
    let tools = tools(view)?;
    if args.json {
        let body = String::from_utf8(body(view)?).map_err(CliError::failed)?;
        let body: Value = serde_json::from_str(&body).map_err(CliError::failed)?;
        return print(&format!("{body:#}\n"));
    }
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

/// The first request, as the Chat Completions wire has it.
fn body(view: &AgentView) -> Result<Vec<u8>, CliError> {
    let endpoint = Endpoint::new("preview", "http://127.0.0.1/v1");
    let dialect = Dialect::of(&endpoint).map_err(CliError::failed)?;
    let message = UserMessage { text: view.spec.task.clone(), from: None };
    let mut messages: Vec<Arc<Message>> = view.spec.prefill.iter().cloned().map(Arc::new).collect();
    messages.push(Arc::new(Message::User(message)));
    let model = view.spec.model.split_once('/').map_or(view.spec.model.as_str(), |(_, name)| name);
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
