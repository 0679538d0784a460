//! A hook: it sees every call of every agent, also of children, and may stop it.
#![expect(clippy::print_stdout, reason = "it shows what came of it")]

use std::error::Error;
use std::sync::Arc;

use deputize_core::authority::Grant;
use deputize_core::hook::{Hook, HookAnswer, HookEvent, HookInput, HookPoint};
use deputize_core::model::Reply;
use deputize_core::{Authority, BoxFuture, Cancel, Catalog, SessionId, tool};
use deputize_runtime::{Session, SessionConfig, SessionDir};
use deputize_testkit::ScriptedModel;
use serde_json::json;

deputize_core::tool_crate!();

/// Look a word up.
#[tool(toolset = "words", effects = read_only, kind = search, subject = "word")]
pub async fn look_up(
    /// The word.
    word: String,
) -> String {
    format!("{word}: a word")
}

struct KeepSecrets;

impl Hook for KeepSecrets {
    fn name(&self) -> &str {
        "keep-secrets"
    }

    fn wants(&self, point: HookPoint) -> bool {
        point == HookPoint::PreToolUse
    }

    fn run<'a>(
        &'a self,
        input: &'a HookInput<'a>,
        _cancel: &'a Cancel,
    ) -> BoxFuture<'a, HookAnswer> {
        Box::pin(async move {
            match input.event {
                HookEvent::PreToolUse { tool: "look_up", arguments, .. }
                    if arguments["word"] == "sesame" =>
                {
                    HookAnswer::block("that word stays here: do without it")
                }
                _ => HookAnswer::pass(),
            }
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words = ["door", "sesame"].map(|word| ("look_up", json!({ "word": word })));
    let model = ScriptedModel::turns([Reply::calls("m", words), Reply::text("m", "Done.")]);
    let mut config = SessionConfig::new(Catalog::linked(&[LINK])?);
    config.models.insert("scripted/m", "m", Arc::new(model));
    config.hooks.hooks.push(Arc::new(KeepSecrets));
    let folder = tempfile::tempdir()?;
    let session =
        Session::create(&SessionDir::new(folder.path()), SessionId::literal("s1"), config)?;
    let spec = session.top_agent("scripted/m", "Look two words up.", folder.path());
    let authority = Authority::root(session.catalog(), &Grant::default());
    let outcome = session.run(spec, authority, &Cancel::new()).await;
    for call in outcome.trace {
        println!("{} {:?}", call.tool, call.status);
    }
    Ok(())
}
