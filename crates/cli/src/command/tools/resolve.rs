//! `deputize toolsets resolve`: which tools a child would get, and why not the others.

use deputize_core::agent::AgentSpec;
use deputize_core::authority::ApproverMode;
use deputize_core::{Availability, Origin, SessionId, ToolsetName};
use deputize_delegate::{DelegationPlan, DropReason, DroppedTool, ParentView};
use serde_json::{Value, json};

use crate::args::ChildTools;
use crate::command::print_table;
use crate::command::prompt::{above, named, planned, role_word};
use crate::compose::{AssembledProgram, approvals};
use crate::exit::CliError;
use crate::stdio::{print, tell};

/// Why a child that may have a tool does not get it all the same.
const EXTERNAL: &str = "the child is another program (delegation.acp_command), with its own tools";

/// A note where nothing is said of the child.
fn note_of_default(asked: &ChildTools) -> Option<&'static str> {
    let says_nothing = !asked.child
        && asked.toolsets.is_empty()
        && asked.role.is_none()
        && asked.profile.is_none();
    says_nothing.then_some(
        "note: for a call that names no toolsets and no role; for others, pass `--toolsets A,B` or \
         `--role orchestrator`",
    )
}

/// Prints the tools of a child and why it has them or not: tool, toolset, whether, why.
fn print_json(
    spec: &AgentSpec,
    toolsets: &[ToolsetName],
    rows: &[[String; 4]],
    warnings: &[String],
) -> Result<(), CliError> {
    let tools: Vec<Value> = rows
        .iter()
        .map(|[tool, toolset, gets, why]| {
            let why = Some(why).filter(|why| !why.is_empty());
            json!({"tool": tool, "toolset": toolset, "kept": gets == "yes", "why": why})
        })
        .collect();
    let shown = json!({
        "role": spec.role.as_str(),
        "depth": spec.depth,
        "toolsets": toolsets.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "tools": tools,
        "warnings": warnings,
    });
    print(&format!("{shown:#}\n"))
}

/// Prints the outcome of the computation that a call goes through.
pub(super) fn resolve(
    composition: &AssembledProgram,
    asked: &ChildTools,
    as_json: bool,
) -> Result<(), CliError> {
    let assembly = &composition.assembly;
    let top = assembly.top_agent(&SessionId::literal("preview"), "", "", ApproverMode::Deny);
    let authority = assembly.authority(ApproverMode::Deny, top.cwd.clone());
    let parent = above(
        composition,
        assembly.view(top, authority, composition.tool_settings()),
        asked.depth.unwrap_or(1),
    )?;
    let mut call = json!({ "goal": "Any." });
    if let Some(call) = call.as_object_mut() {
        call.extend(asked.role.map(|role| ("role".to_owned(), json!(role_word(role)))));
        call.extend(asked.profile.iter().map(|name| ("profile".to_owned(), json!(name))));
        call.extend(named(&asked.toolsets).map(|names| ("toolsets".to_owned(), json!(names))));
    }
    let DelegationPlan { specs, dropped, warnings, .. } = planned(composition, &parent, &call)?;
    let (Some(spec), Some(dropped)) = (specs.first(), dropped.first()) else {
        return Err(CliError::failed("no child"));
    };
    let settings = &parent.session.settings;
    let parent = ParentView::of(&parent);
    let external = !assembly.delegation.host.external_needs.is_empty();
    let toolsets = if external { Vec::new() } else { spec.toolsets.clone() };
    // The list that holds, if there is one, does not have it.
    let default = &assembly.delegation.toolsets.default;
    let unnamed = |toolset: &ToolsetName| match named(&asked.toolsets) {
        None => !default.is_empty() && !default.contains(toolset),
        Some(names) => !names.iter().any(|name| name == toolset.as_str()),
    };
    let rows: Vec<[String; 4]> = parent
        .tools()
        .map(|entry| {
            let why = dropped.iter().find(|dropped| dropped.tool == *entry.name());
            let missing = match entry.tool.availability(settings) {
                Availability::No(why) => Some(why),
                Availability::Yes => None,
            };
            let (gets, why) = match why {
                None if let Some(missing) = missing => ("no", missing),
                None if external => ("no", EXTERNAL.to_owned()),
                None if matches!(entry.origin, Origin::Mcp { .. }) && unnamed(&entry.toolset) => {
                    ("yes", "from an MCP server (delegation.inherit_mcp_toolsets)".to_owned())
                }
                None => ("yes", String::new()),
                Some(DroppedTool { reason: DropReason::Unapproved, .. }) => {
                    ("no", format!("{} ({})", DropReason::Unapproved, approvals(composition)))
                }
                Some(DroppedTool { reason, .. }) => ("no", reason.to_string()),
            };
            [entry.name().to_string(), entry.toolset.to_string(), gets.to_owned(), why]
        })
        .collect();
    if as_json {
        return print_json(spec, &toolsets, &rows, &warnings);
    }
    note_of_default(asked).iter().for_each(|note| tell(note));
    warnings.iter().for_each(|warning| tell(&format!("note: {warning}")));
    print(&format!("{} at depth {}\n", spec.role.as_str(), spec.depth))?;
    let head = ["TOOL", "TOOLSET", "CHILD HAS IT", "WHY"];
    print_table(head, rows, "the child has no tools: its parent has none")
}
