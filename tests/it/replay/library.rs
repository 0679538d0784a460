//! Recordings of a program of one's own, and what a replay says of one that has changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use deputize_core::agent::AgentSpec;
use deputize_core::authority::Grant;
use deputize_core::budget::Budget;
use deputize_core::clock::FixedClock;
use deputize_core::model::{FailureKind, ModelError, ModelOptions, Reply, ToolChoice, Usage};
use deputize_core::run::WrapUpReason;
use deputize_core::schema::Schema;
use deputize_core::{
    Authority, BoxFuture, Cancel, Catalog, CatalogEntry, Effects, Event, Origin, Outcome,
    SessionId, Tool, ToolCallResult, ToolCx, ToolDecl, ToolName, ToolOutput, ToolSpec, ToolsetName,
};
use deputize_delegate::{
    DelegateTool, DelegationConfig, DelegationHost, DelegationLimits, DelegationOptions, OverLimit,
};
use deputize_runtime::{Budgets, Session, SessionConfig, SessionDir, SessionRecorder};
use deputize_testkit::{Recorder, ReplayResult, ScriptedModel, ScriptedTurn, SeenRequest, replay};
use serde_json::{Value, json};
use tokio::time::Instant;

/// A tool that must not run in a replay.
struct CountingTool {
    spec: ToolSpec,
    runs: bool,
}

impl Tool for CountingTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, arguments: Value, _: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        assert!(self.runs, "a replay runs no tool");
        Box::pin(async move { Ok(ToolOutput::text(format!("counted {arguments}"))) })
    }
}

/// A program: what of it a test changes.
#[derive(Clone)]
struct ReplayProgram {
    description: &'static str,
    system: &'static str,
    task: &'static str,
    max_iterations: u32,
    children: DelegationConfig,
    more_tools: bool,
    model: &'static str,
    options: ModelOptions,
    budgets: Budgets,
}

impl Default for ReplayProgram {
    fn default() -> Self {
        let children = DelegationConfig {
            limits: DelegationLimits { max_concurrent_children: 3, ..DelegationLimits::default() },
            ..DelegationConfig::default()
        };
        Self {
            description: "Count the words.\nOf a text.",
            system: "You count.\nYou do it well.",
            task: "Count twice.",
            max_iterations: 5,
            children: DelegationConfig {
                limits: DelegationLimits { over_limit: OverLimit::Queue, ..children.limits },
                ..children
            },
            more_tools: false,
            model: "test/m",
            options: ModelOptions::default(),
            budgets: Budgets::default(),
        }
    }
}

impl ReplayProgram {
    fn session_config(&self, runs: bool) -> SessionConfig {
        let mut catalog = Catalog::default();
        let tool = |name: &str| {
            let spec = ToolSpec {
                parallel: true,
                ..ToolSpec::effectful(
                    ToolDecl {
                        name: ToolName::new(name).unwrap(),
                        description: self.description.to_owned(),
                        parameters: Schema::new(&json!({"type": "object"})).unwrap(),
                    },
                    Effects::WritesFiles,
                )
            };
            let origin = Origin::Linked { krate: "tests".into() };
            CatalogEntry {
                toolset: ToolsetName::literal("t"),
                origin,
                tool: Arc::new(CountingTool { spec, runs }),
            }
        };
        catalog.insert(tool("count")).unwrap();
        if self.more_tools {
            catalog.insert(tool("recount")).unwrap();
        }
        let delegate = DelegateTool::new(self.children.clone(), Arc::new(FixedClock(0))).unwrap();
        catalog.insert(delegate.into_entry()).unwrap();
        SessionConfig { budgets: self.budgets, ..SessionConfig::new(catalog) }
    }

    fn agent(&self, session: &Session) -> (AgentSpec, Authority) {
        let mut spec = session.top_agent(self.model, self.task, Path::new("/nowhere"));
        spec.options = self.options.clone();
        spec.system = vec![self.system.into()];
        spec.limits.max_iterations = self.max_iterations;
        let grant = Grant { spawn_depth: Some(1), spawn_number: Some(50), ..Grant::default() };
        (spec, Authority::root(session.catalog(), &grant))
    }

    async fn record(&self, folder: &Path, model: ScriptedModel) -> (PathBuf, Outcome, Recorder) {
        let file = folder.join("t.jsonl");
        let recorder = Recorder::default();
        let mut config = self.session_config(true);
        config.models.insert(self.model, "m", Arc::new(model));
        config.observers.push(Arc::new(recorder.clone()));
        config.record.recorder = Some(Arc::new(SessionRecorder::create(&file).unwrap()));
        let dir = SessionDir::new(folder.join("sessions"));
        let session = Session::create(&dir, SessionId::literal("s"), config).unwrap();
        let (spec, authority) = self.agent(&session);
        let outcome = session.run(spec, authority, &Cancel::new()).await;
        (file, outcome, recorder)
    }

    async fn replay(&self, file: &Path) -> Result<ReplayResult, String> {
        let replayed =
            replay(file, self.session_config(false), |session| self.agent(session)).await;
        replayed.map_err(|error| error.to_string())
    }
}

/// The parent counts, then hands two parts on; each child counts and answers.
fn counting() -> ScriptedModel {
    ScriptedModel::rule(|seen: &SeenRequest| {
        let child = seen.says("YOUR TASK:");
        let reply = match (child, seen.replies()) {
            (_, 0) => Reply::calls("m", [("count", json!({"text": "a b"}))]),
            (false, 1) => Reply::calls(
                "m",
                [("delegate_task", json!({"tasks": [{"goal": "one"}, {"goal": "two"}]}))],
            ),
            _ => Reply::text("m", "Two words."),
        };
        Some(ScriptedTurn::from(reply))
    })
}

#[tokio::test]
async fn the_same_program_gives_the_same_records_and_the_same_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let program = ReplayProgram::default();
    let (file, outcome, recorder) = program.record(folder.path(), counting()).await;
    assert_eq!(outcome.text.as_deref(), Some("Two words."));
    for _ in 0..3 {
        let replayed = program.replay(&file).await.unwrap();
        assert_eq!(replayed.records, recorder.records());
        assert_eq!(replayed.outcome, outcome);
    }
}

#[tokio::test]
async fn a_program_that_sends_something_else_is_shown_where() {
    let folder = tempfile::tempdir().unwrap();
    let program = ReplayProgram::default();
    let (file, ..) = program.record(folder.path(), counting()).await;
    let description = "Count the words.\nOf one text.";
    let system = "You count.\nYou do it fast.";
    let classic = DelegationConfig {
        options: DelegationOptions {
            prompt_layout: deputize_delegate::PromptLayout::CacheFirst,
            ..program.children.options
        },
        host: DelegationHost {
            child_base: vec!["You are a child.".into()],
            ..program.children.host.clone()
        },
        ..program.children.clone()
    };
    let options = ModelOptions { reasoning_effort: Some("low".into()), ..ModelOptions::default() };
    let hasty = DelegationConfig {
        limits: DelegationLimits { child_timeout_seconds: 77, ..program.children.limits },
        ..program.children.clone()
    };
    let changed = [
        ("system", ReplayProgram { system, ..program.clone() }),
        ("description", ReplayProgram { description, ..program.clone() }),
        ("tools", ReplayProgram { more_tools: true, ..program.clone() }),
        ("task", ReplayProgram { task: "Count thrice.", ..program.clone() }),
        ("child", ReplayProgram { children: classic, ..program.clone() }),
        ("fewer", ReplayProgram { max_iterations: 1, ..program.clone() }),
        ("model", ReplayProgram { model: "test/other", ..program.clone() }),
        ("options", ReplayProgram { options, ..program.clone() }),
        ("child's limits", ReplayProgram { children: hasty, ..program.clone() }),
    ];
    let mut actual = String::new();
    for (name, program) in changed {
        let error = program.replay(&file).await.expect_err(name);
        actual.push_str(&format!("=== {name}\n{error}\n"));
    }
    insta::assert_snapshot!(actual);
}

#[tokio::test]
async fn a_run_that_closes_on_a_budget_is_played_parent_and_children() {
    let reply = |seen: &SeenRequest| match (seen.says("YOUR TASK:"), seen.tool_choice) {
        (_, ToolChoice::None) => Reply::text("m", "That is all I could pay for."),
        (false, _) if seen.replies() == 0 => {
            Reply::calls("m", [("delegate_task", json!({"goal": "one"}))])
        }
        _ => Reply::calls("m", [("count", json!({"text": seen.number}))]),
    };
    let usage = Usage { input: 10_000, output: 100, ..Usage::default() };
    let model = ScriptedModel::rule(move |seen: &SeenRequest| {
        Some(ScriptedTurn::from(Reply { usage, ..reply(seen) }))
    });
    let options = ModelOptions { max_output_tokens: Some(2_000), ..ModelOptions::default() };
    let children = Budget { tokens: Some(60_000), ..Budget::default() };
    let session = Budget { tokens: Some(150_000), ..Budget::default() };
    let budgets = Budgets { session, children };
    let program =
        ReplayProgram { max_iterations: 90, options, budgets, ..ReplayProgram::default() };
    let folder = tempfile::tempdir().unwrap();
    let (file, outcome, recorder) = program.record(folder.path(), model).await;
    let closings = recorder
        .records()
        .iter()
        .filter(|record| {
            matches!(record.event, Event::AgentWrapUp { limit: WrapUpReason::Budget, .. })
        })
        .map(|record| record.depth)
        .collect::<Vec<_>>();
    assert_eq!(closings, [1, 0], "both close: {outcome:?}");
    let replayed = program.replay(&file).await.unwrap();
    assert_eq!(replayed.outcome, outcome);
    // Without the budget other options would be sent.
    let unlimited = ReplayProgram { budgets: Budgets::default(), ..program.clone() };
    let actual = unlimited.replay(&file).await.unwrap_err();
    assert!(actual.contains("differs from the recording in the options"), "{actual}");
}

#[tokio::test]
async fn a_model_to_fall_back_on_is_played_where_the_program_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let program = ReplayProgram::default();
    let file = folder.path().join("t.jsonl");
    let gone = ModelError::new(FailureKind::Unavailable, "gone");
    let mut config = program.session_config(true);
    let gone = ScriptedModel::turns([ScriptedTurn::Fail(gone)]);
    config.models.insert("test/m", "m", Arc::new(gone));
    let other = ScriptedModel::turns([Reply::text("n", "Done.")]);
    config.models.insert("test/n", "n", Arc::new(other));
    config.models.fallback(vec!["test/n".to_owned()]);
    config.record.recorder = Some(Arc::new(SessionRecorder::create(&file).unwrap()));
    let dir = SessionDir::new(folder.path().join("sessions"));
    let session = Session::create(&dir, SessionId::literal("s"), config).unwrap();
    let (spec, authority) = program.agent(&session);
    let outcome = session.run(spec, authority, &Cancel::new()).await;
    assert_eq!(outcome.text.as_deref(), Some("Done."));
    let mut config = program.session_config(false);
    config.models.fallback(vec!["test/n".to_owned()]);
    let played = replay(&file, config, |session| program.agent(session)).await.unwrap();
    assert_eq!(played.outcome, outcome);
    let actual = program.replay(&file).await.unwrap_err();
    assert!(actual.contains("the model is test/m, with no fallback to test/n"), "{actual}");
}

#[tokio::test]
async fn a_request_that_may_call_tools_now_and_not_then_is_reported() {
    let actual = edited(|lines| {
        let last = lines.iter_mut().rfind(|line| line["request"]["agent"] == "s").unwrap();
        last["request"]["tool_choice"] = json!("none");
    })
    .await;
    assert!(actual.contains("in whether tools may be called"), "{actual}");
}

/// Changes the lines of a recording, after its header, and numbers its records anew.
fn edit(file: &Path, change: impl FnOnce(&mut Vec<Value>)) {
    let text = std::fs::read_to_string(file).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let line = |line: &str| serde_json::from_str::<Value>(line).unwrap()["line"].take();
    let mut lines: Vec<Value> = rest.lines().map(line).collect();
    change(&mut lines);
    let mut text = format!("{header}\n");
    let mut seq = 0;
    for mut line in lines {
        if let Some(record) = line.get_mut("record") {
            record["seq"] = json!(seq);
            seq += 1;
        }
        let body = line.to_string();
        let len = body.len();
        let crc = crc32fast::hash(body.as_bytes());
        text.push_str(&format!("{{\"len\":{len},\"crc\":\"{crc:08x}\",\"line\":{body}}}\n"));
    }
    std::fs::write(file, text).unwrap();
}

fn is(line: &Value, agent: &str, kind: &str) -> bool {
    line["record"]["agent"] == agent && line["record"]["event"]["type"] == kind
}

/// What is said of a recording of [`counting`] that was changed.
async fn edited(change: impl FnOnce(&mut Vec<Value>)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let program = ReplayProgram::default();
    let (file, ..) = program.record(folder.path(), counting()).await;
    edit(&file, |_| ());
    program.replay(&file).await.expect("unchanged, it is played");
    edit(&file, change);
    program.replay(&file).await.unwrap_err()
}

#[tokio::test]
async fn what_is_more_fewer_or_in_another_order_is_reported() {
    let more = edited(|lines| {
        // The first child ends without its last request.
        let child = "s/2.0.0";
        let asks: Vec<usize> =
            (0..lines.len()).filter(|at| is(&lines[*at], child, "model.request")).collect();
        let at = asks[1];
        let later = |line: &Value| {
            ["model.request", "model.response"].iter().any(|kind| is(line, child, kind))
                || line["request"]["agent"] == child
        };
        let mut number = 0;
        lines.retain(|line| {
            number += 1;
            number < at || !later(line)
        });
    })
    .await;
    let fewer = edited(|lines| {
        // The top agent asks once more.
        let last = lines.iter().rposition(|line| is(line, "s", "model.request")).unwrap();
        let reply = lines.iter().rposition(|line| is(line, "s", "model.response")).unwrap();
        let again = [lines[last - 1].clone(), lines[last].clone(), lines[reply].clone()];
        lines.splice(reply + 1..reply + 1, again);
    })
    .await;
    let call = edited(|lines| {
        let start = lines.iter().position(|line| is(line, "s", "tool.start")).unwrap();
        let mut other = lines[start].clone();
        other["record"]["event"]["call"] = json!("call_1_9");
        lines.insert(start + 1, other);
    })
    .await;
    let order = edited(|lines| {
        // A child begins before the call that starts it.
        let child = lines.iter().position(|line| is(line, "s/2.0.1", "agent.start")).unwrap();
        let child = lines.remove(child);
        let first = lines.iter().position(|line| is(line, "s", "model.request")).unwrap();
        lines.insert(first + 1, child);
    })
    .await;
    let no_child = edited(|lines| {
        let child = "s/2.0.1";
        lines.retain(|line| line["record"]["agent"] != child && line["request"]["agent"] != child);
    })
    .await;
    let cases = [
        ("more", more),
        ("fewer", fewer),
        ("call", call),
        ("order", order),
        ("no child", no_child),
    ];
    let actual: String = cases.map(|(name, error)| format!("=== {name}\n{error}\n")).concat();
    let mut settings = insta::Settings::clone_current();
    // Two children run at once, so the records of one have no fixed numbers.
    settings.add_filter(r"\(agent s/2\.0\.0, record \d+\)", "(agent s/2.0.0, record N)");
    settings.bind(|| insta::assert_snapshot!(actual));
}

#[tokio::test]
async fn a_fault_of_the_machine_is_played_and_with_no_other_text() {
    let fault = |text: Value| {
        move |lines: &mut Vec<Value>| {
            let mut ends = lines.iter_mut().filter(|line| is(line, "s/2.0.0", "agent.end"));
            let end = &mut ends.next().unwrap()["record"]["event"];
            assert!(end["text"].is_string(), "{end}");
            (end["status"], end["exit_reason"]) = (json!("error"), json!("error"));
            if !text.is_null() {
                end["text"] = text;
            }
        }
    };
    let actual = edited(fault(json!("Something else."))).await;
    assert!(actual.contains("s/2.0.0") && actual.contains("its turn is over"), "{actual}");

    let folder = tempfile::tempdir().unwrap();
    let program = ReplayProgram::default();
    let (file, ..) = program.record(folder.path(), counting()).await;
    edit(&file, fault(Value::Null));
    program.replay(&file).await.expect("the same text");
}

#[tokio::test]
async fn a_child_that_the_program_does_not_start_ends_the_replay() {
    let folder = tempfile::tempdir().unwrap();
    let program = ReplayProgram::default();
    let (file, ..) = program.record(folder.path(), counting()).await;
    // A parent that may have one child in all.
    let replayed = replay(&file, program.session_config(false), |session| {
        let (spec, _) = program.agent(session);
        let grant = Grant { spawn_depth: Some(1), spawn_number: Some(1), ..Grant::default() };
        (spec, Authority::root(session.catalog(), &grant))
    });
    insta::assert_snapshot!(replayed.await.unwrap_err());
}

#[tokio::test(start_paused = true)]
async fn waits_are_shown_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let program = ReplayProgram::default();
    let busy = ModelError {
        retry_after_ms: Some(50_000),
        ..ModelError::new(FailureKind::Transient, "busy")
    };
    let turns = [
        ScriptedTurn::Fail(busy.clone()),
        ScriptedTurn::Fail(busy),
        Reply::text("m", "Done.").into(),
    ];
    let begun = Instant::now();
    let (file, _, recorder) = program.record(folder.path(), ScriptedModel::turns(turns)).await;
    assert!(begun.elapsed() >= Duration::from_secs(100));
    let begun = Instant::now();
    let replayed = program.replay(&file).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(replayed.records, recorder.records());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_too_the_order_is_the_recorded_one() {
    let folder = tempfile::tempdir().unwrap();
    let program = ReplayProgram::default();
    let many = || {
        ScriptedModel::rule(|seen: &SeenRequest| {
            let tasks: Vec<Value> = (0..40).map(|n| json!({"goal": format!("part {n}")})).collect();
            Some(ScriptedTurn::from(match (seen.says("YOUR TASK:"), seen.replies()) {
                (false, 0) => Reply::calls("m", [("delegate_task", json!({"tasks": tasks}))]),
                (true, 0..3) => {
                    Reply::calls("m", [("count", json!({})), ("count", json!({"n": 1}))])
                }
                _ => Reply::text("m", "Done."),
            }))
        })
    };
    let children = DelegationConfig {
        limits: DelegationLimits { max_concurrent_children: 12, ..program.children.limits },
        ..program.children.clone()
    };
    let program = ReplayProgram { children, ..program };
    let (file, _, recorder) = program.record(folder.path(), many()).await;
    assert!(recorder.records().len() > 500, "{}", recorder.records().len());
    for _ in 0..3 {
        let replayed = program.replay(&file).await.unwrap();
        assert!(replayed.records == recorder.records());
    }
}
