//! The memory: what it hears of children, and what it says to the top agent.

use super::*;

/// A memory that stores every end, except that of the second child.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Memory for Notes {
    fn on_delegation<'a>(
        &'a self,
        task: &'a str,
        result: &'a Outcome,
        child_session_id: &'a AgentId,
    ) -> BoxFuture<'a, Result<(), MemoryError>> {
        let text = result.text.clone().unwrap_or_default();
        self.0.lock().push(format!("{child_session_id}|{task}|{text}"));
        assert_ne!(text, "did three", "on purpose");
        Box::pin(async move {
            match text.as_str() {
                "did two" => Err("the shelf sk-12345678 is full".into()),
                "did four" => std::future::pending().await,
                _ => Ok(()),
            }
        })
    }

    fn snapshot(&self) -> Option<MemorySnapshot> {
        let text = "The person likes\u{200b} short answers.".to_owned();
        Some(MemorySnapshot { text, sources: [Source::web("a.example")].into() })
    }
}

#[tokio::test(start_paused = true)]
async fn the_memory_learns_of_each_child_and_its_failures_harm_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let mut config = config(&world, |results, request: &Request<'_>| {
        let list = json!({"list": ["one", "two", "three", "four"]});
        Ok(match (top_text(request), results) {
            ("go", 0) => Reply::calls("rule", [("spawn", list)]),
            ("go", _) => Reply::text("rule", "all are back"),
            (task, _) => Reply::text("rule", format!("did {task}")),
        })
    });
    let notes = Arc::new(Notes::default());
    config.secrets.add("KEY", "sk-12345678");
    config.memory = Some(Arc::clone(&notes) as _);
    let outcome = run(folder.path(), spec(folder.path()), config, &Cancel::new()).await;
    assert_eq!(outcome.text.as_deref(), Some("all are back"));
    let mut actual = notes.0.lock().clone();
    actual.sort();
    insta::assert_snapshot!(actual.join("\n"), @r"
    s/1.0.0|go|did one
    s/1.0.1|go|did two
    s/1.0.2|go|did three
    s/1.0.3|go|did four
    ");
    let records = world.records.lock();
    let mut logs: Vec<String> = records
        .iter()
        .filter_map(|record| match &record.event {
            Event::Log { message, .. } => Some(format!("{}: {message}", record.agent)),
            _ => None,
        })
        .collect();
    logs.sort();
    insta::assert_snapshot!(logs.join("\n"), @r"
    s: the memory did not take what s/1.0.1 gave: the shelf [redacted:KEY] is full
    s: the memory did not take what s/1.0.2 gave: it panicked
    s: the memory did not take what s/1.0.3 gave: it took longer than 10 s, or was told to end
    ");
}

#[tokio::test(start_paused = true)]
async fn a_top_agents_system_text_begins_with_what_the_memory_has() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let mut config = config(&world, calls(&[]));
    config.memory = Some(Arc::new(Notes::default()));
    let dir = SessionDir::new(folder.path());
    let session = Session::create(&dir, SessionId::literal("s"), config).unwrap();
    let spec = session.top_agent("t/rule", "go", folder.path());
    let [block] = &spec.system[..] else { panic!("{:?}", spec.system) };
    assert!(
        block.starts_with("<tool:memory ") && block.contains("\nThe person likes short answers.\n")
    );
    assert_eq!(spec.system_sources, [Source::web("a.example")].into());
}

/// What hooks and the memory hear of two children after a restart that came when so much was on
/// record.
async fn heard_after(last: &str) -> (Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let again = tempfile::tempdir().unwrap();
    let list = json!({"list": ["one", "background two"]});
    let rule = move |results: usize, request: &Request<'_>| {
        Ok(match (top_text(request), results) {
            ("go", 0) => Reply::calls("rule", [("spawn", list.clone())]),
            ("go", _) => Reply::text("rule", "all are back"),
            (task, _) => Reply::text("rule", format!("did {task}")),
        })
    };
    let with = |hooks: Vec<Arc<dyn Hook>>, memory: Arc<Notes>| {
        let mut config = config(&Arc::new(World::default()), rule.clone());
        config.hooks.hooks = hooks;
        config.memory = Some(memory);
        config
    };
    let first = with(vec![Arc::new(RecordingHook::default())], Arc::default());
    run(folder.path(), spec(folder.path()), first, &Cancel::new()).await;
    let seeing = Arc::new(RecordingHook::default());
    let notes = Arc::new(Notes::default());
    let dir = crate::fixture::cut(folder.path(), again.path(), last);
    let second = with(vec![Arc::clone(&seeing) as _], Arc::clone(&notes));
    let outcome = crate::fixture::resumed(&dir, second).await;
    assert_eq!(outcome.text.as_deref(), Some("all are back"));
    let stops = |line: &&String| line.contains("SubagentStop");
    let mut heard: Vec<String> = seeing.0.lock().iter().filter(stops).cloned().collect();
    let mut noted = notes.0.lock().clone();
    heard.sort();
    noted.sort();
    (heard, noted)
}

#[tokio::test(start_paused = true)]
async fn a_restart_tells_of_the_end_of_a_child_whom_the_one_before_did_not_come_to() {
    // Each stands in the record that is the last before the restart.
    let ended = r#""type":"agent.end""#;
    let actual = r#""name":"SubagentStop""#;
    for (last, again) in [(ended, true), (actual, false)] {
        let (heard, noted) = heard_after(last).await;
        let stop = "s/1.0.0 SubagentStop: Some(\"did one\")".to_owned();
        assert_eq!(heard.contains(&stop), again, "{last}: {heard:?}");
        // What the memory took is not on record: it may hear twice and never misses one.
        assert!(noted.contains(&"s/1.0.0|go|did one".to_owned()), "{last}: {noted:?}");
    }
}
