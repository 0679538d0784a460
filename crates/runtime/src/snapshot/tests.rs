use std::path::Path;

use deputize_core::agent::{AgentActivity, AgentSpec, SpawnedBy};
use deputize_core::event::RequestPurpose;
use deputize_core::message::{CallStatus, ModelText};
use deputize_core::model::{Finish, RawCall, Reply, Usage};
use deputize_core::name::ChildEndId;
use deputize_core::process::{ProcessEnd, ProcessExit};
use deputize_core::run::WrapUpReason;
use deputize_core::schema::Schema;
use deputize_core::source_set::SourceSet;
use deputize_core::{CancelReason, SessionId, ToolDecl, ToolName, ToolResult, ToolSpec};

use super::*;
use crate::session::top_agent;

mod laws;

const CALL: CallId = CallId::new(1, 0);

fn top() -> AgentId {
    AgentId::root(&SessionId::literal("s1"))
}

/// The child that a task of the first call of `parent` starts.
fn child(parent: &AgentId, index: u32) -> AgentId {
    parent.child(CALL, index)
}

fn record(agent: &AgentId, event: Event) -> Record {
    let depth = agent.ancestors().count() as u32;
    let parent = agent.ancestors().next();
    let agent = agent.clone();
    Record { seq: 0, at: 0, agent, parent, depth, event }
}

/// Numbers records, ten milliseconds apart.
fn numbered(mut records: Vec<Record>) -> Vec<Record> {
    for (seq, record) in (0..).zip(&mut records) {
        (record.seq, record.at) = (seq, 1000 + seq * 10);
    }
    records
}

fn spec(agent: &AgentId) -> AgentSpec {
    let spec = top_agent(&SessionId::literal("s1"), "p/m", "Sort\nthe imports", Path::new("/w"));
    let parent = agent.ancestors().next();
    let index = agent.as_str().rsplit_once('.').map(|(_, index)| index.parse().unwrap());
    let spawned_by = index.map(|task_index| SpawnedBy { call: CALL, task_index, task_count: 3 });
    let depth = agent.ancestors().count() as u32;
    AgentSpec { id: agent.clone(), parent, depth, spawned_by, ..spec }
}

fn start(spec: AgentSpec) -> Event {
    let system = Vec::new();
    let tools = String::new();
    let texts = BTreeMap::new();
    Event::AgentStart(Box::new(AgentStart { spec, system, tools, texts }))
}

fn started(agent: &AgentId) -> Record {
    record(agent, start(spec(agent)))
}

fn session_start() -> Event {
    Event::SessionStart(deputize_core::event::SessionStart {
        cwd: "/w".into(),
        model: "p/m".to_owned(),
        toolsets: Vec::new(),
        program: "test".to_owned(),
        endpoint: None,
        config_file: None,
    })
}

fn request(model: &str) -> Event {
    Event::ModelRequest {
        iteration: 1,
        messages: 1,
        bytes: 1,
        model: model.to_owned(),
        purpose: RequestPurpose::Turn,
    }
}

fn reply(cost_usd: Option<f64>) -> Event {
    let call = RawCall { name: "look".to_owned(), arguments: "{}".to_owned() };
    let reply = Reply {
        model: "m-2026".to_owned(),
        text: String::new(),
        reasoning: String::new(),
        calls: vec![call],
        opaque: Vec::new(),
        finish: Finish::Stop,
        usage: Usage { input: 100, output: 10, ..Usage::default() },
    };
    Event::ModelResponse { iteration: 1, reply, ms: 5, cost_usd, estimated: false }
}

fn call(call: CallId, tool: &str, arguments: &str) -> Event {
    Event::ToolStart { call, tool: tool.to_owned(), arguments: arguments.to_owned() }
}

fn result(call: CallId, status: CallStatus, facts: Vec<ToolEffect>) -> Event {
    let text = ModelText::own("ok");
    let fingerprint = String::new();
    Event::ToolEnd(Box::new(ToolEnd {
        tool: "look".to_owned(),
        result: ToolResult {
            call,
            status,
            text,
            fingerprint,
            images: Vec::new(),
            sources: SourceSet::new(),
        },
        args_bytes: 2,
        ms: 1,
        facts,
        display: None,
        error: None,
        boundary: None,
    }))
}

fn question(call: CallId) -> Event {
    let command = "rm x".to_owned();
    let class = "dangerous".to_owned();
    Event::ApprovalRequest { call, command, class, reason: "it deletes".to_owned() }
}

fn decision(call: CallId, decision: &str) -> Event {
    Event::ApprovalDecision { call, decision: decision.to_owned(), by: "user".to_owned() }
}

fn end(agent: &AgentId, status: Status) -> Event {
    let outcome = Outcome::not_started(agent.clone(), "p/m".to_owned(), status, "no".to_owned());
    Event::AgentEnd(Box::new(Outcome { duration_ms: 7, ..outcome }))
}

fn message(text: &str) -> Event {
    Event::Message(UserMessage::new(text.to_owned()))
}

/// A tool that starts agents.
fn tools() -> Arc<Catalog> {
    struct Spawner(ToolSpec);
    impl deputize_core::Tool for Spawner {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }
        fn call<'a>(
            &'a self,
            _: serde_json::Value,
            _: &'a deputize_core::ToolCx,
        ) -> deputize_core::BoxFuture<'a, deputize_core::ToolCallResult> {
            Box::pin(async { Ok(deputize_core::ToolOutput::text("")) })
        }
    }
    let decl = ToolDecl {
        name: ToolName::literal("spawn"),
        description: String::new(),
        parameters: Schema::new(&serde_json::json!({"type": "object"})).unwrap(),
    };
    let subject = deputize_core::Subject::new(
        Some("spawn".into()),
        "goal",
        deputize_core::ArgumentRole::Task,
    );
    let subject = subject.with("tasks", deputize_core::ArgumentRole::Tasks);
    let spec = ToolSpec { spawns: true, subject, ..ToolSpec::read_only(decl) };
    let entry = deputize_core::CatalogEntry {
        toolset: deputize_core::ToolsetName::literal("test"),
        origin: deputize_core::Origin::Linked { krate: "test".into() },
        tool: Arc::new(Spawner(spec)),
    };
    let mut catalog = Catalog::default();
    catalog.insert(entry).unwrap();
    Arc::new(catalog)
}

fn fold(records: &[Record]) -> SessionSnapshot {
    SessionSnapshot::of(tools(), records)
}

/// What each agent of a session does after these events of the top agent.
fn activity_after(events: Vec<Event>) -> AgentActivity {
    let events = events.into_iter().map(|event| record(&top(), event));
    let records: Vec<Record> = [started(&top())].into_iter().chain(events).collect();
    fold(&numbered(records)).top().unwrap().activity()
}

#[test]
fn an_agent_does_what_its_last_events_say() {
    let stall = || Event::AgentHeartbeat {
        iteration: 1,
        current_tool: Some("look".to_owned()),
        idle_ms: 9000,
        stalled: true,
    };
    let stop = || Event::AgentStop { reason: CancelReason::Stopped, pending: true };
    let wrap_up = || Event::AgentWrapUp { limit: WrapUpReason::Time, budget: None };
    let left = || Event::MessageLeft { text: "hurry".to_owned(), sources: SourceSet::new() };
    for (events, activity) in [
        (vec![], AgentActivity::Running),
        (vec![question(CALL)], AgentActivity::Asking),
        (vec![question(CALL), call(CALL, "look", "{}")], AgentActivity::Asking),
        (vec![question(CALL), decision(CALL, "deny")], AgentActivity::Running),
        (vec![question(CALL), result(CALL, CallStatus::Cancelled, vec![])], AgentActivity::Running),
        (vec![stall()], AgentActivity::Stalled),
        (vec![stall(), left()], AgentActivity::Stalled),
        (vec![stall(), reply(None)], AgentActivity::Running),
        (vec![Event::AgentRest], AgentActivity::Resting),
        (vec![Event::AgentRest, message("go on")], AgentActivity::Running),
        (vec![wrap_up(), request("p/m")], AgentActivity::Ending),
        (vec![stop()], AgentActivity::Ending),
        (vec![stop(), session_start()], AgentActivity::Running),
        (vec![end(&top(), Status::Timeout)], AgentActivity::Ended(Status::Timeout)),
        (
            vec![
                end(&top(), Status::Timeout),
                Event::AgentResume { max_iterations: 3, task: None },
            ],
            AgentActivity::Running,
        ),
    ] {
        assert_eq!(activity_after(events.clone()), activity, "{events:?}");
    }
}

#[test]
fn a_child_waits_for_its_slot_until_it_begins_and_after_a_resume() {
    let one = child(&top(), 0);
    let mut background = spec(&one);
    background.background = true;
    let mut snapshot = fold(&[started(&top()), record(&one, start(background))]);
    let mut activity = |event| {
        snapshot.apply(&record(&one, event));
        snapshot.agent(&one).unwrap().activity()
    };
    assert_eq!(
        activity(Event::AgentHeartbeat {
            iteration: 0,
            current_tool: None,
            idle_ms: 0,
            stalled: false,
        }),
        AgentActivity::Waiting
    );
    assert_eq!(activity(request("p/m")), AgentActivity::Running);
    snapshot.apply(&record(&top(), session_start()));
    assert_eq!(snapshot.agent(&one).unwrap().activity(), AgentActivity::Waiting);
    assert_eq!(snapshot.top().unwrap().activity(), AgentActivity::Running);
}

#[test]
fn work_is_the_calls_that_run_or_the_last_request() {
    let other = CallId::new(1, 1);
    let mut snapshot = fold(&[started(&top())]);
    let mut work = |event| {
        snapshot.apply(&record(&top(), event));
        snapshot.top().unwrap().work()
    };
    let retry = Event::ModelRetry { attempt: 2, of: 5, reason: "busy".to_owned(), wait_ms: 1 };
    assert_eq!(work(message("Sort\nthe imports")), AgentWork::Starting);
    assert_eq!(work(request("p/m")), AgentWork::Model);
    assert_eq!(work(retry), AgentWork::Retry { attempt: 2, of: 5 });
    assert_eq!(work(call(CALL, "look", r#"{"at":"a"}"#)), AgentWork::Calls);
    assert_eq!(work(call(other, "spawn", r#"{"goal":"b"}"#)), AgentWork::Calls);
    snapshot.set_progress(&top(), other, "half\nof it");
    let running = &snapshot.top().unwrap().calls.running;
    let shown: Vec<(&str, Option<&str>)> =
        running.iter().map(|call| (call.text.as_str(), call.progress.as_deref())).collect();
    assert_eq!(shown, [("look at: a", None), ("spawn: b", Some("half of it"))]);
    for ended in [CALL, other] {
        snapshot.apply(&record(&top(), result(ended, CallStatus::Ok, Vec::new())));
    }
    let calls = &snapshot.top().unwrap().calls;
    assert_eq!((calls.started, calls.ended, calls.running.len()), (2, 2, 0));
    assert_eq!(snapshot.top().unwrap().work(), AgentWork::Model);
}

#[test]
fn the_last_call_has_its_approval_and_a_denied_one_counts() {
    let events =
        [question(CALL), decision(CALL, "deny"), result(CALL, CallStatus::Denied, Vec::new())];
    let events = events.map(|event| record(&top(), event));
    let snapshot = fold(&[started(&top())].into_iter().chain(events).collect::<Vec<_>>());
    let calls = &snapshot.top().unwrap().calls;
    let last = calls.last.as_ref().unwrap();
    let approval = last.approval.as_ref().unwrap();
    assert_eq!((last.status, approval.command.as_str()), (CallStatus::Denied, "rm x"));
    let decision = CallDecision { is_allowed: false, by: "user".to_owned() };
    assert_eq!(approval.decision, Some(decision));
    assert_eq!((calls.denied, snapshot.denied_calls(), calls.approvals.len()), (1, 1, 0));
    assert_eq!((snapshot.top().unwrap().call_count(), calls.started), (1, 0));
}

#[test]
fn totals_are_of_an_agent_with_all_below_it() {
    let one = child(&top(), 0);
    let two = child(&top(), 1);
    let below = child(&one, 2);
    let mut records: Vec<Record> = [&top(), &one, &two, &below].map(started).into();
    for agent in [&one, &below, &below] {
        records.push(record(agent, reply(Some(0.5))));
    }
    records.push(record(&two, reply(None)));
    records.push(record(&two, end(&two, Status::Failed)));
    records.push(record(&below, end(&below, Status::Completed)));
    let snapshot = fold(&records);
    let totals = snapshot.subtree_totals();
    let of = |id: &AgentId| {
        let total = &totals[id];
        (total.agents(), total.running, total.failed, total.tokens.input, total.cost.usd)
    };
    assert_eq!(of(&one), (2, 1, 0, 300, 1.5));
    assert_eq!(of(&top()), (4, 2, 1, 400, 1.5));
    assert_eq!(totals[&top()], snapshot.totals());
    assert!(totals[&top()].cost.unpriced && !totals[&one].cost.unpriced);
    assert_eq!(snapshot.task_path(&below), "1/3.3/3");
    assert_eq!(snapshot.task_path(&top()), "");
    let order: Vec<&AgentId> = snapshot.agents().map(|agent| &agent.id).collect();
    assert_eq!(order, [&top(), &one, &below, &two]);
}

#[test]
fn a_message_after_the_end_of_a_turn_begins_the_next_one() {
    let mut snapshot = fold(&[started(&top())]);
    let mut turn = |event| {
        snapshot.apply(&record(&top(), event));
        (snapshot.turn(), snapshot.latest_message().map(str::to_owned))
    };
    assert_eq!(turn(message("Sort\nthe imports")), (0, None), "the goal is about it");
    assert_eq!(turn(message("faster")), (0, Some("faster".to_owned())));
    assert_eq!(turn(end(&top(), Status::Completed)).0, 0);
    let delivery = UserMessage {
        text: "done".to_owned(),
        from: Some(ChildEndId { child: child(&top(), 0), number: 1 }),
        images: Vec::new(),
        sources: SourceSet::new(),
    };
    assert_eq!(turn(Event::Message(delivery)), (0, Some("faster".to_owned())));
    assert_eq!(turn(message("now the tests")), (1, Some("now the tests".to_owned())));
    assert_eq!(turn(message("all of them")).0, 1);
}

#[test]
fn a_message_about_a_background_command_is_no_message_of_the_person() {
    let ended = |exit, message: Option<&str>| {
        Event::ProcessEnd(Box::new(ProcessEnd {
            process: "p1".to_owned(),
            command: "sleep 77".to_owned(),
            exit,
            ms: None,
            output_bytes: None,
            message: message.map(str::to_owned),
            sources: SourceSet::new(),
        }))
    };
    let notice = "Your background command p1 has ended";
    let mut snapshot = fold(&[
        started(&top()),
        record(&top(), message("Sort\nthe imports")),
        record(&top(), ended(ProcessExit::Code { code: 0 }, Some(notice))),
        record(&top(), message(notice)),
        record(&top(), ended(ProcessExit::AgentEnded, None)),
        record(&top(), ended(ProcessExit::Killed, None)),
    ]);
    assert_eq!(snapshot.latest_message(), None);
    snapshot.apply(&record(&top(), message(notice)));
    assert_eq!(snapshot.latest_message(), Some(notice), "a person may say the same");
    let commands = &snapshot.changes().commands;
    assert_eq!((commands.count, commands.failed, commands.unknown), (3, 0, 0));
    let exits: Vec<CommandExit> = commands.first().map(|command| command.exit).collect();
    assert_eq!(exits, [CommandExit::Code(0), CommandExit::AgentEnded, CommandExit::Killed]);
}

#[test]
fn a_task_without_an_agent_has_its_goal_and_goes_once_it_starts() {
    let not_begun = |index| ToolEffect::NotBegun {
        agent: child(&top(), index),
        task_index: index,
        model: "p/m".to_owned(),
        status: Status::Error,
        error: "no room".to_owned(),
    };
    let tasks = r#"{"tasks":[{"goal":"a"},{"goal":"b\nc"}]}"#;
    let mut snapshot = fold(&[
        started(&top()),
        record(&top(), call(CALL, "spawn", tasks)),
        record(&top(), result(CALL, CallStatus::Ok, vec![not_begun(1), not_begun(1)])),
    ]);
    let [task] = snapshot.unstarted_tasks() else { panic!("{snapshot:?}") };
    assert_eq!((task.goal.as_str(), task.index, task.count), ("b c", 1, 2));
    assert_eq!((&task.parent, task.error.as_str(), task.turn), (&top(), "no room", 0));
    snapshot.apply(&started(&child(&top(), 1)));
    assert_eq!(snapshot.unstarted_tasks(), []);
}

#[test]
fn changes_are_of_the_latest_run_and_many_commands_are_counted() {
    let ran = |code: Option<i32>, unknown| ToolEffect::Command {
        command: "make".to_owned(),
        exit_code: code,
        unknown,
    };
    let version = deputize_core::file_state::FileVersion::of(b"x");
    let wrote = ToolEffect::FileWritten { path: "/w/a".into(), version, created: true };
    let many = vec![ran(Some(0), false); 500];
    let facts = vec![wrote.clone(), ran(Some(1), false), ran(None, false), ran(None, true), wrote];
    let mut snapshot = fold(&[
        started(&top()),
        record(&top(), result(CALL, CallStatus::Ok, many)),
        record(&top(), result(CALL, CallStatus::Denied, facts)),
    ]);
    let changes = snapshot.changes();
    let commands = &changes.commands;
    assert_eq!((commands.count, commands.failed, commands.unknown), (503, 2, 1));
    let first: Vec<CommandExit> = commands.first().map(|command| command.exit).take(4).collect();
    let expected =
        [CommandExit::Code(1), CommandExit::Signal, CommandExit::Unknown, CommandExit::Code(0)];
    assert_eq!((first, commands.first().count()), (expected.to_vec(), 19));
    let file = &changes.files[Path::new("/w/a")];
    assert!(file.is_new && file.lines.is_none() && file.agents.contains(&top()));
    assert_eq!(changes.denied, 1);
    snapshot.apply(&record(&top(), session_start()));
    assert_eq!((snapshot.changes(), snapshot.denied_calls()), (&RunChanges::default(), 1));
}

#[test]
fn time_without_a_process_is_left_out() {
    let mut records = numbered(vec![
        record(&top(), session_start()),
        started(&top()),
        record(&top(), request("p/m")),
        record(&top(), session_start()),
        record(&top(), request("q/n")),
    ]);
    for later in &mut records[3..] {
        later.at += 60_000;
    }
    let mut snapshot = fold(&records);
    let agent = snapshot.top().unwrap();
    assert_eq!((agent.times.started, agent.times.downtime), (1010, 60_010));
    assert_eq!(agent.elapsed_ms(snapshot.last_record_at()), 20);
    assert_eq!((agent.model.as_str(), agent.usage.requests), ("q/n", 2));
    snapshot.apply(&record(&top(), end(&top(), Status::Failed)));
    assert_eq!(snapshot.top().unwrap().elapsed_ms(u64::MAX), 7, "as its outcome says");
}

#[test]
fn outcomes_are_kept_only_on_demand() {
    let records = [started(&top()), record(&top(), end(&top(), Status::Failed))];
    let of = |snapshot: &SessionSnapshot| snapshot.top().unwrap().exit.clone().unwrap();
    let exit = of(&fold(&records));
    assert_eq!((exit.outcome, exit.error.as_deref()), (None, Some("no")));
    let observer = SnapshotObserver::new(SessionSnapshot::default().keep_outcomes());
    use deputize_core::Observer as _;
    // Records that are restored twice count once.
    for _ in 0..2 {
        observer.on_restore(&records);
    }
    let outcome = of(&observer.read()).outcome;
    assert_eq!(outcome.unwrap().error.as_deref(), Some("no"));
    assert_eq!(observer.read().totals().agents(), 1);
}

/// What an agent takes does not grow with what it does.
#[test]
fn an_agent_that_works_long_takes_no_more_than_one_that_works_short() {
    let size = |steps: u32| {
        let mut snapshot = fold(&[started(&top())]);
        for step in 1..=steps {
            let id = CallId::new(step, 0);
            let arguments = format!(r#"{{"text":"{}"}}"#, "x".repeat(10_000));
            for event in [
                request("p/m"),
                reply(Some(0.1)),
                question(id),
                decision(id, "allow"),
                call(id, "look", &arguments),
                Event::Log {
                    level: deputize_core::event::LogLevel::Warn,
                    message: "w".to_owned(),
                    cause: None,
                },
                result(id, CallStatus::Ok, Vec::new()),
            ] {
                snapshot.apply(&record(&top(), event));
            }
        }
        snapshot.apply(&record(&top(), call(CALL, "look", &"y".repeat(100_000))));
        format!("{:?}", snapshot.top().unwrap()).len()
    };
    let short = size(10);
    let long = size(2000);
    assert!(short < 3000 && long < short + 100, "{short} and {long} characters");
}
