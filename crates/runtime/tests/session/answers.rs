//! Answers that must satisfy a schema.

use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::answer::CORRECTIONS;
use deputize_core::model::{Reply, Request, ToolChoice};
use deputize_core::outcome::{ExitReason, ValueError};
use deputize_core::{Cancel, Event, Message, Status};
use parking_lot::Mutex;

use crate::fixture::{World, config, run, spec};

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Count {
    /// How many tests there are.
    tests: u32,
}

fn counting(folder: &std::path::Path) -> AgentSpec {
    spec(folder).answering_as::<Count>()
}

type SeenTexts = Arc<Mutex<Vec<String>>>;

/// Returns a model that gives these answers in turn, and stores the last request's text.
fn answers(
    actual: &SeenTexts,
    texts: &'static [&'static str],
) -> impl Fn(usize, &Request<'_>) -> Result<Reply, deputize_core::model::ModelError> + Send + Sync + use<>
{
    let seen = Arc::clone(actual);
    move |_, request| {
        let Some(Message::User(said)) = request.messages.last().map(|m| &**m) else { panic!() };
        let mut actual = seen.lock();
        actual.push(said.text.clone());
        Ok(Reply::text("rule", texts[actual.len() - 1]))
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_comes_back_typed_and_the_model_gets_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let collected = SeenTexts::default();
    let rule = answers(&collected, &["```json\n{\"tests\": 7}\n```"]);
    let config = config(&world, rule);
    let outcome = run(folder.path(), counting(folder.path()), config, &Cancel::new()).await;
    assert_eq!(outcome.value::<Count>().unwrap(), Count { tests: 7 });
    assert_eq!(outcome.exit_code(), 0);
    insta::assert_snapshot!(collected.lock()[0]);
}

#[tokio::test(start_paused = true)]
async fn a_miss_is_reported_with_its_place_and_may_be_corrected() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let collected = SeenTexts::default();
    let rule = answers(&collected, &["Seven.", r#"{"tests": "7"}"#, r#"{"tests": 7}"#]);
    let config = config(&world, rule);
    let outcome = run(folder.path(), counting(folder.path()), config, &Cancel::new()).await;
    assert_eq!(outcome.value::<Count>().unwrap(), Count { tests: 7 });
    insta::assert_snapshot!(collected.lock()[1..].join("\n---\n"));
}

#[tokio::test(start_paused = true)]
async fn a_value_is_checked_as_it_is_given_on() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let collected = SeenTexts::default();
    // Without what a reader cannot see the first word is too short, and the first key is the other.
    let answers = answers(
        &collected,
        &[
            r#"{"word": "ab\u200b", "more": 1}"#,
            r#"{"word": "abc", "more": 1, "more\u202e": 2}"#,
            r#"{"word\u200b": "a\u001b[1mbc", "more": 1}"#,
        ],
    );
    let schema = serde_json::json!({
        "type": "object", "required": ["word"], "properties": {"word": {"minLength": 3}},
    });
    let spec = spec(folder.path()).answering(schema);
    let outcome = run(folder.path(), spec, config(&world, answers), &Cancel::new()).await;
    let collected = collected.lock();
    assert!(collected[1].contains("/word: \"ab\" is shorter"), "{}", collected[1]);
    assert!(collected[2].contains("two keys of one object are `more`"), "{}", collected[2]);
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    assert_eq!(outcome.output, Some(serde_json::json!({"word": "abc", "more": 1})));
}

#[tokio::test(start_paused = true)]
async fn after_the_last_correction_it_has_failed_and_keeps_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let collected = SeenTexts::default();
    let rule = answers(&collected, &["{}", "{}", "{}"]);
    let config = config(&world, rule);
    let outcome = run(folder.path(), counting(folder.path()), config, &Cancel::new()).await;
    assert_eq!(collected.lock().len(), 1 + CORRECTIONS as usize);
    assert_eq!((outcome.status, outcome.exit_reason), (Status::Failed, ExitReason::SchemaInvalid));
    assert_eq!((outcome.text.as_deref(), &outcome.output), (Some("{}"), &None));
    let error = outcome.value::<Count>().unwrap_err();
    assert!(matches!(&error, ValueError::None(why) if why.contains("\"tests\"")), "{error}");
    let records = world.records.lock();
    let rejected = |event: &Event| matches!(event, Event::AnswerRejected { .. });
    assert_eq!(records.iter().filter(|record| rejected(&record.event)).count(), 3);
}

#[tokio::test(start_paused = true)]
async fn corrections_count_against_the_iterations() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |_: usize, request: &Request<'_>| {
        Ok(Reply::text("rule", format!("{:?}", request.tool_choice == ToolChoice::None)))
    };
    let spec = counting(folder.path());
    let limits = deputize_core::agent::AgentLimits { max_iterations: 1, ..spec.limits };
    let config = config(&world, rule);
    let spec = AgentSpec { limits, ..spec };
    let outcome = run(folder.path(), spec, config, &Cancel::new()).await;
    assert_eq!((outcome.status, outcome.exit_reason), (Status::Failed, ExitReason::SchemaInvalid));
    assert_eq!((outcome.text.as_deref(), &outcome.output), (Some("true"), &None));
    let error = outcome.error.as_deref().unwrap();
    assert!(error.contains("max_iterations"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_cut_and_misses_its_schema_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |_: usize, _: &Request<'_>| {
        let finish = deputize_core::model::Finish::Length;
        Ok(Reply { finish, ..Reply::text("rule", r#"{"tests": 1"#) })
    };
    let config = config(&world, rule);
    let outcome = run(folder.path(), counting(folder.path()), config, &Cancel::new()).await;
    assert_eq!((outcome.status, outcome.exit_reason), (Status::Failed, ExitReason::SchemaInvalid));
    assert_eq!(outcome.text.as_deref(), Some(r#"{"tests": 1"#));
}
