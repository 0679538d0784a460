//! `web_search`: addresses for words, by the search engine that the person configured.

use deputize_core::source::Source;
use deputize_core::tool::spec_of;
use deputize_core::{
    ArgumentRole, Availability, Example, ResourceMap, Subject, ToolCallResult, ToolCx, ToolError,
    ToolKind, ToolOutput, ToolSpec, TypedTool,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::fetch_client::FetchClient;
use crate::search::{SearchEngine, SearchHit};
use crate::settings::Settings;
use crate::web_fetch::check_network;
use deputize_http::{AddressPolicy, host_of};

/// Results of a search that asks for no number.
const RESULTS: u8 = 8;
/// Results of a search at most.
const MOST_RESULTS: u8 = 20;
/// The most characters of a query.
const QUERY_CHARS: usize = 400;
/// The most characters of the text that goes with a result.
const SNIPPET_CHARS: usize = 400;

const DESCRIPTION: &str = "Search the web for titles, addresses and excerpts.";

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    query: String,
    #[serde(default = "results")]
    #[schemars(range(max = MOST_RESULTS))]
    limit: u8,
}

fn results() -> u8 {
    RESULTS
}

#[derive(Debug)]
pub(crate) struct WebSearch;

impl TypedTool for WebSearch {
    type Args = Args;

    fn spec() -> ToolSpec {
        let arguments = serde_json::json!({"query": "rust borrow checker errors"});
        ToolSpec {
            examples: vec![Example { title: "Some words", arguments }],
            kind: ToolKind::Search,
            subject: Subject::new(Some("search the web for".into()), "query", ArgumentRole::Text),
            ..ToolSpec::read_only(spec_of::<Args>("web_search", DESCRIPTION))
        }
    }

    fn availability(&self, settings: &ResourceMap) -> Availability {
        let settings = settings.get_or_insert_with(Settings::default);
        match SearchEngine::of(&settings) {
            Ok(_) => Availability::Yes,
            Err(why) => Availability::No(why),
        }
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        check_network(cx)?;
        let query = args.query.trim();
        if query.is_empty() {
            return Err(ToolError::refused("the query is empty: give some words"));
        }
        if query.chars().count() > QUERY_CHARS {
            return Err(ToolError::refused(format!(
                "the query has more than {QUERY_CHARS} characters: give fewer words"
            )));
        }
        let settings = Settings::of(cx);
        if let Some(name) = settings.secret_in(query) {
            return Err(ToolError::refused(format!(
                "the query has {name} in it, a secret that is not sent anywhere"
            )));
        }
        let engine = SearchEngine::of(&settings).map_err(ToolError::refused)?;
        let limit = args.limit.clamp(1, MOST_RESULTS);
        let request = engine.request(query, limit).map_err(ToolError::refused)?;
        let host = host_of(&request.url).unwrap_or_default();
        // The person chose this address.
        let policy = AddressPolicy::of_person(&request.url);
        let answer = FetchClient::new(&settings, &policy, cx).ask(request).await;
        let answer = answer.map_err(|error| error.into_tool_error(&settings.setting_names))?;
        let hits = engine.hits(&answer.body).map_err(|problem| {
            ToolError::refused(format!(
                "the search engine {host} answered something else: {problem}"
            ))
        })?;
        Ok(output(query, host, &hits, limit))
    }
}

deputize_core::register_tool!("web", WebSearch);

fn output(query: &str, host: String, hits: &[SearchHit], limit: u8) -> ToolOutput {
    let mut content = String::new();
    for (index, hit) in hits.iter().take(limit.into()).enumerate() {
        let line = |text: &str| deputize_core::sanitize::for_terminal_line(text, SNIPPET_CHARS);
        content.push_str(&format!("{}. {}\n   {}\n", index + 1, line(&hit.title), line(&hit.url)));
        if !hit.snippet.trim().is_empty() {
            content.push_str(&format!("   {}\n", line(hit.snippet.trim())));
        }
    }
    let mut output = ToolOutput { source: Some(Source::web(host)), ..ToolOutput::text(content) };
    if hits.is_empty() {
        let query = deputize_core::sanitize::for_terminal_line(query, QUERY_CHARS);
        output.notes.push(format!("nothing was found for `{query}`: try other words"));
    }
    output
}
