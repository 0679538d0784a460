//! The built-in tools through `deputize run`, and the pages of the guide about them.

mod browser;
mod clarify;
mod code;
mod cron;
mod durable;
mod files;
mod memory;
mod messages;
mod process;
mod session_search;
mod skills;
mod todo;
mod toolsets;
mod web;

use deputize_core::model::Reply;
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::Value;

use crate::program::ChatRequest;

/// A model that makes these calls, one a step, and then answers `Done.`
fn calls_in_order(
    calls: Vec<(&'static str, Value)>,
) -> impl Fn(&ChatRequest) -> MockAnswer + Send + Sync + 'static {
    move |asked| match calls.get(asked.results().len()) {
        Some((tool, arguments)) => {
            MockAnswer::reply(&Reply::calls("served-1", [(*tool, arguments.clone())]))
        }
        None => MockAnswer::reply(&Reply::text("served-1", "Done.")),
    }
}

/// What the model of a run that has ended read of its calls, which were so many.
fn results_read(server: &MockServer, count: usize) -> Vec<String> {
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    let results: Vec<String> = last.results().into_iter().map(str::to_owned).collect();
    assert_eq!(results.len(), count);
    results
}

/// What stands in the code blocks of a page whose first line begins with `kind`, in order, with
/// the rest of that line.
fn blocks<'p>(page: &'p str, kind: &str) -> Vec<(&'p str, &'p str)> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once("\n```") {
        let (head, body) = after.split_once('\n').unwrap();
        let (body, next) = match body.strip_prefix("```") {
            Some(next) => ("", next),
            None => body.split_once("\n```").unwrap(),
        };
        if let Some(name) = head.strip_prefix(kind) {
            blocks.push((name, body));
        }
        rest = next;
    }
    blocks
}
