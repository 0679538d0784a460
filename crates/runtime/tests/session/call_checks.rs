//! Tools look at calls before anybody is asked about them.

use std::sync::Arc;

use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::model::{ModelError, Reply, Request};
use deputize_core::policy::{ApprovalAnswer, Question, Verdict};
use deputize_core::tool::{CallCheck, CallRisk};
use deputize_core::{
    AgentView, Approver, Authority, BoxFuture, Cancel, CatalogEntry, Effects, Event, Origin,
    Policy, SessionId, Tool, ToolCallResult, ToolCx, ToolError, ToolName, ToolOutput, ToolSpec,
    ToolsetName,
};
use deputize_runtime::{Session, SessionConfig, SessionDir};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::fixture::{World, config, decl, results, spec};

/// A tool whose calls are checked: by number, one is refused, one asks, one makes the
/// check panic, one the call, and the checks of two do not end by themselves.
struct CheckingTool(ToolSpec);

impl Tool for CheckingTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn check<'a>(
        &'a self,
        arguments: &'a Value,
        cx: &'a ToolCx,
    ) -> BoxFuture<'a, Result<CallCheck, ToolError>> {
        let risk = CallRisk::new(CallRisk::LASTING, "it stays");
        let checked = match arguments["n"].as_u64() {
            Some(1) => Err(ToolError::refused("there is no 1")),
            Some(2) => Ok(CallCheck::Asks(risk)),
            Some(3) => panic!("a mistake in the tool"),
            Some(6) => return Box::pin(std::future::pending()),
            Some(7) => {
                return Box::pin(async {
                    cx.cancel.cancelled().await;
                    Err(ToolError::Cancelled(Box::default()))
                });
            }
            _ => Ok(CallCheck::Accepted),
        };
        Box::pin(async { checked })
    }

    fn call<'a>(&'a self, arguments: Value, _: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        assert_ne!(arguments["n"], 5, "a mistake in the tool");
        Box::pin(async move { Ok(ToolOutput::text(format!("ran {arguments}"))) })
    }
}

/// Asks about calls with a command.
struct CommandsAsk;

impl Policy for CommandsAsk {
    fn judge(
        &self,
        _: &ToolSpec,
        arguments: &Value,
        _: &std::path::Path,
        _: &AgentView,
    ) -> Verdict {
        match arguments.get("command") {
            Some(_) => Verdict::Ask { class: "dangerous".into(), reason: "it may do all".into() },
            None => Verdict::Allow,
        }
    }
}

/// Says yes, and keeps what was asked.
#[derive(Default)]
struct KeepsQuestions(Mutex<Vec<String>>);

impl Approver for KeepsQuestions {
    fn ask<'a>(&'a self, question: &'a Question, _: &'a Cancel) -> BoxFuture<'a, ApprovalAnswer> {
        let Question { command, class, reason, .. } = question;
        self.0.lock().push(format!("{command}: {class}: {reason}"));
        Box::pin(async { ApprovalAnswer::yes("user") })
    }
}

/// Runs an agent that has the checked tool, and returns what was asked.
async fn run_checked<F>(world: &Arc<World>, rule: F) -> Vec<String>
where
    F: Fn(usize, &Request<'_>) -> Result<Reply, ModelError> + Send + Sync + 'static,
{
    let folder = tempfile::tempdir().unwrap();
    let approver = Arc::new(KeepsQuestions::default());
    let mut config = SessionConfig {
        policy: Arc::new(CommandsAsk),
        approver: approver.clone(),
        ..config(world, rule)
    };
    let mut catalog = (*config.tools.catalog).clone();
    let tool = Arc::new(CheckingTool(ToolSpec::effectful(decl("checked"), Effects::Unknown)));
    let origin = Origin::Linked { krate: "test".into() };
    let toolset = ToolsetName::literal("test");
    catalog.insert(CatalogEntry { toolset, origin, tool }).unwrap();
    config.tools.catalog = Arc::new(catalog);
    let session = Session::create(&SessionDir::new(folder.path()), SessionId::literal("s"), config);
    let session = session.unwrap();
    let mut spec = spec(folder.path());
    spec.approver = ApproverMode::Ask;
    spec.tools.push(ToolName::literal("checked"));
    let grant = Grant { approver: Some(ApproverMode::Ask), ..Grant::default() };
    let authority = Authority::root(session.catalog(), &grant);
    session.run(spec, authority, &Cancel::new()).await;
    let asked = approver.0.lock();
    asked.clone()
}

#[tokio::test]
async fn nobody_is_asked_about_a_call_that_its_tool_refuses() {
    let world = Arc::new(World::default());
    let calls = [
        json!({"n": 0, "command": "a"}),
        json!({"n": 1, "command": "b"}),
        json!({"n": 1}),
        json!({"n": 2, "command": "c"}),
        json!({"n": 2}),
        json!({"n": 3, "command": "d"}),
        json!({"n": 5}),
        json!({"n": 4}),
    ];
    let rule = move |results: usize, _: &Request<'_>| {
        let calls = calls.iter().map(|arguments| ("checked", arguments.clone()));
        let calls = Reply::calls("rule", calls);
        Ok(if results == 0 { calls } else { Reply::text("rule", "done") })
    };
    let questions = run_checked(&world, rule).await;
    insta::assert_snapshot!(questions.join("\n"), @r#"
    a: dangerous: it may do all
    c: dangerous: it may do all
    checked {"n":2}: lasting: it stays
    "#);
    insta::assert_snapshot!(results(&world), @r#"
    checked [ok] <tool:checked BOUNDARY>
    ran {"n":0,"command":"a"}
    </BOUNDARY>

    checked [error] error: there is no 1

    checked [error] error: there is no 1

    checked [ok] <tool:checked BOUNDARY>
    ran {"n":2,"command":"c"}
    </BOUNDARY>

    checked [ok] <tool:checked BOUNDARY>
    ran {"n":2}
    </BOUNDARY>

    checked [error] error: the tool crashed on this call; its other calls still work. Try other arguments or another way.
    (operator: tool checked panicked)

    checked [error] error: the tool crashed on this call; its other calls still work. Try other arguments or another way.
    (operator: tool checked panicked)

    checked [ok] <tool:checked BOUNDARY>
    ran {"n":4}
    </BOUNDARY>
    "#);
    let records = world.records.lock();
    let asked = records.iter().filter(|it| matches!(it.event, Event::ApprovalRequest { .. }));
    assert_eq!(asked.count(), 3);
    let began = records.iter().filter(|it| matches!(it.event, Event::ToolStart { .. }));
    assert_eq!(began.count(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_does_not_end_is_given_up_at_the_time_limit_of_the_call() {
    let world = Arc::new(World::default());
    let rule = move |results: usize, _: &Request<'_>| {
        let calls = [6, 7].map(|n| ("checked", json!({"n": n})));
        let calls = Reply::calls("rule", calls);
        Ok(if results == 0 { calls } else { Reply::text("rule", "done") })
    };
    assert!(run_checked(&world, rule).await.is_empty());
    insta::assert_snapshot!(results(&world), @r"
    checked [cancelled] error: cancelled at its time limit of 120 s

    checked [cancelled] error: cancelled at its time limit of 120 s
    ");
    let records = world.records.lock();
    assert!(!records.iter().any(|it| matches!(it.event, Event::ToolStart { .. })));
}
