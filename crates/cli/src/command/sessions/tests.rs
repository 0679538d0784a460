use deputize_core::door::FrameSecret;
use deputize_core::{ExitReason, SessionStart, UserMessage};
use deputize_runtime::{Header, SessionFile};

use super::*;
use crate::fixture::{CALL, START, Tape, called, child, ended, replied, returned, root, started};

fn stored(tape: &Tape) -> (tempfile::TempDir, StoredSession) {
    use deputize_core::Journal as _;
    let folder = tempfile::tempdir().unwrap();
    let dir = SessionDir::new(folder.path());
    let session = SessionId::literal("s1");
    let secret = FrameSecret::new(&[1; 16]);
    let header = Header { format: 1, session: session.clone(), created: START, secret };
    let file = SessionFile::create(&dir, &header).unwrap();
    tape.records.iter().for_each(|record| file.append(record).unwrap());
    drop(file);
    let stored = dir.read(&session).unwrap();
    (folder, stored)
}

fn session() -> Tape {
    let mut tape = Tape::default();
    let start = SessionStart {
        cwd: "/repo/project".into(),
        model: "local/m".to_owned(),
        toolsets: Vec::new(),
        program: "deputize".to_owned(),
        endpoint: None,
    };
    tape.add(&root(), Event::SessionStart(start));
    tape.add(&root(), started(&root(), "Tidy\u{1b}[2J up"));
    tape.add(&root(), Event::Message(UserMessage { text: "Tidy up".to_owned(), from: None }));
    tape.add(&root(), replied(1, "I look.", &[("delegate_task", r#"{"goal":"Sort"}"#)]));
    tape.add(&root(), called(CALL, "delegate_task", r#"{"goal":"Sort"}"#));
    tape.add(&child(0), started(&child(0), "Sort"));
    tape.add(&child(0), Event::Message(UserMessage { text: "Sort".to_owned(), from: None }));
    tape.add(&child(0), replied(1, "Sorted.", &[]));
    tape.add(&child(0), ended(&child(0), Status::Completed, ExitReason::Completed));
    let status = deputize_core::CallStatus::Ok;
    tape.add(&root(), returned(CALL, "delegate_task", status, "{\n``` \n}", Vec::new()));
    tape.add(&root(), replied(2, "All done.", &[]));
    tape.add(&root(), ended(&root(), Status::Completed, ExitReason::Completed));
    tape
}

#[test]
fn a_session_at_a_glance() {
    let (_folder, stored) = stored(&session());
    let glance = Glance::of(&stored);
    assert_eq!(glance.goal, "Tidy up");
    assert_eq!((glance.status, glance.children, glance.tokens), ("unfinished", 1, 3300));
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
        show::shown(&stored, None).unwrap(),
        show::shown(&stored, Some("1.0.0")).unwrap()
    ));
    assert_eq!(
        show::shown(&stored, Some("9")).unwrap_err().to_string(),
        "error: there is no agent `9` in this session\n\
         hint: `deputize sessions show SESSION` lists them"
    );
}

#[test]
fn a_session_without_an_agent_is_shown_as_such() {
    let (_folder, stored) = stored(&Tape::default());
    assert_eq!(show::shown(&stored, None).unwrap(), "no agent is on record\n");
}
