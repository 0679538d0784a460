//! What the host finds out of a child: files that changed, and files about it.

use deputize_core::context_use::ContextUse;

use super::*;
use crate::report::HostObservations;
use crate::report_call::report_call;

#[tokio::test]
async fn files_that_the_parent_had_read_and_a_child_wrote_are_noted() {
    let rig = Rig::new(DelegationConfig::default());
    let root = rig.agent.id().clone();
    let files = &rig.agent.session.files;
    files.record_read(&root, Path::new("/repo/app/a.rs"), FileVersion::of(b"old"));
    files.record_read(&root, Path::new("/repo/app/b.rs"), FileVersion::of(b"old"));
    let output =
        rig.call(tasks(&["write /repo/app/a.rs", "write /repo/app/new.rs"])).await.unwrap();
    insta::assert_snapshot!(output.notes.join("\n"), @"Changed since you read them; read them again before you edit or rely on them: `a.rs` (by s1/1.0.0).");
}

#[tokio::test]
async fn what_a_child_wrote_before_a_resume_is_noted_too() {
    let rig = Rig::new(DelegationConfig::default());
    let root = rig.agent.id().clone();
    rig.agent.session.files.record_read(
        &root,
        Path::new("/repo/app/a.rs"),
        FileVersion::of(b"old"),
    );
    rig.agent.session.files.record_read(
        &root,
        Path::new("/repo/app/b.rs"),
        FileVersion::of(b"new"),
    );
    let output = rig.call(tasks(&["wrote /repo/app/a.rs", "wrote /repo/app/b.rs"])).await.unwrap();
    assert_eq!(output.notes.len(), 1);
    assert!(output.notes[0].ends_with(": `a.rs` (by s1/1.0.0)."), "{}", output.notes[0]);
}

#[tokio::test]
async fn a_child_that_timed_out_before_it_began_leaves_a_file_that_says_so() {
    let rig = Rig::new(DelegationConfig::default());
    let output = rig.call(json!({"tasks": [{"goal": "late 0"}, {"goal": "late 3"}, {"goal": "late 0", "context": "Again."}]})).await.unwrap();
    let value: Value = serde_json::from_str(&output.content).unwrap();
    let path =
        |index: usize| value["results"][index]["diagnostic_path"].as_str().map(PathBuf::from);
    let logs = rig.folder.path().join("logs");
    // Which of two children ends first is open.
    let names = ["", "-1"].map(|again| format!("subagent-timeout-s1-19700101T000000Z{again}.log"));
    let expected: BTreeSet<PathBuf> = names.iter().map(|name| logs.join(name)).collect();
    assert_eq!(BTreeSet::from([path(0).unwrap(), path(2).unwrap()]), expected);
    assert_eq!(path(1), None);
    insta::assert_snapshot!(std::fs::read_to_string(path(0).unwrap()).unwrap());
    let output = rig.call(tasks(&["late 00"])).await.unwrap();
    assert!(!output.content.contains("diagnostic_path"), "a reply had begun: {}", output.content);
    // A folder that cannot be written costs the result nothing.
    std::fs::remove_dir_all(&logs).unwrap();
    std::fs::write(&logs, "").unwrap();
    let output = rig.call(tasks(&["late 0"])).await.unwrap();
    assert!(!output.content.contains("diagnostic_path"), "{}", output.content);
}

#[tokio::test]
async fn what_is_found_out_of_a_child_stands_in_its_entry_for_everybody() {
    let rig = Rig::new(DelegationConfig {
        limits: DelegationLimits { max_summary_bytes: 40, ..DelegationLimits::default() },
        ..DelegationConfig::default()
    });
    let root = rig.agent.id().clone();
    rig.agent.session.files.record_read(
        &root,
        Path::new("/repo/app/a.rs"),
        FileVersion::of(b"old"),
    );
    let background = crate::BackgroundPolicy::new(rig.tool.config.clone(), Arc::new(FixedClock(0)));
    let goal = format!("I wrote ghost.rs. {}", "x".repeat(60));
    rig.call(tasks(&["fine", &goal, "late 0"])).await.unwrap();
    let specs = rig.home.attached.lock().clone();
    let entry = async |index: usize, end: &dyn Fn(&mut Outcome)| {
        let mut outcome = outcome(&specs[index], Status::Completed);
        end(&mut outcome);
        let found = background.inspect(&rig.agent, &specs[index], &outcome).await;
        outcome.inspection = found.map(Box::new);
        crate::result_entry(&outcome, index as u32)
    };
    let fine = entry(0, &|_| {}).await;
    for field in ["stale_paths", "unseen_writes", "summary_path", "diagnostic_path"] {
        assert_eq!(fine[field], Value::Null, "{field}");
    }
    let named = entry(1, &|end| {
        end.receipts.files_written.insert(PathBuf::from("/repo/app/a.rs"), FileVersion::of(b"new"));
    })
    .await;
    assert_eq!(named["unseen_writes"], json!(["ghost.rs"]));
    assert_eq!(named["stale_paths"], json!(["/repo/app/a.rs"]));
    assert_eq!(std::fs::read_to_string(named["summary_path"].as_str().unwrap()).unwrap(), goal);
    let late = entry(2, &|end| ended(end, "late 0")).await;
    assert!(Path::new(late["diagnostic_path"].as_str().unwrap()).exists(), "{late}");
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_not_named() {
    let rig = Rig::new(DelegationConfig {
        limits: DelegationLimits { max_summary_bytes: 40, ..DelegationLimits::default() },
        ..DelegationConfig::default()
    });
    let folder = rig.folder.path().join("sessions/s1");
    // Nothing can be written at a path that is a folder.
    std::fs::create_dir_all(folder.join("s1~1.0.0.summary.txt")).unwrap();
    let long = ["x", "y"].map(|letter| letter.repeat(100));
    let output = rig.call(tasks(&[&long[0], &long[1]])).await.unwrap();
    let value: Value = serde_json::from_str(&output.content).unwrap();
    let [lost, kept] = [0, 1].map(|index| &value["results"][index]);
    assert_eq!(lost["summary_path"], Value::Null, "{lost}");
    let words = lost["summary"].as_str().unwrap();
    assert!(words.contains("the session's record of agent s1/1.0.0"), "{words}");
    assert_eq!(std::fs::read_to_string(kept["summary_path"].as_str().unwrap()).unwrap(), long[1]);
}

/// One child has no room for its entry from the beginning, the other none once its file is lost:
/// the command that takes the place of the file is longer.
#[tokio::test]
async fn the_file_of_children_without_room_has_those_of_the_last_layout() {
    let mut config = DelegationConfig::default();
    config.limits.max_concurrent_children = 5;
    config.host.transcript_command = "show".repeat(200);
    config.models.context_windows.insert("local".to_owned(), 1000);
    let rig = Rig::new(config);
    rig.agent.store.get_or_insert_with(ContextUse::default).set(900);
    rig.call(tasks(&["a", "b", "c", "d", "e"])).await.unwrap();
    let folder = rig.folder.path().join("sessions/s1");
    std::fs::create_dir_all(folder.join("s1~1.0.1.summary.txt")).unwrap();
    let specs = rig.home.attached.lock().clone();
    let mut ends: Vec<Outcome> =
        specs.iter().map(|spec| outcome(spec, Status::Completed)).collect();
    for end in &mut ends[..2] {
        end.text = Some("long ".repeat(1000));
    }
    ends[0].profile = Some("p".repeat(80));
    ends[0].model = "m".repeat(80);
    let seen = HostObservations::default();
    let actual = report_call(&rig.agent, &rig.tool.config, &ends, seen, 0).await.unwrap().unwrap();
    assert!(actual.notes[0].starts_with("2 of 5 entries"), "{:?}", actual.notes);
    let whole = std::fs::read_to_string(folder.join("s1~1.0.0.results.jsonl")).unwrap();
    let entry = |line: &str| serde_json::from_str::<Value>(line).unwrap()["task_index"].clone();
    assert_eq!(whole.lines().map(entry).collect::<Vec<_>>(), [0, 1]);
}
