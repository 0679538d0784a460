//! An agent that delegates, inside a program of its own: no command line, no network, no key.

use std::sync::Arc;

use deputize_core::authority::Grant;
use deputize_core::model::Reply;
use deputize_core::{Authority, Cancel, Catalog, SessionId};
use deputize_delegate::{DelegateTool, DelegationConfig, DelegationLimits};
use deputize_runtime::{Session, SessionConfig, SessionDir, SystemClock};
use deputize_testkit::ScriptedModel;
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The model: here a script that plays the parent and both children.
    let model = ScriptedModel::rule(|seen| {
        let reply = match (seen.task(), seen.replies()) {
            ("Which is longer, a mile or a league?", 0) => {
                let tasks = json!([{"goal": "How long is a mile?"}, {"goal": "And a league?"}]);
                Reply::calls("m", [("delegate_task", json!({ "tasks": tasks }))])
            }
            ("Which is longer, a mile or a league?", _) => Reply::text("m", "A league."),
            ("How long is a mile?", _) => Reply::text("m", "1609 m."),
            ("And a league?", _) => Reply::text("m", "4828 m."),
            _ => return None,
        };
        Some(reply.into())
    });

    // The tools: here nothing but the one that delegates.
    let policy = DelegationConfig {
        limits: DelegationLimits { max_concurrent_children: 2, ..DelegationLimits::default() },
        ..DelegationConfig::default()
    };
    let mut catalog = Catalog::default();
    catalog.insert(DelegateTool::new(policy, Arc::new(SystemClock))?.into_entry())?;

    // The session: everything that happens is in its file.
    let mut config = SessionConfig::new(catalog);
    config.models.insert("scripted/m", "m", Arc::new(model));
    let folder = tempfile::tempdir()?;
    let dir = SessionDir::new(folder.path());
    let session = Session::create(&dir, SessionId::literal("measures"), config)?;

    // The agent, and what it may do: have children, one level of them.
    let task = "Which is longer, a mile or a league?";
    let spec = session.top_agent("scripted/m", task, folder.path());
    let grant = Grant { spawn_depth: Some(1), spawn_number: Some(10), ..Grant::default() };
    let authority = Authority::root(session.catalog(), &grant);
    let outcome = session.run(spec, authority, &Cancel::new()).await;

    assert_eq!(outcome.text.as_deref(), Some("A league."));
    let calls = outcome.trace.iter().map(|call| call.tool.as_str());
    assert_eq!(calls.collect::<Vec<_>>(), ["delegate_task"]);
    Ok(())
}
