//! Rules of one's own: a policy says which calls may run, which are asked about and which are not
//! for this program, and an approver answers. Here that is a rule too, elsewhere a person.
#![expect(clippy::print_stdout, reason = "it shows what came of it")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::model::Reply;
use deputize_core::policy::{ApprovalAnswer, Denial, Question, Verdict};
use deputize_core::{
    AgentView, Approver, Authority, BoxFuture, Cancel, Catalog, Effects, Policy, SessionId,
    ToolSpec, tool,
};
use deputize_runtime::{Session, SessionConfig, SessionDir};
use deputize_testkit::ScriptedModel;
use serde_json::{Value, json};

deputize_core::tool_crate!();

/// Send a letter.
#[tool(toolset = "post")]
pub async fn send(
    /// To whom.
    to: String,
) -> String {
    format!("sent to {to}")
}

/// Allows read-only calls, asks about others, and denies letters to everybody.
struct CarefulPolicy;

impl Policy for CarefulPolicy {
    fn judge(&self, tool: &ToolSpec, arguments: &Value, _: &Path, _: &AgentView) -> Verdict {
        if arguments["to"] == "everybody" {
            return Verdict::Deny(Denial::new("no letters to everybody: name one"));
        }
        if tool.effects == Effects::ReadOnly {
            return Verdict::Allow;
        }
        Verdict::Ask { class: "post".into(), reason: "a letter cannot be taken back".into() }
    }
}

/// Answers as a person would who knows Ada.
struct KnowsAda;

impl Approver for KnowsAda {
    fn ask<'a>(&'a self, question: &'a Question, _: &'a Cancel) -> BoxFuture<'a, ApprovalAnswer> {
        let known = question.command.contains("Ada");
        let answer = if known { ApprovalAnswer::yes("me") } else { ApprovalAnswer::no("me") };
        Box::pin(std::future::ready(answer))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let letters = ["Ada", "Bob", "everybody"].map(|to| ("send", json!({ "to": to })));
    let model = ScriptedModel::turns([Reply::calls("m", letters), Reply::text("m", "Done.")]);
    let mut config = SessionConfig::new(Catalog::linked(&[LINK])?);
    config.models.insert("scripted/m", "m", Arc::new(model));
    config.policy = Arc::new(CarefulPolicy);
    config.approver = Arc::new(KnowsAda);
    let folder = tempfile::tempdir()?;
    let session =
        Session::create(&SessionDir::new(folder.path()), SessionId::literal("s1"), config)?;
    let mut spec = session.top_agent("scripted/m", "Write to all.", folder.path());
    spec.approver = ApproverMode::Ask;
    let grant = Grant { approver: Some(ApproverMode::Ask), ..Grant::default() };
    let authority = Authority::root(session.catalog(), &grant);
    let outcome = session.run(spec, authority, &Cancel::new()).await;
    for call in outcome.trace {
        println!("{} {:?}", call.tool, call.status);
    }
    Ok(())
}
