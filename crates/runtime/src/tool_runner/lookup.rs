//! Finds the tool that a call names, or says why the agent may not call it.

use deputize_core::authority::ToolDenial;
use deputize_core::message::CallStatus;
use deputize_core::policy::Denial;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::tool::ToolIndex;
use deputize_core::{AgentView, CatalogEntry, ToolCall};

use super::result::FinishedCall;

/// Limit on a repeated call that names no tool, in characters.
const UNREADABLE_CHARS: usize = 600;
/// How alike a tool's name must be to be suggested, of 1.
const NEAR: f64 = 0.8;

/// Returns the tool that a call names, if this agent may call it.
pub(super) fn callable_tool<'v>(
    view: &'v AgentView,
    call: &ToolCall,
) -> Result<&'v CatalogEntry, Box<FinishedCall>> {
    let failed = |text: String| Err(Box::new(FinishedCall::own(CallStatus::Error, text)));
    if let Some(entry) = view.index_tool(&call.name) {
        return Ok(entry);
    }
    let known = view.catalog.get(&call.name);
    if let Some(entry) = known.filter(|entry| is_permitted(view, entry)) {
        return Ok(entry);
    }
    if let Some(Err(changed @ ToolDenial::Changed)) =
        known.map(|entry| view.authority.permits(entry))
    {
        return failed(format!("{}: {changed}", call.name));
    }
    if let Some(why) = known.and_then(|entry| entry.tool.refusal(view)) {
        return failed(why);
    }
    let is_shared = view.spec.declared.is_some() && view.index().is_some();
    let is_found = known.filter(|_| is_shared).is_some_and(ToolIndex::has);
    if is_found || view.declared.iter().any(|tool| tool.name.as_str() == call.name) {
        return Err(Box::new(withheld(view, call)));
    }
    let mine = permitted_names(view);
    if call.is_unreadable() {
        let written = for_terminal_line(&call.arguments, UNREADABLE_CHARS);
        return failed(format!(
            "this call could not be read, so nothing ran: it names no tool. It was: {written}\n\
             Call a tool by its name, with one JSON object that fits its schema. You have: {}.",
            mine.join(", ")
        ));
    }
    let score = |name: &str| strsim::jaro_winkler(name, &call.name);
    let near = mine.iter().copied().max_by(|a, b| score(a).total_cmp(&score(b)));
    let hint = match near {
        Some(near) if score(near) > NEAR => format!("Did you mean {near}?"),
        Some(_) => format!("You have: {}.", mine.join(", ")),
        None => "You have no tools.".to_owned(),
    };
    let missing = format!("there is no tool `{}` here", for_terminal_line(&call.name, 80));
    let failed = FinishedCall::own(CallStatus::Error, format!("{missing}. {hint}"));
    Err(Box::new(FinishedCall { error: Some(missing), ..failed }))
}

/// Returns the result of a call of a tool that is in the agent's list and that it may not use.
fn withheld(view: &AgentView, call: &ToolCall) -> FinishedCall {
    let name = &call.name;
    if view.spec.declared.is_none() {
        let text = format!("{name} may not be used in this turn");
        return FinishedCall::own(CallStatus::Error, text);
    }
    let mine = permitted_names(view).join(", ");
    if view.spec.unapproved.iter().any(|tool| tool.as_str() == name) {
        let instead = if mine.is_empty() { mine } else { format!(": use {mine}") };
        let why = format!("`{name}` needs approval, and nobody gives it to child agents");
        return FinishedCall::denied(&Denial {
            for_model: format!("{why}{instead}"),
            for_person: why,
        });
    }
    let instead =
        if mine.is_empty() { "no tool is yours to use".to_owned() } else { format!("use {mine}") };
    let text = format!("you may not use `{name}`: {instead}");
    FinishedCall {
        error: Some(format!("the agent may not use `{name}`")),
        ..FinishedCall::own(CallStatus::Error, text)
    }
}

fn is_permitted(view: &AgentView, entry: &CatalogEntry) -> bool {
    view.spec.tools.contains(entry.name()) && view.authority.permits(entry).is_ok()
}

/// Returns the names of the tools that the agent may call and its model was sent; where that was sent
/// an index, it stands for those which it finds.
fn permitted_names(view: &AgentView) -> Vec<&str> {
    let is_sent =
        |entry: &&CatalogEntry| view.declared.iter().any(|tool| tool.name == *entry.name());
    let entries = view.catalog.iter().filter(|entry| is_permitted(view, entry)).filter(is_sent);
    let tools = view.index().into_iter().flat_map(ToolIndex::tools);
    entries.chain(tools).map(|entry| entry.name().as_str()).collect()
}
