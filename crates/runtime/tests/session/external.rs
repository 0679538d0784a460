//! Children that are programs of their own: what they tell, what they ask, and how they end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::agent::AgentSpec;
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::budget::{Budget, Price};
use deputize_core::external_agent::{ExternalAgentHost, ExternalAgents, ExternalToolCall};
use deputize_core::message::CallStatus;
use deputize_core::model::{ModelError, Reply, Request};
use deputize_core::policy::{ApprovalAnswer, NoPerson, Question};
use deputize_core::{
    Agent, AgentId, AgentView, Approver, Authority, BoxFuture, CallId, Cancel, CancelReason,
    Catalog, Event, Outcome, SessionId, Status, ToolName,
};
use deputize_runtime::{Budgets, ChildConfig, Continue, Session, SessionConfig, SessionDir};
use serde_json::json;

use crate::fixture::{World, config, cut, resumed_with};

/// A program that does as its task says.
struct Programs(Arc<World>);

struct ProgramRun {
    world: Arc<World>,
    spec: Arc<AgentSpec>,
    host: Arc<dyn ExternalAgentHost>,
    cancel: Cancel,
}

impl ExternalAgents for Programs {
    fn refusal(&self, _: &AgentSpec, may: &Authority) -> Option<String> {
        (!may.has("act")).then(|| "no hands".to_owned())
    }

    fn start(
        &self,
        spec: Arc<AgentSpec>,
        host: Arc<dyn ExternalAgentHost>,
        cancel: Cancel,
    ) -> Box<dyn Agent> {
        let world = Arc::clone(&self.0);
        Box::new(ProgramRun { world, spec, host, cancel })
    }
}

impl Agent for ProgramRun {
    fn id(&self) -> &AgentId {
        &self.spec.id
    }

    fn outcome(self: Box<Self>) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            self.world.done.lock().push(self.spec.task.clone());
            let call = ExternalToolCall {
                call: CallId::new(1, 0),
                tool: "poke".into(),
                arguments: json!({"key": "sk-12345678"}),
            };
            self.host.on_call_start(&call);
            let answer = self.host.approve(&call, "poke sk-12345678", "", &self.cancel).await;
            self.host.on_call_end(&call, CallStatus::Ok, "it\u{1b}[2K moved sk-12345678");
            assert_ne!(self.spec.task, "program panics", "on purpose");
            if self.spec.task.starts_with("program hangs") {
                self.cancel.cancelled().await;
                let why = "interrupted".to_owned();
                let outcome = Outcome::without_run(&self.spec, Status::Interrupted, why);
                return Outcome { text: Some("so far".into()), ..outcome };
            }
            if self.spec.task.starts_with("program closes") {
                let asked = self.host.closing().await;
                let outcome = Outcome::without_run(&self.spec, Status::Completed, String::new());
                let exit_reason = deputize_core::outcome::ExitReason::Completed;
                return Outcome { exit_reason, text: Some(asked), error: None, ..outcome };
            }
            if self.spec.task.starts_with("program is deaf") {
                std::future::pending::<()>().await;
            }
            if self.spec.task.starts_with("program toils") {
                for slot in 1..10_003 {
                    let call = ExternalToolCall { call: CallId::new(1, slot), ..call.clone() };
                    self.host.on_call_start(&call);
                    self.host.on_call_end(&call, CallStatus::Ok, "");
                }
            }
            if self.spec.task.starts_with("program talks") {
                self.host.on_text(&"y".repeat(1_000_000));
                let first = ExternalToolCall { call: CallId::new(1, 7), ..call.clone() };
                self.host.on_call_start(&first);
                self.host.on_call_end(&first, deputize_core::message::CallStatus::Ok, "");
                self.host.on_text("Before the call.");
                self.host.on_call_start(&call);
                for piece in ["I looked with sk-12", "345678 at ", "half \u{1b}[2Kof it"] {
                    self.host.on_text(piece);
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.host.on_text(" and a third");
                self.host.on_text(&"x".repeat(1_000_000));
            }
            let text = format!("allowed: {}; sk-12345678", answer.allowed);
            let outcome = Outcome::without_run(&self.spec, Status::Completed, String::new());
            let exit_reason = deputize_core::outcome::ExitReason::Completed;
            Outcome { exit_reason, text: Some(text), error: None, ..outcome }
        })
    }
}

/// Lets programs begin, and nothing that they ask for later.
struct StartApprover;

impl Approver for StartApprover {
    fn ask<'a>(&'a self, question: &'a Question, _: &'a Cancel) -> BoxFuture<'a, ApprovalAnswer> {
        let begins = question.call.step == 0 && question.command == "p/program";
        Box::pin(async move { ApprovalAnswer { allowed: begins, ..ApprovalAnswer::no("doorman") } })
    }
}

/// Answers nothing until the question is cancelled.
struct SilentApprover;

impl Approver for SilentApprover {
    fn ask<'a>(&'a self, _: &'a Question, cancel: &'a Cancel) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            cancel.cancelled().await;
            ApprovalAnswer::no("the end of the turn")
        })
    }
}

fn spec(folder: &Path) -> AgentSpec {
    AgentSpec { approver: ApproverMode::Ask, ..crate::fixture::spec(folder) }
}

fn authority(catalog: &Catalog) -> Authority {
    let grant = Grant {
        approver: Some(ApproverMode::Ask),
        spawn_depth: Some(2),
        spawn_number: Some(9),
        ..Grant::default()
    };
    Authority::root(catalog, &grant)
}

async fn run(folder: &Path, spec: AgentSpec, config: SessionConfig, cancel: &Cancel) -> Outcome {
    let session = Session::create(&SessionDir::new(folder), SessionId::literal("s"), config);
    let session = session.unwrap();
    let authority = authority(session.catalog());
    session.run(spec, authority, cancel).await
}

fn with_programs(world: &Arc<World>, tasks: &'static [&'static str]) -> SessionConfig {
    let rule = move |results: usize, _: &Request<'_>| -> Result<Reply, ModelError> {
        Ok(match results {
            0 => Reply::calls("rule", [("spawn", json!({ "list": tasks }))]),
            _ => Reply::text("rule", "done"),
        })
    };
    let mut config = config(world, rule);
    config.secrets.add("KEY", "sk-12345678");
    config.approver = Arc::new(StartApprover);
    let programs: Arc<dyn ExternalAgents> = Arc::new(Programs(Arc::clone(world)));
    config.external = BTreeMap::from([("p/program".to_owned(), programs)]);
    config
}

/// Says that poking never happens.
struct PokeDenial;

impl deputize_core::Policy for PokeDenial {
    fn judge(
        &self,
        _: &deputize_core::ToolSpec,
        _: &serde_json::Value,
        _: &std::path::Path,
        _: &AgentView,
    ) -> deputize_core::policy::Verdict {
        deputize_core::policy::Verdict::Allow
    }

    fn never(&self, command: &str, _: &std::path::Path) -> Option<deputize_core::policy::Denial> {
        command.starts_with("poke").then(|| deputize_core::policy::Denial::new("no poking"))
    }
}

#[tokio::test(start_paused = true)]
async fn what_never_runs_is_refused_to_it_whatever_the_setting() {
    use deputize_core::Policy;
    use deputize_core::policy::AllowAll;
    let open: Arc<dyn Policy> = Arc::new(AllowAll);
    for (policy, allowed) in [(open, true), (Arc::new(PokeDenial), false)] {
        let folder = tempfile::tempdir().unwrap();
        let world = Arc::new(World::default());
        let config = SessionConfig { policy, ..with_programs(&world, &["program works"]) };
        let dir = SessionDir::new(folder.path());
        let session = Session::create(&dir, SessionId::literal("s"), config).unwrap();
        let grant = Grant {
            approver: Some(ApproverMode::Auto),
            spawn_depth: Some(1),
            spawn_number: Some(9),
            ..Grant::default()
        };
        let authority = Authority::root(session.catalog(), &grant);
        let spec = AgentSpec { approver: ApproverMode::Auto, ..spec(folder.path()) };
        session.run(spec, authority, &Cancel::new()).await;
        let actual = ends(&world)[0].text.clone().unwrap();
        assert!(actual.starts_with(&format!("allowed: {allowed};")), "{actual}");
    }
}

fn ends(world: &World) -> Vec<Outcome> {
    let records = world.records.lock();
    let ends = records.iter().filter(|record| record.depth == 1).filter_map(|record| match &record
        .event
    {
        Event::AgentEnd(outcome) => Some((**outcome).clone()),
        _ => None,
    });
    let mut ends: Vec<Outcome> = ends.collect();
    ends.sort_by(|a, b| a.agent.cmp(&b.agent));
    ends
}

#[tokio::test(start_paused = true)]
async fn what_it_tells_is_on_record_as_its_own_account_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let mut config = with_programs(&world, &["program works", "program panics"]);
    config.models.price("t/rule", Price::FREE);
    let top = run(folder.path(), spec(folder.path()), config, &Cancel::new()).await;
    assert_eq!(top.cost_usd, None, "what programs cost nobody knows");
    let ends = ends(&world);
    let actual = &ends[0];
    assert_eq!(actual.text.as_deref(), Some("allowed: false; [redacted:KEY]"));
    assert!(actual.external && actual.receipts == Default::default());
    assert_eq!((actual.model.as_str(), actual.trace.len()), ("p/program", 1));
    let status = actual.trace[0].status;
    assert_eq!(status, CallStatus::Denied, "what was not allowed did not go well, as it tells");
    assert_eq!((ends[1].status, ends[1].trace.len()), (Status::Error, 1));
    let records = world.records.lock();
    let whole = serde_json::to_string(&*records).unwrap();
    assert!(!whole.contains("sk-12345678") && !whole.contains("\\u001b"), "{whole}");
    assert!(whole.contains("it moved [redacted:KEY]"), "{whole}");
    let asked = records.iter().filter(|it| matches!(it.event, Event::ApprovalDecision { .. }));
    assert_eq!(asked.count(), 4, "for each whether it begins, and what it asked");
    let models = records.iter().filter(|it| it.depth == 1);
    assert_eq!(models.filter(|it| matches!(it.event, Event::ModelRequest { .. })).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_those_on_record_are_a_warning_and_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let config = with_programs(&world, &["program toils"]);
    run(folder.path(), spec(folder.path()), config, &Cancel::new()).await;
    let end = &ends(&world)[0];
    assert_eq!((end.status, &end.error), (Status::Completed, &None));
    assert_eq!(end.trace.len(), 10_000);
    let records = world.records.lock();
    let warned = records.iter().any(|record| match &record.event {
        Event::Log { level, message, .. } => {
            *level == deputize_core::event::LogLevel::Warn && message.starts_with("3 more calls")
        }
        _ => false,
    });
    assert!(warned);
}

#[tokio::test(start_paused = true)]
async fn it_ends_at_the_time_limit_and_at_an_interrupt_and_one_that_does_not_is_given_up() {
    let above = "ended with a limit of the agent that started it: ";
    for (limit, why) in [(5_000, above), (0, "")] {
        let folder = tempfile::tempdir().unwrap();
        let world = Arc::new(World::default());
        let tasks = &["program hangs untimed", "program is deaf untimed"];
        let config = with_programs(&world, tasks);
        let mut top = spec(folder.path());
        top.limits.time_ms = limit;
        top.limits.wrap_up_ms = 0;
        let cancel = Cancel::new();
        let started = tokio::time::Instant::now();
        let actual = async {
            tokio::time::sleep(std::time::Duration::from_secs(5)).await;
            if limit == 0 {
                cancel.cancel(CancelReason::Interrupted);
            }
        };
        let ran = run(folder.path(), top, config, &cancel);
        let (_, ()) = tokio::join!(ran, actual);
        let ends = ends(&world);
        assert_eq!(ends[0].text.as_deref(), Some("so far"));
        for end in &ends {
            assert_eq!(end.status, Status::Interrupted, "{end:?}");
            assert!(end.error.as_deref().unwrap().starts_with(why), "{end:?}");
        }
        assert!(started.elapsed().as_secs() < 8, "{:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn at_its_time_limit_it_is_asked_to_close_and_then_to_end() {
    use deputize_core::outcome::ExitReason::{Budget, Timeout};
    let timeout = [Status::Timeout; 2];
    let limits = [
        (
            Some(10),
            &["program closes", "program hangs"],
            [Status::Completed, Status::Failed],
            Budget,
            30,
        ),
        (None, &["program closes timed", "program hangs timed"], timeout, Timeout, 11),
    ];
    for (shared, tasks, statuses, reason, seconds) in limits {
        let folder = tempfile::tempdir().unwrap();
        let world = Arc::new(World::default());
        let children_time = shared.map(std::time::Duration::from_secs);
        let children = ChildConfig { time_limit: children_time, ..ChildConfig::default() };
        let config = SessionConfig { children, ..with_programs(&world, tasks) };
        let mut top = spec(folder.path());
        top.limits.wrap_up_ms = 20_000;
        let started = tokio::time::Instant::now();
        run(folder.path(), top, config, &Cancel::new()).await;
        let ends = ends(&world);
        let closing = ends[0].text.as_deref().unwrap_or_default();
        assert!(closing.contains("Give your closing answer now"), "{closing}");
        assert_eq!(ends[1].text.as_deref(), Some("so far"));
        for (end, status) in ends.iter().zip(statuses) {
            assert_eq!((end.status, end.exit_reason), (status, reason), "{end:?}");
        }
        assert_eq!(started.elapsed().as_secs(), seconds);
        let records = world.records.lock();
        let budget = shared.map(|_| deputize_core::run::BudgetUnit::Seconds);
        let asks =
            |event: &Event| matches!(event, Event::AgentWrapUp { budget: of, .. } if *of == budget);
        assert_eq!(records.iter().filter(|it| asks(&it.event)).count(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_not_had_where_it_may_not_be_and_where_dollars_or_tokens_count() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let config = with_programs(&world, &["program works"]);
    let mut top = spec(folder.path());
    let hands = |name: &&deputize_core::ToolName| name.as_str() != "act";
    top.tools = top.tools.iter().filter(hands).cloned().collect();
    let tools = Some(top.tools.iter().cloned().collect());
    let dir = SessionDir::new(folder.path());
    let session = Session::create(&dir, SessionId::literal("s"), config).unwrap();
    let grant = deputize_core::authority::Grant { tools, ..Default::default() };
    let authority = authority(session.catalog()).intersect(&grant);
    session.run(top, authority, &Cancel::new()).await;
    assert!(crate::fixture::results(&world).contains("no hands"));

    let dollars = Budget { usd: Some(1.0), ..Budget::default() };
    let tokens = Budget { tokens: Some(1_000_000), ..Budget::default() };
    for (children, why) in [
        (dollars, "the price of `p/program` is not known"),
        (tokens, "the budget is in tokens, and the tokens of `p/program` are unknown"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let world = Arc::new(World::default());
        let mut config = with_programs(&world, &["program works"]);
        config.budgets = Budgets { children, ..Budgets::default() };
        run(folder.path(), spec(folder.path()), config, &Cancel::new()).await;
        let results = crate::fixture::results(&world);
        assert!(results.contains(why), "{results}");
        assert!(world.done().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn it_does_not_begin_where_nobody_lets_it() {
    for (mode, by) in [
        (ApproverMode::Ask, "denied by no user to ask"),
        (ApproverMode::Deny, "denied by the settings: this agent cannot ask for approval"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let world = Arc::new(World::default());
        let config = with_programs(&world, &["program works"]);
        let config = SessionConfig { approver: Arc::new(NoPerson), ..config };
        let top = AgentSpec { approver: mode, ..spec(folder.path()) };
        run(folder.path(), top, config, &Cancel::new()).await;
        let end = &ends(&world)[0];
        assert_eq!((end.status, end.external, end.cost_usd), (Status::Failed, false, Some(0.0)));
        let error = end.error.as_deref().unwrap();
        assert!(error.contains(by) && error.contains("with all the rights of the user"), "{error}");
        assert!(world.done().is_empty(), "it began");
    }
    // Whoever is told to end while somebody is asked did not begin either.
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let config = with_programs(&world, &["program works timed"]);
    let config = SessionConfig { approver: Arc::new(SilentApprover), ..config };
    run(folder.path(), spec(folder.path()), config, &Cancel::new()).await;
    let end = &ends(&world)[0];
    assert_eq!(end.status, Status::Timeout, "{end:?}");
    assert!(world.done().is_empty(), "it began");
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_record_it_is_not_started_twice_nor_where_it_may_not_be_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let first = with_programs(&world, &["program works"]);
    run(folder.path(), spec(folder.path()), first, &Cancel::new()).await;
    let dir = SessionDir::new(folder.path());
    let whole = std::fs::read(dir.file(&SessionId::literal("s"))).unwrap();
    let borders =
        whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let both = |cut| [(cut, None), (cut, Some(ApproverMode::Deny))];
    for (cut, approver) in borders.skip(3).flat_map(both) {
        let scratch = tempfile::tempdir().unwrap();
        let dir = SessionDir::new(scratch.path());
        std::fs::write(dir.file(&SessionId::literal("s")), &whole[..cut]).unwrap();
        let before = dir.read(&SessionId::literal("s")).unwrap().records;
        let begun = |event: &Event| matches!(event, Event::Message(_) | Event::AgentEnd(_));
        let begun = before.iter().any(|record| record.depth == 1 && begun(&record.event));

        let world = Arc::new(World::default());
        let mut config = with_programs(&world, &["program works"]);
        config.children.grant = Grant { approver, ..Grant::default() };
        let (session, _) = Session::open(&dir, SessionId::literal("s"), config).unwrap();
        let authority = authority(session.catalog());
        let outcome = session.resume(Continue::default(), authority, &Cancel::new()).await.unwrap();
        assert_eq!(outcome.text.as_deref(), Some("done"), "cut at {cut}");
        let answered =
            before.iter().any(|record| matches!(record.event, Event::ModelResponse { .. }));
        let starts = world.done().len();
        assert_eq!(
            starts,
            usize::from(!begun && approver.is_none()),
            "cut at {cut}, answered: {answered}, {approver:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_may_not_be_any_more_ends_on_record_whether_or_not_it_had_begun() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let first = with_programs(&world, &["program works"]);
    run(folder.path(), spec(folder.path()), first, &Cancel::new()).await;
    let no_hands = Grant { tools: Some([ToolName::literal("spawn")].into()), ..Grant::default() };
    for begun in [false, true] {
        for (gone, grant) in [(false, &no_hands), (true, &Grant::default())] {
            let scratch = tempfile::tempdir().unwrap();
            let start = "\"id\":\"s/1.0.0\"";
            let last = if begun { "\"tool\":\"poke\"" } else { start };
            let dir = cut(folder.path(), scratch.path(), last);
            let world = Arc::new(World::default());
            let mut config = with_programs(&world, &["program works"]);
            if gone {
                config.external.clear();
            }
            let outcome = Box::pin(resumed_with(&dir, config, grant)).await;
            let case = format!("begun: {begun}, gone: {gone}");
            assert_eq!(outcome.text.as_deref(), Some("done"), "{case}");
            assert!(world.done().is_empty(), "{case}");
            let records = dir.read(&SessionId::literal("s")).unwrap().records;
            let ends = records.iter().filter_map(|record| match &record.event {
                Event::AgentEnd(end) if record.depth == 1 => Some(end),
                _ => None,
            });
            let ends: Vec<_> = ends.collect();
            let [end] = ends.as_slice() else { panic!("{case}: {ends:?}") };
            assert_eq!(end.status, Status::Interrupted, "{case}");
            let why = end.error.as_deref().unwrap();
            let lost = begun && !gone;
            let actual = if lost { "what it did is unknown" } else { "it could not go on" };
            assert!(why.contains(actual), "{case}: {why}");
            assert_eq!(end.cost_usd, (!begun).then_some(0.0), "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_had_said_before_a_kill_is_on_record_and_its_partial_text() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let first = with_programs(&world, &["program talks"]);
    run(folder.path(), spec(folder.path()), first, &Cancel::new()).await;
    for (last, text) in [
        ("Before the call", Some("Before the call.")),
        ("half of it", Some("I looked with [redacted:KEY] at half of it")),
    ] {
        let scratch = tempfile::tempdir().unwrap();
        let dir = cut(folder.path(), scratch.path(), last);
        let config = with_programs(&Arc::new(World::default()), &["program talks"]);
        let outcome = Box::pin(resumed_with(&dir, config, &Grant::default())).await;
        assert_eq!(outcome.text.as_deref(), Some("done"));
        let records = dir.read(&SessionId::literal("s")).unwrap().records;
        let end = records.iter().find_map(|record| match &record.event {
            Event::AgentEnd(end) if record.depth == 1 => Some(end),
            _ => None,
        });
        let end = end.unwrap();
        assert_eq!((end.status, end.text.as_deref()), (Status::Interrupted, text));
        assert!(end.error.as_deref().unwrap().contains("what it did is unknown"));
    }
    let dir = SessionDir::new(folder.path());
    let records = dir.read(&SessionId::literal("s")).unwrap().records;
    let words = records.iter().filter_map(|record| match &record.event {
        Event::ExternalText { text } => Some(text.len()),
        _ => None,
    });
    let words: Vec<usize> = words.collect();
    assert!(words.iter().all(|bytes| *bytes <= 4200), "{words:?}");
    let gap = "\n[what it said then is not on record]\n".len();
    let all = 2 * (256 * 1024 + gap) + "Before the call.".len();
    assert_eq!(words.iter().sum::<usize>(), all);
}
