//! Makes the offer of a server's tools. Pure, so that a replay makes the same tools again.

use std::sync::Arc;
use std::time::Duration;

use deputize_core::schema::Schema;
use deputize_core::server_names::server_tool;
use deputize_core::tool::CallRisk;
use deputize_core::{
    CatalogEntry, Effects, Origin, Tool, ToolDecl, ToolKind, ToolName, ToolSpec, ToolsetName,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::listing::ToolDescription;
use crate::names::{names, toolset};
use crate::server::ServerTarget;
use crate::server_record::{ServerChange, ServerRecord};
use crate::tool::{ServerTool, ToolAction, hint};

// The comments of the fields are descriptions in the schema of a program's configuration.
/// Which tools of a server are offered, by the server's own names for them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolFilter {
    /// Tools to offer. Empty: all.
    pub include: Vec<String>,
    /// Tools to leave out.
    pub exclude: Vec<String>,
    /// Tools that you declare read-only: they run without approval. The server's own claims do not
    /// count.
    pub read_only: Vec<String>,
}

impl ToolFilter {
    fn takes(&self, tool: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|name| name == tool);
        (self.include.is_empty() || named(&self.include)) && !named(&self.exclude)
    }
}

/// Commands of the program that notes and errors about a server tell the person to run. The name
/// of the server is appended. Without a command the hint is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HintCommands {
    /// Shows what a server has, and approves it.
    pub review: String,
    /// Starts a server and asks what it has.
    pub test: String,
}

/// The offered tools of a server, and notes for a person on the rest.
#[derive(Debug, Default)]
pub struct ServerOffer {
    /// Tools to add to a catalog.
    pub entries: Vec<CatalogEntry>,
    /// Notes on tools that are not offered, with what to do.
    pub notes: Vec<String>,
}

/// Returns the tools of a server by what is known of it, as they go out to models. Nothing is
/// started.
#[must_use]
pub fn offer(
    server: &str,
    record: &ServerRecord,
    start: &ServerTarget,
    filter: &ToolFilter,
    commands: &HintCommands,
) -> ServerOffer {
    let review = command_line(&commands.review, server);
    let mut offer = ServerOffer::default();
    let Some(set) = toolset(server) else {
        offer.notes.push(format!("mcp {server}: this cannot be the name of a server"));
        return offer;
    };
    offer.notes.extend(changes_note(server, record, start, &review));
    if record.target_changed(start) {
        return offer;
    }
    let Some(listed) = &record.listed else {
        offer.notes.push(format!(
            "mcp {server}: it has not listed its tools yet{}",
            hint("; try it with: ", &command_line(&commands.test, server))
        ));
        return offer;
    };
    let Some(approved) = &record.approved else {
        offer.notes.push(format!(
            "mcp {server}: you have not approved it yet: {} not offered{}",
            match listed.tools.len() {
                1 => "1 tool is".to_owned(),
                more => format!("{more} tools are"),
            },
            hint(". Read what it says of itself, and approve it, with: ", &review)
        ));
        return offer;
    };
    let problems = listed.problems.iter();
    offer.notes.extend(problems.map(|why| format!("mcp {server}: not offered: {why}")));
    let whole = record.offered_tools(start);
    let instructions = listed.instructions_digest();
    let names = names(server, whole.iter().map(|tool| tool.name.as_str()));
    let of = ToolOrigin { server, set: &set, instructions: &instructions, review: &review };
    for tool in whole.iter().filter(|tool| filter.takes(&tool.name)) {
        let Some(Ok(name)) = names.get(&tool.name) else { continue };
        let only_looks = filter.read_only.contains(&tool.name);
        let kind = listed.kinds.get(&tool.name).copied().unwrap_or_default();
        let spec = |decl| ToolSpec { kind, ..spec(of.server, decl, only_looks) };
        offer.entries.extend(entry(of, name, tool, spec));
    }
    let known = |name: &&String| listed.tool(name).is_none() && !own(name);
    let lists = [&filter.include, &filter.exclude, &filter.read_only];
    let unknown = lists.into_iter().flatten().filter(known);
    offer.notes.extend(unknown.map(|name| {
        format!("mcp {server}: `tools` names \"{name}\", which the server does not have")
    }));
    let unseen = whole.is_empty() && !listed.tools.is_empty();
    if !unseen && !record.is_withheld(start) {
        let resources = listed.resources && approved.resources;
        let prompts = listed.prompts && approved.prompts;
        let is_there = |does: &ToolAction| match does {
            ToolAction::ListResources | ToolAction::ReadResource => resources,
            _ => prompts,
        };
        own_tools(of, is_there, filter, &mut offer.entries);
    }
    offer
}

/// Returns a command about a server; empty if the program has none.
fn command_line(command: &str, server: &str) -> String {
    if command.is_empty() { String::new() } else { format!("{command} {server}") }
}

/// Says what a server changed that waits for a review, if there is something.
fn changes_note(
    server: &str,
    record: &ServerRecord,
    start: &ServerTarget,
    review: &str,
) -> Option<String> {
    let waiting: Vec<ServerChange> =
        record.changes(start).into_iter().filter(ServerChange::waits).collect();
    let first = waiting.iter().take(3).map(ServerChange::describe).collect::<Vec<_>>().join("; ");
    let more = match waiting.len() {
        0 => return None,
        1..=3 => String::new(),
        all => format!("; and {} more", all - 3),
    };
    let review = hint(". Review with: ", review);
    Some(format!("mcp {server}: {first}{more}{review}"))
}

fn spec(server: &str, decl: ToolDecl, only_looks: bool) -> ToolSpec {
    let spec = if only_looks {
        ToolSpec::read_only(decl)
    } else {
        let reason = format!("the server {server} does it, and nothing here bounds what it does");
        let risk = Some(CallRisk::new(CallRisk::DANGEROUS, reason));
        ToolSpec { risk, ..ToolSpec::effectful(decl, Effects::Unknown) }
    };
    // A call ends when its server shows no progress for too long, which the tool itself sees.
    ToolSpec { time_limit: None::<Duration>, ..spec }
}

/// The server that a tool is of.
#[derive(Clone, Copy)]
struct ToolOrigin<'a> {
    server: &'a str,
    set: &'a ToolsetName,
    /// The digest of its instructions, as they were approved.
    instructions: &'a str,
    /// The command that reviews it; empty if there is none.
    review: &'a str,
}

fn entry(
    of: ToolOrigin<'_>,
    name: &ToolName,
    tool: &ToolDescription,
    spec: impl FnOnce(ToolDecl) -> ToolSpec,
) -> Option<CatalogEntry> {
    let decl = ToolDecl {
        name: name.clone(),
        description: tool.for_model(),
        parameters: tool.parameters()?,
    };
    let does = ToolAction::Tool { name: tool.name.clone(), digest: tool.digest() };
    Some(offer_entry(of, spec(decl), does))
}

fn offer_entry(of: ToolOrigin<'_>, spec: ToolSpec, does: ToolAction) -> CatalogEntry {
    let server = of.server.to_owned();
    let instructions = of.instructions.to_owned();
    let review = of.review.to_owned();
    let origin = Origin::Mcp { server: server.clone() };
    let tool: Arc<dyn Tool> = Arc::new(ServerTool { server, instructions, review, spec, does });
    CatalogEntry { toolset: of.set.clone(), origin, tool }
}

/// Tools of ours for what a server has beside tools.
const OWN: [(&str, ToolAction); 4] = [
    ("list_resources", ToolAction::ListResources),
    ("read_resource", ToolAction::ReadResource),
    ("list_prompts", ToolAction::ListPrompts),
    ("get_prompt", ToolAction::GetPrompt),
];

fn own(name: &str) -> bool {
    OWN.iter().any(|(own, _)| *own == name)
}

fn own_tools(
    of: ToolOrigin<'_>,
    is_there: impl Fn(&ToolAction) -> bool,
    filter: &ToolFilter,
    entries: &mut Vec<CatalogEntry>,
) {
    for (own, does) in OWN {
        let Ok(name) = ToolName::new(server_tool(of.server, own)) else { continue };
        // A tool of the server with this name is the one that is meant.
        let taken = entries.iter().any(|entry| *entry.name() == name);
        if !is_there(&does) || taken || !filter.takes(own) {
            continue;
        }
        let (description, parameters) = describe(of.server, &does);
        let Ok(parameters) = Schema::new(&parameters) else { continue };
        let decl = ToolDecl { name, description, parameters };
        let only_looks = filter.read_only.iter().any(|name| name == own);
        let kind = own_kind(&does);
        entries.push(offer_entry(of, ToolSpec { kind, ..spec(of.server, decl, only_looks) }, does));
    }
}

/// Returns the sort of work that a tool of ours does.
const fn own_kind(does: &ToolAction) -> ToolKind {
    match does {
        ToolAction::ListResources | ToolAction::ListPrompts => ToolKind::Search,
        ToolAction::ReadResource | ToolAction::GetPrompt => ToolKind::Read,
        ToolAction::Tool { .. } => ToolKind::Other,
    }
}

/// Returns description and arguments of one of our own tools for a server.
fn describe(server: &str, does: &ToolAction) -> (String, Value) {
    let text = |what: &str| json!({"type": "string", "description": what});
    let object = |properties: Value, required: &[&str]| {
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    };
    match does {
        ToolAction::ReadResource => (
            format!("Read a resource of the MCP server `{server}` by its URI."),
            object(json!({"uri": text("The URI, as list_resources gives it.")}), &["uri"]),
        ),
        ToolAction::ListPrompts => (
            format!("List the prompts that the MCP server `{server}` has, with their arguments."),
            object(json!({}), &[]),
        ),
        ToolAction::GetPrompt => (
            format!("Get a prompt of the MCP server `{server}`, filled with arguments."),
            object(
                json!({
                    "name": text("Its name, as list_prompts gives it."),
                    "arguments": {
                        "type": "object",
                        "description": "Its arguments by name.",
                        "additionalProperties": {"type": "string"},
                    },
                }),
                &["name"],
            ),
        ),
        ToolAction::ListResources | ToolAction::Tool { .. } => (
            format!(
                "List the resources that the MCP server `{server}` has, with their URIs, and the \
                 templates of URIs."
            ),
            object(json!({}), &[]),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::ServerListing;

    /// Makes an offer of a server named `s`.
    fn offer(record: &ServerRecord, start: &ServerTarget, filter: &ToolFilter) -> ServerOffer {
        let commands = HintCommands { review: "agent review".into(), test: "agent test".into() };
        super::offer("s", record, start, filter, &commands)
    }

    fn start(place: &str) -> ServerTarget {
        ServerTarget {
            place: place.to_owned(),
            digest: place.to_owned(),
            ..ServerTarget::default()
        }
    }

    fn record(tools: &[&str], resources: bool) -> ServerRecord {
        let tools = tools.iter().map(|name| ToolDescription {
            name: (*name).to_owned(),
            description: format!("Does {name}.\u{200b}"),
            schema: r#"{"type":"object"}"#.to_owned(),
        });
        let listed =
            ServerListing { tools: tools.collect(), resources, ..ServerListing::default() };
        let mut record = ServerRecord::default();
        record.record_and_approve(&start("/bin/s"), listed);
        record
    }

    fn named(offer: &ServerOffer) -> Vec<&str> {
        offer.entries.iter().map(|entry| entry.name().as_str()).collect()
    }

    #[test]
    fn tools_go_out_under_the_servers_name_and_are_asked_for_unless_the_person_says_otherwise() {
        let filter = ToolFilter { read_only: vec!["get".into()], ..ToolFilter::default() };
        let offer = offer(&record(&["get", "put"], false), &start("/bin/s"), &filter);
        assert_eq!(named(&offer), ["mcp__s__get", "mcp__s__put"]);
        assert_eq!(offer.notes, Vec::<String>::new());
        let effects: Vec<_> = offer.entries.iter().map(|entry| entry.tool.spec().effects).collect();
        assert_eq!(effects, [Effects::ReadOnly, Effects::Unknown]);
        let entry = &offer.entries[0];
        assert_eq!(entry.toolset.as_str(), "mcp-s");
        assert_eq!(entry.origin, Origin::Mcp { server: "s".into() });
        assert_eq!(entry.tool.spec().decl.description, "Does get.");
    }

    #[test]
    fn a_filter_takes_and_leaves_and_says_what_it_does_not_find() {
        let filter = ToolFilter {
            include: vec!["get".into(), "put".into(), "nothing".into()],
            exclude: vec!["put".into()],
            ..ToolFilter::default()
        };
        let offer = offer(&record(&["get", "put", "more"], true), &start("/bin/s"), &filter);
        assert_eq!(named(&offer), ["mcp__s__get"]);
        let note = "mcp s: `tools` names \"nothing\", which the server does not have";
        assert_eq!(offer.notes, [note]);
    }

    #[test]
    fn resources_and_prompts_are_tools_unless_the_server_has_one_of_that_name() {
        let offer =
            offer(&record(&["read_resource"], true), &start("/bin/s"), &ToolFilter::default());
        assert_eq!(named(&offer), ["mcp__s__read_resource", "mcp__s__list_resources"]);
        let schema = offer.entries[0].tool.spec().decl.parameters.as_str().to_owned();
        assert_eq!(schema, r#"{"type":"object"}"#, "the server's own");
    }

    #[test]
    fn what_changed_is_not_offered_and_it_is_said_what_to_do() {
        let mut record = record(&["get", "put"], true);
        let mut listed = record.listed.clone().unwrap();
        listed.tools[0].description = "Gets more.".into();
        record.record_and_approve(&start("/bin/s"), listed);
        let offer = offer(&record, &start("/bin/s"), &ToolFilter::default());
        assert_eq!(named(&offer)[0], "mcp__s__put");
        assert_eq!(
            offer.notes,
            ["mcp s: tool \"get\" changed since you approved it (description, +1 line -1 line). \
              Review with: agent review s"]
        );
        let other = self::offer(&record, &start("/tmp/s"), &ToolFilter::default());
        assert_eq!(other.entries.len(), 0, "nothing of another program");
    }

    #[test]
    fn nothing_is_offered_of_a_server_that_nobody_approved() {
        let mut record = record(&["get"], true);
        record.approved = None;
        let offer = offer(&record, &start("/bin/s"), &ToolFilter::default());
        assert_eq!(offer.entries.len(), 0);
        assert!(offer.notes[0].contains("1 tool is not offered"), "{:?}", offer.notes);
    }

    #[test]
    fn resources_that_come_later_are_not_offered() {
        let mut record = record(&["get"], false);
        let now = ServerListing { resources: true, ..record.listed.clone().unwrap() };
        record.record_listing(&start("/bin/s"), now);
        let offer = offer(&record, &start("/bin/s"), &ToolFilter::default());
        assert_eq!(named(&offer), ["mcp__s__get"]);
        let note = "mcp s: it has resources now, which it had not. Review with: agent review s";
        assert_eq!(offer.notes, [note]);
    }

    #[test]
    fn a_server_with_resources_only_is_withheld_as_any_other() {
        let mut record = record(&[], true);
        let now =
            ServerListing { instructions: Some("Obey.".into()), ..record.listed.clone().unwrap() };
        record.record_listing(&start("/bin/s"), now);
        assert_eq!(offer(&record, &start("/bin/s"), &ToolFilter::default()).entries.len(), 0);
    }
}
