//! `session_search`: what was said and done in past sessions.

use deputize_core::message::ModelText;
use deputize_core::tool::spec_of;
use deputize_core::{
    ArgumentRole, Availability, Example, ParentOnly, Resource, ResourceMap, Subject,
    ToolCallResult, ToolCx, ToolError, ToolKind, ToolOutput, ToolSpec, TypedTool,
};
use deputize_runtime::SessionDir;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::IndexError;
use crate::index::SessionIndex;
use crate::query::SearchQuery;
use crate::results::SearchLimits;
use crate::session_fold::TOOL_NAME;
use crate::tool_text::{found_output, page_output};

const NO_SESSIONS: &str = "this program has no past sessions to search";

const DESCRIPTION: &str = "Search past sessions with `query`, or read one with `around`.";

/// Where the tool finds sessions. A program puts it into its session's settings.
#[derive(Debug, Clone, Default)]
pub struct SessionSearchSettings {
    /// The index; `None` if sessions are not searched.
    pub index: Option<SessionIndex>,
}

impl Resource for SessionSearchSettings {}

impl SessionSearchSettings {
    /// Creates the settings for the sessions of a folder.
    #[must_use]
    pub const fn new(sessions: SessionDir) -> Self {
        Self { index: Some(SessionIndex::new(sessions)) }
    }
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Words; "quoted" ones together.
    #[serde(default)]
    query: Option<String>,
    /// SESSION#NUMBER of a hit.
    #[serde(default)]
    around: Option<String>,
}

#[derive(Debug)]
pub(crate) struct SessionSearch;

impl TypedTool for SessionSearch {
    type Args = Args;

    fn spec() -> ToolSpec {
        let arguments = serde_json::json!({"query": "flaky test"});
        ToolSpec {
            examples: vec![Example { title: "Some words", arguments }],
            parent_only: Some(ParentOnly::Other("it would read the parent's conversation")),
            kind: ToolKind::Search,
            subject: Subject::new(Some("search past sessions".into()), "query", ArgumentRole::Text)
                .with("around", ArgumentRole::Text),
            ..ToolSpec::read_only(spec_of::<Args>(TOOL_NAME, DESCRIPTION))
        }
    }

    fn availability(&self, settings: &ResourceMap) -> Availability {
        match settings.get_or_insert_with(SessionSearchSettings::default).index {
            Some(_) => Availability::Yes,
            None => Availability::No(NO_SESSIONS.to_owned()),
        }
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        let cx = cx.clone();
        let answer = tokio::task::spawn_blocking(move || answer(&args, &cx));
        answer.await.map_err(ToolError::failed)?
    }
}

deputize_core::register_tool!("session_search", SessionSearch);

fn answer(args: &Args, cx: &ToolCx) -> ToolCallResult {
    let settings = cx.agent.session.settings.get_or_insert_with(SessionSearchSettings::default);
    let index = settings.index.as_ref().ok_or_else(|| ToolError::refused(NO_SESSIONS))?;
    let given = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
    let output = match (given(&args.query), given(&args.around)) {
        (Some(query), None) => search(index, &query, cx),
        (None, Some(around)) => read(index, &around, cx),
        (None, None) | (Some(_), Some(_)) => {
            return Err(ToolError::refused("give either `query` or `around`"));
        }
    };
    output.map_err(|error| match error {
        IndexError::Cancelled => ToolError::Cancelled(Box::default()),
        IndexError::Index { is_full: true, .. } => ToolError::Unavailable {
            text: ModelText::own("the disk is full: past sessions cannot be searched"),
            source: error.into(),
        },
        IndexError::Index { .. } | IndexError::Sessions(_) => ToolError::failed(error),
        error => ToolError::refused(error.to_string()),
    })
}

/// Searches all sessions; of the one that calls, what is in the conversation is left out.
fn search(index: &SessionIndex, query: &str, cx: &ToolCx) -> Result<ToolOutput, IndexError> {
    let query = SearchQuery::parse(query)?;
    let own = &cx.agent.session.id;
    let results = index.search(&query, Some(own), SearchLimits::default(), &cx.cancel)?;
    Ok(found_output(&results))
}

fn read(index: &SessionIndex, around: &str, cx: &ToolCx) -> Result<ToolOutput, IndexError> {
    let page = index.read_around(&around.parse()?, &cx.cancel)?;
    Ok(page_output(&page))
}
