use deputize_core::budget::Cost;
use deputize_core::event::{LogLevel, RequestPurpose};
use deputize_core::message::{CallStatus, UserMessage};
use deputize_core::name::ChildEndId;
use deputize_core::outcome::ExitReason;
use deputize_core::process::{ProcessEnd, ProcessExit, ProcessStart};
use deputize_core::run::WrapUpReason;
use deputize_core::source::Source;
use deputize_core::{CancelReason, SessionId, Status, ToolsetName};
use serde_json::json;

use super::*;
use crate::fixture::{
    CALL, START, TestWriter, called, child, ended, id, replied, returned, root, spec, started,
    usage, version,
};

/// The message about the end of a child that has read a page.
fn delivery(child: AgentId) -> Event {
    let sources = [Source::child(child.as_str()), Source::web("a.example")];
    let from = Some(ChildEndId { child, number: 1 });
    let message = UserMessage::new("It is done.").with_sources(sources);
    Event::Message(UserMessage { from, ..message })
}

/// One event of each type, in an order that a session could have.
fn every_event() -> TestWriter {
    let top = root();
    let kid = child(1);
    let mut writer = TestWriter::default();
    writer.add(
        &top,
        Event::SessionStart(SessionStart {
            cwd: "/repo/project".into(),
            model: "local/m".to_owned(),
            toolsets: vec!["file".to_owned(), "delegation".to_owned()],
            program: "deputize 0.1.0".to_owned(),
            endpoint: None,
            config_file: None,
        }),
    );
    writer.add(&top, started(&top, "Tidy up"));
    writer.add(&top, Event::Message(UserMessage::new("Tidy up".to_owned())));
    writer.add(
        &top,
        Event::ModelRequest {
            iteration: 1,
            messages: 1,
            bytes: 4321,
            model: "p/m".to_owned(),
            purpose: RequestPurpose::Turn,
        },
    );
    let broken = ModelError {
        status: Some(503),
        partial: "Wel".to_owned(),
        ..ModelError::new(FailureKind::Incomplete, "provider local: stream ended")
    };
    let cost = Some(Cost { tokens: 4000, usd: 0.004, unpriced: false });
    writer.add(&top, Event::ModelError { error: broken, retried: true, cost });
    let reason = "stream ended".to_owned();
    writer.add(&top, Event::ModelRetry { attempt: 2, of: 5, reason, wait_ms: 1400 });
    writer.add(&top, replied(1, "", &[("delegate_task", r#"{"goal":"b"}"#)]));
    writer.add(&top, called(CALL, "delegate_task", r#"{"goal":"b"}"#));
    child_events(&mut writer, &kid);
    writer.add(
        &top,
        returned(CALL, "delegate_task", CallStatus::Ok, r#"{"results":[]}"#, Vec::new()),
    );
    writer.add(&top, delivery(kid));
    let mistakes = "/n: \"x\" is not of type \"integer\"".to_owned();
    writer.add(&top, Event::AnswerRejected { mistakes });
    writer.add(&top, Event::AgentWrapUp { limit: WrapUpReason::Time, budget: None });
    writer.add(&top, Event::AgentStop { reason: CancelReason::Interrupted, pending: false });
    writer.add(&top, ended(&top, Status::Interrupted, ExitReason::Interrupted));
    writer.add(&top, Event::AgentResume { max_iterations: 90, task: None });
    let message = "sub\u{1b}[31mject".to_owned();
    writer.add(&top, Event::Log { level: LogLevel::Warn, message, cause: None });
    let usage = usage(4000);
    let end =
        Event::SessionEnd { status: Status::Completed, exit_code: 0, usage, cost_usd: Some(0.25) };
    writer.add(&top, end);
    writer
}

fn child_events(writer: &mut TestWriter, kid: &AgentId) {
    let mut start = AgentStart {
        spec: spec(kid, "b"),
        system: vec!["aa".to_owned(), "gone".to_owned()],
        tools: "cc".to_owned(),
        texts: BTreeMap::new(),
    };
    start.spec.context = Some("Mind the gap.".to_owned());
    start.spec.output_schema = Some(json!({"type": "object"}));
    start.spec.toolsets = vec![ToolsetName::literal("terminal")];
    writer.add(kid, Event::AgentStart(Box::new(start)));
    writer.add(kid, replied(1, "I look.", &[("read_file", "{\"path\":"), ("x", "[1]")]));
    writer.add(kid, called(CALL, "read_file", r#"{"path":"a.txt"}"#));
    let path = std::path::PathBuf::from("/repo/project/a.txt");
    let read = version("one\n");
    writer.add(kid, Event::FileRead { path: path.clone(), version: read });
    let text = "<tool:read_file abcdefghijkl>\none\n</abcdefghijkl>\n[2 more lines]";
    let mut end = returned(CALL, "read_file", CallStatus::Ok, text, Vec::new());
    if let Event::ToolEnd(end) = &mut end {
        end.boundary = Some("abcdefghijkl".to_owned());
    }
    writer.add(kid, end);
    writer.add(
        kid,
        Event::ApprovalRequest {
            call: CALL,
            command: "git push --force".to_owned(),
            class: "dangerous".to_owned(),
            reason: "rewrites history".to_owned(),
        },
    );
    let by = "no user to ask".to_owned();
    writer.add(kid, Event::ApprovalDecision { call: CALL, decision: "deny".to_owned(), by });
    writer.add(kid, Event::FileWrite { path, version: version("two\n"), created: true });
    writer.add(
        kid,
        Event::MessageLeft { text: "Be quick.".to_owned(), sources: [Source::parent()].into() },
    );
    add_process(writer, kid);
    writer.add(kid, Event::ExternalText { text: "I look.".to_owned() });
    writer.add(kid, ended(kid, Status::Completed, ExitReason::Completed));
}

fn add_process(writer: &mut TestWriter, agent: &AgentId) {
    let start = ProcessStart {
        process: "p1".to_owned(),
        call: CALL,
        command: "make".to_owned(),
        notify: true,
        terminal: false,
        output: Some("/s/out.log".into()),
        durable_pid: None,
    };
    writer.add(agent, Event::ProcessStart(start));
    let end = ProcessEnd {
        process: "p1".to_owned(),
        command: "make".to_owned(),
        exit: ProcessExit::Code { code: 2 },
        ms: Some(70),
        output_bytes: Some(9),
        message: Some("It has ended.".to_owned()),
        sources: [Source::tool("terminal")].into(),
    };
    writer.add(agent, Event::ProcessEnd(Box::new(end)));
}

fn lines(writer: &TestWriter) -> Vec<String> {
    let mut projection = Projection::new(Some("classic"));
    writer.records.iter().map(|record| projection.line(record).unwrap()).collect()
}

#[test]
fn every_type_of_line() {
    insta::assert_snapshot!(lines(&every_event()).join("\n"));
}

#[test]
fn numbers_have_no_gaps_and_every_line_has_the_common_fields() {
    for (seq, line) in lines(&every_event()).iter().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["seq"], seq);
        assert_eq!(line["v"], 1);
        assert_eq!(line["session"], "s1");
        for key in ["at", "agent", "parent", "depth", "type"] {
            assert!(line.get(key).is_some(), "{key} is missing in {line}");
        }
    }
}

#[test]
fn a_piece_of_a_reply_has_no_number() {
    let top = delta_line(&root(), START, Delta::Text("Hel")).unwrap().unwrap();
    let kid = delta_line(&id("s1/1.0.1/2.0.0"), START, Delta::Reasoning("hm")).unwrap().unwrap();
    insta::assert_snapshot!(format!("{top}\n{kid}"));
}

#[test]
fn the_prompt_hash_is_that_of_the_text_as_it_is_sent() {
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "g"));
    let line: Value = serde_json::from_str(&lines(&writer)[0]).unwrap();
    let expected = Sha256::digest("You are an agent.\n\nBe brief.");
    let expected: String = expected.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(line["prompt_sha256"], expected);
}

#[test]
fn long_arguments_keep_their_short_parts() {
    let text = "x".repeat(10_000);
    let raw = json!({"path": "a.txt", "content": text}).to_string();
    let value = arguments(&raw);
    assert_eq!(value["path"], "a.txt");
    assert_eq!(value["content"].as_str().unwrap().chars().count(), 200);
    let many = json!({"items": vec!["item"; 5000]}).to_string();
    assert_eq!(arguments(&many).as_str().unwrap().chars().count(), 200);
    assert_eq!(arguments("{\"a\":"), json!("{\"a\":"));
    assert_eq!(arguments(r#"{"a":12345678901234567890}"#), json!({"a": 12345678901234567890_u64}));
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    assert!(arguments(&deep).is_string());
}

#[test]
fn times_are_total() {
    assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
    assert_eq!(time(START), "2026-01-02T03:04:05.006Z");
    assert_eq!(time(u64::MAX), "9999-12-30T22:00:00.999Z");
    assert_eq!(session_of(&AgentId::root(&SessionId::literal("only"))), "only");
}
