//! The index of servers' tools: a model finds tools with `mcp_search`, and calls them with
//! `mcp_call`.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::sanitize::for_terminal_line;
use deputize_core::tool::{IndexedCall, ToolIndex, spec_of};
use deputize_core::{
    AgentView, ArgumentRole, Availability, BoxFuture, CatalogEntry, Origin, Subject, Tool,
    ToolCallResult, ToolCx, ToolDecl, ToolError, ToolKind, ToolOutput, ToolSpec, ToolsetName,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::tool_rank::rank;

/// Limit in bytes of JSON of servers' tools that are sent to a model themselves, by default.
pub const LISTED_BYTES: u64 = 16 * 1024;

const SEARCH: &str = "mcp_search";
const CALL: &str = "mcp_call";
/// The toolset of both. No setting names it: whoever has tools of servers has them.
const TOOLSET: ToolsetName = ToolsetName::literal("mcp");

/// Hits of a search, by default and at most.
const HITS: usize = 5;
const MOST_HITS: usize = 20;
/// Limit in bytes on the declarations of one search; hits behind it are named.
const HIT_BYTES: usize = 24 * 1024;
/// Limit on the names that a search without hits lists.
const NAMES: usize = 200;
/// Servers that the description names.
const SERVERS: usize = 12;
/// Characters of a name that is no tool's.
const NAME_CHARS: usize = 80;
/// How alike a tool's name must be to be suggested, of 1.
const NEAR: f64 = 0.8;

/// Returns the index of servers' tools, for agents whose declarations of them have more bytes of
/// JSON than the limit.
#[must_use]
pub fn tool_index(most_bytes: u64) -> ToolIndex {
    let entry = |tool: Arc<dyn Tool>| {
        let krate = env!("CARGO_PKG_NAME").to_owned();
        CatalogEntry { toolset: TOOLSET, origin: Origin::Linked { krate }, tool }
    };
    ToolIndex {
        search: entry(Arc::new(SearchTool::new())),
        call: entry(Arc::new(CallTool::new())),
        most_bytes,
    }
}

/// The tools of servers that an agent may call now.
fn own_tools(view: &AgentView) -> Vec<&CatalogEntry> {
    let may_call = |entry: &&CatalogEntry| {
        view.spec.tools.contains(entry.name())
            && view.authority.permits(*entry).is_ok()
            && entry.tool.availability(&view.session.settings) == Availability::Yes
    };
    view.catalog.iter().filter(|entry| ToolIndex::has(entry)).filter(may_call).collect()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchArgs {
    /// Words of what the tool should do, or its name.
    query: String,
    /// Maximum number of tools [default: 5].
    #[serde(default)]
    #[schemars(range(min = 1, max = 20))]
    limit: Option<usize>,
}

// No doc comment: models would be sent it with the schema. An `IndexedCall` is parsed from it.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct CallArgs {
    /// The tool.
    name: String,
    /// Its arguments, by its schema.
    arguments: Option<Map<String, Value>>,
}

/// Finds tools of servers.
struct SearchTool(ToolSpec);

impl SearchTool {
    fn new() -> Self {
        let text = "Find tools of MCP servers by words: their names, descriptions and schemas.";
        let spec = ToolSpec::read_only(spec_of::<SearchArgs>(SEARCH, text));
        let subject = Subject::new(Some("search tools".into()), "query", ArgumentRole::Pattern);
        Self(ToolSpec { kind: ToolKind::Search, subject, ..spec })
    }
}

impl Tool for SearchTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    /// Says which servers there are.
    fn declare(&self, view: &AgentView) -> Option<ToolDecl> {
        let tools = own_tools(view);
        let mut servers: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in &tools {
            if let Origin::Mcp { server } = &entry.origin {
                *servers.entry(server).or_default() += 1;
            }
        }
        let named = servers.iter().take(SERVERS);
        let mut named: Vec<String> =
            named.map(|(server, count)| format!("{server} ({count})")).collect();
        if servers.len() > SERVERS {
            named.push(format!("{} more", servers.len() - SERVERS));
        }
        let decl = &self.0.decl;
        let description = format!(
            "{} There are {} tools, of these servers: {}.",
            decl.description,
            tools.len(),
            named.join(", ")
        );
        Some(ToolDecl { description, ..decl.clone() })
    }

    fn call<'a>(&'a self, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async move {
            let SearchArgs { query, limit } = serde_json::from_value(arguments)?;
            let tools = own_tools(&cx.agent);
            if tools.is_empty() {
                return Err(ToolError::refused("you have no tools of MCP servers"));
            }
            let ranked = rank(&tools, &query);
            Ok(match ranked.is_empty() {
                true => list_names(&tools),
                false => describe(&ranked, limit.unwrap_or(HITS).min(MOST_HITS)),
            })
        })
    }
}

/// Returns the declarations of the first tools, as many as fit.
fn describe(ranked: &[&CatalogEntry], limit: usize) -> ToolOutput {
    let mut texts: Vec<String> = Vec::new();
    let mut named: Vec<&str> = Vec::new();
    let mut bytes = 0;
    for entry in ranked.iter().take(limit) {
        let ToolDecl { name, description, parameters } = &entry.tool.spec().decl;
        let text = format!("{name}\n{}\n{}", description.trim(), parameters.as_str());
        bytes += text.len();
        if bytes > HIT_BYTES && !texts.is_empty() {
            named.push(name.as_str());
        } else {
            texts.push(text);
        }
    }
    let mut output = ToolOutput::text(texts.join("\n\n"));
    if !named.is_empty() {
        output =
            output.note(format!("{} do not fit: search for one by its name", named.join(", ")));
    }
    match ranked.len().saturating_sub(limit) {
        0 => output,
        more => output.note(format!("{more} more tools have some of these words")),
    }
}

/// Returns the names of tools, where no tool has a word of the query.
fn list_names(tools: &[&CatalogEntry]) -> ToolOutput {
    let names: Vec<&str> = tools.iter().take(NAMES).map(|entry| entry.name().as_str()).collect();
    let output = ToolOutput::text(names.join("\n"));
    let output = output.note("no tool has a word of the query: these are the names of the tools");
    match tools.len().saturating_sub(NAMES) {
        0 => output,
        more => output.note(format!("{more} more names are left out")),
    }
}

/// Calls a tool of a server. A call that names one is a call of that tool, which this one never
/// sees; it runs where a call names none.
struct CallTool(ToolSpec);

impl CallTool {
    fn new() -> Self {
        let text = format!("Call a tool of an MCP server that `{SEARCH}` found.");
        Self(ToolSpec::read_only(spec_of::<CallArgs>(CALL, &text)))
    }
}

impl Tool for CallTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async move {
            let IndexedCall { name, .. } = serde_json::from_value(arguments)?;
            if cx.agent.tool(&name).is_some() {
                return Err(ToolError::refused(format!(
                    "`{name}` is no tool of an MCP server: call it by its own name"
                )));
            }
            let score = |tool: &str| strsim::jaro_winkler(tool, &name);
            let tools = own_tools(&cx.agent);
            let names = tools.iter().map(|entry| entry.name().as_str());
            let near = names.max_by(|a, b| score(a).total_cmp(&score(b)));
            let hint = match near.filter(|near| score(near) > NEAR) {
                Some(near) => format!("Did you mean {near}?"),
                None => format!("Find the names with {SEARCH}."),
            };
            let name = for_terminal_line(&name, NAME_CHARS);
            Err(ToolError::refused(format!("no MCP server has a tool `{name}` here. {hint}")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_sent_no_words_about_the_code() {
        let (search, call) = (SearchTool::new(), CallTool::new());
        for spec in [search.spec(), call.spec()] {
            let schema = spec.decl.parameters.to_value();
            assert_eq!(schema.get("description"), None, "{}", spec.decl.name);
        }
    }
}
