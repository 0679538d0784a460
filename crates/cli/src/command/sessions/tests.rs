use deputize_core::event::SessionStart;
use deputize_core::message::UserMessage;
use deputize_core::name::ChildEndId;
use deputize_core::outcome::ExitReason;
use deputize_core::sanitize::FrameSecret;
use deputize_runtime::{Header, SessionFile};

use super::*;
use crate::fixture::{
    CALL, START, TestWriter, called, child, ended, replied, returned, root, started, tools,
};

fn stored(writer: &TestWriter) -> (tempfile::TempDir, StoredSession) {
    use deputize_core::event::Journal as _;
    let folder = tempfile::tempdir().unwrap();
    let dir = SessionDir::new(folder.path());
    let session = SessionId::literal("s1");
    let secret = FrameSecret::new(&[1; 16]);
    let header = Header { format: 1, session: session.clone(), created: START, secret };
    let file = SessionFile::create(&dir, &header).unwrap();
    writer.records.iter().for_each(|record| file.append_record(record).unwrap());
    drop(file);
    let stored = dir.read(&session).unwrap();
    (folder, stored)
}

fn session() -> TestWriter {
    session_with("{\n``` \n}")
}

/// A session whose call for children has this result.
fn session_with(result: &str) -> TestWriter {
    let mut writer = TestWriter::default();
    let start = SessionStart {
        cwd: "/repo/project".into(),
        model: "local/m".to_owned(),
        toolsets: Vec::new(),
        program: "deputize".to_owned(),
        endpoint: None,
        config_file: None,
    };
    writer.add(&root(), Event::SessionStart(start));
    writer.add(&root(), started(&root(), "Tidy\u{1b}[2J up"));
    writer.add(&root(), Event::Message(UserMessage::new("Tidy up".to_owned())));
    writer.add(&root(), replied(1, "I look.", &[("delegate_task", r#"{"goal":"Sort"}"#)]));
    writer.add(&root(), called(CALL, "delegate_task", r#"{"goal":"Sort"}"#));
    writer.add(&child(0), started(&child(0), "Sort"));
    writer.add(&child(0), Event::Message(UserMessage::new("Sort".to_owned())));
    writer.add(&child(0), replied(1, "Sorted.", &[]));
    writer.add(&child(0), ended(&child(0), Status::Completed, ExitReason::Completed));
    let status = deputize_core::message::CallStatus::Ok;
    writer.add(&root(), returned(CALL, "delegate_task", status, result, Vec::new()));
    writer.add(&root(), replied(2, "All done.", &[]));
    writer.add(&root(), ended(&root(), Status::Completed, ExitReason::Completed));
    writer
}

#[test]
fn a_session_at_a_glance() {
    let (folder, stored) = stored(&session());
    let dir = SessionDir::new(folder.path());
    let glance = SessionLine::of(dir.summary(&stored.header.session).unwrap());
    assert_eq!(glance.goal, "Tidy up");
    let SessionSummary { children, cost, model, bytes, .. } = glance.summary;
    assert_eq!((glance.status, children, cost.tokens), ("unfinished", 1, 3300));
    assert_eq!(model, "local/m");
    assert_eq!(bytes, fs::metadata(dir.file(&stored.header.session)).unwrap().len());
}

#[test]
fn an_answer_at_a_limit_is_listed_as_one() {
    for (exit_code, shown) in [(0, "completed"), (4, "at limit")] {
        let mut writer = session();
        let status = Status::Completed;
        let usage = deputize_core::model::Usage::default();
        writer.add(&root(), Event::SessionEnd { status, exit_code, usage, cost_usd: None });
        let (folder, stored) = stored(&writer);
        let dir = SessionDir::new(folder.path());
        let line = SessionLine::of(dir.summary(&stored.header.session).unwrap());
        assert_eq!(line.row()[2], shown);
        let json = line.json();
        let known = (&json["status"], &json["at_limit"]);
        assert_eq!(known, (&json!("completed"), &json!(exit_code == 4)));
        assert!(resume_words(&stored).starts_with(&format!("resuming session s1 ({shown}): ")));
    }
    let mut writer = session();
    writer.add(&root(), ended(&root(), Status::Completed, ExitReason::MaxIterations));
    let (_folder, stored) = stored(&writer);
    let shown = show::shown(&stored, &tools(), None, None).unwrap();
    assert!(shown.contains("=== s1 (at limit)\n"), "{shown}");
}

#[test]
fn a_session_for_people_to_read() {
    let (_folder, stored) = stored(&session());
    insta::assert_snapshot!(markdown::markdown(&stored).replace(&local(START), "TIME"));
}

#[test]
fn the_tree_and_a_conversation() {
    let (_folder, stored) = stored(&session());
    insta::assert_snapshot!(format!(
        "{}\n{}",
        show::shown(&stored, &tools(), None, None).unwrap().replace(&local(START), "TIME"),
        show::shown(&stored, &tools(), None, Some("1.0.0")).unwrap()
    ));
    assert_eq!(
        show::shown(&stored, &tools(), None, Some("9")).unwrap_err().to_string(),
        "error: there is no agent `9` in this session\n\
         hint: `deputize sessions show SESSION` lists them"
    );
}

#[test]
fn what_came_of_children_is_reported_child_by_child() {
    let describe = |result: &str| {
        let (_folder, stored) = stored(&session_with(result));
        let text = show::shown(&stored, &tools(), None, None).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("  | "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let long = "x".repeat(500);
    let results = serde_json::json!({
        "results": [
            {"task_index": 0, "status": "completed", "agent": "s1/1.0.0",
             "summary": format!("<child:s1/1.0.0 abcd>\nSorted.\n{long}\n</abcd>")},
            {"task_index": 1, "status": "failed", "agent": "s1/1.0.1", "summary": null,
             "error": "no such model"},
        ],
        "total_duration_seconds": 1.5,
        "warnings": ["unknown field `mood` ignored"],
    });
    let framed = format!("<tool:delegate_task efgh>\n{results}\n</efgh>\n[Read a.txt again.]");
    let mut lines = describe(&framed);
    let said = lines.remove(1);
    assert!(said.starts_with("  Sorted.") && said.chars().count() < 210, "{said}");
    assert_eq!(
        lines,
        [
            "0 1.0.0: completed",
            "1 1.0.1: failed",
            "  error: no such model",
            "warning: unknown field `mood` ignored",
            "[Read a.txt again.]"
        ]
    );
    let refused = serde_json::json!({
        "error": "no child was started: 2 things in this call are wrong, see `errors`",
        "errors": [
            {"code": "E_GOAL", "task_index": 0, "task": "t0", "field": "goal", "value": " ",
             "remedy": "say what is to be done"},
            {"code": "E_DEPTH", "task_index": null, "field": "", "value": null,
             "remedy": "do the work yourself"},
        ],
        "warnings": [],
    });
    assert_eq!(
        describe(&refused.to_string()),
        [
            "no child was started: 2 things in this call are wrong",
            "E_GOAL task 0 goal: say what is to be done",
            "E_DEPTH: do the work yourself"
        ]
    );
    // What only looks like it stays as it is.
    let other = r#"{"results": [1], "error": "x"}"#;
    assert_eq!(describe(other), [other]);
}

#[test]
fn people_see_content_without_the_frames_that_are_for_the_model() {
    use deputize_core::sanitize::{frame_for_model, frame_quote};
    use deputize_core::source::Source;
    use deputize_core::source_set::SourceSet;
    let secret = FrameSecret::new(&[1; 16]);
    let framed = |call, source: Source, content: &str| {
        frame_for_model(&secret, &root(), call, &source, content).into_string()
    };
    let mut writer = session_with(&framed(CALL, Source::tool("read_file"), "one <b>\ntwo"));
    let summary = frame_quote(&Source::child("s1/1.0.0"), "Sorted three.").into_string();
    let results = json!({"results": [{"status": "completed", "summary": summary}]}).to_string();
    let call = CallId::new(2, 0);
    let source = Source::tool("delegate_task");
    let text = framed(call, source.clone(), &results);
    writer.add(&root(), called(call, "delegate_task", "{}"));
    let status = deputize_core::message::CallStatus::Ok;
    writer.add(&root(), returned(call, "delegate_task", status, &text, Vec::new()));
    let ended = framed(CallId::new(0, 0), source, &results);
    let text = format!("Your background child s1/1.0.0 has ended: completed.\n{ended}");
    writer.add(
        &root(),
        Event::Message(UserMessage {
            text,
            from: Some(ChildEndId { child: child(0), number: 1 }),
            images: Vec::new(),
            sources: SourceSet::new(),
        }),
    );
    let (_folder, stored) = stored(&writer);
    let texts = [show::shown(&stored, &tools(), None, None).unwrap(), markdown::markdown(&stored)];
    for text in texts {
        for content in ["one <b>\n", "two\n", "Sorted three.", "has ended: completed.\n"] {
            assert!(text.contains(content), "{content:?}: {text}");
        }
        for frame in ["<tool:", "<child:", "</"] {
            assert!(!text.contains(frame), "{frame}: {text}");
        }
    }
}

#[test]
fn a_session_without_an_agent_is_shown_as_such() {
    let (_folder, stored) = stored(&TestWriter::default());
    assert_eq!(show::shown(&stored, &tools(), None, None).unwrap(), "no agent is on record\n");
}

#[test]
fn a_session_that_did_not_end_is_shown_with_how_to_go_on() {
    let (_folder, stored) = stored(&session());
    let text = show::shown(&stored, &tools(), None, None).unwrap();
    assert!(text.ends_with("\nunfinished: continue with `deputize run --resume s1`\n"), "{text}");
}

#[test]
fn a_running_session_is_shown_as_running_without_the_advice_to_resume_it() {
    let mut writer = session();
    writer.records.truncate(writer.records.len() - 1);
    let (_folder, stored) = stored(&writer);
    let holder = SessionHolder { session: stored.header.session.clone(), pid: Some(7) };
    let text = show::shown(&stored, &tools(), Some(&holder), None).unwrap();
    assert!(text.contains("=== s1 (running)\n"), "{text}");
    let advice = "\nrunning in process 7: `deputize agents s1` shows what its agents do\n";
    assert!(text.ends_with(advice) && !text.contains("--resume"), "{text}");
}

#[test]
fn a_session_is_named_by_its_beginning_where_no_other_begins_so() {
    let (folder, _) = stored(&session());
    let dir = SessionDir::new(folder.path());
    let named = |name: &str| {
        session_named(&dir, name).map(|id| id.to_string()).map_err(|error| error.chain())
    };
    assert_eq!(named("s"), Ok("s1".to_owned()));
    for n in 10..20 {
        std::fs::copy(folder.path().join("s1.jsonl"), folder.path().join(format!("s{n}.jsonl")))
            .unwrap();
    }
    assert_eq!(named("s1"), Ok("s1".to_owned()), "what it is called exactly");
    assert_eq!(named("s12"), Ok("s12".to_owned()));
    assert_eq!(named("s"), Err("`s` matches 11 sessions".to_owned()));
    let actual = session_named(&dir, "s").unwrap_err().to_string();
    let rows: Vec<&str> = actual.lines().collect();
    assert_eq!(rows.len(), 1 + 1 + 1 + 8 + 1, "{actual}");
    assert!(rows[2].starts_with("SESSION") && rows[2].ends_with("GOAL"), "{actual}");
    assert!(rows[3].starts_with("s19 "), "the newest first: {actual}");
    assert_eq!(rows[11], "and 3 older");
    for none in ["t", "", "../s1", "s123"] {
        assert_eq!(named(none), Err(format!("there is no session `{none}`")));
    }
}

#[test]
fn the_records_of_a_session_are_folded_once() {
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "All"));
    let text = "Sort the imports".to_owned();
    writer.add(&root(), Event::Message(deputize_core::message::UserMessage::new(text)));
    let (_dir, stored) = stored(&writer);
    let first = || stored.messages(&root()).unwrap().into_iter().next().unwrap();
    assert!(std::sync::Arc::ptr_eq(&first(), &first()));
}
