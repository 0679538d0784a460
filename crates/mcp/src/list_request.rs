//! Requests a server's listing page by page.

use std::collections::BTreeSet;

use deputize_core::Cancel;
use rmcp::model::{
    ClientRequest, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest,
    ListToolsRequest, PaginatedRequestParams,
};
use serde_json::Value;

use crate::connection::{Connection, Timeouts};
use crate::error::{McpError, McpErrorKind, ReachError};
use crate::listing::{ServerListing, checked, kinds, outputs};
use crate::request_error::RequestError;

/// Limit on the pages of one list.
pub(crate) const PAGES: usize = 100;
/// Limit on the entries of one list.
pub(crate) const ENTRIES: usize = 5000;

/// Of what there are lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl ListKind {
    pub(crate) const fn what(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resource templates",
            Self::Prompts => "prompts",
        }
    }

    const fn key(self) -> &'static str {
        match self {
            Self::Templates => "resourceTemplates",
            other => other.what(),
        }
    }

    fn request(self, cursor: Option<String>) -> ClientRequest {
        let params =
            cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        match self {
            Self::Tools => ClientRequest::ListToolsRequest(ListToolsRequest {
                params,
                ..ListToolsRequest::default()
            }),
            Self::Resources => ClientRequest::ListResourcesRequest(ListResourcesRequest {
                params,
                ..ListResourcesRequest::default()
            }),
            Self::Templates => {
                ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest {
                    params,
                    ..ListResourceTemplatesRequest::default()
                })
            }
            Self::Prompts => ClientRequest::ListPromptsRequest(ListPromptsRequest {
                params,
                ..ListPromptsRequest::default()
            }),
        }
    }
}

/// Why there is no list.
#[derive(Debug)]
pub(crate) enum ListError {
    RequestError(RequestError),
    /// The answer is none, or goes on without end.
    Invalid(String),
}

/// A whole list.
pub(crate) async fn all(
    link: &Connection,
    kind: ListKind,
    timeouts: Timeouts,
    cancel: &Cancel,
) -> Result<Vec<Value>, ListError> {
    let mut found = Vec::new();
    let mut cursor = None;
    let mut seen = BTreeSet::new();
    for _page in 0..PAGES {
        let answer = link.ask(kind.request(cursor.take()), timeouts, cancel, &|_| {}).await;
        let answer = answer.map_err(ListError::RequestError)?;
        let Some(Value::Array(entries)) = answer.get(kind.key()) else {
            return Err(ListError::Invalid(format!("the answer has no `{}`", kind.key())));
        };
        found.extend(entries.iter().cloned());
        if found.len() > ENTRIES {
            return Err(ListError::Invalid(format!("it has more than {ENTRIES} entries")));
        }
        match answer.get("nextCursor").and_then(Value::as_str) {
            None => return Ok(found),
            Some(next) if !seen.insert(next.to_owned()) => {
                return Err(ListError::Invalid("its pages go in a circle".to_owned()));
            }
            Some(next) => cursor = Some(next.to_owned()),
        }
    }
    Err(ListError::Invalid(format!("it has more than {PAGES} pages")))
}

/// Asks a server what it has.
pub(crate) async fn listed(
    link: &Connection,
    server: &str,
    timeouts: Timeouts,
) -> Result<ServerListing, McpError> {
    let mut listed = ServerListing::default();
    let mut has_tools = true;
    if let Some(info) = link.info() {
        listed.server = info.server_info.as_ref().map(|server| {
            let said = format!("{} {}", server.name, server.version);
            deputize_core::sanitize::for_terminal_line(&said, 120)
        });
        listed.protocol = info.protocol_version.to_string();
        listed.instructions =
            info.instructions.clone().filter(|instructions| !instructions.trim().is_empty());
        listed.resources = info.capabilities.resources.is_some();
        listed.prompts = info.capabilities.prompts.is_some();
        has_tools = info.capabilities.tools.is_some();
    }
    if !has_tools {
        return Ok(listed);
    }
    match all(link, ListKind::Tools, timeouts, &Cancel::new()).await {
        Ok(tools) => {
            (listed.tools, listed.problems) = checked(server, &tools);
            listed.outputs = outputs(&tools, &listed.tools);
            listed.kinds = kinds(&tools, &listed.tools);
            Ok(listed)
        }
        Err(no) => {
            let why = match no {
                ListError::Invalid(why) => why,
                ListError::RequestError(RequestError::Refused { how, message }) => {
                    let message = deputize_core::sanitize::for_terminal_line(&message, 200);
                    format!("it refuses ({how}: {message})")
                }
                ListError::RequestError(RequestError::Slow(limit)) => {
                    format!("no answer within {} s", limit.as_secs_f32())
                }
                ListError::RequestError(RequestError::Cancelled) => "interrupted".to_owned(),
                ListError::RequestError(RequestError::Ended) => {
                    let (how, first) = link.describe_end().await;
                    format!("{how} {first}").trim_end().to_owned()
                }
                ListError::RequestError(RequestError::Forgotten { .. }) => {
                    "it does not know the session that it has just begun".to_owned()
                }
                ListError::RequestError(RequestError::SignIn { said, .. }) => {
                    return Err(McpError::new(server, ReachError::SignIn(said)));
                }
                ListError::RequestError(RequestError::Way { said, theirs, .. }) => {
                    deputize_core::sanitize::for_terminal_line(&format!("{said} {theirs}"), 200)
                }
            };
            let fault = McpErrorKind::List { what: "tools", why };
            Err(McpError { words: link.words(), ..McpError::new(server, fault) })
        }
    }
}
