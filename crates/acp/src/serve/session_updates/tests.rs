use std::sync::Arc;

use deputize_core::agent::{AgentLimits, AgentSpec, Role, SpawnedBy};
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::event::RequestPurpose;
use deputize_core::message::ModelText;
use deputize_core::model::ModelOptions;
use deputize_core::source_set::SourceSet;
use deputize_core::{Catalog, Outcome, SessionId, Status, ToolResult};
use serde_json::{Value, json};

use super::*;

const CALL: CallId = CallId::new(1, 0);

fn root() -> AgentId {
    AgentId::root(&SessionId::literal("s"))
}

fn child() -> AgentId {
    root().child(CALL, 0)
}

fn facts() -> SessionFacts {
    SessionFacts {
        id: SessionId::literal("s"),
        cwd: "/w".into(),
        catalog: Arc::new(Catalog::default()),
        takes_images: false,
        mode: ApproverMode::Ask,
        notes: Vec::new(),
    }
}

fn spec(agent: &AgentId, goal: &str) -> AgentSpec {
    let top = *agent == root();
    AgentSpec {
        id: agent.clone(),
        parent: (!top).then(root),
        depth: u32::from(!top),
        role: Role::Leaf,
        spawned_by: (!top).then_some(SpawnedBy { call: CALL, task_index: 0, task_count: 2 }),
        goal: goal.to_owned(),
        task: goal.to_owned(),
        model: "mock".to_owned(),
        images: Vec::new(),
        model_pinned: false,
        options: ModelOptions::default(),
        system: Vec::new(),
        prefill: Vec::new(),
        is_fork: false,
        toolsets: Vec::new(),
        tools: Vec::new(),
        grant: Grant::default(),
        approver: ApproverMode::Ask,
        limits: AgentLimits { max_iterations: 9, time_ms: 0, wrap_up_ms: 0 },
        cwd: "/w".into(),
        context: None,
        output_schema: None,
        background: false,
        declared: None,
        unapproved: Vec::new(),
        profile: None,
        profile_max_iterations: None,
        task_sources: SourceSet::new(),
        system_sources: SourceSet::new(),
    }
}

fn begins(agent: &AgentId, goal: &str) -> Event {
    let spec = spec(agent, goal);
    let texts = std::collections::BTreeMap::new();
    let system = Vec::new();
    let tools = String::new();
    Event::AgentStart(Box::new(AgentStart { spec, system, tools, texts }))
}

fn starts(call: CallId, tool: &str) -> Event {
    Event::ToolStart { call, tool: tool.to_owned(), arguments: "{}".to_owned() }
}

fn returns(call: CallId, tool: &str) -> Event {
    let status = CallStatus::Ok;
    let text = ModelText::own("what it gave");
    Event::ToolEnd(Box::new(ToolEnd {
        tool: tool.to_owned(),
        result: ToolResult {
            call,
            status,
            text,
            fingerprint: String::new(),
            images: Vec::new(),
            sources: SourceSet::new(),
        },
        args_bytes: 2,
        ms: 1,
        facts: Vec::new(),
        display: None,
        error: None,
        boundary: None,
    }))
}

/// Updates, and the number of the next record.
struct Bench(SessionUpdates, u64);

impl Bench {
    fn new() -> Self {
        let mut bench = Self(SessionUpdates::new(&facts()), 0);
        bench.take(&root(), begins(&root(), "Go"));
        bench
    }

    /// Returns the updates for an event, as JSON.
    fn take(&mut self, agent: &AgentId, event: Event) -> Vec<Value> {
        let seq = self.1;
        let top = *agent == root();
        self.1 += 1;
        let parent = (!top).then(root);
        let depth = u32::from(!top);
        let record = Record { seq, at: 0, agent: agent.clone(), parent, depth, event };
        json(self.0.add_record(&record))
    }
}

fn json(updates: impl IntoIterator<Item = SessionUpdate>) -> Vec<Value> {
    updates.into_iter().map(|update| serde_json::to_value(update).unwrap()).collect()
}

fn asks(iteration: u32) -> Event {
    Event::ModelRequest {
        iteration,
        messages: 1,
        bytes: 1,
        model: String::new(),
        purpose: RequestPurpose::Turn,
    }
}

fn replies(reply: Reply) -> Event {
    Event::ModelResponse { iteration: 1, reply, ms: 1, cost_usd: None, estimated: false }
}

#[test]
fn each_attempt_is_a_message_and_what_came_by_pieces_is_not_sent_again() {
    let mut bench = Bench::new();
    bench.take(&root(), asks(1));
    let piece = |bench: &mut Bench, text| json(bench.0.piece(&root(), Delta::Text(text)));
    let first = piece(&mut bench, "It is fo");
    assert_eq!(first[0]["messageId"], "m1");
    assert_eq!(json(bench.0.piece(&child(), Delta::Text("not here"))), Vec::<Value>::new());
    let reason = "the stream broke off".to_owned();
    let retry = Event::ModelRetry { attempt: 2, of: 4, reason, wait_ms: 1200 };
    let remark = bench.take(&root(), retry);
    assert_eq!(remark[0]["sessionUpdate"], "agent_thought_chunk");
    assert_eq!(remark[0]["content"]["text"], "\n[Attempt 2 of 4 in 2 s: the stream broke off]\n");
    bench.take(&root(), asks(1));
    assert_eq!(piece(&mut bench, "It is four.")[0]["messageId"], "m3");
    assert!(bench.take(&root(), replies(Reply::text("mock", "It is four."))).is_empty());

    // A model that sends no pieces is told of at the end.
    bench.take(&root(), asks(2));
    let reasoning = "Hm.".to_owned();
    let whole = bench.take(&root(), replies(Reply { reasoning, ..Reply::text("mock", "Five.") }));
    let actual: Vec<_> = whole.iter().map(|update| &update["content"]["text"]).collect();
    assert_eq!(actual, ["Hm.", "Five."]);
}

#[test]
fn what_has_not_ended_with_its_turn_is_reported_as_failed() {
    let mut bench = Bench::new();
    let calls = [("first", json!({})), ("second", json!({}))];
    let actual = bench.take(&root(), replies(Reply::calls("mock", calls)));
    // That they wait to run is what a call is told as when nothing is said.
    let ids: Vec<_> = actual.iter().map(|call| (&call["toolCallId"], &call["status"])).collect();
    assert_eq!(ids, [(&json!("call_1_0"), &Value::Null), (&json!("call_1_1"), &Value::Null)]);
    bench.take(&root(), starts(CALL, "first"));
    bench.take(&root(), returns(CALL, "first"));
    bench.take(&child(), begins(&child(), "Look"));
    let left = json(bench.0.end());
    let ids: Vec<_> = left.iter().map(|call| (&call["toolCallId"], &call["status"])).collect();
    assert_eq!(ids, [(&json!("call_1_1"), &json!("failed")), (&json!("1.0.0"), &json!("failed"))]);
    assert_eq!(json(bench.0.end()), Vec::<Value>::new());
}

#[test]
fn what_went_wrong_on_this_machine_is_reported_to_the_editor() {
    let mut bench = Bench::new();
    bench.take(&root(), replies(Reply::calls("mock", [("first", json!({}))])));
    bench.take(&root(), starts(CALL, "first"));
    let Event::ToolEnd(mut end) = returns(CALL, "first") else { panic!("an end") };
    end.result.status = CallStatus::Error;
    end.error = Some("the plugin died of an abort".to_owned());
    let actual = bench.take(&root(), Event::ToolEnd(end));
    let text = actual[0]["content"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("the plugin died of an abort"), "{actual:?}");
}

#[test]
fn what_a_running_call_tells_of_itself_comes_with_the_next_tick() {
    let mut bench = Bench::new();
    bench.take(&root(), replies(Reply::calls("mock", [("first", json!({}))])));
    bench.take(&root(), starts(CALL, "first"));
    for text in ["1 of 9", "2 of 9\u{1b}[2J"] {
        bench.0.progress(&root(), CALL, text);
    }
    let actual = json(bench.0.tick());
    assert_eq!(actual[0]["content"][0]["content"]["text"], "2 of 9");
    assert_eq!(json(bench.0.tick()), Vec::<Value>::new());
    bench.take(&root(), returns(CALL, "first"));
    bench.0.progress(&root(), CALL, "late");
    assert_eq!(json(bench.0.tick()), Vec::<Value>::new());
}

#[test]
fn a_child_gets_one_note_after_five_calls_or_some_time_and_one_at_its_end() {
    let mut bench = Bench::new();
    let begun = bench.take(&child(), begins(&child(), "Look around"));
    assert_eq!(begun[0]["title"], "[1/2] Look around");
    assert_eq!(json(bench.0.tick()), Vec::<Value>::new(), "nothing has happened yet");
    let mut notes = Vec::new();
    for slot in 0..12 {
        let call = CallId::new(2, slot);
        notes.extend(bench.take(&child(), starts(call, "read_file")));
        notes.extend(bench.take(&child(), returns(call, "read_file")));
    }
    notes.extend(json(bench.0.tick()));
    notes.extend(json(bench.0.tick()));
    let text = |note: &Value| note["content"][0]["content"]["text"].clone();
    let texts: Vec<Value> = notes.iter().map(text).collect();
    let expected =
        ["5 calls", "10 calls", "12 calls"].map(|n| json!(format!("{n}, last: read_file")));
    assert_eq!(texts, expected);

    let outcome = Outcome {
        text: Some("All is well.".to_owned()),
        error: None,
        duration_ms: 1500,
        ..Outcome::without_run(&spec(&child(), "Look around"), Status::Completed, String::new())
    };
    let end = bench.take(&child(), Event::AgentEnd(Box::new(outcome)));
    assert_eq!(end[0]["status"], "completed");
    assert_eq!(end[0]["content"][0]["content"]["text"], "All is well.");
    assert_eq!(end[0]["content"][1]["content"]["text"], "completed: 12 calls, 2 s");
    assert_eq!(json(bench.0.tick()), Vec::<Value>::new());
    let again = bench.take(&child(), Event::AgentResume { max_iterations: 3, task: None });
    assert_eq!(again[0]["status"], "in_progress");
}
