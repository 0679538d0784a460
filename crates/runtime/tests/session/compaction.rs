//! Compaction: a conversation that nears the end of its model's context goes on with a summary.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use deputize_core::agent::{AgentLimits, AgentSpec};
use deputize_core::authority::Grant;
use deputize_core::budget::Budget;
use deputize_core::compaction::Compaction;
use deputize_core::event::LogLevel;
use deputize_core::model::{Delta, FailureKind, ModelError, Reply, Request, ToolChoice, Usage};
use deputize_core::outcome::ExitReason;
use deputize_core::{
    Authority, BoxFuture, Cancel, Event, Message, Model, Outcome, SessionId, Status,
};
use deputize_runtime::{Budgets, Session, SessionConfig, SessionControl, SessionDir, SpokenText};
use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;

use crate::fixture::{World, config, cut, resumed, run, spec};

mod large_steps;

/// Tokens of the model's context.
const WINDOW: u32 = 6_000;
/// Bytes of a token, as the model counts.
const TOKEN: u64 = 3;

/// The requests that a model was sent.
#[derive(Default)]
struct SentRequests {
    own: Mutex<Vec<Vec<Arc<Message>>>>,
    summaries: Mutex<Vec<Vec<Arc<Message>>>>,
    steps: AtomicUsize,
}

impl SentRequests {
    /// Answers as a model that looks at 2,000 bytes a step, and is done after so many steps.
    fn reply(&self, request: &Request<'_>, steps: usize) -> Reply {
        let usage = Usage { input: tokens(request), output: 20, ..Usage::default() };
        let messages = request.messages.to_vec();
        if asks_for_summary(request) {
            self.summaries.lock().push(messages);
            return Reply { usage, ..Reply::text("m", "## Task\nLook around.") };
        }
        self.own.lock().push(messages);
        let step = self.steps.fetch_add(1, Ordering::SeqCst);
        let reply = match step {
            3 => Reply::calls("m", [("make", json!({"command": "build all"}))]),
            _ if step < steps => {
                let look = ("look", json!({"n": step, "command": "1000"}));
                Reply::calls("m", [look.clone(), look])
            }
            _ => Reply::text("m", "done"),
        };
        let text = format!("Step {step}.");
        Reply { usage, text: if reply.calls.is_empty() { reply.text } else { text }, ..reply }
    }
}

fn tokens(request: &Request<'_>) -> u64 {
    request.messages.iter().map(|message| message.text_bytes()).sum::<u64>() / TOKEN
}

fn asks_for_summary(request: &Request<'_>) -> bool {
    let Some(Message::User(user)) = request.messages.last().map(|it| &**it) else { return false };
    let asks = user.text.contains("Your answer to this message will replace");
    assert!(!asks || request.tool_choice == ToolChoice::None);
    asks
}

/// The text of a conversation.
fn text(messages: &[Arc<Message>]) -> String {
    serde_json::to_string(messages).unwrap()
}

fn compactions(world: &World) -> Vec<Compaction> {
    let records = world.records.lock();
    let all = records.iter().filter_map(|record| match &record.event {
        Event::Compaction(compaction) => Some((**compaction).clone()),
        _ => None,
    });
    all.collect()
}

fn windowed<F>(world: &Arc<World>, rule: F) -> SessionConfig
where
    F: Fn(usize, &Request<'_>) -> Result<Reply, ModelError> + Send + Sync + 'static,
{
    let mut config = config(world, rule);
    config.models.context_window("t/rule", WINDOW);
    config
}

/// A session in a folder of its own, whose model records its requests.
struct CompactionTest {
    folder: TempDir,
    world: Arc<World>,
    seen: Arc<SentRequests>,
}

impl CompactionTest {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, world: Arc::default(), seen: Arc::default() }
    }

    /// Returns the parts of a session with a model that answers so.
    fn config<F>(&self, answer: F) -> SessionConfig
    where
        F: Fn(&SentRequests, usize, &Request<'_>) -> Result<Reply, ModelError>
            + Send
            + Sync
            + 'static,
    {
        let seen = Arc::clone(&self.seen);
        windowed(&self.world, move |results, request| answer(&seen, results, request))
    }

    async fn run(&self, config: SessionConfig) -> Outcome {
        let folder = self.folder.path();
        run(folder, spec(folder), config, &Cancel::new()).await
    }
}

/// Checks that each call is followed by its result.
fn assert_paired(messages: &[Arc<Message>]) {
    let mut owed = Vec::new();
    for message in messages {
        match &**message {
            Message::Tool(result) => assert_eq!(owed.remove(0), result.call),
            _ if !owed.is_empty() => panic!("{owed:?} have no result"),
            Message::Assistant(said) => owed = said.calls.iter().map(|call| call.id).collect(),
            Message::User(_) => {}
        }
    }
    assert!(owed.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_long_task_goes_on_past_its_models_context() {
    let test = CompactionTest::new();
    let outcome = test.run(test.config(|seen, _, request| Ok(seen.reply(request, 30)))).await;
    assert_eq!((outcome.status, outcome.text.as_deref()), (Status::Completed, Some("done")));
    let compactions = compactions(&test.world);
    assert!(compactions.len() >= 3, "{}", compactions.len());
    for compaction in &compactions {
        assert!(compaction.bytes_after < compaction.bytes_before / 2, "{compaction:?}");
    }
    for messages in test.seen.own.lock().iter() {
        assert_paired(messages);
        let bytes: u64 = messages.iter().map(|message| message.text_bytes()).sum();
        assert!(bytes / TOKEN < u64::from(WINDOW) * 9 / 10, "{}", bytes / TOKEN);
        assert!(matches!(&*messages[0], Message::User(user) if user.text == "go"));
    }
    // A summary is asked for with the same beginning as the request before it.
    let summaries = test.seen.summaries.lock();
    for messages in summaries.iter() {
        let (_, before) = messages.split_last().unwrap();
        assert!(test.seen.own.lock().iter().any(|own| own.starts_with(before)));
    }
    assert_eq!(summaries.len(), compactions.len());
    // What the host has on record stands in every later one.
    for compaction in &compactions {
        let text = &compaction.text;
        for part in ["build all: exit code 0", "/w/made (", "## Task\nLook around."] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    // Tokens of summaries count.
    let all = test.seen.own.lock().iter().chain(summaries.iter()).count() as u64;
    assert_eq!(outcome.usage.output, all * 20);
    assert_eq!(u64::from(outcome.requests), all);
    drop(summaries);
    // The record keeps everything, in order.
    let stored = SessionDir::new(test.folder.path()).read(&SessionId::literal("s")).unwrap();
    let said = stored.spoken_texts(&outcome.agent).unwrap();
    let steps: Vec<String> = said
        .iter()
        .filter_map(|one| match one {
            SpokenText::Message(message) => match &**message {
                Message::Assistant(said) => Some(said.text.clone()),
                _ => None,
            },
            _ => None,
        })
        .collect();
    let all: Vec<String> = (0..30).map(|n| format!("Step {n}.")).chain(["done".into()]).collect();
    assert_eq!(steps, all);
    let is_compaction = |one: &&SpokenText| matches!(one, SpokenText::Compaction(_));
    assert_eq!(said.iter().filter(is_compaction).count(), compactions.len());
}

#[tokio::test(start_paused = true)]
async fn a_session_killed_after_a_compaction_goes_on_with_the_summary() {
    let test = CompactionTest::new();
    let config =
        |test: &CompactionTest| test.config(|seen, _, request| Ok(seen.reply(request, 30)));
    test.run(config(&test)).await;
    let first = compactions(&test.world)[0].clone();
    let again = CompactionTest::new();
    let dir = cut(test.folder.path(), again.folder.path(), r#""type":"compaction""#);
    let outcome = resumed(&dir, config(&again)).await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    let sent = again.seen.own.lock()[0].clone();
    let next =
        test.seen.own.lock().iter().find(|own| text(own).contains("## Task")).unwrap().clone();
    assert_eq!(text(&sent), text(&next), "it is the request that was due");
    assert!(text(&sent).contains(&json!(first.text).to_string()));
}

/// A model whose tokenizer makes a token of so many bytes.
struct TokenizedModel {
    model: Arc<dyn Model>,
    bytes: usize,
}

impl Model for TokenizedModel {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        self.model.reply(request, live, cancel)
    }

    fn takes_tokens(&self) -> bool {
        true
    }

    fn count_tokens(&self, _model: &str, text: &str) -> Option<u64> {
        (self.bytes > 0).then(|| text.len().div_ceil(self.bytes) as u64)
    }
}

#[tokio::test(start_paused = true)]
async fn a_models_tokenizer_counts_where_its_provider_does_not() {
    let mut inputs = Vec::new();
    // Without a tokenizer, a token has three bytes.
    for (bytes, steps, compacts) in [(0, 12, true), (1_000, 12, false), (0, 2, false), (1, 2, true)]
    {
        let test = CompactionTest::new();
        let mut config = test.config(move |seen, _, request| {
            Ok(Reply { usage: Usage::default(), ..seen.reply(request, steps) })
        });
        config.models.wrap("t/rule", |model| Arc::new(TokenizedModel { model, bytes }));
        let outcome = test.run(config).await;
        assert_eq!(outcome.text.as_deref(), Some("done"));
        assert_eq!(!compactions(&test.world).is_empty(), compacts, "{bytes} bytes, {steps} steps");
        inputs.push(outcome.usage.input);
    }
    assert!(inputs[1] * 10 < inputs[0] && inputs[3] > inputs[2] * 2, "{inputs:?}");
}

/// A model that, while it counts, has another thread look at the agents.
struct WatchedModel {
    model: Arc<dyn Model>,
    control: Arc<Mutex<Option<SessionControl>>>,
    /// Number of agents in each look.
    agents: Arc<Mutex<Vec<usize>>>,
}

impl Model for WatchedModel {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        self.model.reply(request, live, cancel)
    }

    fn count_tokens(&self, _model: &str, text: &str) -> Option<u64> {
        let control = self.control.lock().clone()?;
        let (sender, looked) = mpsc::channel();
        std::thread::spawn(move || sender.send(control.agents().len()));
        let most = Duration::from_secs(10);
        self.agents.lock().push(looked.recv_timeout(most).unwrap());
        Some(text.len().div_ceil(3) as u64)
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_can_be_seen_while_its_tokens_are_counted() {
    let test = CompactionTest::new();
    let (control, agents) = (Arc::default(), Arc::<Mutex<Vec<usize>>>::default());
    let mut config = test.config(|seen, _, request| Ok(seen.reply(request, 2)));
    config.models.wrap("t/rule", |model| {
        let (control, agents) = (Arc::clone(&control), Arc::clone(&agents));
        Arc::new(WatchedModel { model, control, agents })
    });
    let dir = SessionDir::new(test.folder.path());
    let session = Session::create(&dir, SessionId::literal("s"), config).unwrap();
    *control.lock() = Some(session.control());
    let authority = Authority::root(session.catalog(), &Grant::default());
    let outcome = session.run(spec(test.folder.path()), authority, &Cancel::new()).await;
    assert_eq!(outcome.text.as_deref(), Some("done"));
    assert!(agents.lock().contains(&1));
}

#[tokio::test(start_paused = true)]
async fn three_useless_compactions_in_a_row_end_the_turn_with_what_there_is() {
    let test = CompactionTest::new();
    let config = test.config(|seen, _, request| {
        let reply = seen.reply(request, 100);
        let longer = "A word too many. ".repeat(900);
        let is_summary = asks_for_summary(request);
        Ok(Reply { text: if is_summary { longer } else { reply.text.clone() }, ..reply })
    });
    let outcome = test.run(config).await;
    assert_eq!((outcome.status, outcome.exit_code()), (Status::Failed, 4));
    assert_eq!(outcome.exit_reason, ExitReason::ContextOverflow);
    let error = outcome.error.unwrap();
    assert!(error.contains("3 compactions in a row freed less than a tenth"), "{error}");
    assert!(outcome.text.unwrap().starts_with("Step "));
    assert_eq!(compactions(&test.world).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_the_provider_refuses_as_too_long_is_compacted_and_sent_again() {
    let test = CompactionTest::new();
    let refused = Arc::new(Mutex::new(Vec::new()));
    let (seen, log) = (Arc::clone(&test.seen), Arc::clone(&refused));
    let rule = move |_: usize, request: &Request<'_>| {
        let asks = asks_for_summary(request);
        // For a summary there is even less room.
        if tokens(request) > if asks { 2_500 } else { 4_000 } {
            log.lock().push(asks);
            return Err(ModelError::new(FailureKind::ContextOverflow, "too long"));
        }
        Ok(seen.reply(request, 30))
    };
    let outcome = test.run(config(&test.world, rule)).await;
    assert_eq!((outcome.status, outcome.text.as_deref()), (Status::Completed, Some("done")));
    let refused = refused.lock();
    assert_eq!(refused.iter().filter(|asks| !**asks).count(), compactions(&test.world).len());
    assert!(refused.contains(&true), "the oldest messages were left out of a summary");
    test.seen.own.lock().iter().for_each(|messages| assert_paired(messages));
    test.seen.summaries.lock().iter().for_each(|messages| assert_paired(messages));
}

#[tokio::test(start_paused = true)]
async fn a_named_model_writes_the_summary_and_the_own_one_where_that_fails() {
    for works in [true, false] {
        let test = CompactionTest::new();
        let mut config = test.config(|seen, _, request| Ok(seen.reply(request, 12)));
        let other = move |_: usize, request: &Request<'_>| {
            assert!(asks_for_summary(request));
            if works {
                return Ok(Reply::text("m", "By another."));
            }
            Err(ModelError::new(FailureKind::Unavailable, "no key"))
        };
        let model = Arc::new(crate::fixture::RuleModel(other));
        config.models.insert("t/cheap", "cheap", model);
        config.requests.compaction.model = "t/cheap".to_owned();
        let outcome = test.run(config).await;
        assert_eq!(outcome.status, Status::Completed);
        let compaction = compactions(&test.world)[0].clone();
        let expected = if works { ("t/cheap", "By another.") } else { ("t/rule", "## Task") };
        assert_eq!(compaction.request.model, expected.0);
        assert!(compaction.text.contains(expected.1));
        assert_eq!(test.seen.summaries.lock().is_empty(), works);
        let warning = "t/cheap wrote no summary of the conversation: no key; \
                       the agent's own model writes it";
        let records = test.world.records.lock();
        let is_warning = |event: &Event| matches!(event, Event::Log { level: LogLevel::Warn, message, .. } if message == warning);
        assert_eq!(records.iter().any(|record| is_warning(&record.event)), !works);
    }
}

#[tokio::test(start_paused = true)]
async fn a_summary_never_makes_the_conversation_longer() {
    let test = CompactionTest::new();
    let config = test.config(|seen, _, request| {
        let mut reply = seen.reply(request, 12);
        if asks_for_summary(request) {
            reply.text = "word ".repeat(20_000);
        }
        Ok(reply)
    });
    test.run(config).await;
    let compactions = compactions(&test.world);
    assert!(!compactions.is_empty());
    for compaction in compactions {
        assert!(compaction.bytes_after < compaction.bytes_before, "{compaction:?}");
        assert!(compaction.text.contains("… [+"), "{}", compaction.text);
    }
}

#[tokio::test(start_paused = true)]
async fn where_no_summary_can_be_had_the_agent_goes_on_without() {
    let test = CompactionTest::new();
    let failed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&failed);
    let config = test.config(move |seen, _, request| {
        if asks_for_summary(request) {
            count.fetch_add(1, Ordering::SeqCst);
            return Ok(Reply::text("m", " "));
        }
        Ok(seen.reply(request, 30))
    });
    let outcome = test.run(config).await;
    assert_eq!(outcome.status, Status::Completed);
    assert_eq!(failed.load(Ordering::SeqCst), 3, "it is tried three times in a turn");
    assert_eq!(compactions(&test.world), []);
}

#[tokio::test(start_paused = true)]
async fn what_a_summary_takes_comes_out_of_the_budget() {
    let test = CompactionTest::new();
    let mut config = test.config(|seen, _, request| {
        let mut reply = seen.reply(request, 100);
        if request.tool_choice == ToolChoice::None && !asks_for_summary(request) {
            reply = Reply { usage: reply.usage, ..Reply::text("m", "This far.") };
        }
        Ok(reply)
    });
    let session = Budget { tokens: Some(90_000), usd: None };
    config.budgets = Budgets { session, ..Budgets::default() };
    let outcome = test.run(config).await;
    assert_eq!(outcome.exit_reason, ExitReason::Budget);
    assert!(!compactions(&test.world).is_empty());
    let own: u64 = test.seen.own.lock().iter().map(|all| input(all)).sum();
    let summaries: u64 = test.seen.summaries.lock().iter().map(|all| input(all)).sum();
    assert_eq!(outcome.usage.input, own + summaries);
    let spent = outcome.usage.input + outcome.usage.output;
    assert!((45_000..=90_000).contains(&spent), "{spent}");
}

fn input(messages: &[Arc<Message>]) -> u64 {
    messages.iter().map(|message| message.text_bytes()).sum::<u64>() / TOKEN
}

#[tokio::test(start_paused = true)]
async fn a_child_is_compacted_like_its_parent() {
    let test = CompactionTest::new();
    let config = test.config(|seen, results, request| {
        let is_parent = matches!(&*request.messages[0], Message::User(user) if user.text == "go");
        match (is_parent, results) {
            (true, 0) => Ok(Reply::calls("m", [("spawn", json!({"list": ["look"]}))])),
            (true, _) => Ok(Reply::text("m", "all done")),
            (false, _) => Ok(seen.reply(request, 12)),
        }
    });
    let outcome = test.run(config).await;
    assert_eq!(outcome.text.as_deref(), Some("all done"));
    let records = test.world.records.lock();
    let is_of_child = |event: &Event| matches!(event, Event::Compaction(_));
    assert!(records.iter().any(|record| record.depth == 1 && is_of_child(&record.event)));
    assert!(outcome.children_usage.output >= 13 * 20, "{:?}", outcome.children_usage);
}

/// Builds one part after the other, and reports each; where all are done, it says so.
fn builder_reply(seen: &SentRequests, request: &Request<'_>, config: usize) -> Reply {
    let usage = Usage { input: tokens(request), output: 300, ..Usage::default() };
    if asks_for_summary(request) {
        return Reply { usage, ..Reply::text("m", "One part after the other. ".repeat(80)) };
    }
    let part = seen.steps.fetch_add(1, Ordering::SeqCst);
    let reply = if part < config {
        let command = format!("build part {part} {}", "--with-an-option ".repeat(9));
        let make = ("make", json!({"n": part, "command": command}));
        let look = ("look", json!({"command": "900"}));
        Reply::calls("m", [make, ("act", json!({"n": part})), look])
    } else {
        Reply::text("m", "done")
    };
    Reply { usage, ..reply }
}

#[tokio::test(start_paused = true)]
async fn a_task_of_many_effects_goes_on_in_a_small_context() {
    let test = CompactionTest::new();
    let mut config = test.config(|seen, _, request| Ok(builder_reply(seen, request, 100)));
    config.models.context_window("t/rule", 8_192);
    let folder = test.folder.path();
    let limits = AgentLimits { max_iterations: 200, time_ms: 0, wrap_up_ms: 0 };
    let spec = AgentSpec { limits, ..spec(folder) };
    let outcome = run(folder, spec, config, &Cancel::new()).await;
    assert_eq!(outcome.text.as_deref(), Some("done"), "{:?}", outcome.error);
    assert_eq!(outcome.receipts.commands.len(), 100);
    let compactions = compactions(&test.world);
    let last = &compactions.last().unwrap().text;
    let cut = " earlier ones are left out):\n- ";
    for part in ["Commands that ran, in order (", "Other calls, in order (", "/w/made/9", cut] {
        assert!(last.contains(part), "{part}: {last}");
    }
    let (_, record) = last.split_once("has on record").unwrap();
    assert!(record.len() < 8_192 * TOKEN as usize / 8 + 300, "{}", record.len());
}

#[tokio::test(start_paused = true)]
async fn what_a_call_did_stays_on_record_also_after_a_resume() {
    let act = |seen: &SentRequests, results: usize, request: &Request<'_>| {
        let reply = seen.reply(request, 30);
        let is_first = results == 0 && !asks_for_summary(request);
        let act = || Reply { usage: reply.usage, ..Reply::calls("m", [("act", json!({"n": 7}))]) };
        Ok(if is_first { act() } else { reply })
    };
    let test = CompactionTest::new();
    test.run(test.config(act)).await;
    let again = CompactionTest::new();
    let dir = cut(test.folder.path(), again.folder.path(), r#""type":"compaction""#);
    let outcome = resumed(&dir, again.config(act)).await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    assert_eq!(again.world.done().iter().filter(|done| done.starts_with("act")).count(), 0);
    for world in [&test.world, &again.world] {
        let compactions = compactions(world);
        assert!(compactions.len() >= 2);
        for Compaction { text, .. } in &compactions {
            assert!(text.contains("Other calls, in order:\n- act n: 7: done\n\n"), "{text}");
        }
    }
}
