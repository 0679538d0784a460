//! Session files in every state.

use std::sync::Arc;

use deputize_core::context_use::ContextUse;
use deputize_core::model::{Reply, Request, Usage};
use deputize_core::policy::Verdict;
use deputize_core::{AgentView, Cancel, Policy, SessionId, Status, ToolSpec};
use deputize_runtime::{
    Continue, FileTail, ReadError, Session, SessionConfig, SessionDir, SessionError,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::fixture::{World, authority, config, cut, resumed, run, spec};

fn answer(_: usize, request: &Request<'_>) -> Result<Reply, deputize_core::model::ModelError> {
    Ok(Reply::text("rule", format!("answer {}", request.messages.len())))
}

fn id() -> SessionId {
    SessionId::literal("s")
}

async fn stored() -> (tempfile::TempDir, SessionDir) {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    run(folder.path(), spec(folder.path()), config(&world, answer), &Cancel::new()).await;
    let dir = SessionDir::new(folder.path());
    (folder, dir)
}

fn open(dir: &SessionDir) -> Result<Session, SessionError> {
    let world = Arc::new(World::default());
    Session::open(dir, id(), config(&world, answer)).map(|(session, _)| session)
}

#[tokio::test]
async fn a_complete_session_gives_its_answer_again_and_takes_a_new_message() {
    let (_folder, dir) = stored().await;
    let records = dir.read(&id()).unwrap().records.len();
    let session = open(&dir).unwrap();
    let again = {
        let authority = authority(session.catalog());
        session.resume(Continue::default(), authority, &Cancel::new()).await.unwrap()
    };
    assert_eq!(again.text.as_deref(), Some("answer 1"));
    assert_eq!(dir.read(&id()).unwrap().records.len(), records, "nothing was done");
    drop(session);
    let session = open(&dir).unwrap();
    let authority = authority(session.catalog());
    let more = Continue { message: Some("and?".into()), ..Continue::default() };
    let outcome = session.resume(more, authority, &Cancel::new()).await.unwrap();
    assert_eq!(outcome.status, Status::Completed);
    assert_eq!(outcome.text.as_deref(), Some("answer 3"));
}

#[tokio::test]
async fn one_writer_at_a_time_and_the_second_learns_who() {
    let (_folder, dir) = stored().await;
    let first = open(&dir).unwrap();
    let error = open(&dir).unwrap_err().to_string();
    assert!(error.contains("is in use by"), "{error}");
    if cfg!(target_os = "linux") {
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
    }
    assert!(matches!(dir.remove(&id()), Err(ReadError::InUse { .. })));
    drop(first);
    open(&dir).unwrap();
}

#[tokio::test]
async fn a_flipped_byte_is_found_wherever_it_is() {
    let (_folder, dir) = stored().await;
    let file = dir.file(&id());
    let whole = std::fs::read(&file).unwrap();
    let records = dir.read(&id()).unwrap().records.len();
    let header = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
    let last = whole[..whole.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1;
    for at in (header..whole.len()).step_by(7) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x01;
        std::fs::write(&file, &flipped).unwrap();
        let stored = dir.read(&id()).unwrap();
        let found = stored.damage.is_some() || stored.tail != FileTail::Whole;
        assert!(found, "byte {at}");
        assert!(stored.records.len() < records);
        // In the middle it is damage, and nothing is thrown away; at the end a torn tail.
        let opened = open(&dir);
        if at < last - 1 {
            assert!(
                matches!(opened, Err(SessionError::File(ReadError::Damaged { .. }))),
                "byte {at}"
            );
            assert_eq!(std::fs::read(&file).unwrap(), flipped);
        } else if at >= last {
            opened.unwrap();
        }
    }
}

/// The place of each record's line in a file, the header's first.
fn lines(whole: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut lines = Vec::new();
    let mut start = 0;
    for line in whole.split_inclusive(|byte| *byte == b'\n') {
        lines.push(start..start + line.len());
        start += line.len();
    }
    lines
}

#[tokio::test]
async fn what_a_power_cut_left_out_is_a_torn_tail_unless_it_was_durable() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, _: &Request<'_>| {
        let call = ("act", serde_json::json!({}));
        Ok(if results == 0 { Reply::calls("rule", [call]) } else { Reply::text("rule", "done") })
    };
    run(folder.path(), spec(folder.path()), config(&world, rule), &Cancel::new()).await;
    let dir = SessionDir::new(folder.path());
    let file = dir.file(&id());
    let whole = std::fs::read(&file).unwrap();
    let records = dir.read(&id()).unwrap().records;
    // Synced before the call, and then at the end.
    let starts =
        records.iter().position(|it| matches!(it.event, deputize_core::Event::ToolStart { .. }));
    let durable = starts.unwrap() + 1;
    assert!(durable + 3 < records.len());
    for (record, line) in lines(&whole).into_iter().skip(1).enumerate() {
        let mut holed = whole.clone();
        holed[line.start + 3..line.end].fill(0);
        std::fs::write(&file, &holed).unwrap();
        let opened = open(&dir);
        let left = std::fs::read(&file).unwrap();
        if record < durable {
            let error = opened.unwrap_err();
            assert!(matches!(error, SessionError::File(ReadError::Damaged { .. })), "{error}");
            assert_eq!(left, holed);
        } else {
            opened.unwrap();
            assert_eq!(left, whole[..line.start], "record {record}");
        }
    }
}

#[tokio::test]
async fn an_answer_on_record_is_given_also_when_the_end_of_the_session_is_not() {
    let (_folder, dir) = stored().await;
    let whole = std::fs::read_to_string(dir.file(&id())).unwrap();
    let cut = whole.trim_end().rfind('\n').unwrap() + 1;
    std::fs::write(dir.file(&id()), &whole[..cut]).unwrap();
    let session = open(&dir).unwrap();
    let authority = authority(session.catalog());
    let outcome = session.resume(Continue::default(), authority, &Cancel::new()).await.unwrap();
    assert_eq!(outcome.text.as_deref(), Some("answer 1"));
    let end = dir.read(&id()).unwrap().records.pop().unwrap().event;
    assert!(matches!(end, deputize_core::Event::SessionEnd { exit_code: 0, .. }), "{end:?}");
}

#[tokio::test]
async fn a_record_of_a_newer_program_is_not_thrown_away() {
    let (_folder, dir) = stored().await;
    let mut whole = std::fs::read_to_string(dir.file(&id())).unwrap();
    let seq = dir.read(&id()).unwrap().records.len();
    let record = r#"{"type":"message.v2"}"#;
    let crc = crc32fast::hash(record.as_bytes());
    let len = record.len();
    whole +=
        &format!("{{\"seq\":{seq},\"len\":{len},\"crc\":\"{crc:08x}\",\"record\":{record}}}\n");
    std::fs::write(dir.file(&id()), &whole).unwrap();
    let error = open(&dir).unwrap_err().to_string();
    assert!(error.contains("a newer one may"), "{error}");
    assert_eq!(std::fs::read_to_string(dir.file(&id())).unwrap(), whole);
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_no_file_is_no_session() {
    let folder = tempfile::tempdir().unwrap();
    let dir = SessionDir::new(folder.path());
    std::fs::create_dir(dir.file(&id())).unwrap();
    assert_eq!(dir.list().unwrap(), []);
    assert!(dir.read(&id()).is_err());
}

#[tokio::test]
async fn what_is_no_session_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let dir = SessionDir::new(folder.path());
    let mut actual = Vec::new();
    actual.push(dir.read(&id()).unwrap_err().to_string());
    for text in ["", "hello\n", "{}\n", "{\"format\":99,\"session\":\"s\"}\n"] {
        std::fs::write(dir.file(&id()), text).unwrap();
        actual.push(dir.read(&id()).unwrap_err().to_string());
    }
    let actual = actual.join("\n").replace(&folder.path().display().to_string(), "DIR");
    insta::assert_snapshot!(actual);
    assert_eq!(SessionDir::new(folder.path().join("none")).list().unwrap(), []);
}

#[cfg(unix)]
#[tokio::test]
async fn a_session_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, dir) = stored().await;
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir.file(&id())), 0o600);
    assert_eq!(mode(folder.path()), 0o700);
}

/// Notes how full the context of an agent is known to be when it makes a call.
#[derive(Default)]
struct NotedContext(Mutex<Vec<Option<u64>>>);

impl Policy for NotedContext {
    fn judge(&self, _: &ToolSpec, _: &Value, _: &std::path::Path, agent: &AgentView) -> Verdict {
        let used = agent.store.get_or_insert_with(ContextUse::default).tokens();
        self.0.lock().push(used);
        Verdict::Allow
    }
}

#[tokio::test]
async fn a_resumed_agent_knows_how_full_its_context_was() {
    let rule = |results: usize, _: &Request<'_>| {
        let usage = Usage { input: 900, output: 100, ..Usage::default() };
        let reply = match results {
            0 => Reply::calls("rule", [("look", json!({"n": 1}))]),
            _ => Reply::text("rule", "done"),
        };
        Ok(Reply { usage, ..reply })
    };
    let first = tempfile::tempdir().unwrap();
    let second = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let noted = Arc::new(NotedContext::default());
    let with_policy =
        || SessionConfig { policy: Arc::<NotedContext>::clone(&noted), ..config(&world, rule) };
    run(first.path(), spec(first.path()), with_policy(), &Cancel::new()).await;
    let dir = cut(first.path(), second.path(), "\"tool.start\"");
    assert_eq!(resumed(&dir, with_policy()).await.status, Status::Completed);
    assert_eq!(*noted.0.lock(), [Some(1000), Some(1000)]);
}
